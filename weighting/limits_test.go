package weighting

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestFill(t *testing.T) {
	for _, tt := range []struct {
		name         string
		shares, caps []float64
		total        float64
		want         []float64
	}{
		{"nothing over its cap", []float64{0.5, 0.3, 0.2}, []float64{1, 1, 1}, 1, []float64{0.5, 0.3, 0.2}},
		{"one over", []float64{0.8, 0.1, 0.1}, []float64{0.6, 0.6, 0.6}, 1, []float64{0.6, 0.2, 0.2}},
		{"the rest pushes a second one over", []float64{0.8, 0.15, 0.05}, []float64{0.5, 0.3, 0.3}, 1, []float64{0.5, 0.3, 0.2}},
		{"only zeros are left", []float64{1, 0, 0}, []float64{0.4, 0.5, 0.5}, 1, []float64{0.4, 0.3, 0.3}},
		{"exactly full", []float64{1, 0, 0}, []float64{0.5, 0.3, 0.2}, 1, []float64{0.5, 0.3, 0.2}},
		{"too little room", []float64{1, 0, 0}, []float64{0.1, 0.1, 0.1}, 1, []float64{0.1, 0.1, 0.1}},
		{"part of the whole", []float64{0.3, 0.1}, []float64{0.25, 1}, 0.4, []float64{0.25, 0.15}},
		{"none", nil, nil, 1, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fill(tt.shares, tt.caps, ones(len(tt.shares)), tt.total)
			if d := cmp.Diff(tt.want, tt.shares, near(1e-12)); d != "" {
				t.Errorf("shares (-want +got):\n%s", d)
			}
		})
	}
}

func TestFillIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "servers")
		draw := rapid.SliceOfN(rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1)), n, n)
		caps := rapid.SliceOfN(rapid.Float64Range(0.01, 1), n, n).Draw(t, "caps")
		shares := draw.Draw(t, "shares")
		before := slices.Clone(shares)
		fill(shares, caps, ones(n), 1)
		if got, want := sum(shares), min(1, sum(caps)); math.Abs(got-want) > 1e-9 {
			t.Fatalf("shares sum to %v, want %v", got, want)
		}
		for i := range shares {
			if shares[i] > caps[i]+1e-12 {
				t.Fatalf("share %v above cap %v", shares[i], caps[i])
			}
			for j := range shares {
				free := shares[i] < caps[i]-1e-9 && shares[j] < caps[j]-1e-9
				if free && math.Abs(before[i]*shares[j]-before[j]*shares[i]) > 1e-9 {
					t.Fatalf("servers %d and %d below their caps are no longer in proportion", i, j)
				}
			}
		}
	})
}

func TestRaise(t *testing.T) {
	inf := math.Inf(1)
	for _, tt := range []struct {
		name                        string
		caps, ceilings, rooms, want []float64
	}{
		{"nothing missing", []float64{0.1, 2}, []float64{2, 2}, []float64{0.5, 0}, []float64{0.1, 2}},
		{"all cold", []float64{0.1, 0.1}, []float64{2, 2}, []float64{0.5, 0.5}, []float64{0.5, 0.5}},
		{"the lowest first", []float64{0.1, 0.4, 0.2}, []float64{2, 2, 2}, []float64{1, 1, 1}, []float64{0.3, 0.4, 0.3}},
		{"by room", []float64{0.1, 0.1, 0.1}, []float64{2, 2, 2}, []float64{1, 2, 1}, []float64{0.25, 0.5, 0.25}},
		{"no room, no rise", []float64{0.3, 0.1, 0.1}, []float64{2, 2, 2}, []float64{0, 1, 1}, []float64{0.3, 0.35, 0.35}},
		{"one at its ceiling", []float64{0.1, 0.1, 0.1}, []float64{0.2, 2, 2}, []float64{1, 1, 1}, []float64{0.2, 0.4, 0.4}},
		{"without ceilings", []float64{0.1, 0.3}, []float64{inf, inf}, []float64{0.5, 0.5}, []float64{0.5, 0.5}},
		{"ceilings too low", []float64{0.2, 0.1}, []float64{0.2, 0.3}, []float64{1, 1}, []float64{0.2, 0.3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			raise(tt.caps, tt.ceilings, tt.rooms, 1-sum(tt.caps))
			if d := cmp.Diff(tt.want, tt.caps, near(1e-12)); d != "" {
				t.Errorf("caps (-want +got):\n%s", d)
			}
		})
	}
}

func TestMaxShare(t *testing.T) {
	loads := make([]float64, 20)
	for i := range loads {
		loads[i] = 100
	}
	loads[0] = 1
	for _, f := range []Function{LimitedProportions, NormalisedExponential, WaterFill} {
		s := settings(f)
		s.MaxShare, s.Aggressiveness = 1.5, 4
		d := newRig(t, s, loads...).pass()
		if got := d.reason(0, StepMaxShare); got == nil || math.Abs(got.After-0.075) > 1e-12 {
			t.Errorf("%s: %+v, want share 0.075", f, d.Servers[0].Reasons)
		}
		if got, want := d.Servers[0].Share, 0.075; math.Abs(got-want) > 0.002 {
			t.Errorf("%s: share %v, want %v", f, got, want)
		}
		wantReason(t, d, 1, StepRest, "what is left")
	}
}

