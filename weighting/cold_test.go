package weighting

import (
	"math"
	"testing"
	"time"
)

func TestColdServersCapRises(t *testing.T) {
	for _, tt := range []struct {
		up   time.Duration
		want float64 // times the fair share
	}{
		{0, 0.1}, {-time.Hour, 0.1}, {75 * time.Second, 0.1 + 3.9/4}, {150 * time.Second, 0.1 + 3.9/2},
		{5 * time.Minute, 4}, {time.Hour, 4},
	} {
		loads := make([]float64, 20)
		for i := range loads[1:] {
			loads[i+1] = 100
		}
		s := settings(WaterFill)
		s.Timing = Timing{} // zero means the documented values
		r := newRig(t, s, loads...)
		r.server(0).UpSince = start.Add(r.step - tt.up)
		r.server(0).Sessions = 0
		d := r.pass()
		step := StepMaxShare
		if tt.want < 4 {
			step = StepCold
		}
		limit := d.reason(0, step)
		if limit == nil || math.Abs(limit.After*20-tt.want) > 1e-9 {
			t.Errorf("up for %v: %+v, want a share of %v times the fair one", tt.up, d.Servers[0].Reasons, tt.want)
		}
	}
}

func TestWholeBackendColdIsBalancedAsUsual(t *testing.T) {
	r := newRig(t, settings(WaterFill), 100, 100, 100, 100)
	for i := range r.in.Servers {
		r.server(i).UpSince = start
		r.server(i).Weight = 50 + i*10
	}
	d := r.pass()
	wantVerdict(t, d, Write)
	wantWeights(t, d, 256, 256, 256, 256)
}

func TestOneWarmServerIsNotFloodedWhenAllOthersAreCold(t *testing.T) {
	loads := []float64{100, 10, 10, 10, 10, 10, 10, 10, 10, 10}
	r := newRig(t, settings(WaterFill), loads...)
	for i := 1; i < len(loads); i++ {
		r.server(i).UpSince = start.Add(r.step)
	}
	d := r.pass()
	for i, s := range d.Servers {
		if s.Share > 0.4+0.01 {
			t.Errorf("server %d draws %v, max_share is 0.4", i, s.Share)
		}
	}
	if d.Servers[1].Share < 0.05 {
		t.Errorf("a cold server draws %v: the cap is relative when nearly all are cold", d.Servers[1].Share)
	}
}

func TestAServerThatJoinsIsCold(t *testing.T) {
	r := newRig(t, settings(WaterFill), 100, 100, 100, 0)
	r.server(3).Sessions = 0
	r.server(3).Rotation = Maint
	r.passes(3)
	r.server(3).Rotation = InRotation
	d := r.pass()
	if c := d.reason(3, StepCold); c == nil || math.Abs(c.After*4-0.1) > 1e-9 {
		t.Fatalf("back from maintenance: %+v", d.Servers[3].Reasons)
	}

	late := r.in.Servers[3]
	late.Name = "late"
	r.in.Servers = append(r.in.Servers, late)
	d = r.pass()
	if c := d.reason(4, StepCold); c == nil || math.Abs(c.After*5-0.1) > 1e-9 {
		t.Fatalf("new in the backend: %+v", d.Servers[4].Reasons)
	}
}

func TestTheFirstPassTakesServersForWarm(t *testing.T) {
	r := newRig(t, settings(LimitedProportions), 0, 100, 100, 100)
	r.server(0).Sessions = 0
	if d := r.pass(); d.reason(0, StepCold) != nil {
		t.Fatalf("cold at the first pass: %+v", d.Servers[0].Reasons)
	}
}

func TestAColdServerWithoutDataCountsAsAverageUnderItsCap(t *testing.T) {
	for _, onMissing := range []OnMissing{MissingNeutral, MissingHold} {
		s := settings(LimitedProportions)
		s.OnMissing = onMissing
		r := newRig(t, s, 100, 100, 100, math.NaN())
		r.pass()
		r.server(3).UpSince = r.in.Now
		d := r.passes(4) // up for 2 min: the cap is 1.66 fair shares
		wantReason(t, d, 3, StepMissing, "it has just come")
		if got := d.Servers[3].Share; math.Abs(got-0.25) > 0.01 {
			t.Errorf("%s: share %v, want 0.25", onMissing, got)
		}
	}
}

func TestDataThatComeBackMayNotDrawMoreThanAverageAtOnce(t *testing.T) {
	r := newRig(t, settings(WaterFill), 100, 100, 100, 100)
	r.pass()
	r.server(3).Load = math.NaN()
	r.passes(6)
	r.server(3).Load, r.server(3).Sessions = 10, 1
	d := r.passes(2)
	if c := d.reason(3, StepCold); c == nil || math.Abs(c.After-0.25) > 1e-9 {
		t.Fatalf("first trusted pass: %+v", d.Servers[3].Reasons)
	}
	d = r.passes(10)
	if c := d.reason(3, StepCold); c != nil {
		t.Fatalf("five minutes later: %+v", c)
	}
}

func TestAColdServerUnderFeedbackIsCappedOnlyWhileItRamps(t *testing.T) {
	loads := []float64{0, 100, 100, 100, 100, 100, 100, 100, 100, 100}
	r := newRig(t, settings(Feedback), loads...)
	r.server(0).Sessions = 0
	r.server(0).UpSince = start.Add(r.step)
	d := r.pass()
	if c := d.reason(0, StepCold); c == nil || math.Abs(c.After*10-0.1) > 1e-9 {
		t.Fatalf("just up: %+v", d.Servers[0].Reasons)
	}
	for _, s := range r.passes(200).Servers {
		for _, reason := range s.Reasons {
			if reason.Step == StepCold || reason.Step == StepMaxShare {
				t.Fatalf("%s after the ramp: %+v", s.Name, reason)
			}
		}
	}
}
