package weighting

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// pinnedLoop decides again and again with the weights of the decision before in
// force, as HAProxy would have them.
func pinnedLoop(set Settings, servers []Server, passes int, each func(n int, d *Decision)) {
	c := NewController(set)
	at := time.Unix(1_700_000_000, 0)
	last := time.Time{}
	for n := range passes {
		for i := range servers {
			servers[i].LoadTime = at
		}
		d := c.Decide(Input{Now: at, Servers: slices.Clone(servers), Lifetime: time.Hour, LastChange: last})
		each(n, d)
		for i := range d.Servers {
			w := d.Servers[i].Weight
			if servers[i].Pin > 0 {
				w = servers[i].Pin // the balancer sets it whatever the verdict
			}
			if w != servers[i].Weight {
				last = at
			}
			servers[i].Weight = w
		}
		at = at.Add(set.Interval)
	}
}

// With loads that do not change, weights come to rest beside a pin.
func TestWeightsRestBesideAPin(t *testing.T) {
	for _, f := range []Function{WaterFill, LimitedProportions, NormalisedExponential} {
		for _, pin := range []int{1, 20, 256} {
			t.Run(fmt.Sprintf("%s/%d", f, pin), func(t *testing.T) {
				set := DefaultSettings()
				set.Function, set.MaxShare = f, 2
				servers := []Server{
					{Name: "s1", Load: 300, Capacity: 1, Weight: 100, InitialWeight: 100, Sessions: 10},
					{Name: "s2", Load: 200, Capacity: 1, Weight: 100, InitialWeight: 100, Sessions: 10, Pin: pin},
					{Name: "s3", Load: 100, Capacity: 1, Weight: 100, InitialWeight: 100, Sessions: 10},
				}
				writes := 0
				pinnedLoop(set, servers, 30, func(n int, d *Decision) {
					if n >= 5 && d.Verdict == Write {
						writes++
						t.Logf("pass %d: %s, weights %d %d %d", n, d.Why, d.Servers[0].Weight, d.Servers[1].Weight, d.Servers[2].Weight)
					}
					if d.Verdict == Write && d.Servers[1].Weight != pin {
						t.Errorf("pass %d sets %d instead of the pin", n, d.Servers[1].Weight)
					}
					// The pinned server's load is measured as any other's.
					if d.Fresh != 3 || math.Abs(d.MaxOverMean-1.5) > 1e-9 || d.Servers[1].Relative != 1 {
						t.Errorf("pass %d: fresh %d, max/mean %v, relative %v", n, d.Fresh, d.MaxOverMean, d.Servers[1].Relative)
					}
				})
				if writes > 0 {
					t.Errorf("%d writes after the fifth pass", writes)
				}
				if servers[2].Weight <= servers[0].Weight {
					t.Errorf("weights %d and %d: the others are not balanced", servers[0].Weight, servers[2].Weight)
				}
			})
		}
	}
}

func TestEveryServerPinned(t *testing.T) {
	servers := []Server{{Name: "s1", Load: 3, Capacity: 1, Weight: 5, Pin: 5}, {Name: "s2", Load: 1, Capacity: 1, Weight: 9, Pin: 9}}
	pinnedLoop(DefaultSettings(), servers, 3, func(_ int, d *Decision) {
		if d.Verdict != Keep || d.MaxOverMean != 1.5 {
			t.Errorf("%s: %s, max/mean %v", d.Verdict, d.Why, d.MaxOverMean)
		}
	})
}

// Whatever the loads and pins, a pinned server gets its pin or keeps its weight,
// and the others stay within the limits.
func TestPinsLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := DefaultSettings()
		set.Function = rapid.SampledFrom([]Function{WaterFill, LimitedProportions, NormalisedExponential, Feedback}).Draw(t, "function")
		set.MaxStep = rapid.SampledFrom([]float64{0, 0.2}).Draw(t, "max_step")
		servers := make([]Server, rapid.IntRange(2, 8).Draw(t, "servers"))
		for i := range servers {
			servers[i] = Server{
				Name: fmt.Sprint("s", i), Load: rapid.Float64Range(0, 1e6).Draw(t, "load"), Capacity: rapid.Float64Range(0.1, 10).Draw(t, "capacity"),
				Weight: rapid.IntRange(1, 256).Draw(t, "weight"), InitialWeight: 100, Sessions: 10,
			}
			if rapid.Bool().Draw(t, "silent") && i%3 == 0 {
				servers[i].Load = math.NaN()
			}
			if rapid.Bool().Draw(t, "pinned") {
				servers[i].Pin = rapid.IntRange(1, 256).Draw(t, "pin")
			}
		}
		pinnedLoop(set, servers, 6, func(n int, d *Decision) {
			for i, s := range d.Servers {
				switch {
				case servers[i].Pin > 0:
					if s.Weight != servers[i].Pin && s.Weight != servers[i].Weight {
						t.Fatalf("pass %d: %s at %d, pinned at %d, in force %d", n, s.Name, s.Weight, servers[i].Pin, servers[i].Weight)
					}
				case d.Verdict == Write && (s.Weight < set.MinWeight || s.Weight > set.MaxWeight) && s.Weight != servers[i].Weight:
					t.Fatalf("pass %d: %s at %d", n, s.Name, s.Weight)
				}
				if math.IsNaN(s.Share) || s.Share < 0 || s.Share > 1 {
					t.Fatalf("pass %d: share %v of %s", n, s.Share, s.Name)
				}
			}
		})
	})
}
