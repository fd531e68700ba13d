package simulate

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// start is on a minute.
const start = 1_700_000_040

// recorded is a render answer of ten minutes of one-minute data: three
// servers, of which b has nulls from minute 3 to the end.
func recorded() string {
	var targets []string
	for i, name := range []string{"a", "b", "c"} {
		var points []string
		for minute := range 10 {
			value := fmt.Sprint(1000 * (i + 1))
			if name == "b" && minute >= 3 {
				value = "null"
			}
			points = append(points, fmt.Sprintf("[%s, %d]", value, start+60*minute))
		}
		targets = append(targets, fmt.Sprintf(`{"target": "tcp-service.%s.received", "datapoints": [%s]}`, name, strings.Join(points, ",")))
	}
	return "[" + strings.Join(targets, ",") + "]"
}

func replayed() Replay {
	s := weighting.DefaultSettings()
	s.Function, s.Aggressiveness = weighting.LimitedProportions, 1
	return Replay{Backend: config.Backend{
		Name: "ingest", Interval: time.Minute, Target: "tcp-service.*.received",
		ServerRegexp: regexp.MustCompile(`^tcp-service\.(.*)\.received$`), ServerName: "$1",
		Window: 5 * time.Minute, Aggregate: graphite.Last, MaxAge: 90 * time.Second,
		Weighting: s,
	}}
}

func replaySteps(t *testing.T, r Replay, body string) []ReplayStep {
	t.Helper()
	series, err := ReadRecording(t.Context(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	var steps []ReplayStep
	if err := r.Run(t.Context(), series, func(s ReplayStep) error { steps = append(steps, s); return nil }); err != nil {
		t.Fatal(err)
	}
	return steps
}

func TestReplay(t *testing.T) {
	steps := replaySteps(t, replayed(), recorded())
	if len(steps) != 10 {
		t.Fatalf("%d steps of a minute over ten minutes", len(steps))
	}
	first := steps[0]
	if want := time.Unix(start+60, 0).UTC(); !first.Time.Equal(want) {
		t.Errorf("first pass at %v, want %v, when the first point is whole", first.Time, want)
	}
	// Inverse proportion to 1000, 2000, 3000 is 6:3:2.
	weights := func(s ReplayStep) (list []int) {
		for _, v := range s.Servers {
			list = append(list, v.Weight)
		}
		return list
	}
	if diff := cmp.Diff([]int{256, 128, 85}, weights(first)); diff != "" {
		t.Errorf("weights of the first pass (-want +got):\n%s", diff)
	}
	if first.Verdict != weighting.Write || first.Changes != 2 {
		// b stays at the weight it began with, 128.
		t.Errorf("first pass: %s with %d changes, want write with 2", first.Verdict, first.Changes)
	}
	if got := steps[1].Verdict; got != weighting.Keep {
		t.Errorf("second pass of the same loads: %s, want keep", got)
	}
	// The third point ends at minute 3; at minute 4 it is 120 s old and too old.
	for i, s := range steps {
		b := s.Servers[1]
		if missing := i >= 3; (b.Load == nil) != missing || (b.Reason != "") != missing {
			t.Errorf("pass %d: load %v, reason %q of server b, want missing %t", i+1, b.Load, b.Reason, missing)
		}
	}
}

func TestReplaySeesNothingOfTheFuture(t *testing.T) {
	whole := replaySteps(t, replayed(), recorded())
	cut := replaySteps(t, replayed(), strings.NewReplacer(
		fmt.Sprintf(",[1000, %d]", start+540), "", fmt.Sprintf(",[null, %d]", start+540), "", fmt.Sprintf(",[3000, %d]", start+540), "",
	).Replace(recorded()))
	if len(cut) != 9 {
		t.Fatalf("%d steps without the last minute, want 9", len(cut))
	}
	if diff := cmp.Diff(whole[:9], cut); diff != "" {
		t.Errorf("the last minute changes what was before it:\n%s", diff)
	}
}

func TestReplayLag(t *testing.T) {
	r := replayed()
	r.Lag = 25 * time.Second
	steps := replaySteps(t, r, recorded())
	if want := time.Unix(start+85, 0).UTC(); !steps[0].Time.Equal(want) {
		t.Errorf("first pass at %v, want %v", steps[0].Time, want)
	}
	if age := *steps[0].Servers[0].AgeSeconds; age != 85 {
		t.Errorf("age %v s, want 85", age)
	}
}

func TestReplayForms(t *testing.T) {
	steps := replaySteps(t, replayed(), recorded())
	if _, err := json.Marshal(steps); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	w := csv.NewWriter(&out)
	if err := steps[4].WriteCSV(w); err != nil {
		t.Fatal(err)
	}
	w.Flush()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[1], "2023-11-14T22:19:00Z,b,,,") {
		t.Errorf("CSV of a pass without data of b:\n%s", out.String())
	}
	if n := strings.Count(lines[0], ",") + 1; n != len(ReplayHeading()) {
		t.Errorf("%d fields under a heading of %d", n, len(ReplayHeading()))
	}
}

func TestReplayFaults(t *testing.T) {
	for _, test := range []struct{ name, body, want string }{
		{"no JSON", "<html>", "it begins with"},
		{"no series", "[]", "it holds no series"},
	} {
		if _, err := ReadRecording(t.Context(), strings.NewReader(test.body)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.name, err, test.want)
		}
	}
	for _, test := range []struct{ name, body, want string }{
		{"series of no server", strings.ReplaceAll(recorded(), "tcp-service", "udp-service"), "no series of the recording names a server"},
		{"series without points", `[{"target": "tcp-service.a.received", "datapoints": []}]`, "no series of the recording has a data point"},
	} {
		series, err := ReadRecording(t.Context(), strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		r := replayed()
		err = r.Run(t.Context(), series, func(ReplayStep) error { return nil })
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.name, err, test.want)
		}
	}
}

func TestSummaryJSONHasNoNaN(t *testing.T) {
	o := study(t, little(), 2, "equal", "water-fill") // without the bound no share of the gain, without restart no recovery
	body, err := json.Marshal(o.Summaries())
	if err != nil {
		t.Fatal(err)
	}
	var back []map[string]any
	if err := json.Unmarshal(body, &back); err != nil {
		t.Fatal(err)
	}
	gain := back[1]["share_of_gain"].(map[string]any)
	if gain["median"] != nil {
		t.Errorf("share of the gain without the bound: %v, want null", gain)
	}
	if x := back[1]["excess"].(map[string]any)["median"].(float64); !(x > 0) || math.IsNaN(x) {
		t.Errorf("excess %v", x)
	}
	var out strings.Builder
	if err := o.WriteCSV(&out, []uint64{1, 2}); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
	if err != nil || len(rows) != 5 || strings.Contains(out.String(), "NaN") {
		t.Errorf("CSV: %v\n%s", err, out.String())
	}
}
