package demo

import (
	"math"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/ingest"
)

// spread is how uneven a set of loads is.
type spread struct {
	Mean    float64 // of the loads
	Max     float64
	MaxMean float64 // Max over Mean; NaN without load
	CV      float64 // standard deviation over Mean; NaN without load
}

// spreadOf measures loads, of which there is at least one.
func spreadOf(loads []float64) spread {
	var s spread
	for _, v := range loads {
		s.Mean += v / float64(len(loads))
		s.Max = max(s.Max, v)
	}
	variance := 0.0
	for _, v := range loads {
		variance += (v - s.Mean) * (v - s.Mean) / float64(len(loads))
	}
	s.MaxMean, s.CV = math.NaN(), math.NaN()
	if s.Mean > 0 {
		s.MaxMean, s.CV = s.Max/s.Mean, math.Sqrt(variance)/s.Mean
	}
	return s
}

// Measured is what one phase came to, over the seconds that count. A phase of
// which no second counted has zeros.
type Measured struct {
	Name         string             `json:"name"`
	MaxMean      float64            `json:"max_over_mean"`   // time-mean
	CV           float64            `json:"cv"`              // time-mean of standard deviation over mean
	HighestLoad  float64            `json:"highest_load"`    // of any server in any second, datapoints/s
	MeanLoad     float64            `json:"mean_load"`       // of a server, datapoints/s
	Seconds      int                `json:"seconds"`         // that count
	Disturbed    int                `json:"disturbed"`       // seconds that would count, had this machine kept up
	WeightsMoved int                `json:"weights_changed"` // during the whole phase
	Clients      ingest.ClientStats `json:"clients"`         // at the end of the phase
}

// tolerance is how far what the servers receive in a second may lie from what
// the plan's clients send. Beyond it the machine did not keep up, and how the
// load was spread in that second says nothing of the weights.
const tolerance = 0.25

// measure reduces samples (one a second, the loads of all servers) from the
// given second on. offered has what the clients send in each second; nil means
// that every second counts.
func measure(name string, samples [][]float64, from int, offered []float64) Measured {
	m := Measured{Name: name}
	for i, loads := range samples {
		s := spreadOf(loads)
		switch {
		case i < from:
			continue
		case math.IsNaN(s.MaxMean):
			m.Disturbed++
			continue
		case offered != nil && math.Abs(s.Mean*float64(len(loads))/offered[i]-1) > tolerance:
			m.Disturbed++
			continue
		}
		m.MaxMean += s.MaxMean
		m.CV += s.CV
		m.MeanLoad += s.Mean
		m.HighestLoad = max(m.HighestLoad, s.Max)
		m.Seconds++
	}
	if n := float64(m.Seconds); n > 0 {
		m.MaxMean /= n
		m.CV /= n
		m.MeanLoad /= n
	}
	return m
}

// floor measures what the clients of a plan would come to if each joined the
// least loaded server, over the same seconds.
func floor(plan []ingest.Arrival, servers, seconds, from int) Measured {
	times := make([]time.Duration, seconds)
	for i := range times {
		times[i] = time.Duration(i+1) * time.Second
	}
	return measure("least loaded", ingest.LeastLoaded(plan, servers, times), from, nil)
}