func TestMaxShareOfWaterFillPoursTheRestByLevel(t *testing.T) {
	// One empty server would take all. What it may not take fills the next
	// lowest, and nothing reaches the highest.
	loads := []float64{0, 50, 100, 100, 100, 100, 100, 100, 100, 150}
	s := settings(WaterFill)
	d := newRig(t, s, loads...).pass()
	if d.Servers[1].Share <= d.Servers[2].Share || d.Servers[9].Weight != s.MinWeight {
		t.Errorf("weights %v", weightsOf(d))
	}
}

func TestMinAndMaxWeight(t *testing.T) {
	s := settings(LimitedProportions)
	s.MinWeight, s.MaxWeight = 20, 200
	d := newRig(t, s, 1, 100, 150).pass()
	wantWeights(t, d, 200, 20, 20)
	wantReason(t, d, 0, StepMaxWeight, "max_weight")
	wantReason(t, d, 2, StepMinWeight, "min_weight")
}

func TestMaxStep(t *testing.T) {
	for _, tt := range []struct {
		weight    int
		step      float64
		low, high int
	}{
		{100, 0.2, 80, 120}, {100, 0.1, 90, 110}, {50, 0.1, 45, 55}, {10, 0.3, 7, 13},
		{3, 0.1, 2, 4}, {1, 0.5, 0, 2}, {256, 0.2, 205, 307},
	} {
		t.Run(fmt.Sprint(tt.weight, " by ", tt.step), func(t *testing.T) {
			if low, high := stepRange(tt.weight, tt.step); low != tt.low || high != tt.high {
				t.Errorf("%d..%d, want %d..%d", low, high, tt.low, tt.high)
			}
		})
	}
}

func TestMaxStepLimitsEachPass(t *testing.T) {
	s := settings(LimitedProportions)
	s.MaxStep = 0.2
	r := newRig(t, s, 50, 100, 100, 150)
	d := r.pass()
	wantReason(t, d, 3, StepMaxStep, "80 to 120")
	if d.Servers[3].Weight != 80 {
		t.Errorf("weight %d, want 80", d.Servers[3].Weight)
	}
	for range 60 {
		before := weightsOf(d)
		d = r.pass()
		for i, w := range weightsOf(d) {
			if low, high := stepRange(before[i], 0.2); w < max(low, s.MinWeight) || w > high {
				t.Fatalf("weight %d went to %d", before[i], w)
			}
		}
	}
	s.MaxStep = 0
	wantWeights(t, d, weightsOf(newRig(t, s, 50, 100, 100, 150).pass())...)
}

func TestMaxStepBalancesSmallWeightsWhileTheyGrow(t *testing.T) {
	s := settings(LimitedProportions)
	s.MaxStep = 0.2
	r := newRig(t, s, 90, 100, 100, 110)
	for i := range r.in.Servers {
		r.server(i).Weight = 20
	}
	r.passes(4)
	if low, high := r.server(3).Weight, r.server(0).Weight; low >= high {
		t.Errorf("after 4 passes %d beside %d: nothing is balanced", low, high)
	}
}

func TestMinWeightComesBeforeMaxStep(t *testing.T) {
	s := settings(LimitedProportions)
	s.MaxStep, s.MinWeight = 0.2, 10
	r := newRig(t, s, 100, 100, 100)
	r.server(0).Weight = 1
	if d := r.pass(); d.Servers[0].Weight != 10 {
		t.Errorf("weight %d, want 10", d.Servers[0].Weight)
	}
}

func TestMaxStepSmallerThanTheDeadbandStillMoves(t *testing.T) {
	s := settings(LimitedProportions)
	s.MaxStep = 0.02
	r := newRig(t, s, 50, 100, 100, 150)
	for i := range r.in.Servers {
		r.server(i).Weight = 256
	}
	r.pass()
	for range 5 {
		wantVerdict(t, r.pass(), Write)
	}
}

// A server without data whose share is its cap to the last digit keeps its
// weight only as far as max_share allows.
func TestAWeightKeptAtTheCapIsNotRoundedAboveIt(t *testing.T) {
	r := newRig(t, settings(WaterFill), 1, 1, math.NaN(), math.NaN(), math.NaN())
	set := settings(WaterFill)
	set.Quorum = 0
	r.c = NewController(set)
	for i, s := range []struct {
		capacity float64
		weight   int
	}{{1, 1}, {1.5, 20}, {3.5, 6}, {0.1, 4}, {0.5, 35}} {
		r.server(i).Capacity, r.server(i).Weight = s.capacity, s.weight
	}
	r.in.Lifetime = 0
	r.server(4).UpSince = start.Add(r.step - time.Minute)
	d := r.pass()
	if got, most := d.limited(3), 4*0.1/6.6; got > most+1e-12 {
		t.Errorf("share %v, above %v: %+v", got, most, d.Servers[3].Reasons)
	}
}
