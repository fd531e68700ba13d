package demo

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/test/ingest"
)

var update = flag.Bool("update", false, "write the golden files of the view anew")

// sampleFrame is the middle of the second phase.
func sampleFrame() Frame {
	f := Frame{
		Title: "haproxy-weighter demo: 8 servers, 400 clients at a time, time x30, seed 1",
		Phase: 1, Left: 21700 * time.Millisecond,
		Change: "ingest-3 100 to 41, because its load is 62 % above the average; weights changed: 7",
		Loop:   "function water-fill, data 1.5 s old with the wait, mean connection lifetime 20 s, gain 6.7",
		Footer: "configuration and log: /tmp/haproxy-weighter-demo-1; Ctrl-C ends it",
	}
	f.Phases[0] = PhaseHistory{Name: equalWeights, Seconds: 45, MeanFrom: 15, Mean: 1.5512}
	f.Phases[1] = PhaseHistory{Name: theWeighter, Seconds: 45, MeanFrom: 15, Mean: 1.219}
	for s := range 45 {
		f.Phases[0].Samples = append(f.Phases[0].Samples, 1.55+0.3*math.Sin(float64(s)/5))
		if s < 24 {
			f.Phases[1].Samples = append(f.Phases[1].Samples, 1.2+0.4*math.Exp(-float64(s)/4))
		}
	}
	f.Phases[1].Samples[0] = math.NaN()
	for i, load := range []float64{6100, 5021.4, 10170, 0, 6500, 7300, 9000, 5987} {
		f.Bars = append(f.Bars, Bar{Name: fmt.Sprintf("ingest-%d", i+1), Load: load, Weight: 256 - 30*i})
	}
	return f
}

func TestFrame(t *testing.T) {
	first := sampleFrame()
	first.Phase, first.Change, first.Loop = 0, "", ""
	first.Phases[0].Samples, first.Phases[0].Mean = nil, math.NaN()
	first.Phases[1].Samples, first.Phases[1].Mean = nil, math.NaN()
	for i := range first.Bars {
		first.Bars[i].Load, first.Bars[i].Weight = 0, -1
	}
	warned := sampleFrame()
	warned.Warning = "no loads from Graphite; backend: ingest; cause: connection refused"
	tests := map[string]struct {
		frame  Frame
		screen Screen
	}{
		"80x24":    {sampleFrame(), Screen{Width: 80, Height: 24}},
		"120x40":   {sampleFrame(), Screen{Width: 120, Height: 40}},
		"50x18":    {sampleFrame(), Screen{Width: 50, Height: 18}},
		"20x5":     {sampleFrame(), Screen{Width: 20, Height: 5}},
		"ascii":    {sampleFrame(), Screen{Width: 80, Height: 24, ASCII: true}},
		"colour":   {sampleFrame(), Screen{Width: 80, Height: 24, Colour: true}},
		"narrow-c": {sampleFrame(), Screen{Width: 31, Height: 24, Colour: true}},
		"start":    {first, Screen{Width: 80, Height: 24}},
		"warning":  {warned, Screen{Width: 80, Height: 24}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			lines := test.frame.Lines(test.screen)
			if len(lines) > test.screen.Height {
				t.Errorf("%d lines on a screen of %d", len(lines), test.screen.Height)
			}
			for i, line := range lines {
				if columns := utf8.RuneCountInString(bare(line)); columns > test.screen.Width {
					t.Errorf("line %d has %d columns: %q", i, columns, line)
				}
				if !test.screen.Colour && strings.Contains(line, "\x1b") {
					t.Errorf("line %d has colours: %q", i, line)
				}
				if strings.Count(line, "\x1b[")%2 != 0 {
					t.Errorf("line %d does not end its colours: %q", i, line)
				}
			}
			golden(t, name, strings.ReplaceAll(strings.Join(lines, "\n"), "\x1b", "ESC")+"\n")
		})
	}
}

// bare takes the colours out.
func bare(line string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(line, "\x1b[")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		_, line, _ = strings.Cut(after, "m")
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (run with -update when the new picture is right):\n%s", file, diff)
	}
}

