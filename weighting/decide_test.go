package weighting

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// wantHold fails unless d holds with the code and touches nothing (check does the latter).
func wantHold(t *testing.T, d *Decision, code string) {
	t.Helper()
	if d.Verdict != Hold || d.HoldCode != code {
		t.Fatalf("verdict %s %q (%s), want hold %q", d.Verdict, d.HoldCode, d.Why, code)
	}
}

func wantVerdict(t *testing.T, d *Decision, want Verdict) {
	t.Helper()
	if d.Verdict != want {
		t.Fatalf("verdict %s %q (%s), want %s", d.Verdict, d.HoldCode, d.Why, want)
	}
}

func wantWeights(t *testing.T, d *Decision, want ...int) {
	t.Helper()
	if diff := cmp.Diff(want, weightsOf(d)); diff != "" {
		t.Fatalf("weights (-want +got), verdict %s, %s:\n%s", d.Verdict, d.Why, diff)
	}
}

func wantReason(t *testing.T, d *Decision, server int, step, text string) {
	t.Helper()
	r := d.reason(server, step)
	if r == nil || !strings.Contains(r.Text, text) {
		t.Fatalf("server %d has no reason %q with %q:\n%+v", server, step, text, d.Servers[server].Reasons)
	}
}

func TestDecideByHand(t *testing.T) {
	for _, tt := range []struct {
		function Function
		want     []int
		gain     float64
	}{
		// Shares 43/66, 16/66, 7/66 of AF 1.5 (see TestFunctionsByHand).
		{LimitedProportions, []int{256, 95, 42}, 1.5},
		// exp(0.75), 1, exp(-0.75) over exp(0.75): 1, 0.4724, 0.2231.
		{NormalisedExponential, []int{256, 121, 57}, 1.5},
		// tau 1 h, d = 15 + 15 s, H = 60 s: K = 3/60, the lowest takes all; the rest get min_weight.
		{WaterFill, []int{256, 4, 4}, 60},
		// log 0.525, 0, -0.525: 1, 0.5916, 0.3499.
		{Feedback, []int{256, 151, 90}, 1.05},
	} {
		t.Run(string(tt.function), func(t *testing.T) {
			s := settings(tt.function)
			s.Aggressiveness = 1.5
			r := newRig(t, s, 1, 2, 3)
			d := r.pass()
			wantVerdict(t, d, Write)
			wantWeights(t, d, tt.want...)
			if d.Mean != 2 || d.MaxOverMean != 1.5 || d.Fresh != 3 || d.InService != 3 {
				t.Errorf("mean %v, max/mean %v, fresh %d, in service %d", d.Mean, d.MaxOverMean, d.Fresh, d.InService)
			}
			if d.Delay != 30*time.Second || d.Lifetime != time.Hour || math.Abs(d.Gain-tt.gain) > 1e-9 {
				t.Errorf("delay %v, lifetime %v, gain %v, want 30s, 1h, %v", d.Delay, d.Lifetime, d.Gain, tt.gain)
			}
			if want := d.Gain / 120; math.Abs(d.LoopGain()-want) > 1e-9 {
				t.Errorf("loop gain %v, want %v", d.LoopGain(), want)
			}
		})
	}
}

func TestServersOutOfRotationAreLeftAlone(t *testing.T) {
	for _, f := range allFunctions {
		for _, rotation := range []Rotation{Down, Maint, Drain, Backup, "unheard-of"} {
			plain := newRig(t, settings(f), 1, 2, 3).pass()
			r := newRig(t, settings(f), 1, 2, 3, 1000)
			r.server(3).Rotation = rotation
			r.server(3).Weight = 7
			d := r.pass()
			wantReason(t, d, 3, StepRotation, "weight left as it is")
			wantWeights(t, d, append(weightsOf(plain), 7)...)
		}
	}
}

func TestWeightZeroIsADrainWhateverTheRotation(t *testing.T) {
	r := newRig(t, settings(WaterFill), 1, 2, 3)
	r.server(0).Weight = 0
	d := r.pass()
	wantVerdict(t, d, Write)
	if d.Servers[0].Weight != 0 || d.InService != 2 {
		t.Errorf("weight %d, in service %d, want 0, 2", d.Servers[0].Weight, d.InService)
	}
}

