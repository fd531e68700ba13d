package weighting

import (
	"cmp"
	"math"
	"slices"
)

// warmLift is how far the ramps of others may lift a server: times its wanted
// share, or times its fair share, of a busier one by so much less as its load is
// above the mean.
const warmLift = 1.5

// limitShares applies the share cap and the cold ramp. What a server may not
// take goes to the others by the same function.
func (p *pass) limitShares() {
	before := append([]float64(nil), p.shares...)
	p.setCeilings()
	p.limitTo(p.ceilings)
	ramped := p.setCaps()
	if exceeds(p.shares, p.caps) {
		copy(p.shares, before)
		p.limitTo(p.caps)
	}
	for i := range p.entries {
		p.explainLimit(&p.entries[i], before[i], p.shares[i], p.caps[i], ramped[i], p.ceilings[i])
	}
}

// limitTo brings the shares under limits that sum to 1 or more.
func (p *pass) limitTo(limits []float64) {
	n := p.weighed
	rest, restLimits := sum(p.shares[:n]), sum(limits[:n])
	// Fixed shares stay as they are unless one of the two sides cannot hold its part.
	rest = min(max(rest, 1-sum(limits[n:])), restLimits)
	if n == len(p.shares) {
		rest = 1
	}
	if p.c.settings.Function == WaterFill && exceeds(p.shares[:n], limits[:n]) {
		scaled := append([]float64(nil), limits[:n]...)
		scale(scaled, 1/rest)
		WaterFillShares(p.shares[:n], p.loads[:n], p.capacities[:n], p.arrivals, scaled)
		scale(p.shares[:n], rest)
	}
	fill(p.shares[:n], limits[:n], p.capacities[:n], rest)
	fill(p.shares[n:], limits[n:], p.capacities[n:], 1-rest)
}

func exceeds(shares, caps []float64) bool {
	for i, s := range shares {
		if s > caps[i] {
			return true
		}
	}
	return false
}

// setCeilings works out each entry's largest share if nobody were cold.
func (p *pass) setCeilings() {
	limit := p.c.settings.MaxShare
	if p.c.settings.Function == Feedback { // weights are count targets
		limit = math.Inf(1)
	}
	total := sum(p.capacities)
	for i := range p.entries {
		if p.entries[i].pinned() { // no more and no less
			p.ceilings[i] = p.shares[i]
			continue
		}
		p.ceilings[i] = limit * p.capacities[i] / total
	}
	if room := sum(p.ceilings); room < 1 { // beside pins: they are relative too
		scale(p.ceilings, 1/room)
	}
}

// setCaps works out each entry's largest share while some are cold; before it,
// shares are what the function wants within the ceilings. A ramp protects its
// server from too many connections, but it must not send them to one that has
// too many already: a warm server is lifted to warmLift times its wanted share at
// most, or warmLift fair shares, less by so much as its load is above the mean,
// if that is more. So a few cold servers change nothing between the others. What
// is left over then goes to the cold ones, beyond their ramps. So a backend of
// which most has just started is balanced nearly as usual. It returns the caps
// as the ramps alone have them.
func (p *pass) setCaps() (ramped []float64) {
	total := sum(p.capacities)
	room := make([]float64, len(p.entries)) // what cold servers take beyond their ramps is in proportion to it
	for i := range p.entries {
		e := &p.entries[i]
		fair := p.capacities[i] / total
		eased := fair
		if e.relative > 1 {
			eased /= e.relative
		}
		switch {
		case e.pinned():
			p.caps[i] = p.shares[i]
		case e.isCold():
			p.caps[i], room[i] = min(p.ceilings[i], e.cold*fair), eased
		default:
			p.caps[i] = min(p.ceilings[i], warmLift*max(p.shares[i], eased))
		}
	}
	ramped = append(ramped, p.caps...)
	raise(p.caps, p.ceilings, room, 1-sum(p.caps)) // enough: at the ceilings there is room for all that is wanted
	return ramped
}

// raise lifts the lowest of the caps, in units of their rooms, to one common
// level until together they have risen by missing or are all at their ceilings.
// Those without room stay.
func raise(caps, ceilings, rooms []float64, missing float64) {
	if missing <= 0 {
		return
	}
	var bends []bend
	for i, r := range rooms {
		if r > 0 {
			bends = append(bends, bend{caps[i] / r, r})
			if !math.IsInf(ceilings[i], 1) {
				bends = append(bends, bend{ceilings[i] / r, -r})
			}
		}
	}
	slices.SortFunc(bends, func(a, b bend) int { return cmp.Compare(a.level, b.level) })
	var level, slope float64
	for _, b := range bends {
		if add := slope * (b.level - level); slope > 0 && add >= missing {
			break
		} else if slope > 0 {
			missing -= add
		}
		level = b.level
		slope += b.slope
	}
	if slope > 0 {
		level += missing / slope
	}
	for i, r := range rooms {
		if r > 0 {
			caps[i] = min(max(caps[i], level*r), ceilings[i])
		}
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
