package balancer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/test/logbook"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// fakeHAProxy is a DataPlane for what a real HAProxy can't show at will: hangs,
// half-applied batches, a reload between two commands.
type fakeHAProxy struct {
	mu      sync.Mutex
	state   haproxy.State
	started time.Time // of the worker
	changed map[string]time.Time
	missing bool             // the backend is not there
	hung    bool             // no answer until the caller gives up
	down    error            // every call fails with it
	broken  error            // reading servers fails with it
	refuse  map[string]error // by server
	ignore  map[string]bool  // servers whose weight is taken and not kept
	before  func()           // called once before the next write, with the lock held
	lost    error            // the next write is carried out, and fails with it
	reads   int
	writes  [][]haproxy.Change
	lines   []int // perLine of each write
}

func newFake(names ...string) *fakeHAProxy {
	f := &fakeHAProxy{changed: map[string]time.Time{}, started: time.Now().Add(-time.Hour)}
	f.state = haproxy.State{
		Backend: "ingest", Algorithm: "roundrobin",
		Info: haproxy.Info{Worker: haproxy.Worker{PID: 100, StartTime: 1000}, Version: "2.6.12"},
	}
	for i, name := range names {
		f.state.Servers = append(f.state.Servers, haproxy.Server{
			Name: name, ID: i + 1, Op: haproxy.OpRunning, Weight: 100, InitialWeight: 100, Sessions: 10,
		})
		f.changed[name] = f.started
	}
	return f
}

func (f *fakeHAProxy) block(ctx context.Context) error {
	f.mu.Lock()
	hung, down := f.hung, f.down
	f.mu.Unlock()
	if hung {
		<-ctx.Done()
		return ctx.Err()
	}
	return down
}

func (f *fakeHAProxy) snapshot() *haproxy.State {
	s := f.state
	s.Info.Uptime = time.Since(f.started).Truncate(time.Second)
	s.Servers = slices.Clone(s.Servers)
	for i := range s.Servers {
		s.Servers[i].SinceChange = time.Since(f.changed[s.Servers[i].Name]).Truncate(time.Second)
	}
	return &s
}

