package metrics

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/haproxy-weighter/haproxy-weighter/internal/query"
	"github.com/haproxy-weighter/haproxy-weighter/spoa"
)

// frames counts what the SPOE agent does. HAProxy waits meanwhile: every counter
// is at hand, and nothing is allocated.
type frames struct {
	answered *prometheus.CounterVec
	duration prometheus.Histogram
	opened   prometheus.Counter
	closed   *prometheus.CounterVec
	open     prometheus.Gauge
	byResult [len(spoa.Results{})]prometheus.Counter
	byReason [spoa.ReasonPanic + 1]prometheus.Counter
}

func newFrames() *frames {
	f := &frames{
		answered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "spoe_frames_total", Help: "NOTIFY frames from HAProxy, by what became of them.",
		}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "spoe_frame_duration_seconds",
			Help: "Time from having read a NOTIFY frame to having written its ACK.",
			Buckets: []float64{
				10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 20e-3, 50e-3, 100e-3, 1,
			},
		}),
		opened: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "spoe_connections_opened_total", Help: "Connections from HAProxy that were accepted.",
		}),
		closed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "spoe_connections_closed_total", Help: "Connections from HAProxy that have ended, by reason.",
		}, []string{"reason"}),
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: prefix + "spoe_connections", Help: "Connections from HAProxy that are open.",
		}),
	}
	for i := range f.byResult {
		f.byResult[i] = f.answered.WithLabelValues(spoa.Result(i).String())
	}
	for i := range f.byReason {
		f.byReason[i] = f.closed.WithLabelValues(spoa.Reason(i).String())
	}
	return f
}

func (f *frames) collectors() []prometheus.Collector {
	return []prometheus.Collector{f.answered, f.duration, f.opened, f.closed, f.open}
}

// Opened implements spoa.Observer.
func (f *frames) Opened() {
	f.opened.Inc()
	f.open.Inc()
}

// Closed implements spoa.Observer.
func (f *frames) Closed(reason spoa.Reason) {
	f.open.Dec()
	if int(reason) < len(f.byReason) {
		f.byReason[reason].Inc()
		return
	}
	f.closed.WithLabelValues(reason.String()).Inc()
}

// Answered implements spoa.Observer. Every frame of one read has waited for the
// write that ended them all.
func (f *frames) Answered(results spoa.Results, took time.Duration) {
	seconds := took.Seconds()
	for i, n := range results {
		if n == 0 {
			continue
		}
		f.byResult[i].Add(float64(n))
		for range n {
			f.duration.Observe(seconds)
		}
	}
}

// messageFamily shows the counts of SPOE messages.
func messageFamily(counts query.Counts) *dto.MetricFamily {
	f := newFamily(dto.MetricType_COUNTER, "spoe_messages_total", "SPOE messages, by what became of them.", 3*len(counts.ByMessage)+1)
	add := func(message, result string, n uint64) {
		f.add(float64(n), labels("message", message, "result", result))
	}
	for _, name := range slices.Sorted(maps.Keys(counts.ByMessage)) {
		m := counts.ByMessage[name]
		add(name, "answered", m.Answered)
		add(name, "not-found", m.NotFound)
		add(name, "refused", m.Refused)
	}
	add("unknown", "refused", counts.Unknown)
	return f.addTo(nil)[0]
}
