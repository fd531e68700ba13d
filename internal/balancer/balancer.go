// Package balancer is the loop: read, decide, apply, publish the table. One
// Balancer serves one backend, on every HAProxy socket that has it.
//
// A balancer is one goroutine that asks Graphite, and one for each plane (a
// HAProxy that may have the backend). What Graphite said goes to the planes as
// an immutable picture; a plane that is slow or hung misses pictures and
// delays nobody. All that a plane remembers is touched by its own goroutine
// only; the outside reads its table through an atomic pointer.
package balancer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// Renderer asks for series; *graphite.Client is the one in production.
type Renderer interface {
	Render(ctx context.Context, r graphite.Request) (*graphite.Answer, error)
}

// DataPlane is what a balancer needs of the thing that spreads connections:
// read the servers, apply weights. *haproxy.Client is the one in production.
type DataPlane interface {
	State(ctx context.Context, backend string) (*haproxy.State, error)
	SetWeights(ctx context.Context, backend string, changes []haproxy.Change, perLine int) (*haproxy.Outcome, error)
}

// Plane is one HAProxy as a balancer reaches it.
type Plane struct {
	Socket string // as printed in tables and logs
	DataPlane
	Maps MapPlane // for backend.maps; nil keeps none
}

// Options make a Balancer.
type Options struct {
	Backend  config.Backend
	Renderer Renderer
	Planes   []Plane
	Controls *Controls        // operators' orders; nil means none
	Observer Observer         // nil means nobody
	Delay    time.Duration    // before the first render: many backends must not ask Graphite in one moment
	Watched  bool             // somebody else tells when a socket as a whole is gone
	Remember time.Duration    // how old weights may be to be put back into a new worker; 0 means 10 min
	Looks    time.Duration    // between two looks at the servers' states beside the passes; 0 means none: nobody names servers from the tables
	Logger   *slog.Logger     // nil means slog.Default()
	Now      func() time.Time // nil means time.Now
	Jitter   func() float64   // uniform in [0,1); nil means math/rand
}

// renderLimit bounds a render whose client has lost its own deadline.
const renderLimit = 30 * time.Second

// rememberDefault is Options.Remember when that is 0.
const rememberDefault = 10 * time.Minute

// namesGrace is how long the first render waits, when it needs the servers'
// names, for planes that have not answered yet while others have.
const namesGrace = time.Second

// Balancer is one backend's loop.
type Balancer struct {
	options Options
	log     *slog.Logger
	faults  *faults // of the goroutine that renders
	planes  []*plane
	beat    beat          // of the goroutine that renders
	wake    chan struct{} // asks for a pass at once; holds one
	notify  []func()
	agreed  int // pictures in a row with clocks that clearly agree
}

// New returns a balancer; it does no I/O.
func New(o Options) *Balancer {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	if o.Remember <= 0 {
		o.Remember = rememberDefault
	}
	if o.Backend.Interval <= 0 {
		o.Backend.Interval = weighting.DefaultSettings().Interval
	}
	o.Backend.Weighting.Interval, o.Backend.Weighting.Window = o.Backend.Interval, o.Backend.Window
	if o.Observer != nil {
		o.Renderer = observedRenderer{Renderer: o.Renderer, backend: o.Backend.Name, observer: o.Observer}
	}
	b := &Balancer{options: o, wake: make(chan struct{}, 1)}
	b.log = o.Logger.With("backend", o.Backend.Name)
	b.faults = newFaults(b.log, o.Now).at(o.Backend.Name, "")
	b.planes = b.newPlanes(true)
	for i, p := range b.planes {
		p.maps = newMapKeeper(o.Planes[i].Maps, &b.options, p.log)
		p.changed = b.changed
	}
	return b
}

// Notify has f called after each change of what Tables returns, by the
// goroutine that made the change: of several planes perhaps at once. f must
// return soon. Call Notify before Run.
func (b *Balancer) Notify(f func()) { b.notify = append(b.notify, f) }

func (b *Balancer) changed() {
	for _, f := range b.notify {
		f()
	}
}

func (b *Balancer) newPlanes(allowed bool) []*plane {
	planes := make([]*plane, len(b.options.Planes))
	for i, p := range b.options.Planes {
		planes[i] = newPlane(p, &b.options, b.log, allowed)
		planes[i].wake = b.wakeUp
	}
	return planes
}

