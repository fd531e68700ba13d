package weighting

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// drawInput draws a healthy pass over servers that differ in load and capacity.
func drawInput(t *rapid.T) Input {
	loads, capacities := plant(t)
	in := Input{Now: start, Lifetime: time.Duration(rapid.Int64Range(0, int64(10*time.Hour)).Draw(t, "lifetime"))}
	for i := range loads {
		in.Servers = append(in.Servers, Server{
			Name: fmt.Sprint("s", i), Load: loads[i], LoadTime: start, DataAge: 20 * time.Second,
			Capacity: capacities[i], Weight: rapid.IntRange(1, 256).Draw(t, "weight"), InitialWeight: 100, Sessions: -1,
		})
	}
	return in
}

func decideOnce(f Function, in Input) *Decision {
	return NewController(settings(f)).Decide(in)
}

func TestLawsOfDecisions(t *testing.T) {
	for _, f := range allFunctions {
		t.Run(string(f), func(t *testing.T) {
			t.Run("permutation", func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					in := drawInput(t)
					want := decideOnce(f, in)
					order := rapid.Permutation(want.Servers).Draw(t, "order")
					given := map[string]Server{}
					for _, s := range in.Servers {
						given[s.Name] = s
					}
					in.Servers = nil
					for _, s := range order {
						in.Servers = append(in.Servers, given[s.Name])
					}
					sameDecision(t, want, decideOnce(f, in))
				})
			})
			t.Run("scale", func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					in := drawInput(t)
					want := decideOnce(f, in)
					in.Servers = slices.Clone(in.Servers)
					factor := rapid.Float64Range(1e-6, 1e6).Draw(t, "factor")
					for i := range in.Servers {
						in.Servers[i].Load *= factor
					}
					sameDecision(t, want, decideOnce(f, in))
				})
			})
			t.Run("a higher load never gives a higher weight", func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					in := drawInput(t)
					for i := range in.Servers {
						in.Servers[i].Capacity, in.Servers[i].Weight = 1, 100
					}
					d := decideOnce(f, in)
					for i, a := range in.Servers {
						for j, b := range in.Servers {
							if a.Load > b.Load && d.Servers[i].Weight > d.Servers[j].Weight {
								t.Fatalf("load %v gets %d, load %v gets %d", a.Load, d.Servers[i].Weight, b.Load, d.Servers[j].Weight)
							}
						}
					}
				})
			})
			t.Run("equal utilisation gives the capacities", func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					in := drawInput(t)
					var capacity float64
					for i := range in.Servers {
						s := &in.Servers[i]
						s.Load, s.Weight = s.Capacity*123, 100
						capacity += s.Capacity
					}
					for i, s := range decideOnce(f, in).Servers {
						if want := in.Servers[i].Capacity / capacity; f != Feedback && math.Abs(s.RawShare-want) > 1e-9 {
							t.Fatalf("share %v, want %v", s.RawShare, want)
						}
					}
				})
			})
		})
	}
}

// sameDecision compares by server. A share at the edge between two integers
// may round either way.
func sameDecision(t *rapid.T, want, got *Decision) {
	t.Helper()
	if want.Verdict != got.Verdict {
		t.Fatalf("verdict %s (%s), want %s (%s)", got.Verdict, got.Why, want.Verdict, want.Why)
	}
	servers := map[string]ServerDecision{}
	for _, s := range got.Servers {
		servers[s.Name] = s
	}
	for _, w := range want.Servers {
		g := servers[w.Name]
		if math.Abs(g.RawShare-w.RawShare) > 1e-7 || g.Weight-w.Weight > 1 || w.Weight-g.Weight > 1 {
			t.Fatalf("%s: share %v, weight %d, want %v, %d", w.Name, g.RawShare, g.Weight, w.RawShare, w.Weight)
		}
	}
}

func TestMaxShareHoldsForEveryInput(t *testing.T) {
	for _, f := range []Function{LimitedProportions, NormalisedExponential, WaterFill} {
		t.Run(string(f), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				in := drawInput(t)
				var capacity float64
				for i := range in.Servers {
					s := &in.Servers[i]
					if rapid.Bool().Draw(t, "cold") {
						s.UpSince = start.Add(-time.Minute)
					}
					if i > 1 && rapid.Bool().Draw(t, "missing") {
						s.Load = math.NaN()
					}
					capacity += s.Capacity
				}
				set := settings(f)
				set.Quorum = 0
				for i, s := range NewController(set).Decide(in).Servers {
					limit := 4 * in.Servers[i].Capacity / capacity
					for _, r := range s.Reasons {
						if r.Step == StepWeight && r.Before > limit*(1+1e-9)+1e-12 {
							t.Fatalf("%s: share %v above %v", s.Name, r.Before, limit)
						}
					}
				}
			})
		})
	}
}