func TestNoServersHolds(t *testing.T) {
	r := newRig(t, settings(WaterFill))
	wantHold(t, r.pass(), HoldNoServers)
	r = newRig(t, settings(WaterFill), 1, 2)
	r.server(0).Rotation, r.server(1).Rotation = Down, Maint
	wantHold(t, r.pass(), HoldNoServers)
}

func TestOneServerKeeps(t *testing.T) {
	r := newRig(t, settings(WaterFill), 5, 3)
	r.server(1).Rotation = Down
	wantVerdict(t, r.pass(), Keep)
}

func TestQuorumHolds(t *testing.T) {
	r := newRig(t, settings(WaterFill), 1, 2, math.NaN(), math.NaN(), math.NaN())
	d := r.pass()
	wantHold(t, d, HoldQuorum)
	if d.Fresh != 2 || d.InService != 5 || !strings.Contains(d.Why, "2 of 5") {
		t.Errorf("fresh %d of %d, why %q", d.Fresh, d.InService, d.Why)
	}
	r.server(2).Load = 3
	wantVerdict(t, r.pass(), Write)
}

func TestAllZeroHolds(t *testing.T) {
	for _, better := range []Better{Lower, Higher} {
		s := settings(WaterFill)
		s.Better = better
		wantHold(t, newRig(t, s, 0, 0, 0).pass(), HoldAllZero)
	}
}

func TestAllZeroForLongIsNotTakenForStuckServers(t *testing.T) {
	r := newRig(t, settings(WaterFill), 0, 0, 0)
	wantHold(t, r.passes(100), HoldAllZero)
	r.server(0).Load, r.server(1).Load, r.server(2).Load = 1, 2, 3
	wantVerdict(t, r.pass(), Write)
}

func TestImplausibleTotalHoldsAndEnds(t *testing.T) {
	r := newRig(t, settings(WaterFill), 100, 200, 300)
	r.passes(4)
	scaleLoads(r, 0.001)
	if d := r.pass(); d.HoldCode == HoldTotal {
		t.Fatal("held after 4 passes, when nothing is usual yet")
	}

	r = newRig(t, settings(WaterFill), 100, 200, 300)
	r.passes(5)
	scaleLoads(r, 0.009)
	wantHold(t, r.pass(), HoldTotal)
	wantHold(t, r.passes(19), HoldTotal) // 9 min 30 s since the first low one
	d := r.pass()
	if d.HoldCode == HoldTotal {
		t.Fatalf("still held after StaleAfter: %s", d.Why)
	}
	if !strings.Contains(d.Why, "is the usual level from now on") {
		t.Errorf("why %q does not tell that the level was taken over", d.Why)
	}
}

func TestImplausibleTotalWaitsAnewAfterZeros(t *testing.T) {
	r := newRig(t, settings(WaterFill), 100, 200, 300)
	r.passes(5)
	scaleLoads(r, 0.001)
	r.passes(15)
	low := r.server(1).Load
	scaleLoads(r, 0)
	wantHold(t, r.pass(), HoldAllZero)
	for i := range r.in.Servers {
		r.server(i).Load = low
	}
	wantHold(t, r.passes(20), HoldTotal)
	if d := r.pass(); d.HoldCode == HoldTotal {
		t.Fatalf("still held: %s", d.Why)
	}
}

func TestUsualTotalFollowsSlowly(t *testing.T) {
	r := newRig(t, settings(WaterFill), 100, 200, 300)
	r.passes(10)
	for range 1500 { // to a 500th in 12 hours
		scaleLoads(r, 0.996)
		if d := r.pass(); d.Verdict == Hold {
			t.Fatalf("hold: %s", d.Why)
		}
	}
}

func scaleLoads(r *rig, factor float64) {
	for i := range r.in.Servers {
		r.server(i).Load *= factor
	}
}

