package weighting

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// An order or a reload makes a pass at once. However many there are, together
// they take one step of max_step an interval.
func TestPassesThatComeEarlyTakeNoFurtherStep(t *testing.T) {
	s := settings(WaterFill)
	s.MaxStep, s.Interval = 0.1, 5*time.Minute
	r := newRig(t, s, 50, 100, 100, 150)
	d := r.pass()
	wantWeights(t, d, 110, 90, 90, 90)
	r.step = 4 * time.Second
	for range 55 { // 220 s, up to 0.8 of the interval
		d = r.pass()
		wantVerdict(t, d, Keep)
		wantWeights(t, d, 110, 90, 90, 90)
	}
	wantReason(t, d, 0, StepMaxStep, "weight 100, of 220 s ago, may change by 10 % in one interval: 99 to 110")
	r.step = 5*time.Minute - 220*time.Second
	wantWeights(t, r.pass(), 121, 81, 81, 81)
}

func TestANewControllerWaitsForTheStepThatWasTakenBeforeIt(t *testing.T) {
	s := settings(WaterFill)
	s.MaxStep, s.Interval = 0.1, 5*time.Minute
	r := newRig(t, s, 50, 100, 100, 150)
	r.pass()
	r.step = time.Second
	for range 20 { // 20 reloads that change the configuration, or restarts
		r.c = NewController(s)
		d := r.pass()
		wantWeights(t, d, 110, 90, 90, 90)
		wantReason(t, d, 0, StepMaxStep, "no change yet")
	}
	r.step = 4 * time.Minute
	wantWeights(t, r.pass(), 121, 81, 81, 81)
}

func TestAPinStartsAStepOfItsOwn(t *testing.T) {
	s := settings(WaterFill)
	s.MaxStep, s.Interval = 0.1, 5*time.Minute
	r := newRig(t, s, 50, 100, 100, 150)
	r.pass()
	r.step = time.Second
	for range 20 {
		r.server(3).Pin, r.server(3).Weight = 200, 200 // the pass before has set it
		wantWeights(t, r.pass(), 110, 90, 90, 200)
		r.server(3).Pin = 0
		wantWeights(t, r.pass(), 110, 90, 90, 180)
	}
}

// The clock may be set back: no weight waits for it to catch up.
func TestAStepEndsWhenTheClockGoesBack(t *testing.T) {
	s := settings(WaterFill)
	s.MaxStep, s.Interval = 0.1, 5*time.Minute
	r := newRig(t, s, 50, 100, 100, 150)
	r.pass()
	r.step = -time.Hour
	wantWeights(t, r.pass(), 121, 81, 81, 81)
}

// The law of max_step: whatever the passes, their times, the loads and the
// controllers, weights go no further than the time that has gone allows.
func TestMaxStepIsMeantForAnInterval(t *testing.T) {
	for _, f := range allFunctions {
		t.Run(string(f), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				in := drawInput(t)
				set := settings(f)
				set.MinWeight, set.MaxStep = 1, rapid.SampledFrom([]float64{0.05, 0.2, 0.5}).Draw(t, "max_step")
				c := NewController(set)
				low, high := make([]int, len(in.Servers)), make([]int, len(in.Servers))
				for i, s := range in.Servers {
					low[i], high[i] = s.Weight, s.Weight
				}
				began, steps := in.Now, 0
				for range rapid.IntRange(1, 40).Draw(t, "passes") {
					in.Now = in.Now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "after")) * time.Second / 2)
					if rapid.IntRange(0, 9).Draw(t, "reload") == 0 {
						c = NewController(set)
					}
					for i := range in.Servers {
						in.Servers[i].LoadTime = in.Now
						in.Servers[i].Load = rapid.Float64Range(0, 100).Draw(t, "load")
					}
					d := c.Decide(in)
					allowed := 1 + int(math.Floor(in.Now.Sub(began).Seconds()/(stepTime*set.Interval.Seconds())))
					for ; steps < allowed; steps++ {
						for i := range low {
							low[i], _ = stepRange(low[i], set.MaxStep)
							_, high[i] = stepRange(high[i], set.MaxStep)
						}
					}
					for i, s := range d.Servers {
						if down, up := stepRange(in.Servers[i].Weight, set.MaxStep); s.Weight < down || s.Weight > up {
							t.Fatalf("%s: weight %d to %d in one pass", s.Name, in.Servers[i].Weight, s.Weight)
						}
						if s.Weight < max(low[i], 1) || s.Weight > max(high[i], 1) {
							t.Fatalf("%s: weight %d after %v, want %d to %d: %+v", s.Name, s.Weight, in.Now.Sub(began), low[i], high[i], s.Reasons)
						}
						if d.Verdict == Write {
							in.Servers[i].Weight, in.LastChange = s.Weight, in.Now
						}
					}
				}
			})
		})
	}
}

// What counts passes elsewhere: feedback's integral adds up over time, and a
// total is usual after some time, not after some orders.
func TestABurstOfPassesCountsAsItsTime(t *testing.T) {
	burst, calm := newRig(t, settings(Feedback), 100, 100, 100, 200), newRig(t, settings(Feedback), 100, 100, 100, 200)
	burst.pass()
	calm.pass()
	burst.step = 100 * time.Millisecond
	burst.passes(100)
	burst.step = 20 * time.Second
	if got, want := raw(burst.pass(), 3), raw(calm.pass(), 3); math.Abs(got-want) > 1e-9 {
		t.Errorf("after 101 passes in 30 s the share is %v, after one %v", got, want)
	}

	r := newRig(t, settings(WaterFill), 10000, 10000, 10000, 10000)
	r.step = 10 * time.Millisecond
	r.passes(20)
	if r.c.usual.passes != 1 {
		t.Errorf("20 passes in 200 ms count as %d of those that make a total usual", r.c.usual.passes)
	}
}