// TestReasonsLeadToTheWeight: each step begins where the one before it ended,
// from the load to the weight decided.
func TestReasonsLeadToTheWeight(t *testing.T) {
	for _, f := range allFunctions {
		t.Run(string(f), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				set := settings(f)
				set.MaxStep = rapid.SampledFrom([]float64{0, 0.2}).Draw(t, "max_step")
				set.Better = rapid.SampledFrom([]Better{Lower, Higher}).Draw(t, "better")
				in := drawInput(t)
				if rapid.Bool().Draw(t, "cold") {
					in.Servers[0].UpSince = start.Add(-time.Minute)
				}
				d := NewController(set).Decide(in)
				if d.Verdict == Hold {
					return
				}
				for i, s := range d.Servers {
					at := in.Servers[i].Load
					for _, r := range s.Reasons {
						if r.Step == StepLifetime {
							continue
						}
						if math.Abs(r.Before-at) > 1e-6*max(math.Abs(at), 1e-9) {
							t.Fatalf("%s: step %s begins at %v, the one before ended at %v:\n%+v", s.Name, r.Step, r.Before, at, s.Reasons)
						}
						at = r.After
					}
					if at != float64(s.Weight) {
						t.Fatalf("%s: the reasons end at %v, the weight is %d:\n%+v", s.Name, at, s.Weight, s.Reasons)
					}
				}
			})
		})
	}
}

// drawGarbage draws a server of any kind.
func drawGarbage(i int) *rapid.Generator[Server] {
	number := rapid.OneOf(
		rapid.Float64(), rapid.Float64Range(0, 100), rapid.Just(0.0), rapid.Just(-1.0),
		rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 5e-324, math.MaxFloat64}),
	)
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "zero") {
			return time.Time{}
		}
		return start.Add(time.Duration(rapid.Int64Range(-1e13, 1e13).Draw(t, "offset")))
	})
	return rapid.Custom(func(t *rapid.T) Server {
		return Server{
			Name:          fmt.Sprint("s", rapid.SampledFrom([]int{i, i, i, 0}).Draw(t, "name")),
			Load:          number.Draw(t, "load"),
			LoadTime:      moment.Draw(t, "load time"),
			DataAge:       time.Duration(rapid.Int64Range(-1e12, 1e14).Draw(t, "age")),
			Capacity:      rapid.OneOf(rapid.Just(1.0), number).Draw(t, "capacity"),
			Weight:        rapid.OneOf(rapid.IntRange(1, 256), rapid.IntRange(-2, 300)).Draw(t, "weight"),
			InitialWeight: rapid.IntRange(-2, 300).Draw(t, "initial"),
			Left:          rapid.OneOf(rapid.Just(0), rapid.IntRange(-2, 300)).Draw(t, "left"),
			Rotation: rapid.SampledFrom([]Rotation{
				InRotation, InRotation, InRotation, Down, Maint, Drain, Backup, "?",
			}).Draw(t, "rotation"),
			UpSince:  moment.Draw(t, "up since"),
			Sessions: rapid.IntRange(-5, 100).Draw(t, "sessions"),
		}
	})
}

func drawSettings(t *rapid.T) Settings {
	s := settings(rapid.SampledFrom(allFunctions).Draw(t, "function"))
	s.Aggressiveness = rapid.Float64Range(0.01, 1e6).Draw(t, "aggressiveness")
	s.LimitingFactor = rapid.Float64Range(1.01, 1e6).Draw(t, "limiting_factor")
	s.Better = rapid.SampledFrom([]Better{Lower, Higher}).Draw(t, "better")
	s.MinWeight = rapid.IntRange(1, 256).Draw(t, "min_weight")
	s.MaxWeight = rapid.IntRange(s.MinWeight, 256).Draw(t, "max_weight")
	s.MaxShare = rapid.Float64Range(1.001, 100).Draw(t, "max_share")
	s.MaxStep = rapid.SampledFrom([]float64{0, 0, 0.01, 0.2, 5}).Draw(t, "max_step")
	s.Quorum = rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "quorum")
	s.OnMissing = rapid.SampledFrom([]OnMissing{MissingNeutral, MissingHold, MissingInitial}).Draw(t, "on_missing")
	s.OnStale = rapid.SampledFrom([]OnStale{StaleHold, StaleInitial}).Draw(t, "on_stale")
	return s
}

// TestDecideSurvivesGarbage: whatever comes in, over several passes, no panic
// and all that check holds, and what is set is within the limits.
func TestDecideSurvivesGarbage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := drawSettings(t)
		c := NewController(set)
		now := start
		n := rapid.IntRange(0, 8).Draw(t, "servers")
		for range rapid.IntRange(1, 6).Draw(t, "passes") {
			now = now.Add(time.Duration(rapid.Int64Range(-1e11, 1e12).Draw(t, "elapsed")))
			in := Input{
				Now: now, Lifetime: time.Duration(rapid.Int64Range(-1e12, 1e16).Draw(t, "lifetime")),
				Force: rapid.SampledFrom([]string{"", "", "reload"}).Draw(t, "force"),
			}
			for i := range n {
				in.Servers = append(in.Servers, drawGarbage(i).Draw(t, "server"))
			}
			d := c.Decide(in)
			check(t, in, d)
			for i, s := range d.Servers {
				initial := d.reason(i, StepStale) != nil
				if s.Share > 0 && d.Verdict == Write && !initial && (s.Weight < set.MinWeight || s.Weight > set.MaxWeight) {
					t.Fatalf("%s: weight %d outside %d..%d", s.Name, s.Weight, set.MinWeight, set.MaxWeight)
				}
			}
		}
	})
}

// TestDecideIsAFunctionOfItsInputs: two controllers shown the same passes agree.
func TestDecideIsAFunctionOfItsInputs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := drawSettings(t)
		a, b := NewController(set), NewController(set)
		for range 3 {
			in := drawInput(t)
			if d := cmp.Diff(a.Decide(in), b.Decide(in), cmpopts.EquateNaNs()); d != "" {
				t.Fatalf("decisions differ:\n%s", d)
			}
		}
	})
}