func TestNoDataAtAllHolds(t *testing.T) {
	r := newRig(t, settings(WaterFill), 1, 2, 3)
	r.pass()
	for i := range r.in.Servers {
		r.server(i).Load = math.NaN()
	}
	wantHold(t, r.passes(1000), HoldStale)
}

func TestOnStaleInitialSetsTheInitialWeights(t *testing.T) {
	s := settings(WaterFill)
	s.OnStale = StaleInitial
	r := newRig(t, s, 1, 2, 3, 4, 5)
	r.server(0).InitialWeight = 50
	r.server(3).InitialWeight = 0 // would be a drain
	r.server(4).Weight = 0        // the operator's
	r.pass()
	four := r.server(3).Weight
	for i := range r.in.Servers {
		r.server(i).Load = math.NaN()
	}
	wantHold(t, r.passes(19), HoldStale) // 9 min 30 s without data
	d := r.pass()
	wantVerdict(t, d, Write)
	wantWeights(t, d, 50, 100, 100, four, 0)
	wantReason(t, d, 1, StepStale, "initial weights")
	wantReason(t, d, 3, StepStale, "would be a drain")
	wantHold(t, r.pass(), HoldStale) // they are in force now
}

func TestDataAfterAnOutageCountAtOnce(t *testing.T) {
	r := newRig(t, settings(LimitedProportions), 1, 2, 3)
	want := weightsOf(r.pass())
	for i := range r.in.Servers {
		r.server(i).Load = math.NaN()
	}
	r.passes(200)
	for i := range r.in.Servers {
		r.server(i).Load = float64(i + 1)
		r.server(i).Weight = 100
	}
	wantWeights(t, r.pass(), want...)
}

func TestForceWritesInsideTheDeadband(t *testing.T) {
	r := newRig(t, settings(LimitedProportions), 100, 100, 100)
	r.pass()
	r.server(1).Weight++ // a second writer, by less than the deadband
	wantVerdict(t, r.pass(), Keep)
	r.in.Force = "somebody else has set weights"
	d := r.pass()
	wantVerdict(t, d, Write)
	wantWeights(t, d, 256, 256, 256)
	if !strings.Contains(d.Why, r.in.Force) {
		t.Errorf("why %q does not name the force", d.Why)
	}
	wantVerdict(t, r.pass(), Keep) // nothing differs: nothing to write, forced or not
}

func TestDeadband(t *testing.T) {
	s := settings(LimitedProportions)
	s.Aggressiveness = 1
	r := newRig(t, s, 100, 100, 100, 100)
	r.in.LastChange = start
	for i := range r.in.Servers {
		r.server(i).Weight = 256
	}
	// q of the second is 1/1.03 or so: its share falls by about 4 %, then 8 %.
	r.server(1).Load = 105
	d := r.pass()
	wantVerdict(t, d, Keep)
	wantWeights(t, d, 256, 256, 256, 256)
	wantReason(t, d, 1, StepDeadband, "deadband 5 %")
	r.server(1).Load = 110
	wantVerdict(t, r.pass(), Write)
}

func TestDeadbandEndsTenMinutesAfterTheLastWrite(t *testing.T) {
	r := newRig(t, settings(LimitedProportions), 100, 150, 100, 100)
	r.pass()
	r.server(1).Load = 100
	wantVerdict(t, r.pass(), Write)
	r.server(1).Load = 101
	wantVerdict(t, r.passes(19), Keep)
	d := r.pass()
	wantVerdict(t, d, Write)
	wantWeights(t, d, 256, 251, 256, 256)
	wantVerdict(t, r.passes(50), Keep) // the same weights are not written again
}

func TestTheStartIsNoReasonToWrite(t *testing.T) {
	r := newRig(t, settings(LimitedProportions), 100, 101, 100, 100)
	wantVerdict(t, r.passes(20), Keep)
	wantVerdict(t, r.pass(), Write) // 10 min after the first pass
}

func TestAnotherScaleOfTheSameSharesIsNotWritten(t *testing.T) {
	r := newRig(t, settings(LimitedProportions), 100, 100, 100, 100)
	d := r.passes(100)
	wantVerdict(t, d, Keep)
	wantWeights(t, d, 100, 100, 100, 100)
}

