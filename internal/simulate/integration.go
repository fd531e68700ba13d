package simulate

import (
	"math"

	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// integration is a yardstick, not a policy to use: each pass it adds to every
// weight a step towards the mean load, as balancers of short requests do. The
// plant integrates already, so two integrators stand in one loop and it rings.
type integration struct {
	step     float64
	min, max int
	weights  []float64 // a unit of capacity, mean 1
}

// Decide adds one step. Servers without data or out of rotation stay as they are.
func (g *integration) Decide(in weighting.Input) *weighting.Decision {
	if g.weights == nil {
		g.weights = make([]float64, len(in.Servers))
		for i := range g.weights {
			g.weights[i] = 1
		}
	}
	load, capacity := 0.0, 0.0
	for _, s := range in.Servers {
		if usable(s) {
			load += s.Load
			capacity += s.Capacity
		}
	}
	d := &weighting.Decision{Verdict: weighting.Hold, Servers: make([]weighting.ServerDecision, len(in.Servers))}
	if load <= 0 {
		return d
	}
	d.Verdict = weighting.Write
	for i, s := range in.Servers {
		if usable(s) {
			e := 1 - s.Load/s.Capacity/(load/capacity)
			g.weights[i] = max(0.01, g.weights[i]+g.step*max(-1, min(1, e)))
		}
	}
	g.normalise()
	heaviest := 0.0
	for i, s := range in.Servers {
		heaviest = max(heaviest, g.weights[i]*s.Capacity)
	}
	for i, s := range in.Servers {
		w := int(math.Round(256 * g.weights[i] * s.Capacity / heaviest))
		d.Servers[i] = weighting.ServerDecision{Name: s.Name, Weight: max(g.min, min(g.max, w))}
	}
	return d
}

func (g *integration) normalise() {
	sum := 0.0
	for _, w := range g.weights {
		sum += w
	}
	for i := range g.weights {
		g.weights[i] *= float64(len(g.weights)) / sum
	}
}

func usable(s weighting.Server) bool {
	return s.Rotation == weighting.InRotation && !math.IsNaN(s.Load)
}
