package weighting

import (
	"math"
	"time"
)

// After a reload of HAProxy the old worker keeps its connections, and the new
// one neither counts nor lists them. So what a young worker shows is short
// whatever the lifetime is: no connection in it is older than itself. A
// lifetime learnt before may stand until the worker is older: one that is too
// short is only slow. But one that has become too long makes loads swing, and
// against that a young worker can tell something, when its youth is allowed for.

const (
	clearly = 2  // a lifetime is clearly shorter than one this many times as long
	sigmas  = 4  // standard deviations that chance is granted: it is asked every few minutes
	fewest  = 15 // least number of connections that tell
)

// ShorterByAges tells whether the ages of the sessions in a worker that has
// been up for uptime speak clearly against a mean lifetime of believed: more of
// them are younger than horizon than would be with half of it. It gives the
// lifetime that fits them. A worker younger than two horizons tells nothing.
func ShorterByAges(ages []time.Duration, horizon, uptime, believed time.Duration) (lifetime time.Duration, ok bool) {
	if horizon <= 0 || uptime < 2*horizon || len(ages) == 0 {
		return 0, false
	}
	young := 0.0
	for _, age := range ages {
		if age < horizon {
			young++
		}
	}
	// Of sessions that are memoryless and not older than the worker, this part is young.
	part := func(tau float64) float64 {
		return math.Expm1(-horizon.Seconds()/tau) / math.Expm1(-uptime.Seconds()/tau)
	}
	longest := believed.Seconds() / clearly
	if longest <= 0 || !surely(young, part(longest)*float64(len(ages)), 1-part(longest)) {
		return 0, false
	}
	// A share of 1 would fit no lifetime at all.
	found := (young + 1) / float64(len(ages)+2)
	low, high := 0.0, longest
	for range 60 {
		if middle := (low + high) / 2; part(middle) > found {
			low = middle
		} else {
			high = middle
		}
	}
	return seconds(high), true
}

// surely tells whether n is more than chance makes of expected. free is the
// part of the variance that a proportion leaves, 1 for rare events.
func surely(n, expected, free float64) bool {
	return n >= fewest && n > expected+sigmas*math.Sqrt(expected*free)
}
