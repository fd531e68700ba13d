// Package daemon is the command "run": it puts the parts together, holds them
// through reloads of the configuration, and ends them in good order.
//
// What a reload of the configuration replaces is a generation: the balancers
// with their Graphite and HAProxy clients, and the answers to SPOE messages.
// All else lives as long as the process: listeners, metrics, history, orders.
package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/haproxy-weighter/haproxy-weighter/internal/admin"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/metrics"
	"github.com/haproxy-weighter/haproxy-weighter/internal/query"
	"github.com/haproxy-weighter/haproxy-weighter/internal/state"
)

// Options are what the daemon needs of the process it runs in.
type Options struct {
	Config  *config.Config                 // to begin with, checked
	Load    func() (*config.Config, error) // reads the configuration again, for a reload
	Reload  <-chan os.Signal               // asks for a reload; nil: never
	Version string
	Log     io.Writer // where log lines go; it may block, and outlive Run in a write then
}

// endLimit is how long the parts may take to end. Each has a shorter limit of
// its own; what outlasts this is a fault of this program.
const endLimit = 20 * time.Second

// daemon is a running one.
type daemon struct {
	options Options
	log     *slog.Logger
	lines   *logLines // of log
	level   *slog.LevelVar
	started time.Time

	controls  *balancer.Controls
	history   *admin.History
	metrics   *metrics.Metrics
	admin     *admin.Server
	faults    *balancer.FaultLog
	keeper    *state.Keeper // nil: no state file
	reporting *reporting
	agent     *agent // nil: no SPOE
	notify    notifier

	now     func() time.Time
	current atomic.Pointer[generation]
	reload  atomic.Pointer[reloadState]
}

// Run runs until ctx ends, then ends every part and returns nil. An error
// before that is of a part that can't start or go on; it is ErrLogUnread as
// well when nobody reads the log. From the first call on SIGPIPE is ignored: a
// reader of standard error that dies is no reason to end.
func Run(ctx context.Context, o Options) (err error) {
	signal.Ignore(syscall.SIGPIPE)
	d := newDaemon(o)
	go d.lines.run()
	defer func() {
		if !d.lines.end(logEndLimit) && err != nil {
			err = fmt.Errorf("%w (%w)", err, ErrLogUnread)
		}
	}()
	d.log.Info("starting", "version", o.Version, "config", o.Config.File, "backends", len(o.Config.Backends))
	d.warnings(o.Config)
	release, err := d.claim()
	if err != nil {
		return err
	}
	defer release()
	kept := d.recall()
	first, err := d.newGeneration(o.Config, nil)
	if err != nil {
		return err
	}
	first.fleet.Recall(kept.Learnt, d.now(), o.Config.State.MaxAge, kept.Ended)
	d.current.Store(first)
	d.reporting.use(first.reporter)
	listeners, err := d.listen(ctx)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- d.serve(ctx, listeners) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		limit := time.NewTimer(endLimit)
		defer limit.Stop()
		select {
		case err = <-ended:
		case <-limit.C:
			return fmt.Errorf("not all parts have ended within %s; the weights in force stay as they are", endLimit)
		}
	}
	if err != nil {
		return err
	}
	d.log.Info("stopped: the weights in force stay as they are")
	return nil
}

func newDaemon(o Options) *daemon {
	d := &daemon{options: o, now: time.Now, started: time.Now().UTC(), level: &slog.LevelVar{}}
	d.level.Set(o.Config.Log.Level)
	d.lines = newLogLines(o.Log, logRoom, lossLine(o.Config.Log.Format, d.level))
	d.log = slog.New(logHandler(d.lines, o.Config.Log.Format, d.level))
	d.faults = balancer.NewFaultLog(d.log, d.now)
	d.reload.Store(&reloadState{loaded: d.started})
	d.controls = balancer.NewControls(d.now, d.ordered)
	d.history = admin.NewHistory(d.now)
	d.metrics = metrics.New(metrics.Options{
		Fleet: d.fleet, Faults: d.allFaults, Queries: d.queries, Carbon: d.carbon, Version: o.Version, Now: d.now,
	})
	d.admin = admin.New(admin.Options{
		Fleet: d.fleet, Controls: d.controls, Daemon: d.status, History: d.history,
		Metrics: d.metrics.Handler(), Unkept: d.unkept, Logger: d.log, Now: d.now,
	})
	d.reporting = &reporting{changed: make(chan struct{}, 1)}
	if path := o.Config.State.File; path != "" {
		d.keeper = state.NewKeeper(path, d.content, d.tellState)
	}
	d.notify = newNotifier(d.log)
	return d
}

func (d *daemon) warnings(c *config.Config) {
	for _, m := range c.Warnings {
		d.log.Warn("configuration: "+m.Text, "line", m.Line, "key", m.Key)
	}
}

