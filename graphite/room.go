package graphite

import "context"

// Room bounds what the answers to all renders of the clients that share it
// take together, however many there are and however large Graphite makes them:
// it is for a process that must not be killed for its memory. Share one among
// the clients of a process, and call [Answer.Release] for each answer.
//
// A body up to 256 KiB is read at once. What is longer waits, as long as its
// render may take, until it is one of three that are read; then until it is the
// one that is decoded and used. The small ones are decoded two at a time, and
// never wait for a large one.
type Room struct {
	reading chan struct{} // holds one for each large body that is read, or read and not decoded yet
	large   chan struct{} // one for each large answer that is decoded or used
	small   chan struct{} // the same for small ones
}

// The sizes of a [Room]. An answer costs up to ten times its body while it is
// decoded and used, so that is what there are fewest of.
const (
	smallBody   = 256 << 10 // bytes; the series of 700 servers with ten points each
	mostReading = 3
	mostLarge   = 1
	mostSmall   = 2
)

// NewRoom returns a room that nobody is in.
func NewRoom() *Room {
	return &Room{
		reading: make(chan struct{}, mostReading),
		large:   make(chan struct{}, mostLarge),
		small:   make(chan struct{}, mostSmall),
	}
}

// place is what one render has of a room: nothing at first. Without a room all
// is granted. It belongs to one goroutine.
type place struct {
	room    *Room
	size    int64 // of all bodies that the render has read, in bytes
	reading bool
	using   chan struct{} // which of the room's this render is in; nil: none
}

// free is how many bytes more may be read without growing; limit bounds it.
func (p *place) free(limit int64) int64 {
	if p.room == nil || p.reading {
		return limit
	}
	return min(max(smallBody-p.size, 0), limit)
}

// grow waits until the render may read a large body.
func (p *place) grow(ctx context.Context) error {
	if p.room == nil || p.reading {
		return nil
	}
	if err := enter(ctx, p.room.reading); err != nil {
		return err
	}
	p.reading = true
	return nil
}

// use waits until what was read may be decoded.
func (p *place) use(ctx context.Context) error {
	if p.room == nil {
		return nil
	}
	using := p.room.small
	if p.reading {
		using = p.room.large
	}
	if err := enter(ctx, using); err != nil {
		return err
	}
	p.using = using
	p.unread()
	return nil
}

// leave gives everything back.
func (p *place) leave() {
	p.unread()
	if p.using != nil {
		<-p.using
		p.using = nil
	}
}

func (p *place) unread() {
	if p.reading {
		<-p.room.reading
		p.reading = false
	}
}

func enter(ctx context.Context, into chan struct{}) error {
	select {
	case into <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
