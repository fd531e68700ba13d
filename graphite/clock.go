package graphite

import (
	"container/list"
	"context"
	"hash/maphash"
	"net/http"
	"slices"
	"sync"
	"time"
)

// dateStep is the step of the Date header, which is cut to whole seconds.
const dateStep = time.Second

// serverClock reads the server's clock from the Date header. Where our clock
// can be the right one, within the second that Date stands for, it is taken:
// else ages would come out half a second short. An answer that lay in an HTTP
// cache says so with Age; its data is older than its Date by that.
func serverClock(h http.Header, now time.Time) (time.Time, time.Duration) {
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return now, 0
	}
	if age, ok := parseSeconds(h.Get("Age")); ok {
		date = date.Add(age)
	}
	skew := now.Sub(date)
	if skew >= 0 && skew < dateStep {
		return now, 0
	}
	return date, skew
}

// nextSecond waits for the end of the second that a Date stands for. Who is not
// sure whether an answer is old or the server's clock was set back asks again
// then: of an old one the same comes.
func (c *Client) nextSecond(ctx context.Context) *RenderError {
	pause := time.NewTimer(dateStep + dateStep/10)
	defer pause.Stop()
	select {
	case <-ctx.Done():
		return c.connectionError(ctx, ctx, ctx.Err())
	case <-pause.C:
		return nil
	}
}

// making finds out when answers were made. A cache or a proxy that forgets to
// add Age serves an old answer with the Date that it had: taken at its word, its
// data would be fresh for ever. Nor can Date simply be held against the last
// one: clocks are set back, and behind one address there can be several servers
// with a clock each.
//
// So an answer that has come before is as old as that, and one from a clock
// that is behind those known so far is believed when that clock is seen to run:
// an answer a second later shows it, which is asked for. Of the first answer of
// all nothing can be said. Our own time is the monotonic one, which no change of
// the wall clock touches.
type making struct {
	seed maphash.Seed
	base time.Time // our clock, of the first answer

	mu      sync.Mutex
	known   map[uint64]*list.Element // of sighting
	order   list.List                // newest sighting first
	clocks  []serverTime             // which are believed, last used first
	unsure  []serverTime             // which are not yet, oldest first
	started bool
}

const (
	// mostSightings is how many answers are remembered. One that comes again and
	// again stays among them as long as fewer others come between two times.
	mostSightings = 4096
	mostClocks    = 16
	mostUnsure    = mostSightings
	// sameClock is how far one clock may seem to wander: by the second that Date
	// has, and by the way of the answer.
	sameClock = 5 * time.Second
)

// sighting is an answer when it came first.
type sighting struct {
	key uint64
	at  time.Time // our clock
	now time.Time // the server's
}

// serverTime is a server's clock, as an answer showed it.
type serverTime struct {
	ahead time.Duration // of ours
	form  uint64        // of the request
	date  time.Time
}

func (t *serverTime) same(ahead time.Duration) bool { return (t.ahead - ahead).Abs() <= sameClock }

func newMaking() *making {
	return &making{seed: maphash.MakeSeed(), known: make(map[uint64]*list.Element)}
}

// date corrects the clock of an answer to a form that has come at a time of
// ours. It returns false when that is not sure.
func (m *making) date(said *reply, form string, at time.Time) (sure bool) {
	var h maphash.Hash
	h.SetSeed(m.seed)
	_, _ = h.WriteString(form)
	request := h.Sum64()
	_, _ = h.WriteString(said.date)
	_, _ = h.Write(said.body)
	key := h.Sum64()

	m.mu.Lock()
	defer m.mu.Unlock()
	now, sure := said.now, true
	if e, ok := m.known[key]; ok {
		m.order.MoveToFront(e)
		first := e.Value.(sighting)
		said.repeated = max(0, at.Sub(first.at))
		now = first.now.Add(said.repeated)
	} else {
		now, sure = m.believe(now, request, at)
		m.remember(sighting{key: key, at: at, now: now})
	}
	if now.After(said.now) {
		said.now, said.skew = now, at.Sub(now)
	}
	return sure
}

func (m *making) remember(s sighting) {
	if m.order.Len() == mostSightings {
		oldest := m.order.Back()
		delete(m.known, oldest.Value.(sighting).key)
		m.order.Remove(oldest)
	}
	m.known[s.key] = m.order.PushFront(s)
}

// believe returns the server's clock for a new answer: its date, or, not sure,
// what the foremost clock must show by now while nothing speaks for the date.
func (m *making) believe(date time.Time, form uint64, at time.Time) (now time.Time, sure bool) {
	if !m.started {
		m.base, m.started = at, true
	}
	since := at.Sub(m.base)
	shown := serverTime{ahead: date.Sub(m.base) - since, form: form, date: date}
	if i := slices.IndexFunc(m.clocks, func(t serverTime) bool { return t.same(shown.ahead) }); i >= 0 {
		m.clocks = slices.Delete(m.clocks, i, i+1)
		m.use(shown)
		return date, true
	}
	foremost := shown.ahead
	for _, t := range m.clocks {
		foremost = max(foremost, t.ahead)
	}
	if foremost == shown.ahead {
		m.use(shown)
		return date, true
	}
	ran := func(t serverTime) bool { return t.form == form && t.same(shown.ahead) && date.After(t.date) }
	if slices.ContainsFunc(m.unsure, ran) {
		m.unsure = slices.DeleteFunc(m.unsure, func(t serverTime) bool { return t.same(shown.ahead) })
		m.use(shown)
		return date, true
	}
	if len(m.unsure) == mostUnsure {
		m.unsure = slices.Delete(m.unsure, 0, 1)
	}
	m.unsure = append(m.unsure, shown)
	return m.base.Add(since + foremost), false
}

// use puts a clock in front.
func (m *making) use(t serverTime) {
	m.clocks = slices.Insert(m.clocks, 0, t)
	if len(m.clocks) > mostClocks {
		m.clocks = m.clocks[:mostClocks]
	}
}
