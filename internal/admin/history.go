package admin

import (
	"slices"
	"sync"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

// What a History keeps, however many backends and servers there are and
// however often passes are made. An event takes up to about 2 KB (most of them
// far less), a cell 8 bytes: at most 4 MB of events a backend and 2 MB of
// samples a backend and socket; at most 64 MB altogether.
const (
	historySpan   = 24 * time.Hour
	mostEvents    = 2_000     // of a backend
	mostAllEvents = 16_000    // of all backends
	mostCells     = 256 << 10 // of one backend on one socket; a cell is one server at one time
	mostAllCells  = 4 << 20
	mostVanished  = 100 // backends that are no longer told of
)

// History keeps in memory what happened to each backend in the last 24 hours.
// It outlives reloads of the configuration, and is safe for concurrent use.
type History struct {
	now     func() time.Time
	started time.Time

	mu       sync.Mutex
	backends map[string]*past
}

// past is what is kept of one backend.
type past struct {
	since  time.Time // when it was first heard of
	heard  time.Time // when it was last heard of
	events []api.Event
	orders orders
	planes map[string]*planePast // by socket
}

// planePast is one backend on one socket.
type planePast struct {
	heard   time.Time
	turns   turns
	samples samples
}

// NewHistory returns an empty history; a nil now means time.Now.
func NewHistory(now func() time.Time) *History {
	if now == nil {
		now = time.Now
	}
	return &History{now: now, started: now(), backends: make(map[string]*past)}
}

// Passed takes up the table of a pass.
func (h *History) Passed(t *balancer.Table) {
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.of(t.Backend, now)
	plane := p.planes[t.Socket]
	if plane == nil {
		plane = &planePast{}
		p.planes[t.Socket] = plane
	}
	plane.heard = now
	for _, e := range p.orders.ended(t.Control, now) {
		p.add(e)
	}
	for _, e := range plane.turns.events(t) {
		e.Time, e.Socket = t.Time.UTC(), t.Socket
		p.add(e)
	}
	plane.samples.add(t, h.cells())
	h.forget(now)
}

// Order takes up an operator's order, in words.
func (h *History) Order(backend, text string) {
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of(backend, now).add(api.Event{Time: now.UTC(), Kind: api.EventOrder, Text: text})
	h.forget(now)
}

// Of returns what is kept of a backend; nothing of one never heard of.
func (h *History) Of(backend string) api.History { return h.Since(backend, time.Time{}) }

// Since is Of without what is not later than after, so that a reader who has
// the rest already need not take it again.
func (h *History) Since(backend string, after time.Time) api.History {
	a, excerpts := h.excerpt(backend, after)
	for _, socket := range sortedKeys(excerpts) { // takes long, and no lock
		a.Series = append(a.Series, excerpts[socket].series(socket))
	}
	return a
}

// excerpt gives the events, and the samples by socket.
func (h *History) excerpt(backend string, after time.Time) (api.History, map[string]excerpt) {
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	a := api.History{Backend: backend, Since: h.started.UTC(), Events: []api.Event{}, Series: []api.Series{}}
	begin := now.Add(-historySpan)
	if begin.After(a.Since) {
		a.Since = begin.UTC()
	}
	p, ok := h.backends[backend]
	if !ok {
		return a, nil
	}
	if p.since.After(a.Since) {
		a.Since = p.since.UTC()
	}
	for _, e := range p.events {
		if e.Time.After(after) && !e.Time.Before(begin) {
			a.Events = append(a.Events, e)
		}
	}
	excerpts := make(map[string]excerpt, len(p.planes))
	for socket, plane := range p.planes {
		excerpts[socket] = plane.samples.excerpt(after, begin)
	}
	return a, excerpts
}

// of finds what is kept of a backend, or begins it; h.mu is held.
func (h *History) of(backend string, now time.Time) *past {
	p, ok := h.backends[backend]
	if !ok {
		p = &past{since: now, planes: make(map[string]*planePast)}
		h.backends[backend] = p
	}
	p.heard = now
	return p
}

// cells is how many a plane may have; h.mu is held.
func (h *History) cells() int {
	planes := 0
	for _, p := range h.backends {
		planes += len(p.planes)
	}
	return min(mostCells, mostAllCells/max(1, planes))
}

// forget drops what is too old or too much; h.mu is held.
func (h *History) forget(now time.Time) {
	old := now.Add(-historySpan)
	most := min(mostEvents, mostAllEvents/len(h.backends))
	vanished := make([]string, 0, len(h.backends))
	for name, p := range h.backends {
		p.trim(old, most)
		for socket, plane := range p.planes {
			if plane.heard.Before(old) {
				delete(p.planes, socket)
			}
		}
		switch {
		case p.heard.Before(old):
			delete(h.backends, name)
		case p.heard.Before(now.Add(-2 * time.Hour)): // no interval is that long
			vanished = append(vanished, name)
		}
	}
	if len(vanished) <= mostVanished {
		return
	}
	slices.SortFunc(vanished, func(a, b string) int { return h.backends[a].heard.Compare(h.backends[b].heard) })
	for _, name := range vanished[:len(vanished)-mostVanished] {
		delete(h.backends, name)
	}
}

// add keeps an event. Planes pass on their own goroutines, so that the times of
// their tables may be out of order by a moment.
func (p *past) add(e api.Event) {
	at := len(p.events)
	for at > 0 && p.events[at-1].Time.After(e.Time) {
		at--
	}
	p.events = slices.Insert(p.events, at, e)
}

// trim drops events from before old, and the oldest when there are more than
// most.
func (p *past) trim(old time.Time, most int) {
	drop := max(0, len(p.events)-most)
	for drop < len(p.events) && p.events[drop].Time.Before(old) {
		drop++
	}
	if drop > 0 {
		p.events = append(p.events[:0:0], p.events[drop:]...)
	}
}
