package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/daemon"
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

// run ends without an error when ctx ends: being stopped is not a failure. A
// SIGHUP that comes early must not kill it, so it is caught first of all.
func (p *Program) run(ctx context.Context) error {
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	c, err := p.read(ctx)
	if err != nil {
		return err
	}
	err = daemon.Run(ctx, daemon.Options{
		Config: c, Load: func() (*config.Config, error) { return p.read(ctx) }, Reload: reload, Version: p.version(), Log: p.Stderr,
	})
	if errors.Is(err, daemon.ErrLogUnread) {
		return silent(exitFailed) // the words would wait for that reader as well
	}
	if busy := (*daemon.ListenError)(nil); errors.As(err, &busy) {
		return failed(err, hintListen(err)...)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EADDRINUSE):
		return failed(err, hintBusy)
	}
	return failed(err)
}
