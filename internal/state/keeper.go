package state

import (
	"context"
	"time"
)

// Keeper writes the file when it is told that something has changed.
type Keeper struct {
	Path string
	// Content gives what is to be written; its Version and Saved are filled in.
	Content func() Content
	// Tell is called after each try, with nil when it went well, by the goroutine
	// of Run.
	Tell func(error)
	Now  func() time.Time // nil means time.Now

	orders, passes chan struct{} // each holds one
}

// learntEvery is the least time between two writes that only passes ask for.
const learntEvery = 10 * time.Second

// NewKeeper returns a keeper of the file at path.
func NewKeeper(path string, content func() Content, tell func(error)) *Keeper {
	return &Keeper{
		Path: path, Content: content, Tell: tell,
		orders: make(chan struct{}, 1), passes: make(chan struct{}, 1),
	}
}

// Ordered asks for a write at once: operators' orders have changed. It never
// blocks.
func (k *Keeper) Ordered() { ask(k.orders) }

// Passed asks for a write soon: the loop has learnt something. It never blocks.
func (k *Keeper) Passed() { ask(k.passes) }

func ask(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run writes until ctx ends, and once more then. A write that failed is tried
// again with the next one that is asked for.
func (k *Keeper) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	waiting := false
	for {
		select {
		case <-ctx.Done():
			k.save()
			return
		case <-k.orders:
			k.save()
		case <-k.passes:
			if !waiting {
				waiting = true
				timer.Reset(learntEvery)
			}
		case <-timer.C:
			waiting = false
			k.save()
		}
	}
}

func (k *Keeper) save() {
	now := time.Now
	if k.Now != nil {
		now = k.Now
	}
	c := k.Content()
	c.Saved = now().UTC()
	k.Tell(Save(k.Path, c))
}
