// Package query answers HAProxy's SPOE messages from the balancers' tables.
//
// The messages, their arguments and the variables that they set:
//
//	weighter-backend  backend           servers fresh age_ms load_mean load_max load_total imbalance best worst
//	weighter-server   backend, server   weight load share relative fresh age_ms
//	weighter-pick     backend           server
//	weighter-choose   backends          backend
//
// The list of weighter-choose is written backends='str("a,b")'. An argument "as" with the value x makes each variable x_NAME. HAProxy wants a
// name of its own for each spoe-message; so what follows a dot in a message's
// name is free: weighter-server.a and weighter-server.b are both
// weighter-server.
//
// # What the variables mean
//
// Variables are in scope txn. Loads are rounded to whole numbers; share,
// relative and imbalance are in thousandths. A load is as Graphite gives it,
// and it counts for as long as its data are not older than max_age now:
//
//   - fresh of a server: its load counts. Without, load and relative are not set.
//     A load goes on to count when a pass has no newer one.
//   - fresh of a backend: the loads of at least quorum of the servers in
//     rotation count, and of one. Without, only servers, fresh and age_ms are set.
//   - age_ms: the age, now, of a server's newest data, of a backend's newest of
//     all; it grows while Graphite is silent. Not set when there never were any.
//   - servers: how many the backend has, in whatever state.
//   - weight: in force in HAProxy. share: the part of new connections that it
//     stands for, 0 for a server out of rotation.
//   - load_mean, load_max, load_total: over the servers in rotation whose load
//     is known, as are the following.
//   - relative: load for its capacity over the mean of that; imbalance: the
//     highest relative. Not set while all loads are zero. With better = "higher"
//     values count turned round, so that a high relative always is the bad one.
//   - best, worst: the servers of the lowest and highest relative.
//   - server (of a pick): drawn by share.
//   - backend (of a choice): the lowest mean load for its capacity among the
//     fresh ones of the list, the first of the list when none is fresh. Loads
//     of the backends should mean the same.
//
// In rotation is a server that is up, ready, above weight 0 and not a backup.
// A pick, best and worst never name another: HAProxy obeys use-server for a
// server in drain. With several HAProxies they name a server that is in rotation
// on each of those that answer, since nothing tells which one asks; when there
// is none, they are not set. Nor are they when HAProxy has not been read for
// longer than a few looks (balancer.Sighting): what is in rotation is not known then.
//
// Of a backend or server that is not known fresh is set to false and nothing
// else. A message with an argument missing or of the wrong type sets nothing.
//
// # A script
//
// A message of any other name goes to the function answer of the user's script,
// if there is one, which sets what it likes; see docs/lua.md.
//
// # Cost
//
// An answer takes no lock and does no I/O, and costs the same for ten servers
// and ten thousand: all that can be worked out beforehand is, once for each
// published table.
package query

import (
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/negasus/haproxy-spoe-go/action"
	"github.com/negasus/haproxy-spoe-go/message"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/lua"
	"github.com/haproxy-weighter/haproxy-weighter/spoa"
)

// Source is where the answers about one backend come from.
type Source struct {
	Backend string
	// Tables gives the newest table of each HAProxy that has the backend, as
	// Balancer.Tables does. The first one whose HAProxy answers is used, whichever
	// HAProxy asks: loads are the same on each, and weights nearly so. Servers are
	// named only when they are in rotation in the others too.
	Tables func() []*balancer.Table
	MaxAge time.Duration // data older than this do not count
	Quorum float64       // 0..1: least fraction of servers with data for a fresh backend
	// HigherIsBetter turns values round, as better = "higher" does.
	HigherIsBetter bool
}

// Options make a Handler.
type Options struct {
	Sources []Source
	Logger  *slog.Logger          // nil means slog.Default()
	Now     func() time.Time      // nil means time.Now
	Draw    func(n uint64) uint64 // uniform in [0,n), for many goroutines at once; nil means math/rand/v2
	Before  *Handler              // its counts and the ages of its data go on: that of the last configuration; nil means none
	Script  *lua.Script           // its function answer gets the messages that are not ours; nil means none
	_       struct{}              // fields are named
}

// Handler answers the four messages. It is safe for concurrent use.
type Handler struct {
	backends map[string]*backend // never changes
	names    []string            // of the backends, in the order of the configuration
	answerer *lua.Answerer       // nil without a script
	now      func() time.Time
	draw     func(n uint64) uint64
	tally    *tally
}

var _ spoa.Handler = (*Handler)(nil)

