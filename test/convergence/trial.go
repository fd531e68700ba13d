package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/test/graphiteproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/ingest"
)

// batch is the time between two writes of a client: as long as can be for a
// smooth flow within each second, because the writes are what costs.
const batch = 500 * time.Millisecond

// trial is one policy with one population of clients.
type trial struct {
	options  *options
	policy   policy
	plan     []ingest.Arrival
	number   int    // tells its metrics from those of other trials
	dir      string // has its files; exists
	graphite *graphiteproc.Process

	servers  []*ingest.Server
	process  *haproxyproc.Process
	frontend string          // host:port that the clients connect to
	fleet    *balancer.Fleet // nil for a policy without a function
	log      *os.File        // of the loop and the feed
}

// played is what came of a trial.
type played struct {
	loads   [][]float64 // of every server at the end of each second, datapoints/s
	loop    loop
	clients ingest.ClientStats
}

// play plays the trial from start to end; second is told each second that is
// over. Nothing of it runs any more when play returns, whichever way it ended.
func (t *trial) play(ctx context.Context, second func(int)) (*played, error) {
	defer t.close()
	if err := t.build(ctx); err != nil {
		return nil, err
	}
	logger := slog.New(slog.NewTextHandler(t.log, nil))
	feeder := &ingest.Feeder{
		Servers: t.servers, Prefix: t.prefix(),
		Sink:   ingest.Carbon{Address: t.graphite.CarbonAddr, Timeout: time.Second},
		Report: func(err error) { logger.Warn("feeding Graphite failed", "cause", err) },
	}
	clients := &ingest.Clients{Address: t.frontend, Plan: t.plan, Batch: batch}
	p := &played{}

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { feeder.Run(ctx); return nil })
	g.Go(func() error { clients.Run(ctx); return nil })
	if t.fleet != nil {
		g.Go(func() error { return t.balance(ctx) })
	}
	g.Go(func() error {
		defer stop() // the trial is over
		return t.watch(ctx, p, second)
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	p.clients = clients.Stats()
	return p, nil
}

// balance runs the loop from when all clients that are there from the start
// have been connected for a whole second and Graphite knows.
func (t *trial) balance(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(t.plan[t.options.open()-1].At + 2*time.Second):
	}
	if err := t.fleet.Run(ctx); err != nil {
		return fmt.Errorf("the loop failed: %w", err)
	}
	return nil
}

// watch reads the servers' loads at the end of each second, and follows what
// the loop does.
func (t *trial) watch(ctx context.Context, p *played, second func(int)) error {
	const perSecond = 5 // a pass takes place every second; none may be missed
	start := time.Now()
	tick := time.NewTimer(0)
	defer tick.Stop()
	for n := 1; len(p.loads) < t.options.seconds(); n++ {
		tick.Reset(time.Until(start.Add(time.Duration(n) * time.Second / perSecond)))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if t.fleet != nil {
			for _, b := range t.fleet.Balancers() {
				p.loop.note(b.Tables(), len(p.loads) >= t.options.measuredFrom())
			}
		}
		if n%perSecond > 0 {
			continue
		}
		loads := make([]float64, len(t.servers))
		for i, s := range t.servers {
			loads[i] = s.Counts().Rate
		}
		p.loads = append(p.loads, loads)
		second(len(p.loads))
	}
	return nil
}

// loop is what the loop did in one trial.
type loop struct {
	Passes   int     `json:"passes"`
	Failed   int     `json:"failed_passes"` // in which something failed or the picture was not good enough
	Changed  int     `json:"weights_changed"`
	Delay    float64 `json:"delay_seconds"`    // mean over the measured passes
	Lifetime float64 `json:"lifetime_seconds"` // as estimated, likewise
	Gain     float64 `json:"gain"`             // likewise

	seen     time.Time // of the newest table
	measured int       // passes in the means
}

// note takes in the newest tables; it may be given the same one again.
func (l *loop) note(tables []*balancer.Table, measured bool) {
	for _, t := range tables {
		if !t.Time.After(l.seen) {
			continue
		}
		l.seen = t.Time
		l.Passes++
		l.Changed += t.Changes
		if t.Fault != "" || t.HoldCode != "" {
			l.Failed++
		}
		if !measured {
			continue
		}
		l.measured++
		n := float64(l.measured)
		l.Delay += (t.Delay.Seconds() - l.Delay) / n
		l.Lifetime += (t.Lifetime.Seconds() - l.Lifetime) / n
		l.Gain += (t.Gain - l.Gain) / n
	}
}