// wakeUp asks for a pass at once; it never blocks.
func (b *Balancer) wakeUp() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Run makes passes until ctx ends, then returns nil.
func (b *Balancer) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range b.planes {
		g.Go(func() error { return p.run(ctx) })
		if p.maps != nil {
			g.Go(func() error { return p.maps.run(ctx) })
		}
	}
	g.Go(func() error { return b.renderLoop(ctx) })
	return g.Wait()
}

// renderLoop asks Graphite once an interval and hands the picture to the planes.
func (b *Balancer) renderLoop(ctx context.Context) error {
	if d := b.options.Delay; d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-b.wake:
		}
	}
	awaited := hasServerField(&b.options.Backend)
	if awaited {
		b.awaitNames(ctx)
	}
	for ctx.Err() == nil {
		start := b.options.Now()
		b.beat.now(start)
		picture := b.look(ctx, b.planes)
		if ctx.Err() != nil {
			return nil
		}
		if !awaited && picture.left > 0 && len(picture.servers) == 0 {
			awaited = true // Graphite was faster than HAProxy: ask again, knowing what to keep
			b.awaitNames(ctx)
			continue
		}
		for _, p := range b.planes {
			p.offer(picture)
		}
		b.tellPresence()
		b.rest(ctx, start)
	}
	return nil
}

// rest waits for the next pass: an interval after start, +-10 % so that many
// balancers do not ask Graphite in step. A pass that took longer than the
// interval skips the turns that it missed. When an order ends before, the pass
// that sees that is made then.
func (b *Balancer) rest(ctx context.Context, start time.Time) {
	interval := b.options.Backend.Interval
	wait := time.Duration(float64(interval) * (0.9 + 0.2*b.options.Jitter()))
	for took := b.options.Now().Sub(start); wait <= took; {
		wait += interval
	}
	now := b.options.Now()
	wait -= now.Sub(start)
	if end := b.options.Controls.Of(b.options.Backend.Name).end(); !end.IsZero() {
		wait = min(wait, end.Sub(now))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-b.wake:
	}
}

