package weighting

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// scripted is a Weigher that a test writes.
type scripted func(in WeighInput) ([]float64, []string, error)

func (f scripted) Weigh(in WeighInput) ([]float64, []string, error) { return f(in) }

func luaSettings(f scripted) Settings {
	s := settings(Lua)
	s.NewWeigher = func() Weigher { return f }
	return s
}

// inverseLoads is what a script may well do.
func inverseLoads(in WeighInput) ([]float64, []string, error) {
	shares := make([]float64, len(in.Servers))
	for i, s := range in.Servers {
		shares[i] = s.Capacity / (s.Load + 1)
	}
	return shares, []string{"hello"}, nil
}

func TestScriptWeighs(t *testing.T) {
	r := newRig(t, luaSettings(inverseLoads), 9, 19, 39)
	d := r.pass()
	if d.Verdict != Write || d.Function != Lua || d.Gain != 0 || d.LoopGain() != 0 {
		t.Errorf("%+v", d)
	}
	if diff := cmp.Diff([]int{256, 128, 64}, weightsOf(d)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"hello"}, d.Printed); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	reason := d.reason(1, StepFunction)
	if want := "the script gives it 0.05; over the largest it gives, 0.1 = 0.5"; reason == nil || reason.Text != want || reason.After != 0.5 {
		t.Errorf("reason %+v, want %q", reason, want)
	}
}

// TestScriptIsLimitedLikeAnyFunction has one that wants everything for one server.
func TestScriptIsLimitedLikeAnyFunction(t *testing.T) {
	s := luaSettings(func(in WeighInput) ([]float64, []string, error) {
		return []float64{math.MaxFloat64, 0, 0, 0, 5e-324, 0}, nil, nil
	})
	s.MaxShare, s.MaxStep = 2, 0.5
	r := newRig(t, s, 1, 2, 3, 4, 5, 6)
	d := r.pass()
	if got := d.reason(0, StepMaxShare); got == nil || got.After != 1.0/3 {
		t.Errorf("max_share: %+v", got)
	}
	for i, w := range weightsOf(d) {
		if w < 50 || w > 150 {
			t.Errorf("s%d has weight %d, though max_step is 0.5", i, w)
		}
	}
}

func TestScriptThatFailsHolds(t *testing.T) {
	for name, c := range map[string]struct {
		shares []float64
		err    error
		want   string
	}{
		"error":    {[]float64{1, 1}, errors.New("x.lua:3: no"), "the script gives no shares: x.lua:3: no: weights stay as they are"},
		"too few":  {[]float64{1}, nil, "not one a server"},
		"none":     {nil, nil, "not one a server"},
		"negative": {[]float64{1, -1}, nil, "negative or no number"},
		"NaN":      {[]float64{1, math.NaN()}, nil, "negative or no number"},
		"infinite": {[]float64{1, math.Inf(1)}, nil, "negative or no number"},
		"zero":     {[]float64{0, 0}, nil, "no server a share above 0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, luaSettings(func(WeighInput) ([]float64, []string, error) { return c.shares, []string{"said"}, c.err }), 10, 30)
			r.server(0).Weight = 77
			d := r.pass()
			if d.Verdict != Hold || d.HoldCode != HoldScript || !strings.Contains(d.Why, c.want) || len(d.Printed) != 1 {
				t.Errorf("verdict %s, code %s, why %q", d.Verdict, d.HoldCode, d.Why)
			}
			if diff := cmp.Diff([]int{77, 100}, weightsOf(d)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestScriptThatIsNotThereHolds(t *testing.T) {
	if d := newRig(t, settings(Lua), 10, 30).pass(); d.HoldCode != HoldScript || !strings.Contains(d.Why, "no script") {
		t.Errorf("code %s, why %q", d.HoldCode, d.Why)
	}
}

// TestScriptIsNotAsked while the picture is too poor, or there is nothing to balance.
func TestScriptIsNotAsked(t *testing.T) {
	never := luaSettings(func(WeighInput) ([]float64, []string, error) {
		t.Error("the script is asked")
		return nil, nil, nil
	})
	for _, loads := range [][]float64{{0, 0}, {1, math.NaN(), math.NaN()}, {5}, {math.NaN(), math.NaN()}} {
		newRig(t, never, loads...).pass()
	}
}

// TestScriptSeesWhatItWeighs: servers without data that count, and those out of
// rotation, are not weighed but seen.
func TestScriptSeesWhatItWeighs(t *testing.T) {
	var seen WeighInput
	s := luaSettings(func(in WeighInput) ([]float64, []string, error) {
		seen = in
		return inverseLoads(in)
	})
	s.Better = Higher // loads are shown as they are all the same
	r := newRig(t, s, 10, math.NaN(), 30, 40, 50)
	r.server(2).Rotation = Drain
	r.server(3).Weight = 0
	r.server(4).Metrics = map[string]float64{"errors": 3}
	r.server(4).Weight = 300
	d := r.pass()
	var weighed, others []string
	for _, w := range seen.Servers {
		weighed = append(weighed, w.Name)
	}
	for _, w := range seen.Others {
		others = append(others, w.Name+" "+string(w.Rotation))
	}
	if diff := cmp.Diff([]string{"s0", "s4"}, weighed); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"s1 ", "s2 drain", "s3 drain"}, others); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if w := seen.Servers[1]; w.Load != 50 || w.Metrics["errors"] != 3 || w.Share != 0.6 || w.Weight != 300 || math.IsNaN(w.Relative) {
		t.Errorf("%+v", w)
	}
	if !math.IsNaN(seen.Others[0].Load) || !math.IsNaN(seen.Others[1].Relative) || seen.Others[1].Load != 30 {
		t.Errorf("%+v", seen.Others)
	}
	if seen.Now != r.in.Now || seen.Interval != s.Interval || seen.Lifetime != r.in.Lifetime || seen.Mean == 0 {
		t.Errorf("%+v", seen)
	}
	if d.Servers[2].Weight != 100 || d.Servers[3].Weight != 0 {
		t.Errorf("weights %v of servers out of rotation have changed", weightsOf(d))
	}
}

// TestEachControllerHasItsOwnScript counts.
func TestEachControllerHasItsOwnScript(t *testing.T) {
	s := settings(Lua)
	made := 0
	s.NewWeigher = func() Weigher {
		made++
		return scripted(inverseLoads)
	}
	NewController(s)
	NewController(s)
	s.Function = WaterFill
	NewController(s)
	if made != 2 {
		t.Errorf("%d made", made)
	}
}

// TestAnyScriptGivesSoundWeights holds the laws of all functions for a script
// that says anything that is allowed.
func TestAnyScriptGivesSoundWeights(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in := drawInput(rt)
		s := luaSettings(func(in WeighInput) ([]float64, []string, error) {
			shares := rapid.SliceOfN(rapid.Float64Range(0, math.MaxFloat64), len(in.Servers), len(in.Servers)).Draw(rt, "shares")
			return shares, nil, nil
		})
		d := NewController(s).Decide(in)
		check(rt, in, d)
		for i, server := range d.Servers {
			if d.Verdict == Hold && server.Weight != in.Servers[i].Weight {
				rt.Fatalf("%s: weight %d changes to %d on hold", server.Name, in.Servers[i].Weight, server.Weight)
			}
		}
	})
}