// serve runs all parts until ctx ends or one of them fails. The agent ends
// first, since its tables are kept as long as it answers; then the balancers;
// last what tells of them.
func (d *daemon) serve(ctx context.Context, l *listeners) error {
	outer := context.WithoutCancel(ctx)
	telling, stopTelling := context.WithCancel(outer)
	balancing, stopBalancing := context.WithCancel(outer)
	defer stopTelling()
	defer stopBalancing()
	// Orders are kept until nobody can give any more.
	keeping, stopKeeping := context.WithCancel(outer)
	var keeper sync.WaitGroup
	defer keeper.Wait()
	defer stopKeeping()
	if d.keeper != nil {
		keeper.Go(func() { d.keeper.Run(keeping) })
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer stopBalancing()
		if d.agent != nil {
			return d.agent.run(ctx)
		}
		<-ctx.Done()
		return nil
	})
	g.Go(func() error {
		defer stopTelling()
		return d.balance(balancing)
	})
	for _, run := range d.tellers(l) {
		g.Go(func() error { return run(telling) })
	}
	g.Go(func() error {
		<-ctx.Done()
		d.notify.stopping()
		return nil
	})
	return g.Wait()
}

// tellers are the parts that tell of the balancers.
func (d *daemon) tellers(l *listeners) []func(context.Context) error {
	all := []func(context.Context) error{d.reporting.run, d.watchdog, d.watchLog}
	if l.admin != nil {
		all = append(all, func(ctx context.Context) error { return d.admin.Serve(ctx, l.admin) })
	}
	if l.control != nil {
		all = append(all, func(ctx context.Context) error { return d.admin.ServeControl(ctx, l.control) })
	}
	return all
}

// fleet returns the balancers in force; nil before there are any.
func (d *daemon) fleet() *balancer.Fleet {
	if g := d.current.Load(); g != nil {
		return g.fleet
	}
	return nil
}

// allFaults are those of the daemon and of the balancers.
func (d *daemon) allFaults() []balancer.Fault {
	all := slices.Clone(d.faults.List())
	if f := d.fleet(); f != nil {
		all = append(all, f.Faults()...)
	}
	return all
}

func (d *daemon) queries() (query.Counts, bool) {
	if d.agent == nil {
		return query.Counts{}, false
	}
	return d.current.Load().handler.Counts(), true
}

// carbon adds up what the senders count.
func (d *daemon) carbon() (metrics.CarbonStats, bool) { return d.reporting.stats() }

// ordered is told of each change of the operators' orders.
func (d *daemon) ordered(backend string) {
	if f := d.fleet(); f != nil {
		if b := f.Balancer(backend); b != nil {
			b.Wake()
		}
	}
	if d.keeper != nil {
		d.keeper.Ordered()
	}
}

// Rendered, Asked and Passed make daemon a balancer.Observer of what is told
// to more than one part.
func (d *daemon) Rendered(string, error, time.Duration) {}

// Asked implements balancer.Observer.
func (d *daemon) Asked(string, string, error, time.Duration) {}

// Passed implements balancer.Observer.
func (d *daemon) Passed(t *balancer.Table) {
	d.history.Passed(t)
	d.admin.Passed(t)
	d.reporting.passed(t)
	if d.keeper != nil {
		d.keeper.Passed(t.Changes > 0)
	}
}

// content is what the state file gets.
func (d *daemon) content() state.Content {
	c := state.Content{Controls: d.controls.All()}
	if f := d.fleet(); f != nil {
		c.Learnt = f.Learnt()
	}
	return c
}

// claim makes the state file ours.
func (d *daemon) claim() (release func(), err error) {
	if path := d.options.Config.State.File; path != "" {
		return state.Claim(path)
	}
	return func() {}, nil
}

// recall reads the state file. One that can't be used is no reason not to
// balance.
func (d *daemon) recall() state.Content {
	path := d.options.Config.State.File
	if path == "" {
		return state.Content{}
	}
	c, err := state.Load(path)
	if err != nil {
		d.log.Warn("the state file can't be used", "cause", err.Error(),
			"meanwhile", "pins and freezes that it held do not count; weights go on from those in force",
			"do", "give the orders again that still matter (pin, freeze, mode), and see what wrote or broke the file")
		return state.Content{}
	}
	d.controls.Restore(c.Controls)
	for backend, control := range d.controls.All() {
		d.log.Info("orders of operators from before the restart count", "backend", backend,
			"pins", len(control.Pins), "frozen", control.Freeze != nil, "mode_order", control.Mode != nil)
	}
	return c
}

// stateFault is the key of the fault that the state file can't be written.
const stateFault = "state"

// unkept says why orders would not outlive a restart; empty: they do.
func (d *daemon) unkept() string {
	if d.keeper == nil {
		return "no state.file is configured"
	}
	for _, f := range d.faults.List() {
		if f.Key == stateFault {
			return "the state file can't be written: " + f.Cause
		}
	}
	return ""
}

func (d *daemon) tellState(err error) {
	d.faults.Set(stateFault, err, balancer.Wording{
		What:      "the state file can't be written",
		Over:      "the state file is written again",
		Meanwhile: "weights go on; pins, freezes and modes count, and end with this process",
		Do:        "see the cause; state.file must be in a folder that this user may write to, with space left",
	})
}
