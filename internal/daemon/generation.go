package daemon

import (
	"context"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/query"
	"github.com/haproxy-weighter/haproxy-weighter/internal/report"
)

// generation is what one configuration makes. It is replaced as a whole.
type generation struct {
	config   *config.Config
	fleet    *balancer.Fleet
	handler  *query.Handler
	reporter *report.Reporter // nil: nothing is reported
	chances  *chances
}

// newGeneration wires a checked configuration; it does no I/O beyond that. An
// error changes nothing.
func (d *daemon) newGeneration(c *config.Config, before *generation) (*generation, error) {
	chances := newChances(c)
	fleet, err := balancer.NewFleet(c, balancer.FleetOptions{
		Logger: d.log, Controls: d.controls, Observer: balancer.Observers{d.metrics, d, chances},
		// By SPOE, and by Lua in HAProxy, which reads the tables at admin.listen. Both
		// keys are read at start only.
		Named: len(d.options.Config.SPOA.Listen) > 0 || d.options.Config.Admin.Listen != (config.Listener{}),
	})
	if err != nil {
		return nil, err
	}
	g := &generation{config: c, fleet: fleet, chances: chances}
	var old *query.Handler
	if before != nil {
		old = before.handler
	}
	g.handler = newHandler(c, fleet, old, d.log)
	switch {
	case len(c.Report.Carbon) == 0:
	case before != nil && before.reporter != nil && reflect.DeepEqual(c.Report, before.config.Report):
		g.reporter = before.reporter
	default:
		host, err := os.Hostname()
		if err != nil {
			return nil, err
		}
		g.reporter, err = report.New(report.Options{Config: c.Report, Host: host, Source: d.reportSource, Logger: d.log})
		if err != nil {
			return nil, err
		}
	}
	return g, nil
}

func (d *daemon) reportSource() report.Source {
	g := d.current.Load()
	return report.SourceOf(g.config, g.fleet)
}

// balance runs the generation in force, and the next one after a reload, until
// ctx ends.
func (d *daemon) balance(ctx context.Context) error {
	for {
		g := d.current.Load()
		began := time.Now()
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- g.fleet.Run(running) }()
		d.notify.ready()
		next, err := d.nextGeneration(g, ended, began)
		if next == nil {
			stop()
			return err
		}
		g.fleet.HandOver(next.fleet)
		stop()
		if err := <-ended; err != nil {
			return err
		}
		d.take(next, next.fleet.Inherit(g.fleet))
	}
}

// nextGeneration waits for a reload that works. It returns nil when the present
// fleet, which began at the given time, has ended.
func (d *daemon) nextGeneration(g *generation, ended <-chan error, began time.Time) (*generation, error) {
	pause := time.NewTimer(time.Until(began.Add(reloadPause)))
	defer pause.Stop()
	limit := time.NewTimer(time.Until(began.Add(chanceLimit(g.config))))
	defer limit.Stop()
	paused, had := pause.C, g.chances.had
	for paused != nil || had != nil {
		select {
		case err := <-ended:
			return nil, err
		case <-paused:
			paused = nil
		case <-had:
			had = nil
		case <-limit.C:
			paused, had = nil, nil
		}
	}
	for {
		select {
		case err := <-ended:
			return nil, err
		case <-d.options.Reload:
			d.notify.reloading()
			next, err := d.loadGeneration(g)
			if err == nil {
				return next, nil
			}
			d.refuse(err)
			d.notify.ready()
		}
	}
}

func (d *daemon) loadGeneration(before *generation) (*generation, error) {
	c, err := d.options.Load()
	if err != nil {
		return nil, err
	}
	return d.newGeneration(c, before)
}

// reloadState is how the last reload went.
type reloadState struct {
	loaded  time.Time // of the configuration in force
	failed  time.Time // zero: the last one went well
	why     string
	restart []string // keys that wait for a restart
}

// refuse tells of a reload that failed: nothing has changed.
func (d *daemon) refuse(err error) {
	cause := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
	d.log.Error("the configuration was not reloaded", "cause", cause,
		"meanwhile", "the configuration from before stays in force, as a whole",
		"do", "correct the file, try it with haproxy-weighter check, and reload again")
	old := *d.reload.Load()
	old.failed, old.why = d.now().UTC(), cause
	d.reload.Store(&old)
	d.metrics.Reloaded(err)
}

// take puts a generation in force. dropped are backends that it no longer has.
func (d *daemon) take(g *generation, dropped []string) {
	d.current.Store(g)
	d.level.Set(g.config.Log.Level)
	d.reporting.use(g.reporter)
	r := &reloadState{loaded: d.now().UTC(), restart: restartKeys(d.options.Config, g.config)}
	d.reload.Store(r)
	d.metrics.Reloaded(nil)
	d.warnings(g.config)
	d.log.Info("configuration reloaded", "backends", len(g.config.Backends))
	if len(dropped) > 0 {
		attrs := []any{"backends", strings.Join(dropped, " ")}
		ordered := slices.DeleteFunc(dropped, func(backend string) bool { return d.controls.Of(backend).Empty() })
		if len(ordered) > 0 {
			attrs = append(attrs, "orders_kept_for", strings.Join(ordered, " "),
				"do", "take them back (unpin, unfreeze, mode BACKEND file) if they must not count when the backends come back")
		}
		d.log.Info("backends are no longer balanced: their weights stay as they are", attrs...)
	}
	if len(r.restart) > 0 {
		d.log.Warn("keys have changed that are read at start only", "keys", strings.Join(r.restart, " "),
			"meanwhile", "they count as they were at the start; all other changes are in force",
			"do", "restart haproxy-weighter when traffic allows: weights stay as they are meanwhile")
	}
}

// restartKeys lists the keys that are read at start only and differ.
func restartKeys(start, now *config.Config) []string {
	var keys []string
	differ := func(key string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			keys = append(keys, key)
		}
	}
	differ("spoa.listen", start.SPOA.Listen, now.SPOA.Listen)
	differ("spoa.max_frame_size", start.SPOA.MaxFrameSize, now.SPOA.MaxFrameSize)
	differ("spoa.max_connections", start.SPOA.MaxConnections, now.SPOA.MaxConnections)
	differ("spoa.idle_timeout", start.SPOA.IdleTimeout, now.SPOA.IdleTimeout)
	differ("admin.listen", start.Admin.Listen, now.Admin.Listen)
	differ("admin.control", start.Admin.Control, now.Admin.Control)
	differ("state.file", start.State.File, now.State.File)
	differ("log.format", start.Log.Format, now.Log.Format)
	return keys
}