// awaitNames waits for the planes' first read of HAProxy; one that hangs is
// waited for no longer than namesGrace.
func (b *Balancer) awaitNames(ctx context.Context) {
	timer := time.NewTimer(namesGrace)
	defer timer.Stop()
	for _, p := range b.planes {
		select {
		case <-p.contacted:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// look makes one picture: one render for the backend. The picture holds the
// error when there is one. A panic in the way to it is contained here.
func (b *Balancer) look(ctx context.Context, planes []*plane) (p *picture) {
	defer func() {
		if r := recover(); r != nil {
			err := tellPanic(b.faults, b.log, r)
			p = newPicture(nil, err, b.options.Now(), &b.options.Backend, nil)
		}
	}()
	limit := max(renderLimit, b.options.Backend.Interval)
	ctxRender, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := render(ctxRender, b.options.Renderer, &b.options.Backend, namesOf(planes))
	defer answer.Release()
	p = newPicture(answer, err, b.options.Now(), &b.options.Backend, namesOf(planes))
	if ctx.Err() == nil {
		b.tellPicture(p)
		b.tellRepeat(p)
	}
	b.faults.end(panicKey)
	return p
}

func (b *Balancer) tellPicture(p *picture) {
	if errors.Is(p.err, errNoNames) {
		return // the planes tell why HAProxy does not answer
	}
	b.faults.set("graphite", p.err, wording{
		what:      "no loads from Graphite",
		over:      "loads from Graphite are back",
		meanwhile: "weights stay as they are" + staleWords(&b.options.Backend),
		do:        "see what the cause names: the render API at graphite.url, or the backend's target; the command loads shows the answer",
	})
	b.tellClock(p)
}

// tellClock tells when the clocks differ. Graphite's is known to the second
// only, so that what is steady is measured up to a second more or less: they agree
// again when several pictures in a row say so clearly.
func (b *Balancer) tellClock(p *picture) {
	switch skew := p.skew.Abs(); {
	case p.err != nil:
		return
	case skew <= maxSkew:
		if b.agreed++; skew > maxSkew/2 {
			b.agreed = 0
		}
		if b.agreed >= agreedLooks {
			b.faults.end("clock")
		}
		return
	}
	b.agreed = 0
	b.faults.begin("clock", fmt.Sprintf("our clock is %s ahead of Graphite's (behind when negative)", p.skew.Round(time.Millisecond)), wording{
		what:      "clocks differ",
		over:      "clocks agree again",
		meanwhile: "weights go on: the ages of data are taken against Graphite's clock",
		do:        "check NTP here and on the Graphite server",
	})
}

// maxSkew is how far our clock and Graphite's may lie apart without a word.
const maxSkew = 2 * time.Second

// agreedLooks is how many pictures in a row must have less than half of maxSkew
// before the clocks agree again.
const agreedLooks = 3

// tellPresence tells when no HAProxy at all has the backend.
func (b *Balancer) tellPresence() {
	if len(b.planes) == 0 || len(b.options.Backend.Sockets) > 0 {
		return // the planes tell it, each for its socket
	}
	for _, p := range b.planes {
		if p.sight.Load().presence != absent {
			b.faults.end("backend")
			return
		}
	}
	b.faults.begin("backend", "no HAProxy socket has a backend of this name", wording{
		what:      "backend not found",
		over:      "backend found",
		meanwhile: "nothing is weighted; HAProxy is asked again at each pass and after each reload",
		do:        "compare backend.name with the names in haproxy.cfg (runtime command: show backend)",
	})
}

// Plan makes one pass that changes nothing and returns its tables, one a
// plane that has the backend. The error joins all that went wrong; the tables
// that could be made are returned beside it.
func (b *Balancer) Plan(ctx context.Context) ([]*Table, error) {
	planes := b.newPlanes(false)
	each(planes, func(_ int, p *plane) { p.contact(ctx) })
	picture := b.look(ctx, planes)
	errs := make([]error, len(planes))
	each(planes, func(i int, p *plane) { errs[i] = p.pass(ctx, picture) })

	var tables []*Table
	gone := 0
	for i, p := range planes {
		if p.sight.Load().presence == absent {
			gone++
			if p.explicit {
				errs[i] = fmt.Errorf("%s: HAProxy has no backend %s", p.socket, b.options.Backend.Name)
			}
			continue
		}
		if t := p.table.Load(); t != nil && len(t.Rows) > 0 {
			tables = append(tables, t)
		}
	}
	if gone == len(planes) && len(b.options.Backend.Sockets) == 0 {
		errs = append(errs, fmt.Errorf("no HAProxy socket has a backend %s", b.options.Backend.Name))
	}
	if picture.err != nil && !errors.Is(picture.err, errNoNames) {
		errs = append(errs, fmt.Errorf("backend %s: %w", b.options.Backend.Name, picture.err))
	}
	return tables, errors.Join(errs...)
}

// each calls f for all planes at once and waits for all.
func each(planes []*plane, f func(int, *plane)) {
	var wg sync.WaitGroup
	for i, p := range planes {
		wg.Go(func() { f(i, p) })
	}
	wg.Wait()
}

// Tables returns the newest table of each plane that has one, in the order of
// Options.Planes. It never blocks and takes no lock.
func (b *Balancer) Tables() []*Table {
	tables := make([]*Table, 0, len(b.planes))
	for _, p := range b.planes {
		if t := p.table.Load(); t != nil {
			tables = append(tables, t)
		}
	}
	return tables
}

// Config returns the backend's configuration; it must not be changed.
func (b *Balancer) Config() *config.Backend { return &b.options.Backend }

// Faults returns what is wrong now with this backend, as the log has told it.
func (b *Balancer) Faults() []Fault {
	all := slices.Clone(b.faults.list())
	for _, p := range b.planes {
		all = append(all, p.faults.list()...)
		if p.maps != nil {
			all = append(all, p.maps.faults.list()...)
		}
	}
	return all
}

// Wake asks for a pass at once; it never blocks.
func (b *Balancer) Wake() { b.wakeUp() }

// workerSeen tells the planes of a socket which worker answers there now. It
// never blocks.
func (b *Balancer) workerSeen(socket string, w haproxy.Worker) {
	for _, p := range b.planes {
		if p.socket == socket {
			p.seen(w)
		}
	}
}

// socketBack tells the planes of a socket that it answers again. It never blocks.
func (b *Balancer) socketBack(socket string) {
	for _, p := range b.planes {
		if p.socket == socket {
			replace(p.back, struct{}{})
		}
	}
}

// namesOf joins the servers of all planes, in HAProxy's order.
func namesOf(planes []*plane) []string {
	var names []string
	have := make(map[string]bool)
	for _, p := range planes {
		for _, name := range p.sight.Load().names {
			if !have[name] {
				have[name] = true
				names = append(names, name)
			}
		}
	}
	return slices.Clip(names)
}
