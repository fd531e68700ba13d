package weighting

import "math"

// limitShares applies the share cap and the cold ramp. What a server may not
// take goes to the others by the same function.
func (p *pass) limitShares() {
	p.setCaps()
	n := p.weighed
	before := append([]float64(nil), p.shares...)
	rest, restCaps := sum(p.shares[:n]), sum(p.caps[:n])
	fixedCaps := sum(p.caps[n:])
	// Fixed shares stay as they are unless one of the two sides cannot hold its part.
	rest = min(max(rest, 1-fixedCaps), restCaps)
	if n == len(p.shares) {
		rest = 1
	}
	if p.c.settings.Function == WaterFill && exceeds(p.shares[:n], p.caps[:n]) {
		limits := append([]float64(nil), p.caps[:n]...)
		scale(limits, 1/rest)
		WaterFillShares(p.shares[:n], p.loads[:n], p.capacities[:n], p.arrivals, limits)
		scale(p.shares[:n], rest)
	}
	fill(p.shares[:n], p.caps[:n], p.capacities[:n], rest)
	fill(p.shares[n:], p.caps[n:], p.capacities[n:], 1-rest)
	for i := range p.entries {
		p.explainLimit(&p.entries[i], before[i], p.shares[i], p.caps[i], p.ceilings[i])
	}
}

func exceeds(shares, caps []float64) bool {
	for i, s := range shares {
		if s > caps[i] {
			return true
		}
	}
	return false
}

// setCaps works out each entry's largest share. Cold caps too tight to hold
// all connections are widened together, by one factor, up to the share cap of
// the servers that are not cold: so a backend that has just started as a
// whole is balanced as usual, and the one server that has not just started
// is not flooded.
func (p *pass) setCaps() {
	limit := p.c.settings.MaxShare
	if p.c.settings.Function == Feedback { // weights are count targets
		limit = math.Inf(1)
	}
	total := sum(p.capacities)
	for i := range p.entries {
		if p.entries[i].pinned() { // no more and no less
			p.ceilings[i], p.caps[i] = p.shares[i], p.shares[i]
			continue
		}
		fair := p.capacities[i] / total
		p.ceilings[i] = limit * fair
		p.caps[i] = min(limit, p.entries[i].cold) * fair
	}
	widen(p.caps, p.ceilings)
}

// widen raises the caps below their ceiling by one factor until all sum to 1;
// it does nothing when they do already.
func widen(caps, ceilings []float64) {
	for {
		var loose, tight float64
		for i, c := range caps {
			if c < ceilings[i] {
				loose += c
			} else {
				tight += c
			}
		}
		if loose+tight >= 1 {
			return
		}
		if loose == 0 { // ceilings below 1 in sum: they are relative too
			scale(caps, 1/tight)
			return
		}
		factor, hit := (1-tight)/loose, false
		for i, c := range caps {
			if c < ceilings[i] && c*factor >= ceilings[i] {
				caps[i], hit = ceilings[i], true
			}
		}
		if hit {
			continue
		}
		for i, c := range caps {
			if c < ceilings[i] {
				caps[i] = c * factor
			}
		}
		return
	}
}

// fill scales shares by one factor, none beyond its cap, until they sum to
// total: min(cap, factor*share). Where only shares of zero are left to take
// more, they take it by capacity. When the caps sum to no more than total
// every share is at its cap.
func fill(shares, caps, capacities []float64, total float64) {
	full := make([]bool, len(shares))
	for range shares { // each round but the last fills at least one
		left, open := total, 0.0
		for i, s := range shares {
			if full[i] {
				left -= caps[i]
			} else {
				open += s
			}
		}
		if open <= 0 {
			for i := range shares {
				if !full[i] {
					shares[i] = capacities[i]
					open += shares[i]
				}
			}
		}
		if open <= 0 {
			return
		}
		factor, more := max(left, 0)/open, false
		for i, s := range shares {
			if !full[i] && s*factor > caps[i] {
				full[i], more = true, true
				shares[i] = caps[i]
			}
		}
		if !more {
			for i := range shares {
				if !full[i] {
					shares[i] *= factor
				}
			}
			return
		}
	}
}
