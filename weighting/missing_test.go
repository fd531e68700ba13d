package weighting

import (
	"fmt"
	"math"
	"testing"
	"time"
)

func TestMissingKeepsItsWeightThenCountsAsAverage(t *testing.T) {
	s := settings(LimitedProportions) // window 1 min: the hold is 3 min, 6 passes
	r := newRig(t, s, 80, 100, 100, 120, 100)
	before := r.passes(2)
	weight := before.Servers[3].Weight
	r.server(3).Load = math.NaN()
	for i := range 5 {
		d := r.pass()
		if got := d.Servers[3].Weight; got != weight {
			t.Fatalf("pass %d without data: weight %d, want %d kept", i, got, weight)
		}
		wantReason(t, d, 3, StepMissing, "keeps its share")
	}
	d := r.pass()
	wantVerdict(t, d, Write)
	wantReason(t, d, 3, StepMissing, "counts as average")
	if share := d.Servers[3].Share; math.Abs(share-0.2) > 0.002 {
		t.Fatalf("share %.4f, want the fair one of five servers", share)
	}

	r.server(3).Load = 120
	wantReason(t, r.pass(), 3, StepMissing, "not yet trusted")
	d = r.pass()
	if d.reason(3, StepMissing) != nil || d.Servers[3].Weight != weight {
		t.Fatalf("with two data points: weight %d, want %d again; %+v", d.Servers[3].Weight, weight, d.Servers[3].Reasons)
	}
}

// With a gain this high an average load would leave nothing for the server.
func TestMissingGetsTheFairShareHoweverHighTheGain(t *testing.T) {
	for _, f := range []Function{WaterFill, LimitedProportions, NormalisedExponential} {
		r := newRig(t, settings(f), 80, 97, 98, 100)
		r.server(0).Load = math.NaN()
		d := r.passes(30)
		wantReason(t, d, 0, StepMissing, "counts as average")
		if share := d.Servers[0].Share; math.Abs(share-0.25) > 0.01 {
			t.Errorf("%s: share %.4f, want the fair one of four servers", f, share)
		}
	}
}

func TestMissingHoldIsThreeWindowsWhenTheseAreLonger(t *testing.T) {
	s := settings(LimitedProportions)
	s.Window = 5 * time.Minute
	r := newRig(t, s, 80, 100, 100, 120)
	r.pass()
	r.server(3).Load = math.NaN()
	wantReason(t, r.passes(29), 3, StepMissing, "keeps its share")
	wantReason(t, r.pass(), 3, StepMissing, "counts as average")
}

func TestTheSamePointAgainIsNoSecondPoint(t *testing.T) {
	r := newRig(t, settings(LimitedProportions), 80, 100, 100, 120)
	r.pass()
	r.server(3).Load = math.NaN()
	r.passes(6)
	r.server(3).Load = 120
	r.pass()
	for range 3 { // no new LoadTime
		r.in.Now = r.in.Now.Add(time.Second)
		wantReason(t, r.c.Decide(r.in), 3, StepMissing, "not yet trusted")
	}
	if d := r.pass(); d.reason(3, StepMissing) != nil {
		t.Fatalf("still missing with two points: %+v", d.Servers[3].Reasons)
	}
}

func TestAShortGapCostsNothing(t *testing.T) {
	r := newRig(t, settings(LimitedProportions), 80, 100, 100, 120)
	r.pass()
	r.server(3).Load = math.NaN()
	r.passes(3)
	r.server(3).Load = 120
	if d := r.pass(); d.Fresh != 4 {
		t.Fatalf("fresh %d, want 4", d.Fresh)
	}
}

func TestMissingHoldForEver(t *testing.T) {
	s := settings(LimitedProportions)
	s.OnMissing = MissingHold
	r := newRig(t, s, 80, 100, 100, 120)
	share := r.pass().Servers[3].Share
	r.server(3).Load = math.NaN()
	var d *Decision
	for i := range 500 { // every pass writes
		r.server(i % 3).Load = 80 + float64(i*7%40)
		d = r.pass()
	}
	if got := d.Servers[3].Share; math.Abs(got/share-1) > 0.01 {
		t.Fatalf("share %v, want %v kept", got, share)
	}
	wantReason(t, d, 3, StepMissing, "keeps its share")
}

func TestMissingInitialGetsTheShareOfTheInitialWeight(t *testing.T) {
	s := settings(LimitedProportions)
	s.OnMissing = MissingInitial
	r := newRig(t, s, 80, 100, 100, 120)
	r.server(3).InitialWeight = 150 // of 450: a third
	r.pass()
	r.server(3).Load = math.NaN()
	d := r.passes(6)
	wantReason(t, d, 3, StepMissing, "initial weight 150")
	if got := d.Servers[3].RawShare; math.Abs(got-1./3) > 1e-9 {
		t.Fatalf("share %v, want 1/3", got)
	}
}

func TestMissingServersInitialWeightOfZeroCountsAsAverage(t *testing.T) {
	s := settings(LimitedProportions)
	s.OnMissing = MissingInitial
	r := newRig(t, s, 80, 100, 100, 120)
	r.server(3).InitialWeight = 0
	r.pass()
	r.server(3).Load = math.NaN()
	wantReason(t, r.passes(6), 3, StepMissing, "counts as average")
}

