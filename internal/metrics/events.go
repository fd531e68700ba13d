package metrics

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// events counts what balancers do. All series of a backend or a command begin
// at 0 together, so that the first failure is an increase that Prometheus sees.
type events struct {
	renders    *prometheus.CounterVec   // proxy, result
	renderTime *prometheus.HistogramVec // proxy
	asked      *prometheus.CounterVec   // socket, command, result
	askedTime  *prometheus.HistogramVec // socket, command
	passes     *prometheus.CounterVec   // proxy, socket, verdict
	changes    *prometheus.CounterVec   // proxy, socket
	foreign    *prometheus.CounterVec   // proxy, socket

	mu       sync.Mutex // also held while a series is made or removed
	backends map[string]bool
	commands map[string]map[string]bool // by socket
	feeds    map[feed]bool
}

// feed is one backend on one HAProxy.
type feed struct{ proxy, socket string }

func newEvents() *events {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets}, labels)
	}
	return &events{
		renders: counter("graphite_renders_total", "Requests to Graphite, by what became of them.", "proxy", "result"),
		renderTime: histogram("graphite_render_duration_seconds", "Time of a request to Graphite, up to the whole answer.",
			[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}, "proxy"),
		asked: counter("runtime_requests_total", "Exchanges with HAProxy's runtime socket, by what became of them.", "socket", "command", "result"),
		askedTime: histogram("runtime_request_duration_seconds", "Time of an exchange with HAProxy's runtime socket, with the wait for a connection.",
			[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}, "socket", "command"),
		passes:   counter("backend_passes_total", "Passes, by what they wanted done.", "proxy", "socket", "verdict"),
		changes:  counter("backend_weight_changes_total", "Weights written to HAProxy.", "proxy", "socket"),
		foreign:  counter("backend_foreign_weights_total", "Weights that a pass found set by somebody else.", "proxy", "socket"),
		backends: make(map[string]bool), commands: make(map[string]map[string]bool), feeds: make(map[feed]bool),
	}
}

func (e *events) collectors() []prometheus.Collector {
	return []prometheus.Collector{e.renders, e.renderTime, e.asked, e.askedTime, e.passes, e.changes, e.foreign}
}

// Rendered implements balancer.Observer.
func (e *events) Rendered(backend string, err error, took time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.backends[backend] {
		e.backends[backend] = true
		for _, result := range renderResults {
			e.renders.WithLabelValues(backend, result)
		}
	}
	e.renders.WithLabelValues(backend, renderResult(err)).Inc()
	e.renderTime.WithLabelValues(backend).Observe(took.Seconds())
}

// Asked implements balancer.Observer.
func (e *events) Asked(socket, command string, err error, took time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.commands[socket] == nil {
		e.commands[socket] = make(map[string]bool)
	}
	if !e.commands[socket][command] {
		e.commands[socket][command] = true
		for _, result := range askedResults {
			e.asked.WithLabelValues(socket, command, result)
		}
	}
	e.asked.WithLabelValues(socket, command, askedResult(err)).Inc()
	e.askedTime.WithLabelValues(socket, command).Observe(took.Seconds())
}

// verdicts are all values of the label.
var verdicts = [...]weighting.Verdict{weighting.Write, weighting.Keep, weighting.Hold}

// Passed implements balancer.Observer.
func (e *events) Passed(t *balancer.Table) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f := (feed{t.Backend, t.Socket}); !e.feeds[f] {
		e.feeds[f] = true
		for _, v := range verdicts {
			e.passes.WithLabelValues(t.Backend, t.Socket, string(v))
		}
	}
	if slices.Contains(verdicts[:], t.Verdict) {
		e.passes.WithLabelValues(t.Backend, t.Socket, string(t.Verdict)).Inc()
	}
	e.changes.WithLabelValues(t.Backend, t.Socket).Add(float64(t.Changes))
	e.foreign.WithLabelValues(t.Backend, t.Socket).Add(float64(t.Foreign))
}

// prune removes the counts of what is no longer there: backends and sockets
// that the configuration has lost, and backends that a HAProxy has lost.
func (e *events) prune(v *view) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name := range e.backends {
		if v.backend(name) == nil {
			delete(e.backends, name)
			gone := prometheus.Labels{"proxy": name}
			e.renders.DeletePartialMatch(gone)
			e.renderTime.DeletePartialMatch(gone)
		}
	}
	for socket := range e.commands {
		if !slices.Contains(v.sockets, socket) {
			delete(e.commands, socket)
			gone := prometheus.Labels{"socket": socket}
			e.asked.DeletePartialMatch(gone)
			e.askedTime.DeletePartialMatch(gone)
		}
	}
	there := make(map[feed]bool, len(v.tables))
	for _, t := range v.tables {
		there[feed{t.Backend, t.Socket}] = true
	}
	for f := range e.feeds {
		if !there[f] {
			delete(e.feeds, f)
			gone := prometheus.Labels{"proxy": f.proxy, "socket": f.socket}
			e.passes.DeletePartialMatch(gone)
			e.changes.DeletePartialMatch(gone)
			e.foreign.DeletePartialMatch(gone)
		}
	}
}
