package demo

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// Result is what a whole run came to. Its JSON form is documented and stable.
type Result struct {
	Seed            uint64      `json:"seed"`
	Servers         int         `json:"servers"`
	OpenClients     int         `json:"open_clients"`     // connected at once, on average
	Clients         int         `json:"clients"`          // in the plan that each phase plays
	LifetimeSeconds float64     `json:"lifetime_seconds"` // mean
	PhaseSeconds    int         `json:"phase_seconds"`
	MeasuredFrom    int         `json:"measured_from"` // seconds at the start of each phase that don't count
	Phases          [2]Measured `json:"phases"`        // equal weights, then the weighter
	// LeastLoaded is the same plan computed, not played: each client joins the
	// server that has the lowest load at that moment. No real policy knows it.
	LeastLoaded float64 `json:"least_loaded_max_over_mean"`
	Sentence    string  `json:"sentence"`
}

// sentence says in words what the numbers say, whichever way they came out.
func (r *Result) sentence() string {
	before, after := r.Phases[0], r.Phases[1]
	if before.Seconds == 0 || after.Seconds == 0 {
		return "Nothing to compare: too short (see --duration), or the machine was too busy to keep up."
	}
	over := func(m Measured) string { return fmt.Sprintf("%.0f %%", 100*(m.MaxMean-1)) }
	if after.MaxMean >= before.MaxMean {
		return fmt.Sprintf("The weighter did not help in this run: the busiest server carried %s more than the average with it and %s more under equal weights.",
			over(after), over(before))
	}
	return fmt.Sprintf("Same clients, same HAProxy: the busiest server carried %s more than the average under equal weights and %s more with haproxy-weighter.",
		over(before), over(after))
}

// Print writes the table before/after, and what to make of it.
func (r *Result) Print(w io.Writer) error {
	var out strings.Builder
	if r.Phases[0].Seconds > 0 && r.Phases[1].Seconds > 0 {
		out.WriteString(r.table())
	}
	for _, paragraph := range r.remarks() {
		for _, line := range wrap(paragraph, resultWidth, len(paragraph)) {
			out.WriteString(strings.TrimLeft(line, " ") + "\n")
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// resultWidth is the width of the table, in columns.
const resultWidth = 78

// remarks are what to make of the table, a paragraph each.
func (r *Result) remarks() []string {
	remarks := []string{r.Sentence}
	if r.LeastLoaded > 0 {
		remarks = append(remarks, fmt.Sprintf("Open connections never move, so nobody gets to 0 %%. For comparison, computed: "+
			"each of these clients put on the server that has the least load at that moment, known exactly and at once, gives %.0f %%.",
			100*(r.LeastLoaded-1)))
	}
	remarks = append(remarks, fmt.Sprintf("Each phase played the %s clients of --seed %d; its seconds %d to %d count. Other seeds come out otherwise.",
		thousands(float64(r.Clients)), r.Seed, r.MeasuredFrom, r.PhaseSeconds))
	if disturbed := [2]int{r.Phases[0].Disturbed, r.Phases[1].Disturbed}; disturbed != [2]int{} {
		remarks = append(remarks, fmt.Sprintf("Of these seconds, %d and %d were left out: this machine was too busy and did not keep up with the clients.",
			disturbed[0], disturbed[1]))
	}
	return remarks
}

// table is before, after and the change from one to the other.
func (r *Result) table() string {
	var out strings.Builder
	before, after := r.Phases[0], r.Phases[1]
	fmt.Fprintf(&out, "%-38s %13s %16s %8s\n", "", before.Name, after.Name, "change")
	row := func(name string, words func(float64) string, a, b float64) {
		change := "-"
		if a > 0 {
			change = changed(100 * (b/a - 1))
		}
		fmt.Fprintf(&out, "%-38s %13s %16s %8s\n", name, words(a), words(b), change)
	}
	row("busiest server over average (max/mean)", hundredths, before.MaxMean, after.MaxMean)
	row("  of that, above even (max/mean - 1)", hundredths, before.MaxMean-1, after.MaxMean-1)
	row("spread of the loads (CV)", hundredths, before.CV, after.CV)
	row("highest load of a server, datapoints/s", thousands, before.HighestLoad, after.HighestLoad)
	row("average load of a server, datapoints/s", thousands, before.MeanLoad, after.MeanLoad)
	fmt.Fprintf(&out, "%-38s %13d %16d\n", "weights changed", before.WeightsMoved, after.WeightsMoved)
	fmt.Fprintf(&out, "%-38s %13d %16d\n\n", "connections lost or refused", lost(before), lost(after))
	return out.String()
}

func hundredths(v float64) string { return fmt.Sprintf("%.2f", v) }

// changed is a change in whole percent; what rounds to nothing has no sign.
func changed(percent float64) string {
	if math.Abs(percent) < 0.5 {
		return "0 %"
	}
	return fmt.Sprintf("%+.0f %%", percent)
}

func lost(m Measured) int64 { return m.Clients.Broken + m.Clients.Refused }