func (f *fakeHAProxy) Info(ctx context.Context) (haproxy.Info, error) {
	if err := f.block(ctx); err != nil {
		return haproxy.Info{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snapshot().Info, nil
}

func (f *fakeHAProxy) State(ctx context.Context, backend string) (*haproxy.State, error) {
	if err := f.block(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	if f.broken != nil {
		return nil, f.broken
	}
	if f.missing || backend != f.state.Backend {
		return nil, fmt.Errorf("show servers state: %w", haproxy.ErrNoBackend)
	}
	return f.snapshot(), nil
}

func (f *fakeHAProxy) SetWeights(ctx context.Context, backend string, changes []haproxy.Change, perLine int) (*haproxy.Outcome, error) {
	if err := f.block(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.before != nil {
		f.before()
		f.before = nil
	}
	f.writes = append(f.writes, slices.Clone(changes))
	f.lines = append(f.lines, perLine)
	out := &haproxy.Outcome{Info: f.state.Info, Failed: map[string]error{}}
	for _, c := range changes {
		if c.Weight < 1 || c.Weight > 256 {
			panic(fmt.Sprintf("weight %d sent for %s", c.Weight, c.Server))
		}
		s := f.server(c.Server)
		switch err := f.refuse[c.Server]; {
		case err != nil:
			out.Failed[c.Server] = err
		case s == nil:
			out.Failed[c.Server] = haproxy.ErrNoServer
		case f.ignore[c.Server]:
			out.Applied++
		default:
			s.Weight = c.Weight
			out.Applied++
		}
	}
	if err := f.lost; err != nil {
		f.lost = nil
		return nil, err
	}
	out.After = f.snapshot()
	out.After.Algorithm = "" // the dump that is read back does not tell it
	for i := range out.After.Servers {
		out.After.Servers[i].Sessions = 0
	}
	return out, nil
}

// server finds one; the lock is held.
func (f *fakeHAProxy) server(name string) *haproxy.Server {
	for i := range f.state.Servers {
		if f.state.Servers[i].Name == name {
			return &f.state.Servers[i]
		}
	}
	return nil
}

// do changes the fake under its lock.
func (f *fakeHAProxy) do(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// reloadLocked starts a new worker: weights and states are the initial ones.
func (f *fakeHAProxy) reloadLocked() {
	f.state.Info.Worker.PID++
	f.state.Info.Worker.StartTime = time.Now().Unix()
	f.started = time.Now()
	for i := range f.state.Servers {
		s := &f.state.Servers[i]
		s.Weight, s.Admin, s.Op = s.InitialWeight, 0, haproxy.OpRunning
		f.changed[s.Name] = f.started
	}
}

func (f *fakeHAProxy) weights() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return weightsOf(f.state.Servers)
}

func (f *fakeHAProxy) writeCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.writes)
}

// fakeGraphite answers with the loads that it is given, ten seconds a point.
type fakeGraphite struct {
	mu       sync.Mutex
	loads    map[string]float64 // by series
	points   map[string][]graphite.Point
	err      error
	hung     bool
	panics   bool
	requests []graphite.Request
}

func newGraphite(loads map[string]float64) *fakeGraphite {
	return &fakeGraphite{loads: loads, points: map[string][]graphite.Point{}}
}

func (g *fakeGraphite) do(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

func (g *fakeGraphite) requestCount() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.requests)
}

func (g *fakeGraphite) Render(ctx context.Context, r graphite.Request) (*graphite.Answer, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests = append(g.requests, r)
	if g.hung {
		g.mu.Unlock()
		<-ctx.Done()
		g.mu.Lock()
		return nil, ctx.Err()
	}
	if g.panics {
		panic("a mistake in the renderer")
	}
	if g.err != nil {
		return nil, g.err
	}
	now := time.Now()
	answer := &graphite.Answer{Now: now}
	for name, value := range g.loads {
		answer.Series = append(answer.Series, graphite.Series{Name: name, Points: steady(now, value)})
	}
	for name, points := range g.points {
		answer.Series = append(answer.Series, graphite.Series{Name: name, Points: points})
	}
	slices.SortFunc(answer.Series, func(a, b graphite.Series) int { return strings.Compare(a.Name, b.Name) })
	return answer, nil
}

// steady is five minutes of one value, a point every 10 s, the newest 10 s old.
func steady(now time.Time, value float64) []graphite.Point {
	var points []graphite.Point
	for at := now.Add(-5 * time.Minute); !at.After(now.Add(-10 * time.Second)); at = at.Add(10 * time.Second) {
		points = append(points, graphite.Point{Unix: at.Unix(), Value: value})
	}
	return points
}

// nulls is a series that reported once and is silent now.
func nulls(now time.Time) []graphite.Point { return steady(now, math.NaN()) }

// rig is one balancer with fakes around it.
type rig struct {
	t        *testing.T
	log      *logbook.Book
	graphite *fakeGraphite
	planes   []*fakeHAProxy
	controls *Controls
	balancer *Balancer
	stop     func()
}

func ingest() config.Backend {
	settings := weighting.DefaultSettings()
	return config.Backend{
		Name: "ingest", Interval: 30 * time.Second, Target: "load.*", Window: 5 * time.Minute,
		Aggregate: graphite.Last, MaxAge: 90 * time.Second, Capacity: config.Capacity{Kind: "equal"},
		Mode: config.Live, SessionLimit: 20000, Weighting: settings,
	}
}

func newRig(t *testing.T, b config.Backend, g *fakeGraphite, planes ...*fakeHAProxy) *rig {
	r := &rig{t: t, log: &logbook.Book{}, graphite: g, planes: planes}
	r.controls = NewControls(time.Now, func(string) { r.balancer.Wake() })
	o := Options{
		Backend: b, Renderer: g, Jitter: func() float64 { return 0.5 },
		Logger:   slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Controls: r.controls,
	}
	for i, p := range planes {
		o.Planes = append(o.Planes, Plane{Socket: fmt.Sprintf("unix:/run/%d.sock", i), DataPlane: p})
	}
	r.balancer = New(o)
	return r
}

// start runs the balancer, with a watcher for each HAProxy, until the test ends.
func (r *rig) start() {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.balancer.Run(ctx); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
	for i, p := range r.planes {
		socket := fmt.Sprintf("unix:/run/%d.sock", i)
		log := slog.New(slog.NewTextHandler(r.log, nil))
		w := &watcher{
			info: p.Info, every: time.Second, log: log, faults: newFaults(log, time.Now),
			seen: func(w haproxy.Worker) { r.balancer.workerSeen(socket, w) }, back: func() { r.balancer.socketBack(socket) },
		}
		wg.Go(func() { _ = w.run(ctx) })
	}
	r.stop = func() { cancel(); wg.Wait() }
}

func (r *rig) table(i int) *Table {
	r.t.Helper()
	t := r.balancer.planes[i].table.Load()
	if t == nil {
		r.t.Fatalf("no table for plane %d; log:\n%s", i, r.log)
	}
	return t
}

func (t *Table) row(name string) *Row {
	for i := range t.Rows {
		if t.Rows[i].Server == name {
			return &t.Rows[i]
		}
	}
	return &Row{}
}

func (r *Row) reason(step string) *weighting.Reason {
	for i := range r.Reasons {
		if r.Reasons[i].Step == step {
			return &r.Reasons[i]
		}
	}
	return nil
}

func (r *rig) wantLog(n int, text string) {
	r.t.Helper()
	if got := r.log.Count(text); got != n {
		r.t.Errorf("%d log lines with %q, want %d; log:\n%s", got, text, n, r.log)
	}
}

var errRefused = errors.New("Permission denied")
