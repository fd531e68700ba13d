// Package metrics is what Prometheus reads of the daemon: /metrics.
//
// There are two sources. What is so now (loads, weights, faults) is made at each
// scrape from the balancers' tables, so that a series goes when its server or
// backend does. What has happened (renders, requests, answers) is counted when
// it happens, and the counts go on over reloads of the configuration. Every
// metric is documented in docs/metrics.md, and a test holds the two together.
package metrics

import (
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/query"
	"github.com/haproxy-weighter/haproxy-weighter/spoa"
)

// prefix is what the names of all metrics of ours begin with.
const prefix = "haproxy_weighter_"

// Scrapes at once: more are refused, so that nobody makes the daemon hold many
// copies of all series.
const mostScrapes = 3

// Options say where the metrics come from. All but Fleet may be left out.
type Options struct {
	// Fleet gives the balancers in force, which change at a reload of the
	// configuration; nil while there are none yet.
	Fleet func() *balancer.Fleet
	// Faults gives all that is wrong now; nil means those of Fleet.
	Faults func() []balancer.Fault
	// Queries gives the counts of SPOE messages; false: there is no SPOE agent.
	Queries func() (query.Counts, bool)
	// Carbon gives what the reports to Graphite count; false: nothing is reported.
	Carbon  func() (CarbonStats, bool)
	Version string
	Now     func() time.Time // nil means time.Now
}

// CarbonStats are the counts of all carbons together since the start.
type CarbonStats struct {
	Sent     uint64 // lines that carbon has read
	Dropped  uint64 // lines given up: too many waited, or for too long
	Refused  uint64 // values that can't be a line
	Batches  uint64 // connections that delivered
	Failures uint64 // connections that did not
	Queued   int    // lines that wait now
	Failing  int    // carbons whose newest delivery failed
}

// Metrics counts and shows. It is a balancer.Observer and a spoa.Observer, and
// safe for concurrent use.
type Metrics struct {
	*events
	*frames

	options Options
	look    func() *view // nil while there is no fleet
	process *prometheus.Registry
	spoe    *prometheus.Registry // shown when there is an SPOE agent
	reloads *reloads
}

var (
	_ balancer.Observer = (*Metrics)(nil)
	_ spoa.Observer     = (*Metrics)(nil)
)

// New returns Metrics that have counted nothing. The configuration counts as
// loaded now.
func New(o Options) *Metrics {
	if o.Now == nil {
		o.Now = time.Now
	}
	m := &Metrics{
		options: o, process: prometheus.NewRegistry(), spoe: prometheus.NewRegistry(),
		events: newEvents(), frames: newFrames(), reloads: newReloads(o.Now),
	}
	m.look = func() *view { return viewOf(&m.options) }
	m.process.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.process.MustRegister(m.events.collectors()...)
	m.process.MustRegister(m.reloads.collectors()...)
	m.process.MustRegister(buildInfo(o.Version))
	m.spoe.MustRegister(m.frames.collectors()...)
	return m
}

func buildInfo(version string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        prefix + "build_info",
		Help:        "Always 1; the labels tell which program this is.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
}

// Reloaded is told of each reload of the configuration; err is nil when the new
// one is in force.
func (m *Metrics) Reloaded(err error) { m.reloads.count(err) }

// Handler answers scrapes. With name[]=NAME in the query it sends those
// families only.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m, promhttp.HandlerOpts{MaxRequestsInFlight: mostScrapes})
}

// Gather implements prometheus.Gatherer. The families of tables do not go
// through a registry, which would look at each of their series several times.
func (m *Metrics) Gather() ([]*dto.MetricFamily, error) {
	v := m.look()
	if v != nil {
		m.events.prune(v)
	}
	all, err := m.process.Gather()
	if v != nil {
		all = append(all, m.tableFamilies(v)...)
	}
	if m.options.Carbon != nil {
		if stats, ok := m.options.Carbon(); ok {
			all = append(all, carbonFamilies(stats)...)
		}
	}
	if m.options.Queries != nil {
		if counts, ok := m.options.Queries(); ok {
			frames, frameErr := m.spoe.Gather()
			if err == nil {
				err = frameErr
			}
			all = append(all, frames...)
			all = append(all, messageFamily(counts))
		}
	}
	slices.SortFunc(all, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all, err
}
