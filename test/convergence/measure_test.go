package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/haproxy-weighter/haproxy-weighter/internal/simulate"
	"github.com/haproxy-weighter/haproxy-weighter/test/ingest"
)

func TestMeasure(t *testing.T) {
	loads := [][]float64{{0, 90}, {10, 10}, {0, 20}, {0, 0}, {5, 15}, {30, 0}}
	got := measure(loads, 1, []float64{1, 20, 20, 20, 20, 20})
	want := measured{MaxMean: 1.5, P99: 2, Excess: 0.5, CV: 0.5, Seconds: 3, Disturbed: 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(measured{Disturbed: 1}, measure([][]float64{{0, 0}}, 0, nil)); diff != "" {
		t.Errorf("nothing received:\n%s", diff)
	}
}

func TestP99LeavesOutOneInAHundred(t *testing.T) {
	loads := make([][]float64, 200)
	for i := range loads {
		loads[i] = []float64{1, 1}
	}
	loads[7], loads[9], loads[11] = []float64{0, 1}, []float64{0, 1}, []float64{1, 3}
	if got := measure(loads, 0, nil).P99; got != 1.5 {
		t.Errorf("p99 %v, want 1.5: the two worst seconds of 200 are left out", got)
	}
}

func TestOfferedAveragesEachSecond(t *testing.T) {
	s := time.Second
	plan := []ingest.Arrival{{Rate: 8, Lifetime: 2 * s}, {At: s / 2, Rate: 4, Lifetime: s}, {At: 3 * s / 2, Rate: 100, Lifetime: time.Hour}}
	if diff := cmp.Diff([]float64{10, 60, 100}, ingest.OfferedEachSecond(plan, 3)); diff != "" {
		t.Error(diff)
	}
}

func TestSpreadOf(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   simulate.Spread
	}{
		{[]float64{3, 1, 2}, simulate.Spread{Median: 2, Least: 1, Most: 3}},
		{[]float64{4, 1, math.NaN(), 2, 3}, simulate.Spread{Median: 2.5, Least: 1, Most: 4}},
		{nil, simulate.Spread{Median: math.NaN(), Least: math.NaN(), Most: math.NaN()}},
	} {
		if diff := cmp.Diff(test.want, spreadOf(test.values), cmpopts.EquateNaNs()); diff != "" {
			t.Error(diff)
		}
	}
}

