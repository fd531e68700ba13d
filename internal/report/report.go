// Package report sends what the balancers do back into Graphite: weights and
// loads by server, imbalance, age of the data and changes by backend, so that
// they can be drawn beside the series that they were made of.
//
// A Reporter reads tables and hands lines to a graphite.Sender for each carbon.
// No balancer ever waits for it: tables are read through an atomic pointer, and
// what Passed and Send lock is never held during I/O.
package report

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// keptIntervals bounds by age what is kept while carbon is away.
const keptIntervals = 15

// Source is what one report is about.
type Source struct {
	Sockets  []string // haproxy.sockets in the order of the file, as tables print them
	Backends []string // in the order of the file
	Tables   []*balancer.Table
}

// SourceOf gives the source of a configuration and its running fleet.
func SourceOf(c *config.Config, f *balancer.Fleet) Source {
	s := Source{Tables: f.Tables()}
	for _, a := range c.HAProxy.Sockets {
		s.Sockets = append(s.Sockets, a.String())
	}
	for i := range c.Backends {
		s.Backends = append(s.Backends, c.Backends[i].Name)
	}
	return s
}

// Options make a Reporter.
type Options struct {
	Config config.Report
	Host   string        // name of this machine, for {host} in the prefix
	Source func() Source // asked at each report, since a reload of the configuration changes it
	Logger *slog.Logger  // nil means slog.Default()

	Now   func() time.Time // nil means time.Now
	Phase float64          // when in each interval to report, in (0,1); 0 means at random in its second half
}

// Reporter makes the reports. It is a balancer.Observer.
type Reporter struct {
	options Options
	log     *slog.Logger
	prefix  string
	senders []*graphite.Sender
	warned  collisions // belongs to Run

	newest map[feed]time.Time       // of the data of each feed; belongs to Run
	told   map[feed]graphite.Metric // the changes of the last report; belongs to Run

	mu      sync.Mutex
	changes map[feed]int // since the last report
}

var _ balancer.Observer = (*Reporter)(nil)

// feed is one backend on one socket.
type feed struct{ backend, socket string }

// New returns a reporter; it does no I/O.
func New(o Options) (*Reporter, error) {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Phase <= 0 || o.Phase >= 1 {
		// Not at the edge, where a late timer would miss an interval; and not all
		// load balancers at once.
		o.Phase = 0.5 + 0.4*rand.Float64()
	}
	if o.Config.Interval < time.Second {
		return nil, fmt.Errorf("report: the interval %s is too short", o.Config.Interval)
	}
	r := &Reporter{
		options: o, log: o.Logger, changes: make(map[feed]int), newest: make(map[feed]time.Time),
		prefix: strings.ReplaceAll(o.Config.Prefix, config.HostPlace, graphite.CarbonComponent(o.Host)),
	}
	if err := graphite.CheckCarbonName(r.prefix); err != nil {
		return nil, fmt.Errorf("report.prefix can't begin the names of series: %w", err)
	}
	for _, address := range o.Config.Carbon {
		s, err := graphite.NewSender(graphite.SenderConfig{
			Address: address, TLS: o.Config.TLS, MaxAge: keptIntervals * o.Config.Interval, Now: o.Now,
			Lost: func(cause error) { tellLost(r.log, address, cause, keptIntervals*o.Config.Interval) },
			Back: func(out graphite.Outage) { tellBack(r.log, address, out) },
		})
		if err != nil {
			return nil, err
		}
		r.senders = append(r.senders, s)
	}
	return r, nil
}

// Rendered implements balancer.Observer.
func (*Reporter) Rendered(string, error, time.Duration) {}

// Asked implements balancer.Observer.
func (*Reporter) Asked(string, string, error, time.Duration) {}

// Passed implements balancer.Observer: it counts the weights that a pass has
// written. Several passes may lie between two reports.
func (r *Reporter) Passed(t *balancer.Table) {
	if t.Changes == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes[feed{t.Backend, t.Socket}] += t.Changes
}

