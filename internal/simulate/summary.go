package simulate

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strconv"
)

// Spread is one number over the seeds.
type Spread struct {
	Median, Least, Most float64 // NaN: not known
}

// MarshalJSON writes what no JSON number can hold as null.
func (s Spread) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Median *float64 `json:"median"`
		Least  *float64 `json:"least"`
		Most   *float64 `json:"most"`
	}{finite(s.Median), finite(s.Least), finite(s.Most)})
}

func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// Summary is one policy over all seeds. Its JSON form is documented and stable.
type Summary struct {
	Policy    string `json:"policy"`
	Seeds     int    `json:"seeds"`
	Imbalance Spread `json:"imbalance"`
	P99       Spread `json:"imbalance_p99"`
	Excess    Spread `json:"excess"`
	CV        Spread `json:"cv"`
	Gain      Spread `json:"share_of_gain"`
	Recovery  Spread `json:"recovery_seconds"`
	Overshoot Spread `json:"overshoot"`
	Churn     Spread `json:"churn_per_minute"`
	Writes    Spread `json:"writes_per_minute"`
	Changes   Spread `json:"changes_per_minute"`
	Held      Spread `json:"held"`
	Lifetime  Spread `json:"lifetime_seconds"`
	Delay     Spread `json:"delay_seconds"`
	LocalGain Spread `json:"local_gain"`
}

// columns ties the numbers of a Result to those of a Summary and of a CSV.
func (s *Summary) columns() []struct {
	name   string
	spread *Spread
	of     func(*Result) float64
} {
	type column = struct {
		name   string
		spread *Spread
		of     func(*Result) float64
	}
	return []column{
		{"imbalance", &s.Imbalance, func(r *Result) float64 { return r.Imbalance }},
		{"imbalance_p99", &s.P99, func(r *Result) float64 { return r.P99 }},
		{"excess", &s.Excess, func(r *Result) float64 { return r.Excess }},
		{"cv", &s.CV, func(r *Result) float64 { return r.CV }},
		{"share_of_gain", &s.Gain, func(r *Result) float64 { return r.Gain }},
		{"recovery_seconds", &s.Recovery, func(r *Result) float64 { return r.Recovery }},
		{"overshoot", &s.Overshoot, func(r *Result) float64 { return r.Overshoot }},
		{"churn_per_minute", &s.Churn, func(r *Result) float64 { return r.Churn }},
		{"writes_per_minute", &s.Writes, func(r *Result) float64 { return r.Writes }},
		{"changes_per_minute", &s.Changes, func(r *Result) float64 { return r.Changes }},
		{"held", &s.Held, func(r *Result) float64 { return r.Held }},
		{"lifetime_seconds", &s.Lifetime, func(r *Result) float64 { return r.Lifetime }},
		{"delay_seconds", &s.Delay, func(r *Result) float64 { return r.Delay }},
		{"local_gain", &s.LocalGain, func(r *Result) float64 { return r.LocalGain }},
	}
}

// Summaries are the rows of the table, in the order of the policies.
func (o *Outcome) Summaries() []Summary {
	list := make([]Summary, len(o.Rows))
	for i := range o.Rows {
		s := &list[i]
		s.Policy, s.Seeds = o.Rows[i].Policy.Name, len(o.Rows[i].Results)
		for _, c := range s.columns() {
			values := make([]float64, 0, s.Seeds)
			for j := range o.Rows[i].Results {
				values = append(values, c.of(&o.Rows[i].Results[j]))
			}
			*c.spread = spreadOf(values)
		}
	}
	return list
}

// spreadOf is NaN throughout when any value is NaN: half a picture is none.
func spreadOf(values []float64) Spread {
	if len(values) == 0 || slices.ContainsFunc(values, math.IsNaN) {
		return Spread{math.NaN(), math.NaN(), math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	median := sorted[n/2]
	if n%2 == 0 {
		median = (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return Spread{median, sorted[0], sorted[n-1]}
}

// WriteCSV writes one line a policy and seed. A number that is not known is empty.
func (o *Outcome) WriteCSV(out io.Writer, seeds []uint64) error {
	w := csv.NewWriter(out)
	var none Summary
	head := []string{"policy", "seed"}
	for _, c := range none.columns() {
		head = append(head, c.name)
	}
	if err := w.Write(head); err != nil {
		return err
	}
	for i := range o.Rows {
		for j := range o.Rows[i].Results {
			line := []string{o.Rows[i].Policy.Name, strconv.FormatUint(seeds[j], 10)}
			for _, c := range none.columns() {
				line = append(line, csvNumber(c.of(&o.Rows[i].Results[j])))
			}
			if err := w.Write(line); err != nil {
				return err
			}
		}
	}
	w.Flush()
	return w.Error()
}

func csvNumber(x float64) string {
	if finite(x) == nil {
		return ""
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}
