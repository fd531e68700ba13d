package weighting

import (
	"math"
	"testing"
	"time"
)

// changed has the rig go on with other settings, as after a reload.
func (r *rig) changed(s Settings) {
	next := NewController(s)
	next.Continue(r.c)
	r.c = next
}

func TestContinueForgetsNothingOfTheServers(t *testing.T) {
	r := newRig(t, settings(WaterFill), 100, 100, 100, 100, 100)
	r.passes(6)
	r.server(0).Load = 0
	r.server(1).Load = math.NaN()
	r.server(2).Rotation = Maint
	r.passes(6)
	r.server(2).Rotation = InRotation
	for _, f := range allFunctions {
		s := settings(f)
		s.Deadband = 0.06
		r.changed(s)
		d := r.pass()
		wantReason(t, d, 0, StepStuck, "not believed")
		wantReason(t, d, 1, StepMissing, "counts as average")
		if !math.IsInf(r.c.servers["s3"].cold(time.Time{}, r.in.Now, time.Minute, 4), 1) || r.c.servers["s2"].since.IsZero() {
			t.Errorf("%s: who has just come is not known any more", f)
		}
	}
	for i := range 5 {
		r.server(i).Load = 0.01
	}
	r.changed(settings(WaterFill))
	wantHold(t, r.pass(), HoldTotal)
}

func TestContinueWithAnotherBetterHasNoUsualTotal(t *testing.T) {
	r := newRig(t, settings(LimitedProportions), 100, 100, 100, 100)
	r.passes(6)
	for i := range 4 {
		r.server(i).Load = 0.01 + 0.001*float64(i)
	}
	s := settings(LimitedProportions)
	s.Better = Higher
	r.changed(s)
	if d := r.pass(); d.Verdict == Hold {
		t.Errorf("holds: %s", d.Why)
	}
}

// Feedback that continues feedback makes no second jump for the same error;
// after another function it starts from the weights in force.
func TestContinueKeepsFeedbacksMemoryForFeedbackOnly(t *testing.T) {
	calm, reloaded := newRig(t, settings(Feedback), 100, 100, 100, 200), newRig(t, settings(Feedback), 100, 100, 100, 200)
	calm.pass()
	reloaded.pass()
	s := settings(Feedback)
	s.Deadband = 0.06
	reloaded.changed(s)
	if got, want := raw(reloaded.pass(), 3), raw(calm.pass(), 3); math.Abs(got-want) > 1e-9 {
		t.Errorf("share %v after a reload, %v without", got, want)
	}
	reloaded.changed(settings(WaterFill))
	reloaded.pass()
	for i := range 4 {
		reloaded.server(i).Load = 100
	}
	reloaded.passes(3)
	reloaded.changed(settings(Feedback))
	if got := raw(reloaded.pass(), 3); math.Abs(got-0.25) > 1e-9 {
		t.Errorf("share %v of one of four equal servers after another function", got)
	}
}

func TestContinueGoesOnWithTheStepInHand(t *testing.T) {
	s := settings(WaterFill)
	s.MaxStep, s.Interval = 0.1, 5*time.Minute
	r := newRig(t, s, 50, 100, 100, 150)
	r.pass()
	r.step = time.Second
	for i := range 20 {
		s.Deadband = 0.05 + 0.001*float64(i)
		r.changed(s)
		wantWeights(t, r.pass(), 110, 90, 90, 90)
	}
}
