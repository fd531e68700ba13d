package weighting

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func raw(d *Decision, i int) float64 { return d.Servers[i].RawShare }

func TestFeedbackStartsFromTheWeightInForce(t *testing.T) {
	r := newRig(t, settings(Feedback), 100, 100, 100)
	r.server(0).Weight, r.server(1).Weight, r.server(2).Weight = 256, 128, 64
	d := r.pass()
	wantWeights(t, d, 256, 128, 64) // all loads are equal: nothing to correct
}

func TestFeedbackKeepsPushingWhileAServerStaysHot(t *testing.T) {
	r := newRig(t, settings(Feedback), 100, 100, 100, 200)
	d := r.pass()
	last := raw(d, 3)
	for range 30 {
		d = r.pass()
		share := raw(d, 3)
		if share > last+1e-9 {
			t.Fatalf("share of the hot server rose from %v to %v", last, share)
		}
		last = share
	}
	// e is -0.6 for it and 0.2 for the others: 31 passes of 0.05*0.8, and 0.8 at once.
	want := math.Exp(-0.8 - 31*0.05*0.8)
	if got := raw(d, 3) / raw(d, 0); math.Abs(got/want-1) > 1e-6 {
		t.Errorf("ratio of the shares %v, want %v", got, want)
	}
}

func TestFeedbackTakesNoMaxShare(t *testing.T) {
	s := settings(Feedback)
	s.MaxShare = 1.01
	r := newRig(t, s, 10, 100, 100, 100)
	if d := r.pass(); d.Servers[0].Share < 0.4 {
		t.Errorf("share %v is capped", d.Servers[0].Share)
	}
}

func TestFeedbackTakesItsWeightsBackUnderForce(t *testing.T) {
	want := newRig(t, settings(Feedback), 80, 100, 120).passes(4)
	r := newRig(t, settings(Feedback), 80, 100, 120)
	r.passes(3)
	for i := range r.in.Servers { // HAProxy was reloaded
		r.server(i).Weight = 100
	}
	r.in.Force = "HAProxy was reloaded"
	d := r.pass()
	wantVerdict(t, d, Write)
	for i := range d.Servers {
		if math.Abs(raw(d, i)-raw(want, i)) > 1e-9 {
			t.Errorf("share %v, want %v as without the reload", raw(d, i), raw(want, i))
		}
	}
}

func TestFeedbackFollowsWeightsThatAreNotItsOwn(t *testing.T) {
	r := newRig(t, settings(Feedback), 80, 100, 120)
	r.observe = true // nothing we decide comes into force
	first := r.pass()
	for range 50 {
		if d := cmp.Diff(weightsOf(first), weightsOf(r.pass())); d != "" {
			t.Fatalf("what a pass would set winds up without being set (-first +now):\n%s", d)
		}
	}
}

func TestFeedbackKeepsAFrozenServersPlace(t *testing.T) {
	r := newRig(t, settings(Feedback), 80, 100, 100, 120)
	share := r.passes(3).Servers[3].Share
	r.server(3).Load = math.NaN()
	d := r.passes(5) // held
	if got := d.Servers[3].Share; math.Abs(got/share-1) > 0.2 {
		t.Errorf("share %v while frozen, was %v", got, share)
	}
	if reason := d.reason(3, StepFunction); reason != nil {
		t.Errorf("a frozen server has no part in the function: %+v", reason)
	}
}

func TestFeedbackTakesBackWhatAStuckZeroDid(t *testing.T) {
	r := newRig(t, settings(Feedback), 100, 100, 100, 100)
	fair := r.passes(3).Servers[3].Share
	r.server(3).Load = 0
	raised := r.pass().Servers[3].Share
	if raised < 1.5*fair {
		t.Fatalf("share %v after a zero, was %v: the scene is not as meant", raised, fair)
	}
	d := r.passes(10)
	wantReason(t, d, 3, StepStuck, "not believed")
	if got := d.Servers[3].Share; math.Abs(got/fair-1) > 0.15 {
		t.Errorf("share %v while its zero is not believed, want about %v", got, fair)
	}
}

func TestFeedbackGivesANewServerItsWeightAmongTheOthers(t *testing.T) {
	r := newRig(t, settings(Feedback), 80, 100, 100, 120)
	r.passes(5)
	late := r.in.Servers[1]
	late.Name = "late"
	r.in.Servers = append(r.in.Servers, late)
	r.pass()
	d := r.passes(20)
	if got, want := d.Servers[4].Weight, d.Servers[1].Weight; math.Abs(float64(got)/float64(want)-1) > 0.1 {
		t.Errorf("weights %v: the last is a copy of the second and 5 min old", weightsOf(d))
	}
}
