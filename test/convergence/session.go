package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/haproxy-weighter/haproxy-weighter/test/graphiteproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/ingest"
)

// open is how many clients are connected at once, on average.
func (o *options) open() int { return o.clients * o.servers }

// plan has the clients of one seed.
func (o *options) plan(seed uint64) []ingest.Arrival {
	return ingest.Workload{
		Seed: seed, Open: o.open(), Lifetime: lifetime, Rates: rates(), Duration: o.warmUp + o.duration,
	}.Plan()
}

// rates are those of the command "demo" too.
func rates() ingest.Rates { return ingest.HeavyTailed() }

// run plays every policy with every seed. When it is interrupted or fails, the
// result has the seeds that every policy has been played with, and is nil
// when there is none. Nothing is left running, and no file but in o.dir.
func run(ctx context.Context, o options) (*result, error) {
	dir := o.dir
	if dir == "" {
		temporary, err := os.MkdirTemp("", "haproxy-weighter-convergence-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(temporary)
		dir = temporary
	}
	fmt.Fprintf(o.progress, "%s, %s, %d s each, %d side by side; configurations and logs: %s\n",
		count(o.seeds, "seed"), count(len(o.policies), "policy"), o.seconds(), o.parallel, dir)
	graphite, err := graphiteproc.Start(ctx, graphiteproc.Options{Dir: filepath.Join(dir, "graphite")})
	if err != nil {
		return nil, err
	}
	defer graphite.Stop()
	r := newResult(o)
	err = playAll(ctx, &o, r, graphite, dir)
	if !r.finish() {
		r = nil
	}
	return r, err
}

// playAll plays the policies of a seed next to each other in time, so that
// they share what else this machine does.
func playAll(ctx context.Context, o *options, r *result, graphite *graphiteproc.Process, dir string) error {
	shown := startProgress(o)
	defer shown.end()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.parallel)
	for s := range o.seeds {
		seed := o.first + uint64(s)
		plan := o.plan(seed)
		for i := range o.policies {
			if ctx.Err() != nil {
				break
			}
			number := s*len(o.policies) + i + 1
			g.Go(func() error {
				t := &trial{
					options: o, policy: o.policies[i], plan: plan, number: number, graphite: graphite,
					dir: filepath.Join(dir, fmt.Sprintf("%02d-seed-%d-%s", number, seed, o.policies[i].id)),
				}
				if err := os.MkdirAll(t.dir, 0o700); err != nil {
					return err
				}
				p, err := t.play(ctx, func(second int) { shown.second(number, seed, t.policy.name, second) })
				if err != nil {
					return fmt.Errorf("seed %d, %s: %w", seed, t.policy.name, err)
				}
				shown.finished(number, r.add(s, i, plan, p))
				return nil
			})
		}
	}
	return g.Wait()
}