// Stats returns the counters of each carbon, in the order of report.carbon. It
// never waits for the network.
func (r *Reporter) Stats() []graphite.SenderStats {
	all := make([]graphite.SenderStats, len(r.senders))
	for i, s := range r.senders {
		all[i] = s.Stats()
	}
	return all
}

// Run reports once in each interval until ctx ends. Then it returns nil, once
// what is left has been sent or, after a few seconds, given up.
func (r *Reporter) Run(ctx context.Context) error {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var g errgroup.Group
	for _, s := range r.senders {
		g.Go(func() error { return s.Run(sending) })
	}
	r.loop(ctx)
	stop()
	if err := g.Wait(); err != nil {
		return err
	}
	for i, s := range r.senders {
		if stats := s.Stats(); stats.Lost {
			tellLeft(r.log, r.options.Config.Carbon[i], stats)
		}
	}
	return nil
}

// loop reports once in each interval, and for the last time when ctx ends. In an
// interval that has been reported by then only the changes are put right: the
// points of a second report would take the place of the first ones.
func (r *Reporter) loop(ctx context.Context) {
	last := r.slot(r.options.Now()) - 1
	for ctx.Err() == nil {
		timer := time.NewTimer(r.next(last))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if r.slot(r.options.Now()) == last {
				r.send(r.corrections())
				return
			}
		}
		now := r.options.Now()
		r.send(r.compose(now))
		last = r.slot(now)
	}
}

// slot numbers the intervals of the clock from the epoch, as Graphite does.
func (r *Reporter) slot(t time.Time) int64 { return t.Unix() / r.seconds() }

func (r *Reporter) seconds() int64 { return int64(r.options.Config.Interval / time.Second) }

// next is how long to wait for the next report, last being the slot that has
// been reported. It is worked out anew each time, so that reports neither drift
// nor stop when the clock is set.
func (r *Reporter) next(last int64) time.Duration {
	now := r.options.Now()
	slot := r.slot(now)
	if slot == last {
		slot++
	}
	at := time.Unix(slot*r.seconds(), 0).Add(time.Duration(r.options.Phase * float64(r.options.Config.Interval)))
	if at.Before(now) {
		at = at.Add(r.options.Config.Interval)
	}
	return at.Sub(now)
}

func (r *Reporter) send(metrics []graphite.Metric) {
	for _, s := range r.senders {
		if err := s.Send(metrics); err != nil {
			r.log.Debug("a metric was left out of the report", "cause", err)
		}
	}
}

// takeChanges gives what Passed has counted, which begins anew.
func (r *Reporter) takeChanges() map[feed]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	changes := r.changes
	r.changes = make(map[feed]int, len(changes))
	return changes
}

// corrections give the changes of the last report again, at their time, with
// those that have come since.
func (r *Reporter) corrections() []graphite.Metric {
	var metrics []graphite.Metric
	for f, n := range r.takeChanges() {
		if m, ok := r.told[f]; ok {
			m.Value += float64(n)
			metrics = append(metrics, m)
		}
	}
	return metrics
}

// compose makes the metrics of one report.
func (r *Reporter) compose(now time.Time) []graphite.Metric {
	changes := r.takeChanges()
	source := r.options.Source()
	var metrics []graphite.Metric
	newest := make(map[feed]time.Time, len(r.newest))
	told := make(map[feed]graphite.Metric, len(source.Tables))
	names := newNames(r.prefix, &source)
	for _, t := range source.Tables {
		f := feed{t.Backend, t.Socket}
		newest[f] = newestData(t, r.newest[f])
		stamp := r.stamp(t, now)
		metrics = appendTable(metrics, names, t, stamp, newest[f])
		told[f] = graphite.Metric{Name: names.backend(t) + ".changes", Value: float64(changes[f]), Time: stamp}
		metrics = append(metrics, told[f])
	}
	r.newest, r.told = newest, told
	r.warned.tell(r.log, names.taken)
	return metrics
}

// stamp is when the decision of a table was made, if that is in the interval
// that is reported; else nothing has changed since, and it is now.
func (r *Reporter) stamp(t *balancer.Table, now time.Time) time.Time {
	if r.slot(t.Time) == r.slot(now) && t.Time.Before(now) {
		return t.Time
	}
	return now
}
