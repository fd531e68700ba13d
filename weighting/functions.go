package weighting

import (
	"cmp"
	"math"
	"slices"
)

// The functions below fill dst with shares: positive or zero, summing to 1.
// loads are finite and not negative, capacities are above zero, and all slices
// have one length; dst may be loads itself. When every load is zero, or no
// share comes out above zero, shares follow the capacities.
//
// u stands for a server's load over its capacity, ubar for the total load over
// the total capacity.

// largestExponent keeps exp() and the sum of many of them inside a float64.
const largestExponent = 600

// floorDivisor: no share of limited-proportions is below 1/64 of the average.
const floorDivisor = 64

// LimitedProportionsShares is the function "limited-proportions": inverse
// proportions q = ubar / max(u, ubar/limitingFactor), spread about their
// capacity-weighted mean qbar by aggressiveness:
//
//	s = c * max(qbar/64, qbar + aggressiveness*(q - qbar))
//
// Aggressiveness scales the standard deviation of the shares exactly until the
// floor qbar/64 binds; 1 is plain inverse proportion.
//
// Source: Hosted Graphite's description of its weighter (LIMITING_FACTOR,
// AGGRESSIVENESS_FACTOR), which fixes the words; the algebra is ours.
func LimitedProportionsShares(dst, loads, capacities []float64, limitingFactor, aggressiveness float64) {
	limitedProportions(dst, loads, capacities, limitingFactor, aggressiveness)
	normalise(dst, capacities)
}

func limitedProportions(dst, loads, capacities []float64, limitingFactor, aggressiveness float64) (qbar float64) {
	ubar := meanLoad(loads, capacities)
	if ubar == 0 {
		copy(dst, capacities)
		return 1
	}
	var total, capacity float64
	for i, c := range capacities {
		dst[i] = inverse(loads[i]/c/ubar, limitingFactor)
		total += c * dst[i]
		capacity += c
	}
	qbar = total / capacity
	for i, c := range capacities {
		dst[i] = c * spread(dst[i], qbar, aggressiveness)
	}
	return qbar
}

func inverse(relative, limitingFactor float64) float64 {
	return 1 / max(relative, 1/limitingFactor)
}

func spread(q, qbar, aggressiveness float64) float64 {
	return max(qbar/floorDivisor, qbar+aggressiveness*(q-qbar))
}

// NormalisedExponentialShares is the function "normalised-exponential":
//
//	s = c * exp(-aggressiveness * (u/ubar - 1))
//
// Source: Hosted Graphite's description of its weighter ("normalised
// exponential distribution").
func NormalisedExponentialShares(dst, loads, capacities []float64, aggressiveness float64) {
	normalisedExponential(dst, loads, capacities, aggressiveness)
	normalise(dst, capacities)
}

func normalisedExponential(dst, loads, capacities []float64, aggressiveness float64) {
	ubar := meanLoad(loads, capacities)
	if ubar == 0 {
		copy(dst, capacities)
		return
	}
	for i, c := range capacities {
		dst[i] = c * exponential(loads[i]/c/ubar, aggressiveness)
	}
}

func exponential(relative, aggressiveness float64) float64 {
	return math.Exp(-min(aggressiveness, largestExponent) * (relative - 1))
}

// WaterFillShares is the function "water-fill": new load of the amount
// arrivals (> 0, in the unit of loads) is poured in from the bottom until it
// stands at one level W over all servers that get any:
//
//	sum of max(0, W*c - L) = arrivals;   s = max(0, W*c - L)
//
// limits, when not nil, are the largest shares (0..1, summing to at least 1):
// what a server may not take raises the level for the others. It returns W,
// which is of no use, and can be +Inf, when every server stands at its limit.
//
// Source: Dahlin, Interpreting Stale Load Information, IEEE TPDS 11(10), 2000,
// applied to load instead of counts.
func WaterFillShares(dst, loads, capacities []float64, arrivals float64, limits []float64) (level float64) {
	level = waterLevel(loads, capacities, arrivals, limits)
	for i, c := range capacities {
		dst[i] = pour(level, loads[i], c)
		if limits != nil {
			dst[i] = min(dst[i], limits[i]*arrivals)
		}
	}
	normalise(dst, capacities)
	return level
}

