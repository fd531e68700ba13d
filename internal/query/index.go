package query

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

// backend is one Source with the index of its newest table.
type backend struct {
	source Source
	name   any // source.Backend, ready to be sent
	index  atomic.Pointer[index]

	making sync.Mutex // held by those who make an index, not by those who read
	before *index     // that of the handler before, until there is one of our own
}

// refresh makes the index of the newest table, unless it is there already.
func (b *backend) refresh() {
	b.making.Lock()
	defer b.making.Unlock()
	t, others := newest(b.source.Tables())
	old, out := b.index.Load(), outOfRotation(others)
	switch {
	case t == nil:
		b.index.Store(nil)
	case old == nil:
		b.index.Store(newIndex(b, t, out, b.before))
		b.before = nil
	case old.table != t || !maps.Equal(old.out, out):
		b.index.Store(newIndex(b, t, out, old))
	}
}

// newest picks the table that answers: the first one that has servers, of a
// HAProxy that answers if there is one. others are those that stand beside it:
// any of their HAProxies may be the one that asks. t is nil when none has
// servers.
func newest(tables []*balancer.Table) (t *balancer.Table, others []*balancer.Table) {
	var answering, silent []*balancer.Table
	for _, t := range tables {
		switch {
		case len(t.Rows) == 0:
		case t.Unread():
			silent = append(silent, t)
		default:
			answering = append(answering, t)
		}
	}
	if len(answering) == 0 {
		answering = silent
	}
	if len(answering) == 0 {
		return nil, nil
	}
	return answering[0], answering[1:]
}

// names is a set of servers.
type names map[string]struct{}

func (n names) has(server string) bool {
	_, ok := n[server]
	return ok
}

// outOfRotation are the servers that some HAProxy gives no new connections by
// their weights. Which HAProxy asks can't be told, and it would use such a
// server when use-server names it. One that a HAProxy does not have at all is
// not among them: there use-server has no effect, and balance decides.
func outOfRotation(tables []*balancer.Table) names {
	out := names{}
	for _, t := range tables {
		for i := range t.Rows {
			if r := &t.Rows[i]; !r.InRotation() {
				out[r.Server] = struct{}{}
			}
		}
	}
	return out
}

// variable is one that is ready to be sent.
type variable struct {
	name  string
	value any
}

// index is a table in the form that answers are read from. It is immutable.
type index struct {
	table   *balancer.Table
	out     names // servers that are not to be named though the table has them in rotation
	name    any   // of the backend
	servers any   // how many
	byName  map[string]*server
	urn     urn
	sums    sums

	loads      []variable // of the backend, to be sent while it is fresh
	unnamed    []variable // loads without the names of servers
	score      float64    // mean load for its capacity; the lower the better
	dataAt     time.Time  // of the newest data ever seen; zero when there were none
	freshUntil time.Time  // zero when the backend is not fresh at all
}

func (x *index) fresh(now time.Time) bool {
	return !x.freshUntil.IsZero() && !now.After(x.freshUntil)
}

// mayName tells whether servers may be named: what is known of their rotation is
// not older than a few looks at HAProxy.
func (x *index) mayName(now time.Time) bool { return x.table.Seen(now) }

// server is one row.
type server struct {
	row        *balancer.Row
	weights    [2]variable // weight and share
	loads      []variable  // to be sent while its load is fresh
	dataAt     time.Time
	freshUntil time.Time // zero when the table has no load of it
}

// newIndex makes the index of t, which names no server of out. old gives the
// time of data that t does not have any more, so that their age goes on
// growing; it may be nil.
func newIndex(b *backend, t *balancer.Table, out names, old *index) *index {
	x := &index{
		table: t, out: out, name: b.name, servers: int64(len(t.Rows)),
		byName: make(map[string]*server, len(t.Rows)),
	}
	sum := measure(t.Rows, out, b.source.HigherIsBetter)
	rows, loads := make([]server, len(t.Rows)), make([]variable, 0, 2*len(t.Rows))
	var expiries []time.Time
	for i := range t.Rows {
		r, s := &t.Rows[i], &rows[i]
		x.byName[r.Server] = s
		s.row, s.dataAt = r, dataTime(t, r, old)
		share := 0.0
		if r.InRotation() {
			share = float64(r.AppliedWeight) / float64(sum.weight)
			if s.dataAt.After(x.dataAt) {
				x.dataAt = s.dataAt
			}
		}
		s.weights = [2]variable{{"weight", int64(r.AppliedWeight)}, {"share", thousandths(share)}}
		if !r.Measured() {
			continue
		}
		s.freshUntil = s.dataAt.Add(b.source.MaxAge)
		begin := len(loads)
		loads = append(loads, variable{"load", whole(*r.Load)})
		if sum.mean > 0 {
			loads = append(loads, variable{"relative", thousandths(sum.of(r) / sum.mean)})
		}
		s.loads = loads[begin:len(loads):len(loads)]
		if r.InRotation() {
			expiries = append(expiries, s.freshUntil)
		}
	}
	x.urn, x.sums = newUrn(t.Rows, out), sum
	x.freshUntil = quorate(expiries, sum.inRotation, b.source.Quorum)
	if len(expiries) > 0 {
		x.loads, x.score = sum.variables(), sum.score()
		x.unnamed = slices.DeleteFunc(slices.Clone(x.loads), func(v variable) bool { return v.name == "best" || v.name == "worst" })
	}
	return x
}

