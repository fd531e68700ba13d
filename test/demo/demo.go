package demo

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/test/ingest"
)

// The names of the phases, as they are shown.
const (
	equalWeights = "equal weights"
	theWeighter  = "haproxy-weighter"
)

// refresh is the time between two pictures of the live view.
const refresh = 250 * time.Millisecond

// loopStart is when in its phase the loop starts: when Graphite has a whole
// second of this phase's clients. Before, it would act on the last phase's.
const loopStart = 2 * time.Second

// Run plays both phases and returns what they came to. When ctx ends early it
// returns the cause; in every case all that it started has ended and its
// directory is removed when it returns.
func Run(ctx context.Context, o Options) (result *Result, err error) {
	if o, err = o.complete(); err != nil {
		return nil, err
	}
	r, err := build(ctx, o)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	defer r.close()
	display := newDisplay(o)
	if err := display.open(r); err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, display.close()) }()

	seconds := o.phaseSeconds()
	load := ingest.Workload{
		Seed: o.Seed, Open: clientsPerServer * o.Servers, Lifetime: lifetime,
		Rates: ingest.HeavyTailed(), Duration: time.Duration(seconds) * time.Second,
	}
	plan := load.Plan()
	run := &run{rig: r, display: display, plan: plan, seconds: seconds, from: o.measuredFrom(), offered: ingest.OfferedEachSecond(plan, seconds)}
	run.frame = run.firstFrame()
	result = &Result{
		Seed: o.Seed, Servers: o.Servers, OpenClients: load.Open, Clients: len(plan),
		LifetimeSeconds: lifetime.Seconds(), PhaseSeconds: seconds, MeasuredFrom: run.from,
		LeastLoaded: floor(plan, o.Servers, seconds, run.from).MaxMean,
	}
	for phase := range result.Phases {
		if result.Phases[phase], err = run.phase(ctx, phase); err != nil {
			return nil, err
		}
	}
	result.Sentence = result.sentence()
	return result, nil
}

// run is one run of both phases.
type run struct {
	rig     *rig
	display display
	plan    []ingest.Arrival
	seconds int       // of a phase
	from    int       // seconds that don't count
	offered []float64 // datapoints a second that the clients send, by second
	frame   Frame
}

func (r *run) firstFrame() Frame {
	f := Frame{
		Title: fmt.Sprintf("haproxy-weighter demo: %d servers, %d clients at a time, time x30, seed %d",
			len(r.rig.servers), clientsPerServer*len(r.rig.servers), r.rig.options.Seed),
		Footer: "configuration and log: " + r.rig.dir + "; Ctrl-C ends it",
	}
	for i, name := range []string{equalWeights, theWeighter} {
		f.Phases[i] = PhaseHistory{Name: name, Seconds: r.seconds, MeanFrom: r.from, Mean: math.NaN()}
	}
	for _, s := range r.rig.servers {
		f.Bars = append(f.Bars, Bar{Name: s.Name(), Weight: -1})
	}
	return f
}

// phase plays the plan once, with the loop in phase 1 (the second). The next
// phase begins when the clients of this one are gone.
func (r *run) phase(ctx context.Context, number int) (Measured, error) {
	var fleet *balancer.Fleet
	if number == 1 {
		var err error
		if fleet, err = r.rig.fleet(); err != nil {
			return Measured{}, err
		}
	}
	playing, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	clients := &ingest.Clients{Address: r.rig.frontend, Plan: r.plan}
	running.Go(func() { clients.Run(playing) })
	failed := make(chan error, 1)
	if fleet != nil {
		running.Go(func() {
			select {
			case <-playing.Done():
				return
			case <-time.After(loopStart):
			}
			if err := fleet.Run(playing); err != nil {
				failed <- err
			}
		})
	}
	samples, moved, err := r.watch(playing, number, fleet, failed)
	stats := clients.Stats()
	stop()
	running.Wait()
	if err == nil {
		err = r.rig.idle(ctx)
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	m := measure(r.frame.Phases[number].Name, samples, r.from, r.offered)
	m.Clients, m.WeightsMoved = stats, moved
	return m, err
}

// watch shows the phase until its time is up, and returns the loads of all
// servers at the end of each second and the number of weights that the loop
// has changed.
func (r *run) watch(ctx context.Context, number int, fleet *balancer.Fleet, failed <-chan error) ([][]float64, int, error) {
	f := &r.frame
	f.Phase = number
	history := &f.Phases[number]
	var samples [][]float64
	var followed changes
	start := time.Now()
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for len(samples) < r.seconds {
		loads := r.loads()
		if fleet != nil {
			for _, b := range fleet.Balancers() {
				followed.note(b.Tables())
			}
			f.Change, f.Loop = followed.last, followed.loop
		}
		elapsed := time.Since(start)
		whole := int(elapsed/time.Second) > len(samples)
		for len(samples) < min(int(elapsed/time.Second), r.seconds) {
			samples = append(samples, loads)
			history.Samples = append(history.Samples, spreadOf(loads).MaxMean)
		}
		if whole || len(samples) == 0 {
			for i, w := range r.rig.weights(ctx) {
				f.Bars[i].Weight = w
			}
		}
		if m := measure("", samples, r.from, r.offered); m.Seconds > 0 {
			history.Mean = m.MaxMean
		}
		f.Left = time.Duration(r.seconds)*time.Second - elapsed
		if f.Warning = r.rig.warnings.current(time.Now()); f.Warning == "" {
			f.Warning = followed.trouble
		}
		if err := r.display.show(*f, len(samples)); err != nil {
			return samples, followed.moved, err
		}
		select {
		case <-ctx.Done():
			return samples, followed.moved, ctx.Err()
		case err := <-failed:
			return samples, followed.moved, fmt.Errorf("the loop failed: %w", err)
		case <-tick.C:
		}
	}
	return samples, followed.moved, nil
}

// loads reads every server's rate, into the frame too.
func (r *run) loads() []float64 {
	loads := make([]float64, len(r.rig.servers))
	for i, s := range r.rig.servers {
		loads[i] = s.Counts().Rate
		r.frame.Bars[i].Load = loads[i]
	}
	return loads
}