func TestHeldShareWhenItsWeightCannotStay(t *testing.T) {
	// All weights in force are 4, the least allowed: beside a kept 4, a server
	// that should get half as much would need 2.
	r := newRig(t, settings(LimitedProportions), 100, 100, 140, math.NaN())
	for i := range r.in.Servers {
		r.server(i).Weight = 4
	}
	d := r.pass()
	wantVerdict(t, d, Write)
	wantReason(t, d, 3, StepRescale, "keeps its share")
	if got := d.Servers[3].Share; math.Abs(got-0.25) > 0.005 {
		t.Fatalf("share %v, want 0.25 kept", got)
	}
}

func TestWeighedServersAreNotStarvedByKeptShares(t *testing.T) {
	s := settings(LimitedProportions)
	s.Quorum = 0.2
	r := newRig(t, s, 100, math.NaN(), math.NaN(), math.NaN())
	r.server(0).Weight = 1
	for i := 1; i < 4; i++ {
		r.server(i).Weight = 256
	}
	d := r.pass()
	if got := d.Servers[0].RawShare; math.Abs(got-0.025) > 1e-9 {
		t.Fatalf("share %v, want a tenth of its fair share", got)
	}
}

func TestStuckAtZeroCountsAsMissing(t *testing.T) {
	for _, onMissing := range []OnMissing{MissingNeutral, MissingHold, MissingInitial} {
		t.Run(string(onMissing), func(t *testing.T) {
			s := settings(WaterFill)
			s.OnMissing = onMissing
			r := newRig(t, s, 100, 100, 100, 100, 100, 100)
			r.pass()
			r.server(0).Load = 0
			for i := range 2 {
				d := r.pass()
				if d.Servers[0].Relative != 0 {
					t.Fatalf("pass %d: relative %v, want 0: not stuck yet", i, d.Servers[0].Relative)
				}
				if max := 4. / 6; d.Servers[0].Share > max {
					t.Fatalf("share %v is above max_share %v", d.Servers[0].Share, max)
				}
			}
			d := r.pass()
			wantReason(t, d, 0, StepStuck, "10 sessions")
			if d.Fresh != 5 {
				t.Errorf("fresh %d, want 5", d.Fresh)
			}
			if got := d.Servers[0].Share; math.Abs(got-1./6) > 0.01 {
				t.Errorf("share %v, want an average one, not the one that zero earned it", got)
			}
		})
	}
}

// A restart must not believe for three points what was not believed before it.
func TestAZeroIsDoubtedAtOnceByAControllerThatKnowsNoLoadOfIt(t *testing.T) {
	r := newRig(t, settings(WaterFill), 0, 100, 100, 100, 100, 100)
	for range 10 {
		d := r.pass()
		wantReason(t, d, 0, StepStuck, "10 sessions")
		if got := d.Servers[0].Share; math.Abs(got-1./6) > 0.01 {
			t.Fatalf("share %v, want an average one", got)
		}
	}
	r.server(0).Load = 100
	r.passes(2) // trusted again
	r.server(0).Load = 0
	if d := r.pass(); d.reason(0, StepStuck) != nil {
		t.Fatalf("a server that has shown load is doubted at its first zero: %+v", d.Servers[0].Reasons)
	}
}

func TestAServerThatHasJustComeMayReportZero(t *testing.T) {
	r := newRig(t, settings(WaterFill), 100, 100, 100, 100)
	r.server(3).Rotation = Maint
	r.pass()
	r.server(3).Rotation, r.server(3).Load = InRotation, 0
	if d := r.passes(2); d.Fresh != 4 {
		t.Fatalf("fresh %d, want 4: its data are older than its connections: %+v", d.Fresh, d.Servers[3].Reasons)
	}
}

func TestAQuietServerMayGoOnReportingZero(t *testing.T) {
	r := newRig(t, settings(WaterFill), 0, 100, 100, 100)
	r.server(0).Sessions = 0
	r.passes(3)
	r.server(0).Sessions = 10 // connections have come, their load not yet
	if d := r.passes(2); d.Fresh != 4 {
		t.Fatalf("fresh %d, want 4: %+v", d.Fresh, d.Servers[0].Reasons)
	}
	wantReason(t, r.pass(), 0, StepStuck, "10 sessions")
}

func TestNotStuckWithFewSessionsOrUnknownOnes(t *testing.T) {
	for _, sessions := range []int{-1, 0, 4} {
		t.Run(fmt.Sprint(sessions), func(t *testing.T) {
			r := newRig(t, settings(WaterFill), 0, 100, 100, 100)
			r.server(0).Sessions = sessions
			if d := r.passes(10); d.Fresh != 4 {
				t.Fatalf("fresh %d, want 4: %+v", d.Fresh, d.Servers[0].Reasons)
			}
		})
	}
}

func TestZeroIsTheWorstWhenHigherIsBetter(t *testing.T) {
	s := settings(LimitedProportions)
	s.Better = Higher
	r := newRig(t, s, 0, 100, 100, 100)
	if d := r.passes(10); d.Fresh != 4 || d.Servers[0].Share > d.Servers[1].Share {
		t.Fatalf("fresh %d, share %v beside %v", d.Fresh, d.Servers[0].Share, d.Servers[1].Share)
	}
}

func TestStuckServerIsBelievedAgainAfterTwoPoints(t *testing.T) {
	r := newRig(t, settings(WaterFill), 0, 100, 100, 100)
	r.passes(3)
	r.server(0).Load = 100
	wantReason(t, r.pass(), 0, StepMissing, "not yet trusted")
	if d := r.pass(); d.Fresh != 4 {
		t.Fatalf("fresh %d, want 4", d.Fresh)
	}
}
