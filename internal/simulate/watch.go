package simulate

import (
	"math"
	"slices"
)

// watch collects what one run shows after the warm-up.
type watch struct {
	on        bool
	imbalance []float32 // max/mean, one a step
	squares   float64   // sum of the squared coefficients of variation
	drawn     []float64 // by server: largest share of the mean load seen
	traced    bool
	loads     [][]float32 // by server, one a step; only when traced
}

// look records the spread of the servers that are up.
func (h *watch) look(w *world, factor float64) {
	if !h.on {
		return
	}
	load, capacity := 0.0, 0.0
	for i := range w.servers {
		if s := &w.servers[i]; !s.down {
			load += s.load
			capacity += s.capacity
		}
	}
	mean := load / capacity
	most, squares := 0.0, 0.0
	for i := range w.servers {
		s := &w.servers[i]
		if h.traced {
			h.loads[i] = append(h.loads[i], float32(s.load*factor))
		}
		if s.down {
			continue
		}
		u := s.load / s.capacity / mean
		most = max(most, u)
		h.drawn[i] = max(h.drawn[i], u)
		squares += s.capacity / capacity * (u - 1) * (u - 1)
	}
	if load > 0 {
		h.imbalance = append(h.imbalance, float32(most))
		h.squares += squares
	}
}

// Result is what one run of one policy with one seed showed.
type Result struct {
	Imbalance float64 `json:"imbalance"`     // time-mean of max/mean
	P99       float64 `json:"imbalance_p99"` // 99th percentile of max/mean over time
	Excess    float64 `json:"excess"`        // Imbalance - 1
	CV        float64 `json:"cv"`            // root of the time-mean of the squared CV of the loads
	// Gain is the share of the possible gain: 0 as equal weights, 1 as the
	// bound. NaN when one of the two was not run.
	Gain float64 `json:"share_of_gain"`
	// Recovery is how many seconds after it came back a server restarted empty
	// had 80 % of the mean load; NaN when not asked, +Inf when not within the limit.
	Recovery  float64 `json:"recovery_seconds"`
	Overshoot float64 `json:"overshoot"` // most load of that server over the mean in the same time again and 10 min
	Churn     float64 `json:"churn"`     // sum |change of weight| a minute and balancer
	Writes    float64 `json:"writes"`    // passes that wrote, a minute and balancer
	Changes   float64 `json:"changes"`   // weights written, a minute and balancer
	Held      float64 `json:"held"`      // fraction of passes that held
	// Means over the passes of what the function was told and what it made of it.
	Lifetime  float64 `json:"lifetime_seconds"`
	Delay     float64 `json:"delay_seconds"`
	LocalGain float64 `json:"local_gain"`

	Series []float32   `json:"-"` // max/mean, one a step
	Loads  [][]float32 `json:"-"` // by server, one a step, when traced
	Most   []float64   `json:"-"` // by server: highest load over the mean
}

// result works out the measured part of a Result.
func (w *world) result(minutes float64) Result {
	h := &w.watch
	var r Result
	sum := 0.0
	for _, x := range h.imbalance {
		sum += float64(x)
	}
	n := float64(len(h.imbalance))
	r.Imbalance = sum / n
	r.Excess = r.Imbalance - 1
	r.CV = math.Sqrt(h.squares / n)
	sorted := slices.Clone(h.imbalance)
	slices.Sort(sorted)
	r.P99 = float64(sorted[min(len(sorted)-1, int(0.99*n))])
	r.Gain, r.Recovery, r.Overshoot = math.NaN(), math.NaN(), math.NaN()
	r.Series, r.Loads, r.Most = h.imbalance, h.loads, h.drawn
	b := float64(len(w.balancers))
	for _, x := range w.balancers {
		t := &x.tally
		passes := max(1, float64(t.passes)) * b
		r.Churn += t.churn / minutes / b
		r.Writes += float64(t.writes) / minutes / b
		r.Changes += float64(t.changes) / minutes / b
		r.Held += float64(t.held) / passes
		r.Lifetime += t.lifetime / passes
		r.Delay += t.delay / passes
		r.LocalGain += t.gain / passes
	}
	return r
}
