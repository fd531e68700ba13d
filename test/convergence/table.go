package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/haproxy-weighter/haproxy-weighter/internal/simulate"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// print writes the tables and what to make of them.
func (r *result) print(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "%d servers behind a real HAProxy, %d clients a server at a time; medians of %s, %d s each\n", r.Servers, r.ClientsPerServer,
		count(len(r.Seeds), "seed"), r.MeasuredSeconds)
	fmt.Fprintf(&out, "rates of clients: %s; they stay for %.0f s on average\n\n", r.Rates, r.LifetimeSeconds)
	fmt.Fprintf(&out, "%-24s %8s %7s %7s %7s   %s\n", "policy", "max/mean", "p99", "excess", "CV", "excess over that of equal weights")
	for _, p := range r.all() {
		fmt.Fprintf(&out, "%-24s %8s %7s %7s %7s   %s\n", p.name, number(p.MaxMean.Median), number(p.P99.Median),
			number(p.Excess.Median), number(p.CV.Median), ratioWords(p.Ratio))
	}
	r.printLoops(&out)
	out.WriteString("\n")
	for _, remark := range r.remarks() {
		out.WriteString(remark + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// printLoops writes what the loops went by and did; nothing when none ran.
func (r *result) printLoops(out *strings.Builder) {
	header := fmt.Sprintf("\n%-24s %8s %8s %6s %8s %8s %10s\n", "loop", "data age", "lifetime", "gain", "passes", "no data", "weights set")
	for _, p := range r.Policies {
		if p.Function == "" {
			continue
		}
		l := p.loop()
		fmt.Fprintf(out, "%s%-24s %6.1f s %6.0f s %6.1f %8d %8d %11d\n", header, p.name, l.Delay, l.Lifetime, l.Gain, l.Passes, l.Failed, l.Changed)
		header = ""
	}
}

// count is a number of things in words.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %s", n, strings.Replace(thing+"s", "ys", "ies", 1))
}

func number(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	return fmt.Sprintf("%.3f", x)
}

func ratioWords(s simulate.Spread) string {
	if math.IsNaN(s.Median) {
		return "-"
	}
	return fmt.Sprintf("%.2f [%.2f..%.2f]", s.Median, s.Least, s.Most)
}

// remarks are what to make of the tables.
func (r *result) remarks() []string {
	disturbed, all := r.disturbed()
	remarks := []string{
		"Excess is max/mean - 1 as a mean over time; its ratio is taken seed by seed, with [least..most].\n" +
			"Open connections never move, so that nobody gets to 0. The row \"least loaded\" is computed: each\n" +
			"client on the server that has the least load at that moment, known exactly and at once.",
		fmt.Sprintf("Connections refused or lost: %d. Seconds left out because this machine did not keep up: %d of %d.",
			r.lost(), disturbed, all),
	}
	if r.tooBusy() {
		remarks = append(remarks, "THIS MACHINE WAS TOO BUSY: loops acted on what it did not keep up with. Don't trust the numbers;\n"+
			"run it again when less else runs, or with a lower --parallel.")
	} else if aim := r.aim(); aim != "" {
		remarks = append(remarks, aim)
	}
	return append(remarks, fmt.Sprintf("Again: make convergence CONVERGENCE_FLAGS='%s'", r.reproduce()))
}

// lost is the number of connections that were refused or broke.
func (r *result) lost() (n int64) {
	for _, p := range r.Policies {
		for _, run := range p.Runs {
			n += run.Clients.Refused + run.Clients.Broken
		}
	}
	return n
}

// disturbed is the number of seconds that were left out, of all that should
// have counted.
func (r *result) disturbed() (n, all int) {
	for _, p := range r.Policies {
		for _, run := range p.Runs {
			n += run.Disturbed
			all += run.Disturbed + run.Seconds
		}
	}
	return n, all
}

// tooBusy tells whether so many seconds were left out that the others can't be
// trusted either: what happens in such a second stays with the servers, and in
// what the loop was told, for long after.
func (r *result) tooBusy() bool {
	const tolerated = 0.02
	n, all := r.disturbed()
	return float64(n) > tolerated*float64(all)
}

// loop is what the loop of a policy went by, as means over the seeds, and what
// it did, as sums.
func (s *summary) loop() loop {
	var l loop
	for _, run := range s.Runs {
		n := float64(len(s.Runs))
		l.Delay += run.Loop.Delay / n
		l.Lifetime += run.Loop.Lifetime / n
		l.Gain += run.Loop.Gain / n
		l.Passes += run.Loop.Passes
		l.Failed += run.Loop.Failed
		l.Changed += run.Loop.Changed
	}
	return l
}

// seedsToJudge is how many seeds a verdict takes: the luck of each is large.
const seedsToJudge = 5

// aim says whether water-fill is as good as it should be; nothing when it or
// what it is compared with was not played, or too few seeds.
func (r *result) aim() string {
	fill := r.of(waterFillID)
	limited, exponential := r.of(string(weighting.LimitedProportions)), r.of(string(weighting.NormalisedExponential))
	if len(r.Seeds) < seedsToJudge {
		return ""
	}
	if fill == nil || limited == nil || exponential == nil || math.IsNaN(fill.Ratio.Median) {
		return ""
	}
	verdict := "missed"
	if fill.Ratio.Median <= 0.5 && fill.Ratio.Median < limited.Ratio.Median && fill.Ratio.Median < exponential.Ratio.Median {
		verdict = "met"
	}
	return fmt.Sprintf("Aim, %s: water-fill leaves at most half of the excess of equal weights,\n"+
		"and less than limited-proportions and normalised-exponential.", verdict)
}
