package weighting

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// What somebody else has set is taken back in one pass, and shapes nothing: the
// decision is the one that there would have been without it.
func TestForeignWeightsShapeNothing(t *testing.T) {
	for _, f := range allFunctions {
		t.Run(string(f), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				set := settings(f)
				set.Deadband = 0
				set.MaxStep = rapid.SampledFrom([]float64{0, 0.1, 0.5}).Draw(t, "max_step")
				a, b := NewController(set), NewController(set)
				in := drawInput(t)
				for range rapid.IntRange(0, 3).Draw(t, "passes") {
					in.Now = in.Now.Add(set.Interval)
					if rapid.IntRange(0, 3).Draw(t, "silent") == 0 {
						in.Servers[0].Load = math.NaN()
					}
					d := a.Decide(in)
					b.Decide(in)
					for i := range in.Servers {
						in.Servers[i].Weight = d.Servers[i].Weight
					}
				}
				in.Now = in.Now.Add(set.Interval)
				touched := in
				touched.Force = "somebody else has set weights"
				touched.Servers = slices.Clone(in.Servers)
				for i := range touched.Servers {
					if s := &touched.Servers[i]; rapid.Bool().Draw(t, "foreign") {
						s.Left, s.Weight = s.Weight, rapid.IntRange(1, 256).Draw(t, "weight")
					}
				}
				want, got := a.Decide(in), b.Decide(touched)
				if want.Verdict != Write || got.Verdict != Write { // shares that are wanted as they are stay
					return
				}
				for i := range want.Servers {
					if w, g := want.Servers[i], got.Servers[i]; math.Abs(w.Share-g.Share) > 1e-9 {
						t.Fatalf("%s gets %v (weight %d, %s), without the foreign weights %v (%d, %s)\n%+v",
							w.Name, g.Share, g.Weight, got.Verdict, w.Share, w.Weight, want.Verdict, touched.Servers)
					}
				}
			})
		})
	}
}

func TestForeignWeightIsTakenBackAtOnceWhateverMaxStep(t *testing.T) {
	for _, foreign := range []int{1, 256} {
		t.Run(fmt.Sprint(foreign), func(t *testing.T) {
			s := settings(LimitedProportions)
			s.MaxStep = 0.1
			r := newRig(t, s, 100, 100, 100, 100)
			r.pass()
			r.server(0).Left, r.server(0).Weight = r.server(0).Weight, foreign
			r.in.Force = "somebody else has set weights"
			d := r.pass()
			wantVerdict(t, d, Write)
			if share := d.Servers[0].Share; math.Abs(share-0.25) > 0.01 {
				t.Errorf("share %v a pass after %d was set, want 0.25: weights %v", share, foreign, weightsOf(d))
			}
		})
	}
}