func pour(level, load, capacity float64) float64 {
	return max(0, level*capacity-load)
}

// bend is a level at which the speed of filling changes.
type bend struct{ level, slope float64 }

func waterLevel(loads, capacities []float64, arrivals float64, limits []float64) float64 {
	bends := make([]bend, 0, 2*len(loads))
	for i, c := range capacities {
		u := loads[i] / c
		bends = append(bends, bend{u, c})
		if limits != nil {
			bends = append(bends, bend{u + limits[i]*arrivals/c, -c})
		}
	}
	slices.SortFunc(bends, func(a, b bend) int { return cmp.Compare(a.level, b.level) })
	var filled, slope, level float64
	for _, b := range bends {
		add := slope * (b.level - level)
		if slope > 0 && filled+add >= arrivals {
			break
		}
		filled += add
		level = b.level
		slope += b.slope
	}
	if slope <= 0 {
		return math.Inf(1)
	}
	return level + (arrivals-filled)/slope
}

// The gains of feedback. The proportional gain is never above 1: beyond it the
// connection count swings about its target.
const (
	FeedbackKp = 1.0
	FeedbackKi = 0.05
	// feedbackReach is how far a log weight may go from the log of its capacity.
	feedbackReach = 3
)

// FeedbackShares is the function "feedback": one step of a proportional and
// integral controller on each server's log weight, with e = 1 - u/ubar
// limited to -1..1:
//
//	log += Ki*steps*e + Kp*(e - previous)
//
// then the mean of (log - ln c) is taken off and log is limited to ln c +- 3;
// s = exp(log). logs and previous (the errors of the pass before) are the
// state and are updated; steps is the interval over 30 s. A load of NaN freezes
// its server: it has no part in ubar, and log and previous stay. It returns the
// mean that was taken off, and the sum of exp(log).
//
// Source: the velocity form of a PI controller, acting on the logarithm so
// that weights stay positive and a step is relative.
func FeedbackShares(dst, loads, capacities, logs, previous []float64, steps float64) (mean, all float64) {
	var total, capacity float64
	for i, c := range capacities {
		if !math.IsNaN(loads[i]) {
			total += loads[i]
			capacity += c
		}
	}
	ubar := total / capacity
	for i, c := range capacities {
		if !math.IsNaN(loads[i]) && ubar > 0 {
			e := min(max(1-loads[i]/c/ubar, -1), 1)
			logs[i] += FeedbackKi*steps*e + FeedbackKp*(e-previous[i])
			previous[i] = e
		}
		mean += logs[i] - math.Log(c)
	}
	mean /= float64(len(logs))
	for i, c := range capacities {
		l := math.Log(c)
		logs[i] = min(max(logs[i]-mean, l-feedbackReach), l+feedbackReach)
		dst[i] = math.Exp(logs[i])
	}
	return mean, normalise(dst, capacities)
}

// HigherIsBetter turns values of which more is better, such as free disk, into
// loads: max + min - value. It keeps the spread, not the ratios: the best
// server gets the least value as its load, and equal values stay as they are.
// A server that joins with an extreme value shifts the loads of all others.
func HigherIsBetter(values []float64) {
	if len(values) == 0 {
		return
	}
	sum := slices.Max(values) + slices.Min(values)
	for i, v := range values {
		values[i] = sum - v
	}
}

// meanLoad is ubar.
func meanLoad(loads, capacities []float64) float64 {
	var total, capacity float64
	for i, c := range capacities {
		total += loads[i]
		capacity += c
	}
	return total / capacity
}

// normalise makes dst sum to 1 and returns the sum it had. Without any
// positive share it takes the capacities.
func normalise(dst, capacities []float64) float64 {
	var sum float64
	for _, s := range dst {
		sum += s
	}
	if !(sum > 0) || math.IsInf(sum, 0) {
		copy(dst, capacities)
		var c float64
		for _, s := range dst {
			c += s
		}
		sum = c
	}
	for i := range dst {
		dst[i] /= sum
	}
	return sum
}