// dataTime is when the newest data of a server are from, on our clock.
func dataTime(t *balancer.Table, r *balancer.Row, old *index) time.Time {
	if r.AgeSeconds != nil {
		return t.Time.Add(-time.Duration(*r.AgeSeconds * float64(time.Second)))
	}
	if old != nil {
		if s, ok := old.byName[r.Server]; ok {
			return s.dataAt
		}
	}
	return time.Time{}
}

// quorate is until when at least quorum of the servers in rotation, and one,
// have data that count; zero when too few have from the beginning.
func quorate(expiries []time.Time, inRotation int, quorum float64) time.Time {
	need := 1
	for float64(need) < quorum*float64(inRotation) {
		need++
	}
	if len(expiries) < need {
		return time.Time{}
	}
	slices.SortFunc(expiries, func(a, b time.Time) int { return b.Compare(a) })
	return expiries[need-1]
}

// sums are what the servers in rotation have together; loads are those of the
// measured ones among them.
type sums struct {
	inRotation int
	weight     int // in force
	measured   int
	total, max float64 // as Graphite has them
	capacity   float64
	mean       float64 // load for a unit of capacity, turned round when higher is better
	turn       float64 // load = turn - value when higher is better, else 0
	higher     bool
	best       string // of those that may be named; empty: none may
	worst      string
	imbalance  float64
}

// measure sums up rows; best and worst are none of out.
func measure(rows []balancer.Row, out names, higher bool) sums {
	s := sums{higher: higher}
	least := math.Inf(1)
	var in []*balancer.Row
	for i := range rows {
		r := &rows[i]
		if !r.InRotation() {
			continue
		}
		s.inRotation++
		s.weight += r.AppliedWeight
		if !r.Measured() {
			continue
		}
		in = append(in, r)
		s.total += *r.Load
		s.capacity += capacityOf(r)
		s.max, least = max(s.max, *r.Load), min(least, *r.Load)
	}
	s.measured = len(in)
	if len(in) == 0 {
		return s
	}
	s.mean = s.total / s.capacity
	if higher { // as package weighting has it
		s.turn = s.max + least
		s.mean = (s.turn*float64(len(in)) - s.total) / s.capacity
	}
	// Of equals the first one in HAProxy's order.
	byLoad := func(a, b *balancer.Row) int { return cmp.Compare(s.of(a), s.of(b)) }
	if s.mean > 0 {
		s.imbalance = s.of(slices.MaxFunc(in, byLoad)) / s.mean
	}
	in = slices.DeleteFunc(in, func(r *balancer.Row) bool { return out.has(r.Server) })
	if len(in) > 0 {
		s.best, s.worst = slices.MinFunc(in, byLoad).Server, slices.MaxFunc(in, byLoad).Server
	}
	return s
}

// of is the load of a measured row for a unit of its capacity.
func (s *sums) of(r *balancer.Row) float64 {
	load := *r.Load
	if s.higher {
		load = max(0, s.turn-load)
	}
	return load / capacityOf(r)
}

// score is what a choice compares.
func (s *sums) score() float64 {
	if s.higher {
		return -s.total / s.capacity
	}
	return s.mean
}

func (s *sums) variables() []variable {
	v := []variable{
		{"load_mean", whole(s.total / float64(s.measured))}, {"load_max", whole(s.max)}, {"load_total", whole(s.total)},
	}
	if s.best != "" {
		v = append(v, variable{"best", s.best}, variable{"worst", s.worst})
	}
	if s.mean > 0 {
		v = append(v, variable{"imbalance", thousandths(s.imbalance)})
	}
	return v
}

// capacityOf is positive.
func capacityOf(r *balancer.Row) float64 {
	if r.Capacity > 0 && !math.IsInf(r.Capacity, 0) {
		return r.Capacity
	}
	return 1
}

// whole rounds to what SPOP and HAProxy can hold.
func whole(v float64) int64 {
	switch v = math.Round(v); {
	case v >= math.MaxInt64:
		return math.MaxInt64
	case v > 0:
		return int64(v)
	}
	return 0
}

func thousandths(v float64) int64 { return whole(1000 * v) }
