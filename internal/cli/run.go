package cli

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

func newRun(p *Program) *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Balance until stopped: the daemon",
		Long:  wordsRun,
		Args:  arguments(),
		RunE: p.action(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			return p.run(ctx)
		}),
	}
}

// run ends without an error when ctx ends: being stopped is not a failure.
func (p *Program) run(ctx context.Context) error {
	c, err := p.load()
	if err != nil {
		return err
	}
	logger := slog.New(p.logHandler(c.Log))
	logger.Info("starting", "version", p.version(), "config", c.File, "backends", len(c.Backends))
	for _, m := range c.Warnings {
		logger.Warn("configuration: "+m.Text, "line", m.Line, "key", m.Key)
	}
	fleet, err := balancer.NewFleet(c, balancer.FleetOptions{Logger: logger})
	if err != nil {
		return failed(err)
	}
	agent, err := newAgent(ctx, c, fleet, logger)
	if err != nil {
		return failed(err, hintListen(err)...)
	}
	if err := serve(ctx, fleet, agent); err != nil {
		return failed(err)
	}
	logger.Info("stopped: the weights in force stay as they are")
	return nil
}

// serve runs balancers and agent until ctx ends or one of them fails. The
// agent, nil if there is none, ends first: as long as it answers, its tables
// are kept.
func serve(ctx context.Context, fleet *balancer.Fleet, agent *agent) error {
	balancing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return fleet.Run(balancing) })
	g.Go(func() error {
		defer stop()
		if agent != nil {
			return agent.run(ctx)
		}
		<-ctx.Done()
		return nil
	})
	return g.Wait()
}

func (p *Program) logHandler(l config.Log) slog.Handler {
	options := &slog.HandlerOptions{Level: l.Level}
	if l.Format == "json" {
		return slog.NewJSONHandler(p.Stderr, options)
	}
	return slog.NewTextHandler(p.Stderr, options)
}
