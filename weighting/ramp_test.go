package weighting

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// limited is a server's share after all limits but those of whole weights.
func (d *Decision) limited(i int) float64 { return d.reason(i, StepWeight).Before }

// A blip or a rolling restart makes most servers cold at once, with the
// connections that they had. Their ramps must not send the new ones to those
// that have the most load.
func TestRampsDoNotFloodTheServersThatAreLeft(t *testing.T) {
	for _, tt := range []struct {
		name   string
		loads  []float64
		cold   int // the last so many
		most   float64
		gaveTo float64 // share of each cold one
	}{
		{"3 of 4, the other at 3 times their load", []float64{300, 100, 100, 100}, 3, 1.5 / 4 / 2, (1 - 1.5/8) / 3},
		{"5 of 8", []float64{300, 300, 300, 100, 100, 100, 100, 100}, 5, 1.5 / 8 * 175 / 300, (1 - 3*1.5/8*175/300) / 5},
		{"rolling, the last one at 5 times their load", []float64{250, 50, 50, 50}, 3, 1.5 / 4 * 100 / 250, (1 - 1.5/4*100/250) / 3},
		{"restarted empty", []float64{400, 0, 0, 0}, 3, 1.5 / 4 / 4, (1 - 1.5/16) / 3},
	} {
		for _, f := range allFunctions {
			t.Run(tt.name+" "+string(f), func(t *testing.T) {
				equal := make([]float64, len(tt.loads))
				for i := range equal {
					equal[i] = 100
				}
				r := newRig(t, settings(f), equal...)
				r.passes(3)
				for i, l := range tt.loads {
					r.server(i).Load = l
					if i >= len(tt.loads)-tt.cold {
						r.server(i).UpSince = r.in.Now.Add(r.step)
					}
				}
				d := r.pass()
				if got := d.limited(0); got > tt.most+1e-9 {
					t.Errorf("the busiest gets %v of the new connections, want at most %v: %+v", got, tt.most, d.Servers[0].Reasons)
				}
				last := len(tt.loads) - 1
				if got := d.limited(last); f != Feedback && math.Abs(got-tt.gaveTo) > 1e-9 {
					t.Errorf("a cold one gets %v, want %v: %+v", got, tt.gaveTo, d.Servers[last].Reasons)
				}
				wantReason(t, d, last, StepRamp, "its ramp gave way")
				if r := d.reason(0, StepRest); f != Feedback && r != nil {
					wantReason(t, d, 0, StepRest, "their ramps give way")
				}
			})
		}
	}
}

// What cold servers take beyond their ramps depends on their loads too.
func TestTheBusiestOfTheColdServersTakesLeast(t *testing.T) {
	r := newRig(t, settings(WaterFill), 300, 100, 100, 300)
	r.pass()
	for i := 1; i < 4; i++ {
		r.server(i).UpSince = r.in.Now.Add(r.step)
	}
	d := r.pass()
	if a, b := d.limited(3), d.limited(1); a >= b*0.75 {
		t.Errorf("the busiest cold server gets %v beside %v", a, b)
	}
}

// The law of the ramp, for every function: it lifts no warm server above 1.5
// times what the function wants for it without ramps, or 1.5 fair shares if that
// is more, less where its load is above the mean. And a ramp gives way only where
// that leaves no other choice.
func TestRampsLiftNoWarmServerTooHigh(t *testing.T) {
	for _, f := range allFunctions {
		t.Run(string(f), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				in := drawInput(t)
				var capacity float64
				var cold []bool
				for i := range in.Servers {
					if i > 1 && rapid.IntRange(0, 4).Draw(t, "missing") == 0 {
						in.Servers[i].Load = math.NaN()
					}
					cold = append(cold, !math.IsNaN(in.Servers[i].Load) && rapid.Bool().Draw(t, "cold"))
					capacity += in.Servers[i].Capacity
				}
				set := settings(f)
				set.Quorum, set.MaxShare = 0, rapid.SampledFrom([]float64{1.1, 2, 4, 30}).Draw(t, "max_share")
				wanted := NewController(set).Decide(in)
				ages := make([]time.Duration, len(in.Servers))
				for i := range in.Servers {
					if cold[i] {
						ages[i] = time.Duration(rapid.IntRange(0, 299).Draw(t, "up")) * time.Second
						in.Servers[i].UpSince = start.Add(-ages[i])
					}
				}
				d := NewController(set).Decide(in)
				if d.Verdict == Hold {
					return
				}
				gaveWay, slack := false, 0.0
				for i, s := range d.Servers {
					got, fair := d.limited(i), in.Servers[i].Capacity/capacity
					if cold[i] {
						ramp := fair * (coldCap + (set.MaxShare-coldCap)*ages[i].Seconds()/300)
						gaveWay = gaveWay || got > ramp+1e-9
						if told := d.reason(i, StepRamp) != nil; told != (got > ramp*(1+1e-9)) {
							t.Fatalf("%s: share %v, ramp %v, told %v: %+v", s.Name, got, ramp, told, s.Reasons)
						}
						continue
					}
					most := 1.5 * max(wanted.limited(i), fair*min(1, 1/max(s.Relative, 1)))
					if math.IsNaN(s.Relative) {
						most = 1.5 * max(wanted.limited(i), fair)
					}
					if f != Feedback {
						most = min(most, set.MaxShare*fair)
					}
					if got > most+1e-9 {
						t.Fatalf("%s: relative load %v, share %v, want at most %v: %+v", s.Name, s.Relative, got, most, s.Reasons)
					}
					slack += most - got
				}
				if gaveWay && slack > 1e-6 {
					t.Fatalf("a ramp gave way although the warm ones had room for %v", slack)
				}
			})
		})
	}
}
