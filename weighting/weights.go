package weighting

import "math"

// largestWeight is HAProxy's.
const largestWeight = 256

// round turns shares into integer weights: W = round(256 * p / largest p),
// limited to MinWeight..MaxWeight.
//
// Two cases take a smaller scale than 256 / largest p. While a server keeps
// its share, the scale of the weights in force is kept, so that its weight
// stays the very number it is, as long as all weights fit. And with max_step
// on, the scale rises no faster than half a step, or else small weights would
// all grow by the same step until they reach the scale, and not be balanced.
// What somebody else has set has no part in the scale.
func (p *pass) round() {
	full := largestWeight / maxOf(p.shares)
	s, text := full, "256 / largest share"
	if largest := p.stepScale(); largest < full {
		s, text = largest, "sum of the weights that the step starts from, raised by half of max_step"
	}
	kept := p.keptScale()
	keeps := kept > 0 && p.fits(kept, full)
	if keeps {
		s, text = kept, "scale at which servers without data, or with a pin, keep their weights"
	}
	for i := range p.entries {
		e := &p.entries[i]
		if e.pinned() {
			e.wanted, e.weight = e.kept(), e.kept()
			continue
		}
		share := p.shares[i]
		if w := float64(e.ours()); keeps && e.role == held && share == e.out.RawShare && math.Abs(s*share-w) < 1 {
			share = min(w/s, max(share, p.caps[i])) // no limit has changed it, so rounding must not either
		}
		e.wanted = p.limitWeight(e, share, s, text)
		e.weight = e.wanted
		if e.role == held && e.weight != e.ours() {
			e.out.because(StepRescale, float64(e.ours()), float64(e.weight),
				"it keeps its share, but not its weight: the weights of the others would not fit beside it")
		}
	}
}

func maxOf(values []float64) float64 {
	var m float64
	for _, v := range values {
		m = max(m, v)
	}
	return m
}

// keptScale is the scale of the weights in force as the held servers show it;
// 0 when there are none.
func (p *pass) keptScale() float64 {
	var weights, shares float64
	for i := range p.entries {
		if e := &p.entries[i]; e.keeps() {
			weights += float64(e.kept())
			shares += p.shares[i]
		}
	}
	if shares == 0 {
		return 0
	}
	return weights / shares
}

// fits tells whether the scale of the weights in force gives every server a
// weight within the limits, not counting those that the largest scale would
// not lift above MinWeight either.
func (p *pass) fits(scale, full float64) bool {
	low, high := float64(p.c.settings.MinWeight), float64(p.c.settings.MaxWeight)
	for i, share := range p.shares {
		if i >= p.weighed || math.Round(full*share) >= low {
			if w := math.Round(scale * share); w < low || w > high {
				return false
			}
		}
	}
	return true
}

// limitWeight rounds and limits one weight. scaleText says where the scale comes from.
func (p *pass) limitWeight(e *entry, share, scale float64, scaleText string) int {
	rounded := int(math.Round(min(max(scale*share, 0), largestWeight)))
	p.explainWeight(e, share, scale, rounded, scaleText)
	return p.bound(e, rounded)
}

// bound brings a weight within min_weight and max_weight.
func (p *pass) bound(e *entry, weight int) int {
	set := &p.c.settings
	w := min(max(weight, set.MinWeight, 1), set.MaxWeight, largestWeight)
	switch {
	case w > weight:
		e.out.because(StepMinWeight, float64(weight), float64(w), "no weight below min_weight")
	case w < weight:
		e.out.because(StepMaxWeight, float64(weight), float64(w), "no weight above max_weight")
	}
	return w
}