// finishedResult is two seeds of which the second is complete for equal
// weights only.
func finishedResult(t *testing.T, arguments ...string) *result {
	t.Helper()
	o, err := parse(append([]string{"--seeds", "2", "--servers", "2", "--warm-up", "0s", "--duration", "1s"}, arguments...), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newResult(o)
	plan := []ingest.Arrival{{Rate: 30, Lifetime: time.Hour}, {Rate: 10, Lifetime: time.Hour}}
	loads := map[string][]float64{
		"equal": {40, 0}, "leastconn": {38, 2}, "limited-proportions": {34, 6}, "normalised-exponential": {35, 5},
		"water-fill": {28, 12}, "feedback": {29, 11},
	}
	for i, p := range o.policies {
		r.add(0, i, plan, &played{loads: [][]float64{loads[p.id]}})
	}
	r.add(1, 0, plan, &played{loads: [][]float64{{40, 0}}})
	if !r.finish() {
		t.Fatal("no seed is left")
	}
	return r
}

func TestResultHasCompleteSeedsOnlyAndRatiosBySeed(t *testing.T) {
	r := finishedResult(t)
	if diff := cmp.Diff([]uint64{1}, r.Seeds); diff != "" {
		t.Error(diff)
	}
	ratios := make(map[string]float64)
	for _, p := range r.all() {
		if len(p.Runs) != 1 {
			t.Errorf("%s has %d runs", p.Policy, len(p.Runs))
		}
		ratios[p.Policy] = p.Ratio.Median
	}
	want := map[string]float64{
		"equal": 1, "leastconn": 0.9, "limited-proportions": 0.7, "normalised-exponential": 0.75,
		"water-fill": 0.4, "feedback": 0.45, "floor": 0.5,
	}
	if diff := cmp.Diff(want, ratios, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Error(diff)
	}
}

func TestTableSaysWhetherTheAimIsMet(t *testing.T) {
	tests := map[string]struct {
		change func(r *result)
		want   string // "" = nothing is said
	}{
		"met":                 {func(*result) {}, "met"},
		"more than half":      {func(r *result) { r.of("water-fill").Ratio.Median = 0.51 }, "missed"},
		"beaten by one":       {func(r *result) { r.of("limited-proportions").Ratio.Median = 0.3 }, "missed"},
		"beaten by the other": {func(r *result) { r.of("normalised-exponential").Ratio.Median = 0.3 }, "missed"},
		"not known":           {func(r *result) { r.of("water-fill").Ratio.Median = math.NaN() }, ""},
		"too few seeds":       {func(r *result) { r.Seeds = r.Seeds[:4] }, ""},
		"machine too busy":    {func(r *result) { r.of("equal").Runs[0].Disturbed = 1 }, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := finishedResult(t)
			r.Seeds = []uint64{1, 2, 3, 4, 5}
			test.change(r)
			var out strings.Builder
			if err := r.print(&out); err != nil {
				t.Fatal(err)
			}
			if busy := strings.Contains(out.String(), "TOO BUSY"); busy != (name == "machine too busy") {
				t.Errorf("told that the machine was too busy: %v\n%s", busy, out.String())
			}
			said := strings.Contains(out.String(), "Aim, ")
			if said != (test.want != "") || !strings.Contains(out.String(), "Aim, "+test.want) && said {
				t.Errorf("want %q in\n%s", test.want, out.String())
			}
		})
	}
	alone := finishedResult(t, "--policies", "water-fill")
	alone.Seeds = []uint64{1, 2, 3, 4, 5}
	if aim := alone.aim(); aim != "" {
		t.Errorf("without the origin's functions: %q", aim)
	}
}

func TestProgressTellsWhatIsLeft(t *testing.T) {
	o, err := parse([]string{"--seeds", "2", "--policies", "equal", "--warm-up", "99s", "--duration", "900s", "--parallel", "2"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	o.progress = &out
	p := startProgress(&o)
	p.second(1, 5, "equal weights", 400)
	p.second(2, 6, "equal weights", 600)
	p.finished(1, measured{MaxMean: 1.25, Seconds: 900})
	p.finished(2, measured{})
	p.end()
	want := "1 of 2: seed 5, equal weights           max/mean 1.250; about 3:20 min left\n" +
		"2 of 2: seed 6, equal weights           no second counted; about 0:00 min left\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	out.Reset()
	p.terminal, p.done = true, 0
	p.second(1, 5, "equal weights", 1)
	p.second(2, 6, "equal weights", 999)
	want = "\r\x1b[Kseed 5, equal weights: 1 of 999 s; about 17 min left" +
		"\r\x1b[Kseed 5, equal weights: 1 of 999 s | seed 6, equal weights: 999 of 999 s; about 8:20 min left"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestWrongArguments(t *testing.T) {
	for arguments, want := range map[string]string{
		"--policies magic":     `--policies: there is no policy "magic"; known: equal, leastconn, limited-proportions, normalised-exponential, water-fill, feedback`,
		"--seeds 0":            "--seeds is 0, want 1 to 1000",
		"--servers 1":          "--servers is 1, want 2 to 50",
		"--clients 0":          "--clients is 0, want 1 to 1000",
		"--parallel 0":         "--parallel is 0, want 1 to 64",
		"--duration 1500ms":    "--warm-up and --duration are whole seconds, --duration at least 1s",
		"--warm-up -1s":        "--warm-up and --duration are whole seconds, --duration at least 1s",
		"--no-such-flag":       "flag provided but not defined: -no-such-flag",
		"water-fill":           `unexpected argument "water-fill"; see --help`,
		"--policies water-fil": `there is no policy "water-fil"`,
	} {
		var stdout, stderr strings.Builder
		if code := command(t.Context(), strings.Fields(arguments), &stdout, &stderr); code != 2 {
			t.Errorf("%s: exit code %d, want 2", arguments, code)
		}
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: %q, want %q", arguments, stderr.String(), want)
		}
	}
}
