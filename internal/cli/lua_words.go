package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/lua"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

const (
	wordsLua = `Run a script as a backend's function = "lua" would (its function weigh), or, with
--message, as spoa.script would (its function answer), and show what comes of
it: for weigh each share, and each limit that has changed it.

The table is a recorded one, of plan --json or /api/v1/table, or that of a live
backend, for which Graphite and HAProxy are asked once. A recorded table does not
tell limits such as min_weight: they are the defaults, or those of the backend in
the configuration when -f names one.

Nothing is changed anywhere. Exit code 1 when the script fails or was not asked,
2 when it can't be loaded.`
	wordsLuaExample = `  haproxy-weighter plan ingest --json >table.json
  haproxy-weighter lua weigh.lua --table table.json
  haproxy-weighter lua weigh.lua --backend ingest --bench 1000
  haproxy-weighter lua answer.lua --table table.json --message client-class --arg src=192.0.2.7`
	hintRecordTable = "record one with: haproxy-weighter plan BACKEND --json >FILE"
)

func hintLuaFunction(missing string) string {
	if missing == "weigh" {
		return "to run the function answer, give --message NAME"
	}
	return "without --message the function weigh is run"
}

// weighResult is what "lua" shows of weigh. Its JSON form is documented and stable.
type weighResult struct {
	Backend  string            `json:"backend"`
	Socket   string            `json:"socket"`
	Time     time.Time         `json:"time"`
	Verdict  weighting.Verdict `json:"verdict"`
	Why      string            `json:"why"`
	HoldCode string            `json:"hold_code"`
	Printed  []string          `json:"printed"`
	Servers  []weighedServer   `json:"servers"`
	Bench    *timings          `json:"bench"` // null without --bench
}

// weighedServer is one server of it.
type weighedServer struct {
	Server        string             `json:"server"`
	Load          *float64           `json:"load"`    // null: no usable data
	Metrics       map[string]float64 `json:"metrics"` // never null
	Given         *float64           `json:"given"`   // by the script; null: it was not asked about the server
	RawShare      float64            `json:"raw_share"`
	Share         float64            `json:"share"`
	AppliedWeight int                `json:"applied_weight"`
	Weight        int                `json:"weight"`
	Reasons       []weighting.Reason `json:"reasons"`
}

func weighResultOf(t *api.Table, d *weighting.Decision, eye *witness) *weighResult {
	r := &weighResult{
		Backend: t.Backend, Socket: t.Socket, Time: t.Time, Verdict: d.Verdict, Why: d.Why, HoldCode: d.HoldCode,
		Printed: emptyNotNull(d.Printed), Servers: make([]weighedServer, len(d.Servers)),
	}
	given := make(map[string]*float64)
	for i := range eye.shares {
		given[eye.in.Servers[i].Name] = &eye.shares[i]
	}
	for i := range d.Servers {
		s, row := &d.Servers[i], &t.Servers[i].Row
		r.Servers[i] = weighedServer{
			Server: s.Name, Load: row.Load, Metrics: row.Metrics, Given: given[s.Name], RawShare: s.RawShare, Share: s.Share,
			AppliedWeight: row.AppliedWeight, Weight: s.Weight, Reasons: emptyNotNull(s.Reasons),
		}
		if row.Metrics == nil {
			r.Servers[i].Metrics = map[string]float64{}
		}
	}
	return r
}

func (p *Program) writeWeighed(r *weighResult) error {
	fmt.Fprintf(p.Stdout, "backend %s on %s, at %s\n", printable(r.Backend), printable(r.Socket), r.Time.UTC().Format(time.RFC3339))
	p.writePrinted(r.Printed)
	t := newTable("server", ">load", "metrics", ">the script's", ">share", ">limited", ">weight", "limits")
	for _, s := range r.Servers {
		weight := cell{text: fmt.Sprint(s.AppliedWeight)}
		if s.Weight != s.AppliedWeight {
			weight = cell{fmt.Sprintf("%d -> %d", s.AppliedWeight, s.Weight), bold}
		}
		raw := "-"
		if s.Given != nil {
			raw = percent(s.RawShare)
		}
		t.add(cell{text: s.Server}, cell{text: maybe(s.Load, number)}, cell{text: metricsText(s.Metrics)},
			cell{text: maybe(s.Given, number)}, cell{text: raw}, cell{text: percent(s.Share)}, weight, cell{text: shortReasons(s.Reasons)})
	}
	if err := p.writeTable(t); err != nil {
		return err
	}
	words := map[weighting.Verdict]string{
		weighting.Write: "would set new weights", weighting.Keep: "would change nothing", weighting.Hold: "would leave the weights as they are",
	}
	fmt.Fprintf(p.Stdout, "%s: %s\n", words[r.Verdict], printable(r.Why))
	return p.writeBench(r.Bench)
}

func metricsText(metrics map[string]float64) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		all = append(all, name+"="+number(metrics[name]))
	}
	return strings.Join(all, " ")
}

// answerResult is what "lua" shows of answer. Its JSON form is documented and stable.
type answerResult struct {
	Message   string         `json:"message"`
	Variables map[string]any `json:"variables"` // never null
	Printed   []string       `json:"printed"`
	Bench     *timings       `json:"bench"` // null without --bench
}

func answerResultOf(message string, set []lua.Variable, printed []string) *answerResult {
	r := &answerResult{Message: message, Variables: map[string]any{}, Printed: emptyNotNull(printed)}
	for _, v := range set {
		r.Variables[v.Name] = v.Value
	}
	return r
}

func (p *Program) writeAnswered(r *answerResult) error {
	fmt.Fprintf(p.Stdout, "message %s\n", printable(r.Message))
	p.writePrinted(r.Printed)
	if len(r.Variables) == 0 {
		fmt.Fprintln(p.Stdout, "it sets nothing")
		return p.writeBench(r.Bench)
	}
	t := newTable("variable", "type", "value")
	for _, name := range slices.Sorted(maps.Keys(r.Variables)) {
		kind := map[string]string{"bool": "boolean", "int64": "integer", "string": "string"}[fmt.Sprintf("%T", r.Variables[name])]
		t.add(cell{text: name}, cell{text: kind}, cell{text: fmt.Sprint(r.Variables[name])})
	}
	if err := p.writeTable(t); err != nil {
		return err
	}
	return p.writeBench(r.Bench)
}

func (p *Program) writePrinted(lines []string) {
	for _, line := range lines {
		fmt.Fprintf(p.Stdout, "it prints: %s\n", printable(line))
	}
}

func (p *Program) writeBench(t *timings) error {
	if t == nil {
		return nil
	}
	short := func(seconds float64) string { return secondsOf(seconds).Round(100 * time.Nanosecond).String() }
	_, err := fmt.Fprintf(p.Stdout, "%d calls: median %s, 99 %% within %s, longest %s, limit %s; %d failed\n",
		t.Calls, short(t.Median), short(t.P99), short(t.Max), short(t.Limit), t.Failed)
	return err
}