// New returns a handler that knows the tables there are now. Call Refresh for
// each new one.
func New(o Options) *Handler {
	h := &Handler{backends: make(map[string]*backend, len(o.Sources)), now: o.Now, draw: o.Draw}
	if h.now == nil {
		h.now = time.Now
	}
	if h.draw == nil {
		h.draw = rand.Uint64N
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	h.tally = &tally{log: o.Logger}
	if o.Before != nil {
		h.tally = o.Before.tally
	}
	if o.Script != nil {
		h.answerer = o.Script.NewAnswerer()
	}
	for _, s := range o.Sources {
		h.names = append(h.names, s.Backend)
		b := &backend{source: s, name: s.Backend}
		if o.Before != nil && o.Before.backends[s.Backend] != nil {
			b.before = o.Before.backends[s.Backend].index.Load()
		}
		h.backends[s.Backend] = b
		h.Refresh(s.Backend)
	}
	return h
}

// Refresh takes up the newest tables of a backend. Call it after each change
// of Source.Tables, from whichever goroutine made it; answers don't wait.
func (h *Handler) Refresh(name string) {
	if b, ok := h.backends[name]; ok {
		b.refresh()
	}
}

// ServeSPOE answers each message that is ours. Its error is always nil: a
// message that can't be answered does not spoil the others of its frame.
func (h *Handler) ServeSPOE(answer *action.Actions, r *spoa.Request) error {
	q := query{h: h, answer: *answer, now: h.now()}
	for _, m := range r.Messages {
		q.message(m)
	}
	*answer = q.answer
	return nil
}

// kind is what a message asks.
type kind int

const (
	kindBackend kind = iota
	kindServer
	kindPick
	kindChoose
	numKinds
)

func (k kind) String() string {
	return [...]string{"weighter-backend", "weighter-server", "weighter-pick", "weighter-choose"}[k]
}

// kindOf reads a message's name; ok is false when it is not ours.
func kindOf(name string) (k kind, ok bool) {
	name, _, _ = strings.Cut(name, ".")
	for k := range numKinds {
		if name == k.String() {
			return k, true
		}
	}
	return 0, false
}

// query is one frame while it is answered.
type query struct {
	h      *Handler
	answer action.Actions
	now    time.Time
	as     string // prefix of the present message's variables, with its underscore
}

func (q *query) message(m *message.Message) {
	k, ok := kindOf(m.Name)
	switch {
	case !ok && q.h.answerer != nil:
		q.script(m)
		return
	case !ok:
		q.h.tally.unknownMessage(m.Name)
		return
	}
	args, fault := readArgs(k, m)
	if fault != "" {
		q.h.tally.refuse(k, m.Name, fault)
		return
	}
	q.as = args.as
	found := true
	switch k {
	case kindChoose:
		found = q.choose(args.backend)
	case kindPick:
		found = q.pick(args.backend)
	case kindServer:
		found = q.server(args.backend, args.server)
	default:
		found = q.backend(args.backend)
	}
	q.h.tally.answered(k, found)
}

// set sets one variable.
func (q *query) set(name string, value any) {
	if q.as != "" {
		name = q.as + name
	}
	q.answer = append(q.answer, action.Action{Type: action.TypeSetVar, Scope: action.ScopeTransaction, Name: name, Value: value})
}

// setAll sets variables that were made beforehand.
func (q *query) setAll(variables []variable) {
	for i := range variables {
		q.set(variables[i].name, variables[i].value)
	}
}

// setAge sets age_ms of data from the given time; zero sets nothing.
func (q *query) setAge(at time.Time) {
	if !at.IsZero() {
		q.set("age_ms", max(0, q.now.Sub(at)).Milliseconds())
	}
}

// find gives the index of a backend; nil when there is none, and then that is
// answered.
func (q *query) find(k kind, name string) *index {
	b, ok := q.h.backends[name]
	if !ok {
		q.h.tally.unknownBackend(k, name)
		q.set("fresh", false)
		return nil
	}
	x := b.index.Load()
	if x == nil {
		q.set("fresh", false)
	}
	return x
}

func (q *query) backend(name string) bool {
	x := q.find(kindBackend, name)
	if x == nil {
		return false
	}
	fresh := x.fresh(q.now)
	q.set("fresh", fresh)
	q.set("servers", x.servers)
	q.setAge(x.dataAt)
	switch {
	case !fresh:
	case x.mayName(q.now):
		q.setAll(x.loads)
	default:
		q.setAll(x.unnamed)
	}
	return true
}

func (q *query) server(backend, name string) bool {
	x := q.find(kindServer, backend)
	if x == nil {
		return false
	}
	s, ok := x.byName[name]
	if !ok {
		q.set("fresh", false)
		return false
	}
	fresh := !s.freshUntil.IsZero() && !q.now.After(s.freshUntil)
	q.set("fresh", fresh)
	q.setAll(s.weights[:])
	q.setAge(s.dataAt)
	if fresh {
		q.setAll(s.loads)
	}
	return true
}

func (q *query) pick(name string) bool {
	x := q.find(kindPick, name)
	if x == nil || !x.mayName(q.now) {
		return false
	}
	server := x.urn.draw(q.h.draw)
	if server == nil {
		return false
	}
	q.set("server", server)
	return true
}

// choose answers with one of a list of names, separated by commas.
func (q *query) choose(list string) bool {
	var chosen any
	first, best := "", 0.0
	for list != "" {
		var name string
		name, list, _ = strings.Cut(list, ",")
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if first == "" {
			first = name
		}
		b, ok := q.h.backends[name]
		if !ok {
			q.h.tally.unknownBackend(kindChoose, name)
			continue
		}
		x := b.index.Load()
		if x != nil && x.fresh(q.now) && (chosen == nil || x.score < best) {
			chosen, best = x.name, x.score
		}
	}
	if chosen != nil {
		q.set("backend", chosen)
		return true
	}
	q.set("backend", first)
	return false
}
