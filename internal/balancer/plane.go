package balancer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// presence says whether a HAProxy has the backend.
type presence int

const (
	unknown presence = iota
	present
	absent
)

// sight is what the other goroutines may know of a plane.
type sight struct {
	presence presence
	names    []string // of the servers, in HAProxy's order
}

// plane is one HAProxy as one backend's balancer keeps it. Channels and
// atomics are for everyone; all else belongs to the goroutine in run (or, in
// Plan, to the one that calls pass).
type plane struct {
	socket   string
	data     DataPlane
	backend  *config.Backend
	explicit bool // the file names the sockets of this backend
	allowed  bool // to write: false in Plan
	write    bool // as of the last order: false in observe mode as well
	control  Control
	running  bool // run serves it
	watched  bool // a watcher tells when the socket is gone
	log      *slog.Logger
	now      func() time.Time
	remember time.Duration // how old weights may be to be put back
	controls *Controls
	observer Observer
	wake     func() // asks the balancer for a render at once
	changed  func() // told of each new table; nil when nobody wants to know
	maps     *mapKeeper

	pictures  chan *picture       // holds the newest one
	workers   chan haproxy.Worker // holds the newest one
	back      chan struct{}       // holds one: the socket answers again
	contacted chan struct{}       // closed after the first try to read HAProxy
	table     atomic.Pointer[Table]
	sight     atomic.Pointer[sight]
	beat      beat
	sighting  *Sighting // nil: nobody looks between passes

	faults     *faults
	learnt     atomic.Pointer[Learnt]
	function   weighting.Function // of the controller
	controller *weighting.Controller
	memory     memory
	news       news
	lifetime   *lifetime
	last       *picture       // newest picture
	otherLoads bool           // the table's loads are of another configuration: the next pass leaves them behind
	unread     error          // why HAProxy could not be read the last time; nil: it could
	asked      haproxy.Worker // newest worker that has been read
	retryAt    time.Time      // when HAProxy is read again that could not be, beside the passes
	retryRest  time.Duration  // before the next such try
}

func newPlane(p Plane, o *Options, log *slog.Logger, allowed bool) *plane {
	log = log.With("socket", p.Socket)
	made := &plane{
		socket: p.Socket, data: p.DataPlane, backend: &o.Backend,
		explicit: len(o.Backend.Sockets) > 0, allowed: allowed, log: log, now: o.Now,
		remember: o.Remember, controls: o.Controls, observer: o.Observer, watched: o.Watched && allowed,
		pictures:  make(chan *picture, 1),
		workers:   make(chan haproxy.Worker, 1),
		back:      make(chan struct{}, 1),
		contacted: make(chan struct{}),
		faults:    newFaults(log, o.Now).at(o.Backend.Name, p.Socket),
		lifetime:  newLifetime(p.DataPlane, &o.Backend),
		sighting:  newSighting(o.Looks),
	}
	made.sight.Store(&sight{})
	made.order()
	return made
}

// offer hands over a picture; one that is still waiting is replaced.
func (p *plane) offer(picture *picture) { replace(p.pictures, picture) }

// setTable puts a table where everyone reads it; nil takes the old one away.
func (p *plane) setTable(t *Table) {
	p.table.Store(t)
	if p.maps != nil && t != nil {
		replace(p.maps.tables, t)
	}
	if p.changed != nil {
		p.changed()
	}
}

// seen tells which worker answers now.
func (p *plane) seen(w haproxy.Worker) { replace(p.workers, w) }

// replace puts v into a channel that holds one, in place of an older value. It
// never blocks: each of these channels has one sender.
func replace[T any](c chan T, v T) {
	select {
	case <-c:
	default:
	}
	select {
	case c <- v:
	default:
	}
}

// run reads the weights in force, then serves pictures and worker changes
// until ctx ends.
func (p *plane) run(ctx context.Context) error {
	defer p.lifetime.wait()
	p.running = true
	p.guard(func() { p.contact(ctx) })
	close(p.contacted)
	for {
		p.beat.now(p.now())
		select {
		case <-ctx.Done():
			if p.learnt.Load() != nil {
				p.learn() // it has stood until now, and not only until the last pass
			}
			return nil
		case picture := <-p.pictures:
			p.guard(func() { _ = p.pass(ctx, picture) }) // told by p.faults
		case w := <-p.workers:
			p.memory.stands(w, p.now())
			if w != p.asked || p.retry() || p.memory.comeback.hurried(p.now()) {
				p.guard(func() { p.contact(ctx) })
			} else if p.lookDue() {
				p.guard(func() { p.look(ctx) })
			}
			if p.sight.Load().presence == absent {
				p.asked = w // the next pass or the next worker may have it
			}
		case <-p.back:
			if p.unread != nil {
				p.guard(func() { p.contact(ctx) })
			}
		case dump := <-p.lifetime.dumps:
			p.guard(func() { p.takeAges(dump) })
		}
	}
}