func TestGarbageLoadsAreMissing(t *testing.T) {
	for _, load := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e300} {
		r := newRig(t, settings(LimitedProportions), 1, 2, 3, load)
		d := r.pass()
		wantVerdict(t, d, Write)
		if d.Fresh != 3 || !math.IsNaN(d.Servers[3].Relative) {
			t.Errorf("load %v: fresh %d, relative %v", load, d.Fresh, d.Servers[3].Relative)
		}
		wantReason(t, d, 3, StepMissing, "keeps its share")
	}
}

func TestMissingTellsTheReasonGiven(t *testing.T) {
	r := newRig(t, settings(LimitedProportions), 1, 2, 3, math.NaN())
	r.server(3).Reason = "no series for it"
	wantReason(t, r.pass(), 3, StepMissing, "no series for it")
}

func TestGarbageCapacitiesCountAsOne(t *testing.T) {
	want := newRig(t, settings(LimitedProportions), 1, 2, 3).pass()
	for _, capacity := range []float64{0, -1, math.NaN(), math.Inf(1), 1e-300, 1e300} {
		r := newRig(t, settings(LimitedProportions), 1, 2, 3)
		r.server(1).Capacity = capacity
		d := r.pass()
		wantWeights(t, d, weightsOf(want)...)
		wantReason(t, d, 1, StepCapacity, "counts as 1")
	}
}

func TestHigherTurnsValuesRound(t *testing.T) {
	s := settings(LimitedProportions)
	want := newRig(t, s, 40, 10, 25).pass()
	s.Better = Higher
	d := newRig(t, s, 10, 40, 25).pass()
	wantWeights(t, d, weightsOf(want)...)
	if b := d.reason(0, StepBetter); b == nil || b.Before != 10 || b.After != 40 {
		t.Errorf("reason of the transform: %+v", b)
	}
}

func TestUnknownLifetimeAssumesAShortOne(t *testing.T) {
	r := newRig(t, settings(WaterFill), 1, 2, 3)
	r.in.Lifetime = 0
	d := r.pass()
	if d.Lifetime != 10*time.Minute || d.Gain != 10 {
		t.Errorf("lifetime %v, gain %v, want 10m, 10", d.Lifetime, d.Gain)
	}
	wantReason(t, d, 0, StepLifetime, "600 s is assumed")

	r = newRig(t, settings(LimitedProportions), 1, 2, 3)
	r.in.Lifetime = 0
	if d := r.pass(); d.Lifetime != 0 || d.LoopGain() != 0 {
		t.Errorf("lifetime %v, loop gain %v, want unknown", d.Lifetime, d.LoopGain())
	}
}

func TestWaterFillGainIsLimitedTo200(t *testing.T) {
	r := newRig(t, settings(WaterFill), 1, 2, 3)
	r.in.Lifetime = 7 * 24 * time.Hour
	if d := r.pass(); math.Abs(d.Gain-200) > 1e-9 {
		t.Errorf("gain %v, want 200", d.Gain)
	}
}

func TestCompressedTime(t *testing.T) {
	s := settings(WaterFill)
	s.Interval, s.Window, s.StaleAfter = time.Second, 2*time.Second, 20*time.Second
	s.Timing = DefaultTiming().Scaled(1 / 30.0)
	r := newRig(t, s, 100, 100, 100)
	r.in.Lifetime = 0
	d := r.pass()
	if d.Lifetime != 20*time.Second {
		t.Errorf("assumed lifetime %v, want 20s", d.Lifetime)
	}
	if got := s.Timing.ClampLifetime(time.Second); got != 4*time.Second {
		t.Errorf("least lifetime %v, want 4s", got)
	}
	r.server(2).Load = math.NaN()
	r.passes(5)
	if d := r.pass(); !strings.Contains(d.reason(2, StepMissing).Text, "counts as average") {
		t.Errorf("after max(3 windows, 3 min/30) = 6 s: %q", d.reason(2, StepMissing).Text)
	}
}
