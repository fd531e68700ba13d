package main

import (
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
)

// ratio is the median of one number over rounds, and the quartiles.
type ratio struct{ low, median, high float64 }

func (r ratio) String() string { return fmt.Sprintf("%.2f [%.2f-%.2f]", r.median, r.low, r.high) }

func summarise(values []float64) ratio {
	values = slices.Sorted(slices.Values(values))
	at := func(q float64) float64 {
		position := q * float64(len(values)-1)
		i := int(position)
		if i+1 == len(values) {
			return values[i]
		}
		return values[i] + (position-float64(i))*(values[i+1]-values[i])
	}
	return ratio{at(0.25), at(0.5), at(0.75)}
}

// compare divides a number of each round by another agent's in the same round.
func compare(a, b []turn, number func(turn) float64) ratio {
	values := make([]float64, len(a))
	for i := range a {
		values[i] = number(a[i]) / number(b[i])
	}
	return summarise(values)
}

func median(turns []turn, number func(turn) float64) float64 {
	values := make([]float64, len(turns))
	for i := range turns {
		values[i] = number(turns[i])
	}
	return summarise(values).median
}

func cpu(t turn) float64      { return float64(t.used.CPU) / float64(t.Messages) }
func rate(t turn) float64     { return float64(t.Messages) / t.Seconds }
func allocs(t turn) float64   { return float64(t.used.Mallocs) / float64(t.Messages) }
func calls(t turn) float64    { return float64(t.used.Calls) / float64(t.Messages) }
func proxyCPU(t turn) float64 { return t.haproxy / float64(t.Messages) }
func bothCPU(t turn) float64  { return cpu(t) + proxyCPU(t) }
func p50(t turn) float64      { return t.P50 }
func p99(t turn) float64      { return t.P99 }
func p999(t turn) float64     { return t.P999 }

func report(s shape, results map[string][]turn) {
	limit := results[kindEcho]
	fmt.Printf("\n%s: %d connections, %d frames in flight on each\n", s.name, s.conns, s.window)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "agent\tCPU ns/message\tx\tmessages/s\tx\tp50 us\tp99 us\tx\tp99.9 us\tallocations\tread+write calls")
	for _, kind := range []string{kindEcho, kindOurs, kindLibrary} {
		t := results[kind]
		fmt.Fprintf(w, "%s\t%.0f\t%v\t%.0f\t%.2f\t%.0f\t%.0f\t%.2f\t%.0f\t%.1f\t%.2f\n", kind,
			median(t, cpu), compare(t, limit, cpu), median(t, rate), compare(t, limit, rate).median,
			median(t, p50), median(t, p99), compare(t, limit, p99).median, median(t, p999), median(t, allocs), median(t, calls))
	}
	w.Flush()
	fmt.Printf("the library's agent takes %v times spoa's CPU\n", compare(results[kindLibrary], results[kindOurs], cpu))
}

func reportHAProxy(s shape, results map[string][]turn) {
	limit := results[kindEcho]
	fmt.Printf("\n%s: %d clients, one thread of HAProxy; us of CPU for a request\n", s.name, s.conns)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "agent\tagent us\tx\tHAProxy us\tHAProxy+agent x\trequests/s\tx\tp99 us")
	for _, kind := range []string{kindNone, kindEcho, kindOurs, kindLibrary} {
		t := results[kind]
		fmt.Fprintf(w, "%s\t%.1f\t%v\t%.1f\t%v\t%.0f\t%.2f\t%.0f\n", kind, median(t, cpu)/1000, compare(t, limit, cpu),
			median(t, proxyCPU)/1000, compare(t, limit, bothCPU), median(t, rate), compare(t, limit, rate).median, median(t, p99))
	}
	w.Flush()
}