// contact reads HAProxy outside of a pass: at the start, when another worker
// answers, and when the socket answers again. Weights that a reload has lost are
// put back on the way. The pass that could not be made, with the orders given
// meanwhile, is made then.
func (p *plane) contact(ctx context.Context) {
	first, lost := !p.memory.known, p.lost()
	p.order()
	state, err := p.read(ctx)
	switch {
	case ctx.Err() != nil || state == nil && err == nil:
	case err != nil && lost: // the table says so already
	case err != nil:
		p.publishUnread(p.last, err)
	case !first && !lost:
		p.publishState(state)
	case p.last != nil && p.last.left == 0 && p.now().Sub(p.last.received) < p.backend.Interval:
		_ = p.pass(ctx, p.last) // told by p.faults
	default:
		p.publishState(state)
		if lost || hasServerField(p.backend) || p.last != nil && p.last.left > 0 {
			p.wake() // what was kept without these servers' names is of little use to them
		}
	}
}

// pass makes one pass with what Graphite said. Its error is nil when the
// table is complete; it has been told by then.
func (p *plane) pass(ctx context.Context, picture *picture) error {
	p.last = picture
	p.order()
	state, err := p.read(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		p.publishUnread(picture, err)
		return fmt.Errorf("%s: %w", p.socket, haproxy.Cause(err))
	}
	if state == nil {
		return nil
	}
	now := p.now()
	p.measure(ctx, state, now)
	foreign := p.memory.foreign(state, p.watching())
	p.news.foreignWrites(p.log, foreign, state)
	in := p.input(state, picture, foreign, now)
	decision := p.controller.Decide(in)
	p.obey(decision, state)
	changes := changesOf(decision, p.control, state)
	written := 0
	if p.mayWrite() && len(changes) > 0 {
		state, written, err = p.apply(ctx, state, changes)
	}
	p.memory.settle(state, foreign, decision.Verdict, p.watching())
	p.learn()
	p.tell(state, in, picture, decision)
	p.publish(&record{state: state, in: in, picture: picture, decision: decision, foreign: foreign, written: written})
	if p.running {
		p.lifetime.ask(ctx, state, decision.Delay, now)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.socket, err)
	}
	return nil
}

// readLimit bounds a read of HAProxy whose client has lost its own deadline.
const readLimit = 10 * time.Second

// read asks HAProxy for the backend, and puts the weights back when another
// worker than the last one answers. It returns nil and no error when this
// HAProxy does not have the backend.
func (p *plane) read(ctx context.Context) (*haproxy.State, error) {
	ctxRead, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	state, err := p.data.State(ctxRead, p.backend.Name)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if errors.Is(err, haproxy.ErrNoBackend) {
		p.miss()
		return nil, nil
	}
	p.tellUnread(err)
	if err != nil {
		return nil, err
	}
	p.faults.end("backend")
	names := make([]string, len(state.Servers))
	for i := range state.Servers {
		names[i] = state.Servers[i].Name
	}
	p.sight.Store(&sight{presence: present, names: names})
	state, err = p.meet(ctx, state)
	if err == nil {
		p.asked = state.Info.Worker
		p.sighting.Note(p.now())
	}
	return state, err
}

// tellUnread reports that HAProxy can't be read, and that it can again. When
// the socket as a whole is gone its watcher tells, once for all backends.
func (p *plane) tellUnread(err error) {
	p.unread = err
	if err == nil {
		p.retryRest = 0
	}
	if err != nil && p.watched && socketGone(err) {
		return
	}
	do := "check that HAProxy runs, that the socket in haproxy.sockets is its stats socket, and that this user may open it"
	if errors.Is(err, haproxy.ErrTimeout) {
		do = doHung
	}
	p.faults.set(FaultUnread, haproxy.Cause(err), wording{
		what:      "HAProxy can't be read",
		over:      "HAProxy can be read again",
		meanwhile: "weights stay as HAProxy has them; whatever reads the table, such as SPOE, gets the last one known",
		do:        do,
	})
}