func TestPlainLine(t *testing.T) {
	f := sampleFrame()
	f.Warning = "HAProxy hangs"
	f.Bars[1].Weight = -1
	got := f.plainLine(25)
	want := " 25 s  max/mean 1.62  busiest ingest-3 10,170/s, average 6,260/s  weights 256 - 196 166 136 106 76 46\n" +
		"       ! HAProxy hangs\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The plain display says each phase once and then a line every five seconds,
// however often it is shown a frame.
func TestPlainDisplay(t *testing.T) {
	var out strings.Builder
	p := plain{out: &out, shown: -1}
	f := sampleFrame()
	for f.Phase = range 2 {
		for _, second := range []int{0, 0, 1, 4, 5, 5, 6, 11, 12, 15} {
			if err := p.show(f, second); err != nil {
				t.Fatal(err)
			}
		}
	}
	var starts []string
	for line := range strings.Lines(out.String()) {
		starts = append(starts, strings.TrimSpace(line[:8]))
	}
	want := []string{"phase 1", "5 s  m", "11 s  m", "15 s  m", "phase 2", "5 s  m", "11 s  m", "15 s  m"}
	if diff := cmp.Diff(want, starts); diff != "" {
		t.Errorf("%s\n%s", diff, out.String())
	}
}

func TestSpread(t *testing.T) {
	for _, test := range []struct {
		loads []float64
		want  spread
	}{
		{[]float64{10, 10}, spread{Mean: 10, Max: 10, MaxMean: 1, CV: 0}},
		{[]float64{0, 20}, spread{Mean: 10, Max: 20, MaxMean: 2, CV: 1}},
		{[]float64{0, 0}, spread{MaxMean: math.NaN(), CV: math.NaN()}},
	} {
		got := spreadOf(test.loads)
		if fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%v: %+v, want %+v", test.loads, got, test.want)
		}
	}
}

func TestMeasureLeavesOutTheStartAndDisturbedSeconds(t *testing.T) {
	got := measure("x", [][]float64{{0, 100}, {0, 0}, {10, 10}, {0, 20}, {3, 3}, {30, 0}}, 1, []float64{1, 20, 20, 24, 20, 20})
	want := Measured{Name: "x", MaxMean: 1.5, CV: 0.5, HighestLoad: 20, MeanLoad: 10, Seconds: 2, Disturbed: 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Measured{Name: "x"}, measure("x", nil, 0, nil)); diff != "" {
		t.Errorf("nothing measured:\n%s", diff)
	}
}

func TestOfferedAveragesEachSecond(t *testing.T) {
	s := time.Second
	plan := []ingest.Arrival{{Rate: 8, Lifetime: 2 * s}, {At: s / 2, Rate: 4, Lifetime: s}, {At: 3 * s / 2, Rate: 100, Lifetime: time.Hour}}
	if diff := cmp.Diff([]float64{10, 60, 100}, ingest.OfferedEachSecond(plan, 3)); diff != "" {
		t.Error(diff)
	}
}

func TestResultSaysWhatTheNumbersSay(t *testing.T) {
	r := Result{Seed: 3, Clients: 912, PhaseSeconds: 45, MeasuredFrom: 15, LeastLoaded: 1.17}
	r.Phases[0] = Measured{Name: equalWeights, MaxMean: 1.55, CV: 0.31, HighestLoad: 15301.4, MeanLoad: 6210, Seconds: 30}
	r.Phases[1] = Measured{Name: theWeighter, MaxMean: 1.24, CV: 0.12, HighestLoad: 9120, MeanLoad: 6215, Seconds: 30, WeightsMoved: 212}
	tests := map[string]func(r *Result){
		"result-better": func(*Result) {},
		"result-worse":  func(r *Result) { r.Phases[0].MaxMean, r.Phases[1].MaxMean = 1.2, 1.25 },
		"result-busy":   func(r *Result) { r.Phases[1].Disturbed = 4 },
		"result-short":  func(r *Result) { r.Phases[0], r.Phases[1] = Measured{Name: equalWeights}, Measured{Name: theWeighter} },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			r := r
			change(&r)
			r.Sentence = r.sentence()
			var out strings.Builder
			if err := r.Print(&out); err != nil {
				t.Fatal(err)
			}
			golden(t, name, out.String())
		})
	}
}

func TestOptionsErrorsAreToldAtOnce(t *testing.T) {
	_, err := Options{Servers: 1, Duration: time.Second, Carbon: "127.0.0.1:2003"}.complete()
	want := "servers: 1 is out of range; allowed: 2 to 50; " +
		"duration: 1s is too short for two phases; allowed: 4s or more; " +
		"graphite and carbon: a real Graphite needs both, the address to read from and the one to send to"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}
