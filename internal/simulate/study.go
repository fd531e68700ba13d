package simulate

import (
	"context"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Study is a set of policies, each run with the same seeds on one model.
type Study struct {
	Model    Model
	Policies []Policy
	Seeds    []uint64
	Trace    bool           // keep every server's load over time
	Parallel int            // runs at once; 0 means one a core
	Progress func(Progress) // nil means silent; called from several goroutines
}

// Progress of a study or a grid.
type Progress struct{ Done, All int }

// Outcome is what a study found: one row a policy, in the order given.
type Outcome struct {
	Model Model
	Rows  []Row
}

// Row is one policy's results.
type Row struct {
	Policy  Policy
	Results []Result // one a seed
}

// recoveryLimit is how long, in mean lifetimes, a restarted server is waited for.
const recoveryLimit = 4

// Run runs every policy with every seed, several at once. The first fault or
// the end of ctx ends it.
func (s *Study) Run(ctx context.Context) (*Outcome, error) {
	if err := s.Model.Check(); err != nil {
		return nil, err
	}
	out := &Outcome{Model: s.Model}
	for _, p := range s.Policies {
		out.Rows = append(out.Rows, Row{Policy: p, Results: make([]Result, len(s.Seeds))})
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel(s.Parallel))
	var done atomic.Int64
	for i, seed := range s.Seeds {
		script := lazyScript(&s.Model, seed)
		for j := range s.Policies {
			group.Go(func() error {
				r, err := runOne(ctx, &s.Model, &s.Policies[j], script(), seed, s.Trace)
				if err != nil {
					return err
				}
				out.Rows[j].Results[i] = r
				if s.Progress != nil {
					s.Progress(Progress{int(done.Add(1)), len(s.Seeds) * len(s.Policies)})
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	out.share()
	return out, nil
}

func parallel(n int) int {
	if n > 0 {
		return n
	}
	return runtime.GOMAXPROCS(0)
}

// horizon is the last second that any run of the model can reach.
func (m *Model) horizon() float64 {
	end := m.Warmup.Seconds() + m.Measured.Seconds()
	if m.Restart {
		end += downTime.Seconds() + recoveryLimit*m.Lifetime.Mean.Seconds()
	}
	return end
}

// runOne runs one policy with one seed.
func runOne(ctx context.Context, m *Model, p *Policy, s *script, seed uint64, trace bool) (Result, error) {
	w := newWorld(m, p, s, seed)
	if err := w.run(ctx, m.Warmup.Seconds(), nil); err != nil {
		return Result{}, err
	}
	for _, b := range w.balancers {
		b.tally = tally{}
	}
	w.watch = watch{on: true, traced: trace, drawn: make([]float64, m.Servers)}
	if trace {
		w.watch.loads = make([][]float32, m.Servers)
	}
	if err := w.run(ctx, m.Warmup.Seconds()+m.Measured.Seconds(), nil); err != nil {
		return Result{}, err
	}
	w.watch.on = false
	r := w.result(m.Measured.Minutes())
	if !m.Restart {
		return r, nil
	}
	var err error
	r.Recovery, r.Overshoot, err = w.recover(ctx, int(seed)%m.Servers)
	return r, err
}

// recover restarts a server and waits until it has 80 % of the mean load,
// then as long again and ten minutes to see how far it overshoots.
func (w *world) recover(ctx context.Context, server int) (seconds, overshoot float64, err error) {
	w.stop(server)
	back := w.now + downTime.Seconds()
	if err := w.run(ctx, back, nil); err != nil {
		return 0, 0, err
	}
	w.start(server)
	limit := w.model.horizon()
	recovered := func() bool { return w.relative(server) >= 0.8 }
	if err := w.run(ctx, limit, recovered); err != nil {
		return 0, 0, err
	}
	if !recovered() {
		return math.Inf(1), math.NaN(), nil
	}
	seconds = w.now - back
	peak := 0.0
	watchPeak := func() bool { peak = max(peak, w.relative(server)); return false }
	err = w.run(ctx, min(limit, w.now+seconds+(10*time.Minute).Seconds()), watchPeak)
	return seconds, peak, err
}

// share fills in the share of the possible gain, seed by seed.
func (o *Outcome) share() {
	var equal, bound *Row
	for i := range o.Rows {
		switch r := &o.Rows[i]; r.Policy.Name {
		case Equal:
			equal = r
		case Bound:
			bound = r
		}
	}
	if equal == nil || bound == nil {
		return
	}
	for i := range o.Rows {
		for j := range o.Rows[i].Results {
			r := &o.Rows[i].Results[j]
			worst, best := equal.Results[j].Excess, bound.Results[j].Excess
			r.Gain = (worst - r.Excess) / (worst - best)
		}
	}
}