// miss notes that this HAProxy does not have the backend.
func (p *plane) miss() {
	p.tellUnread(nil)
	if p.explicit {
		p.faults.begin("backend", "this HAProxy has no backend of this name, though backend.sockets names the socket", wording{
			what:      "backend not found on a socket",
			over:      "backend found on the socket",
			meanwhile: "nothing is weighted there; it is looked for again at each pass and after each reload",
			do:        "compare backend.name with haproxy.cfg (runtime command: show backend), or take the socket out of backend.sockets",
		})
	} else if p.sight.Load().presence != absent {
		p.log.Info("this HAProxy does not have the backend; it is looked for again at each pass")
	}
	p.sight.Store(&sight{presence: absent})
	p.setTable(nil)
}

// meet compares the worker that answered with the one remembered.
func (p *plane) meet(ctx context.Context, state *haproxy.State) (*haproxy.State, error) {
	switch {
	case !p.memory.known:
		p.log.Info("weights in force", "worker", state.Info.Worker.PID, "version", state.Info.Version,
			"balance", state.Algorithm, "weights", weightsText(state.Servers))
		p.memory.adopt(state, p.now())
	case state.Info.Worker != p.memory.worker:
		restored, err := p.restore(ctx, state)
		if err != nil {
			return nil, err
		}
		state = restored
	default:
		repaid, err := p.repay(ctx, state)
		if err != nil {
			return nil, err
		}
		state = repaid
	}
	p.memory.stands(state.Info.Worker, p.now())
	p.memory.arrivals.note(state, p.now())
	p.follow(state)
	return state, nil
}

// follow takes up the balance algorithm: it decides the function when the file
// names none, and some algorithms take no weights.
func (p *plane) follow(state *haproxy.State) {
	function, why := p.backend.Weighting.Function, "named in the file"
	if !p.backend.FunctionSet {
		function, why = weighting.WaterFill, "the default"
		if state.Algorithm == "leastconn" {
			function, why = weighting.Feedback, "the default with balance leastconn"
		}
	}
	if p.controller == nil || function != p.function {
		p.log.Info("weighting function", "function", string(function), "why", why)
		p.function = function
		p.newController()
	}
	if state.Algorithm == "static-rr" { // known beforehand, so that no write has to be refused
		p.refuse(state.Algorithm)
	}
	if state.Algorithm != "first" {
		p.faults.end("first")
		return
	}
	p.faults.begin("first", "balance first fills servers one after the other and ignores weights", wording{
		what:      "weights have no effect",
		over:      "weights have an effect again",
		meanwhile: "weights are set all the same; HAProxy does not use them",
		do:        "use balance roundrobin, leastconn or random in haproxy.cfg",
	})
}

// guard contains a panic: this plane holds, all others go on.
func (p *plane) guard(f func()) {
	defer func() {
		r := recover()
		if r == nil {
			p.faults.end(panicKey)
			return
		}
		err := tellPanic(p.faults, p.log, r)
		if t := p.table.Load(); t != nil {
			held := *t
			held.Verdict, held.HoldCode = weighting.Hold, HoldPanic
			held.Why, held.Fault = err.Error(), err.Error()
			p.table.Store(&held)
		}
	}()
	f()
}

const panicKey = "panic"

// tellPanic reports a panic, with its stack the first time.
func tellPanic(f *faults, log *slog.Logger, r any) error {
	err := fmt.Errorf("panic: %v", r)
	if _, open := f.open[panicKey]; !open {
		log.Error("stack of a panic", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	}
	f.begin(panicKey, err.Error(), wording{
		what:      "a mistake in haproxy-weighter stopped a pass",
		over:      "passes run again",
		meanwhile: "weights of this backend stay as they are; other backends go on",
		do:        "report it with the stack that is logged beside this line",
	})
	return err
}

func hasServerField(b *config.Backend) bool { return strings.Contains(b.Target, serverField) }

// staleWords adds what on_stale does later on to a sentence about holding.
func staleWords(b *config.Backend) string {
	if b.Weighting.OnStale == weighting.StaleInitial {
		return fmt.Sprintf("; after %s without data they go to the initial weights (on_stale)", b.Weighting.StaleAfter)
	}
	return ""
}

// weightsText lists weights for a log line; beyond 40 servers it is cut.
func weightsText(servers []haproxy.Server) string {
	const most = 40
	var b strings.Builder
	for i := range servers {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(servers)-most)
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%d", servers[i].Name, servers[i].Weight)
	}
	return b.String()
}

// weightsOf maps servers to weights.
func weightsOf(servers []haproxy.Server) map[string]int {
	weights := make(map[string]int, len(servers))
	for i := range servers {
		weights[servers[i].Name] = servers[i].Weight
	}
	return weights
}
