package metrics

import (
	dto "github.com/prometheus/client_model/go"
)

// cell is one series with all that it is made of, so that a family of thousands
// is one allocation.
type cell struct {
	metric  dto.Metric
	gauge   dto.Gauge
	counter dto.Counter
	value   float64
}

// family is a metric family that grows. It has room for a fixed number of
// series.
type family struct {
	name, help string
	kind       dto.MetricType
	cells      []cell
	metrics    []*dto.Metric
}

func newFamily(kind dto.MetricType, name, help string, room int) *family {
	return &family{
		name: prefix + name, help: help, kind: kind,
		cells: make([]cell, room), metrics: make([]*dto.Metric, 0, room),
	}
}

// add appends a series. labels are sorted by name and may be shared.
func (f *family) add(value float64, labels []*dto.LabelPair) {
	c := &f.cells[len(f.metrics)]
	c.value = value
	c.metric.Label = labels
	if f.kind == dto.MetricType_COUNTER {
		c.counter.Value = &c.value
		c.metric.Counter = &c.counter
	} else {
		c.gauge.Value = &c.value
		c.metric.Gauge = &c.gauge
	}
	f.metrics = append(f.metrics, &c.metric)
}

// addTo appends the family to all, unless it has no series.
func (f *family) addTo(all []*dto.MetricFamily) []*dto.MetricFamily {
	if len(f.metrics) == 0 {
		return all
	}
	return append(all, &dto.MetricFamily{Name: &f.name, Help: &f.help, Type: &f.kind, Metric: f.metrics})
}

// pair makes a label.
func pair(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

// labels makes a list of labels of names and values in turn; the names are to
// be sorted.
func labels(namesAndValues ...string) []*dto.LabelPair {
	pairs := make([]*dto.LabelPair, 0, len(namesAndValues)/2)
	for i := 0; i < len(namesAndValues); i += 2 {
		pairs = append(pairs, pair(namesAndValues[i], namesAndValues[i+1]))
	}
	return pairs
}

// one is a family of one series without labels.
func one(kind dto.MetricType, name, help string, value float64) *dto.MetricFamily {
	f := newFamily(kind, name, help, 1)
	f.add(value, nil)
	return f.addTo(nil)[0]
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
