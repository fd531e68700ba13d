package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// reloads tells of the configuration.
type reloads struct {
	now              func() time.Time
	good             prometheus.Gauge
	last, lastLoaded prometheus.Gauge
	total            *prometheus.CounterVec
}

func newReloads(now func() time.Time) *reloads {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
	}
	r := &reloads{
		now:        now,
		good:       gauge("config_last_reload_successful", "Whether the last attempt to load the configuration succeeded."),
		last:       gauge("config_last_reload_timestamp_seconds", "When the configuration was last tried to be loaded."),
		lastLoaded: gauge("config_last_reload_success_timestamp_seconds", "When the configuration in force was loaded."),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "config_reloads_total", Help: "Reloads of the configuration, by what became of them.",
		}, []string{"result"}),
	}
	r.total.WithLabelValues(resultOK)
	r.total.WithLabelValues(resultError)
	r.note(nil)
	return r
}

func (r *reloads) collectors() []prometheus.Collector {
	return []prometheus.Collector{r.good, r.last, r.lastLoaded, r.total}
}

// note takes the outcome of the start or of a reload.
func (r *reloads) note(err error) {
	at := float64(r.now().UnixNano()) / 1e9
	r.last.Set(at)
	r.good.Set(flag(err == nil))
	if err == nil {
		r.lastLoaded.Set(at)
	}
}

func (r *reloads) count(err error) {
	r.note(err)
	result := resultOK
	if err != nil {
		result = resultError
	}
	r.total.WithLabelValues(result).Inc()
}

// carbonFamilies shows what the reports to Graphite count.
func carbonFamilies(s CarbonStats) []*dto.MetricFamily {
	batches := newFamily(dto.MetricType_COUNTER, "carbon_batches_total", "Connections to carbon, by what became of them.", 2)
	batches.add(float64(s.Batches), labels("result", resultOK))
	batches.add(float64(s.Failures), labels("result", resultError))
	return batches.addTo([]*dto.MetricFamily{
		one(dto.MetricType_COUNTER, "carbon_lines_sent_total", "Lines that carbon has read.", float64(s.Sent)),
		one(dto.MetricType_COUNTER, "carbon_lines_dropped_total", "Lines given up because too many waited, or for too long.", float64(s.Dropped)),
		one(dto.MetricType_COUNTER, "carbon_lines_refused_total", "Values that can't be a line for carbon, and were not sent.", float64(s.Refused)),
		one(dto.MetricType_GAUGE, "carbon_lines_queued", "Lines that wait to be sent.", float64(s.Queued)),
		one(dto.MetricType_GAUGE, "carbon_failing", "Carbons whose newest delivery failed.", float64(s.Failing)),
	})
}
