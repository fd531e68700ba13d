package weighting

import (
	"math"
	"testing"
	"time"
)

// blindTimes are what can lie between two passes: HAProxy's socket does not
// answer or this process is stopped, for a while or for weeks, or the clock jumps.
var blindTimes = []time.Duration{3 * time.Minute, 16 * time.Minute, time.Hour, 21 * 24 * time.Hour}

func TestTimeWithoutAPassUsesUpNoHold(t *testing.T) {
	for _, blind := range blindTimes {
		s := settings(LimitedProportions) // the hold is 3 min, 6 passes
		r := newRig(t, s, 80, 100, 100, 120, 100)
		weight := r.passes(2).Servers[3].Weight
		r.in.Now = r.in.Now.Add(blind)
		r.server(3).Load = math.NaN()
		for i := range 2 { // a minute for the first one, as late as a pass may be
			d := r.pass()
			if got := d.Servers[3].Weight; got < weight-1 || got > weight+1 { // ten minutes after the last write it is rounded anew
				t.Fatalf("%s without a pass, then pass %d without data: weight %d, want %d kept", blind, i+1, got, weight)
			}
			wantReason(t, d, 3, StepMissing, "keeps its share")
		}
		r.in.Now = r.in.Now.Add(blind) // the hold goes on where it was
		wantReason(t, r.pass(), 3, StepMissing, "keeps its share")
		wantReason(t, r.pass(), 3, StepMissing, "counts as average")
	}
}

func TestTimeWithoutAPassIsNoTimeWithoutData(t *testing.T) {
	for _, blind := range blindTimes {
		s := settings(WaterFill)
		s.OnStale = StaleInitial // after 10 min
		r := newRig(t, s, 1, 2, 3)
		r.passes(2)
		r.in.Now = r.in.Now.Add(blind)
		for i := range r.in.Servers {
			r.server(i).Load = math.NaN()
		}
		wantHold(t, r.passes(10), HoldStale)
		r.in.Now = r.in.Now.Add(blind)
		wantHold(t, r.passes(7), HoldStale)
		wantVerdict(t, r.pass(), Write)
	}
}

func TestTimeWithoutAPassMakesNoTotalUsual(t *testing.T) {
	for _, blind := range blindTimes {
		r := newRig(t, settings(WaterFill), 100, 200, 300)
		r.passes(5)
		scaleLoads(r, 0.001)
		wantHold(t, r.pass(), HoldTotal)
		r.in.Now = r.in.Now.Add(blind)
		wantHold(t, r.passes(17), HoldTotal)
		if d := r.passes(2); d.HoldCode == HoldTotal {
			t.Errorf("%s without a pass, and 10 min with them: still held: %s", blind, d.Why)
		}
	}
}

// Passes that are late because Graphite is slow are no outage of ours.
func TestLatePassesCountInFull(t *testing.T) {
	s := settings(LimitedProportions)
	s.Interval = 10 * time.Second
	r := newRig(t, s, 80, 100, 100, 120)
	r.step = 40 * time.Second // every render takes 30 s
	r.pass()
	r.server(3).Load = math.NaN()
	wantReason(t, r.passes(4), 3, StepMissing, "keeps its share")
	wantReason(t, r.pass(), 3, StepMissing, "counts as average")
}
