package ingest

import (
	"slices"
	"time"
)

// Offered returns the datapoints a second that the clients of a plan send
// together at each of the given times, which must be in order.
func Offered(plan []Arrival, times []time.Duration) []float64 {
	all := make([]float64, 0, len(times))
	for _, loads := range LeastLoaded(plan, 1, times) {
		all = append(all, loads[0])
	}
	return all
}

// LeastLoaded plays a plan without a network: every client joins the server
// with the lowest load at that moment, loads known exactly and at once. No
// real policy knows as much, so that the result shows how even the plan's
// clients can be placed at all. It returns, for each of the given times, the
// datapoints a second of every server. The times must be in order.
func LeastLoaded(plan []Arrival, servers int, times []time.Duration) [][]float64 {
	type departure struct {
		at     time.Duration
		server int
		rate   float64
	}
	var leaving []departure // in order
	now := make([]float64, servers)
	leave := func(until time.Duration) {
		for len(leaving) > 0 && leaving[0].at <= until {
			now[leaving[0].server] -= leaving[0].rate
			leaving = leaving[1:]
		}
	}
	loads := make([][]float64, 0, len(times))
	read := func(until time.Duration) {
		for len(loads) < len(times) && times[len(loads)] < until {
			leave(times[len(loads)])
			loads = append(loads, slices.Clone(now))
		}
	}
	for _, a := range plan {
		read(a.At)
		leave(a.At)
		least := 0
		for i, load := range now {
			if load < now[least] {
				least = i
			}
		}
		now[least] += a.Rate
		d := departure{a.At + a.Lifetime, least, a.Rate}
		i, _ := slices.BinarySearchFunc(leaving, d, func(a, b departure) int { return int(a.at - b.at) })
		leaving = slices.Insert(leaving, i, d)
	}
	for len(loads) < len(times) {
		leave(times[len(loads)])
		loads = append(loads, slices.Clone(now))
	}
	return loads
}

// OfferedEachSecond returns what the clients of a plan send together in each
// of its first seconds.
func OfferedEachSecond(plan []Arrival, seconds int) []float64 {
	const parts = 4
	times := make([]time.Duration, seconds*parts)
	for i := range times {
		times[i] = time.Duration(2*i+1) * time.Second / (2 * parts)
	}
	sums := make([]float64, seconds)
	for i, rate := range Offered(plan, times) {
		sums[i/parts] += rate / parts
	}
	return sums
}
