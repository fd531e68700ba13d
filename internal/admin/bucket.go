package admin

import "math"

// bucket adds up samples to one that stands for all of them: the means of loads
// and of max over mean, and the newest weights.
type bucket struct {
	begun     bool
	begin     int64 // seconds since 1970
	end       int64 // the first moment that is not in it
	times     mean
	imbalance mean
	loads     []mean
	weights   []int16
}

// mean is of what has been added; NaN is left out.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) {
	if !math.IsNaN(v) {
		m.sum, m.n = m.sum+v, m.n+1
	}
}

// value is NaN when nothing was added.
func (m *mean) value() float64 { return m.sum / float64(m.n) }

func (b *bucket) add(r *sample) {
	b.times.add(float64(r.at))
	b.imbalance.add(float64(r.imbalance))
	for len(b.loads) < len(r.cells) {
		b.loads, b.weights = append(b.loads, mean{}), append(b.weights, -1)
	}
	for i, c := range r.cells {
		b.loads[i].add(float64(c.load))
		if c.weight >= 0 {
			b.weights[i] = c.weight
		}
	}
}

// sample is what stands for all samples; it is in the middle of them.
func (b *bucket) sample() sample {
	r := sample{at: int64(b.times.value()), imbalance: float32(b.imbalance.value()), cells: make([]cell, len(b.loads))}
	for i := range b.loads {
		r.cells[i] = cell{load: float32(b.loads[i].value()), weight: b.weights[i]}
	}
	return r
}

// keep drops the cells that are not used.
func (b *bucket) keep(used []bool) {
	n := 0
	for i := range b.loads {
		if used[i] {
			b.loads[n], b.weights[n] = b.loads[i], b.weights[i]
			n++
		}
	}
	b.loads, b.weights = b.loads[:n], b.weights[:n]
}
