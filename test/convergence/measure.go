package main

import (
	"math"
	"slices"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/ingest"
)

// measured is how evenly one trial spread its clients, over the seconds that
// count.
type measured struct {
	MaxMean   float64 `json:"max_over_mean"`     // time-mean
	P99       float64 `json:"max_over_mean_p99"` // over the seconds
	Excess    float64 `json:"excess"`            // max_over_mean - 1: 0 is perfectly even
	CV        float64 `json:"cv"`                // time-mean of standard deviation over mean
	Seconds   int     `json:"seconds"`           // that count
	Disturbed int     `json:"disturbed"`         // seconds that would count, had this machine kept up
}

// tolerance is how far what the servers receive in a second may lie from what
// the plan's clients send in it. Beyond, the machine did not keep up, and how
// the load was spread in that second says nothing of the policy.
const tolerance = 0.15

// measure reduces loads (of every server, one row a second) from the given
// second on. offered has what the clients send in each second; nil means that
// every second counts.
func measure(loads [][]float64, from int, offered []float64) measured {
	var m measured
	var all []float64
	for i := from; i < len(loads); i++ {
		if !keptUp(loads, offered, i) {
			m.Disturbed++
			continue
		}
		_, maxMean, cv := spread(loads[i])
		m.MaxMean += maxMean
		m.CV += cv
		all = append(all, maxMean)
	}
	if m.Seconds = len(all); m.Seconds == 0 {
		return m
	}
	m.MaxMean /= float64(m.Seconds)
	m.CV /= float64(m.Seconds)
	m.Excess = m.MaxMean - 1
	slices.Sort(all)
	m.P99 = all[int(math.Ceil(0.99*float64(len(all))))-1]
	return m
}

// keptUp tells whether a second can be judged at all.
func keptUp(loads [][]float64, offered []float64, second int) bool {
	mean, _, _ := spread(loads[second])
	if offered == nil {
		return mean > 0
	}
	return mean > 0 && math.Abs(mean*float64(len(loads[second]))/offered[second]-1) <= tolerance
}

// spread is how uneven a set of loads is; ratios are 0 when all loads are.
func spread(loads []float64) (mean, maxMean, cv float64) {
	for _, v := range loads {
		mean += v / float64(len(loads))
	}
	if mean == 0 {
		return 0, 0, 0
	}
	variance := 0.0
	for _, v := range loads {
		variance += (v - mean) * (v - mean) / float64(len(loads))
	}
	return mean, slices.Max(loads) / mean, math.Sqrt(variance) / mean
}

// leastLoaded computes the floor: the loads if each client of a plan joined
// the least loaded server, known exactly and at once.
func leastLoaded(plan []ingest.Arrival, servers, seconds int) [][]float64 {
	times := make([]time.Duration, seconds)
	for i := range times {
		times[i] = time.Duration(i+1) * time.Second
	}
	return ingest.LeastLoaded(plan, servers, times)
}
