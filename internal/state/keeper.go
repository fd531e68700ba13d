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

	orders  chan chan struct{} // of who waits for the write
	passes  chan time.Duration // holds one: how soon to write
	stopped chan struct{}
}

// A write that passes ask for waits this long for others: a pass that has only
// learnt something, and one that has set weights. Who starts after a kill takes
// weights that the file does not know for somebody else's.
const (
	learntEvery = 10 * time.Second
	weightEvery = time.Second
)

// orderLimit is how long an order waits for its write.
const orderLimit = 2 * time.Second

// NewKeeper returns a keeper of the file at path.
func NewKeeper(path string, content func() Content, tell func(error)) *Keeper {
	return &Keeper{
		Path: path, Content: content, Tell: tell,
		orders: make(chan chan struct{}), passes: make(chan time.Duration, 1), stopped: make(chan struct{}),
	}
}

// Ordered asks for a write at once: operators' orders have changed. It returns
// when that has been tried, so that an order that was answered outlives a kill;
// after orderLimit it waits no longer.
func (k *Keeper) Ordered() {
	timer := time.NewTimer(orderLimit)
	defer timer.Stop()
	tried := make(chan struct{})
	select {
	case k.orders <- tried:
	case <-k.stopped:
		return
	case <-timer.C:
		return
	}
	select {
	case <-tried:
	case <-timer.C:
	}
}

// Passed asks for a write soon: the loop has learnt something, and perhaps set
// weights. It never blocks.
func (k *Keeper) Passed(weights bool) {
	soon := learntEvery
	if weights {
		soon = weightEvery
	}
	for {
		select {
		case k.passes <- soon:
			return
		case asked := <-k.passes:
			soon = min(soon, asked)
		}
	}
}

// Run writes until ctx ends, and once more then. A write that failed is tried
// again with the next one that is asked for.
func (k *Keeper) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	defer close(k.stopped)
	var due time.Time // zero: no pass has asked
	for {
		select {
		case <-ctx.Done():
			k.save(true)
			return
		case tried := <-k.orders:
			k.save(false)
			close(tried)
		case soon := <-k.passes:
			if at := time.Now().Add(soon); due.IsZero() || at.Before(due) {
				due = at
				timer.Reset(soon)
			}
		case <-timer.C:
			due = time.Time{}
			k.save(false)
		}
	}
}

// save writes the file; ended says that nothing will come after it.
func (k *Keeper) save(ended bool) {
	now := time.Now
	if k.Now != nil {
		now = k.Now
	}
	c := k.Content()
	c.Saved, c.Ended = now().UTC(), ended
	k.Tell(Save(k.Path, c))
}
