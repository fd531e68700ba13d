package balancer

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
)

// Sighting is when the HAProxy of a plane was last read, by a pass or by a look
// between passes. All tables of the plane share it: a look that finds nothing
// changed publishes none. It is safe for concurrent use.
type Sighting struct {
	at    atomic.Pointer[time.Time] // whole, as in beat
	every time.Duration
}

const (
	// looksLeast is the least time between two looks, lookServer that for each
	// server and lookBackend that for each backend: HAProxy works 10 to 15 µs for a
	// server that it tells of, and some hundred for a connection to its socket.
	looksLeast  = time.Second
	lookServer  = 2 * time.Millisecond
	lookBackend = 20 * time.Millisecond
	// seenFor is how long a HAProxy that can't be looked at counts as seen, or
	// seenLooks looks where these are rarer.
	seenFor   = 10 * time.Second
	seenLooks = 3
)

// looksOf is the time between two looks of each plane: they come with the
// watcher's, which tells the planes of all backends.
func looksOf(c *config.Config) time.Duration {
	return max(looksLeast, c.HAProxy.Watch, time.Duration(len(c.Backends))*lookBackend)
}

// NewSighting returns one of a HAProxy that is looked at every so often, with
// rests in proportion where it has many servers.
func NewSighting(every time.Duration) *Sighting { return &Sighting{every: every} }

func newSighting(every time.Duration) *Sighting {
	if every <= 0 {
		return nil
	}
	return NewSighting(every)
}

// Note notes that HAProxy has been read at now. Nil notes nothing.
func (s *Sighting) Note(now time.Time) {
	if s != nil {
		s.at.Store(&now)
	}
}

// rest is the time between two looks at so many servers.
func (s *Sighting) rest(servers int) time.Duration {
	return max(s.every, time.Duration(servers)*lookServer)
}

// Seen tells whether HAProxy has been read lately, so that the table's states of
// the servers may be gone by at now: in the last 10 s, or 3 looks if these take
// longer. It is always true where nobody looks between passes.
func (t *Table) Seen(now time.Time) bool {
	if t.Sighting == nil {
		return true
	}
	at := t.Sighting.at.Load()
	return at != nil && now.Sub(*at) <= max(seenFor, seenLooks*t.Sighting.rest(len(t.Rows)))
}

// lookDue tells whether it is time to look at the servers' states. There is
// nothing to look at while HAProxy can't be read, which retry sees to, or lacks
// the backend; and after a panic only a pass that goes well ends that.
func (p *plane) lookDue() bool {
	if p.sighting == nil || p.unread != nil || p.sight.Load().presence != present {
		return false
	}
	at, t := p.sighting.at.Load(), p.table.Load()
	if _, panicked := p.faults.open[panicKey]; at == nil || t == nil || panicked {
		return false
	}
	// The watcher's turns are not quite regular, and a read takes its time.
	return p.now().Sub(*at) >= p.sighting.rest(len(t.Rows))-p.sighting.every/4
}

// look reads HAProxy between passes, so that those who name servers from the
// table know at once of a drain, a weight of 0 or a server that is gone. It
// decides and measures nothing, and believes no weight: a foreign one is left
// for the next pass to find.
func (p *plane) look(ctx context.Context) {
	p.order()
	state, err := p.read(ctx)
	switch {
	case ctx.Err() != nil || state == nil && err == nil:
	case err != nil:
		p.publishUnread(p.last, err)
	case outdated(p.table.Load(), state):
		p.publishState(state)
	}
}

// outdated tells whether HAProxy has other servers than the table, or some in
// another state or at another weight.
func outdated(t *Table, state *haproxy.State) bool {
	if t == nil || t.Unread() || t.Worker != state.Info.Worker || len(t.Rows) != len(state.Servers) {
		return true
	}
	for i := range t.Rows {
		r, s := &t.Rows[i], &state.Servers[i]
		if r.Server != s.Name || r.AppliedWeight != s.Weight || r.AdminState != s.Admin.Word() ||
			r.OpState != s.Op.String() || r.Backup != s.Backup {
			return true
		}
	}
	return false
}
