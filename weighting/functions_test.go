package weighting

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func near(tolerance float64) cmp.Option { return cmpopts.EquateApprox(0, tolerance) }

func ones(n int) []float64 { return slices.Repeat([]float64{1}, n) }

// sharesOf runs one function by its exported form with the default settings.
func sharesOf(f Function, loads, capacities []float64) []float64 {
	dst := make([]float64, len(loads))
	switch f {
	case LimitedProportions:
		LimitedProportionsShares(dst, loads, capacities, 5, 2)
	case NormalisedExponential:
		NormalisedExponentialShares(dst, loads, capacities, 2)
	case WaterFill:
		WaterFillShares(dst, loads, capacities, sum(loads)/40, nil)
	case Feedback:
		logs := make([]float64, len(loads))
		for i, c := range capacities {
			logs[i] = math.Log(c)
		}
		FeedbackShares(dst, loads, capacities, logs, make([]float64, len(loads)), 1)
	}
	return dst
}

var allFunctions = []Function{LimitedProportions, NormalisedExponential, WaterFill, Feedback}

func TestFunctionsByHand(t *testing.T) {
	for _, tt := range []struct {
		name       string
		shares     func(dst, loads, capacities []float64)
		loads      []float64
		capacities []float64
		want       []float64
	}{{
		// ubar 2; v = 1, 2, 3; q = 2, 1, 2/3; qbar 11/9; AF 1 leaves q: 6/11, 3/11, 2/11.
		name: "limited-proportions at 1 is inverse proportion",
		shares: func(dst, l, c []float64) {
			LimitedProportionsShares(dst, l, c, 5, 1)
		},
		loads: []float64{1, 2, 3}, capacities: ones(3),
		want: []float64{6. / 11, 3. / 11, 2. / 11},
	}, {
		// As above with AF 1.5: s = qbar + 1.5*(q - qbar) = 43/18, 16/18, 7/18; sum 66/18.
		name: "limited-proportions at 1.5 spreads by 1.5",
		shares: func(dst, l, c []float64) {
			LimitedProportionsShares(dst, l, c, 5, 1.5)
		},
		loads: []float64{1, 2, 3}, capacities: ones(3),
		want: []float64{43. / 66, 16. / 66, 7. / 66},
	}, {
		// ubar 1; idle counts as 1/4: q = 4, 1/2; qbar 9/4; AF 1.
		name: "limited-proportions counts an idle server as 1/LF of the average",
		shares: func(dst, l, c []float64) {
			LimitedProportionsShares(dst, l, c, 4, 1)
		},
		loads: []float64{0, 2}, capacities: ones(2),
		want: []float64{8. / 9, 1. / 9},
	}, {
		// The same with AF 2: the second would be 9/4 - 2*7/4 < 0: floor 9/256. First 9/4 + 2*7/4 = 23/4.
		name: "limited-proportions floor",
		shares: func(dst, l, c []float64) {
			LimitedProportionsShares(dst, l, c, 4, 2)
		},
		loads: []float64{0, 2}, capacities: ones(2),
		want: []float64{5.75 / (5.75 + 9./256), (9. / 256) / (5.75 + 9./256)},
	}, {
		// C = 3, ubar 2; u = 1, 4; q = 2, 1/2; qbar = (2*2 + 1*1/2)/3 = 3/2; AF 1: s = 4, 1/2.
		name: "limited-proportions weighs the mean by capacity",
		shares: func(dst, l, c []float64) {
			LimitedProportionsShares(dst, l, c, 5, 1)
		},
		loads: []float64{2, 4}, capacities: []float64{2, 1},
		want: []float64{8. / 9, 1. / 9},
	}, {
		// ubar 2; exp(2*(1-u/2)) = e, 1, 1/e.
		name: "normalised-exponential",
		shares: func(dst, l, c []float64) {
			NormalisedExponentialShares(dst, l, c, 2)
		},
		loads: []float64{1, 2, 3}, capacities: ones(3),
		want: []float64{0.66524096, 0.24472847, 0.09003057},
	}, {
		// Level 2.5: 1.5 + 0.5 + 0 = 2.
		name: "water-fill",
		shares: func(dst, l, c []float64) {
			if w := WaterFillShares(dst, l, c, 2, nil); w != 2.5 {
				panic(w)
			}
		},
		loads: []float64{1, 2, 3}, capacities: ones(3),
		want: []float64{0.75, 0.25, 0},
	}, {
		// Capacities 2 and 1, loads 2 and 4: level 2: 2*2-2 = 2, nothing for the other.
		name: "water-fill with capacities",
		shares: func(dst, l, c []float64) {
			if w := WaterFillShares(dst, l, c, 2, nil); w != 2 {
				panic(w)
			}
		},
		loads: []float64{2, 4}, capacities: []float64{2, 1},
		want: []float64{1, 0},
	}, {
		// The empty one may take 1 of 2; the level rises to 3.75 over the other two.
		name: "water-fill with limits raises the level for the others",
		shares: func(dst, l, c []float64) {
			if w := WaterFillShares(dst, l, c, 2, []float64{0.5, 1, 1}); w != 3.75 {
				panic(w)
			}
		},
		loads: []float64{0, 3, 3.5}, capacities: ones(3),
		want: []float64{0.5, 0.375, 0.125},
	}, {
		name: "water-fill with everyone at the limit",
		shares: func(dst, l, c []float64) {
			WaterFillShares(dst, l, c, 2, []float64{0.5, 0.25, 0.25})
		},
		loads: []float64{0, 3, 5}, capacities: ones(3),
		want: []float64{0.5, 0.25, 0.25},
	}, {
		// e = 0.5, 0, -0.5; log = 1.05*e; exp = 1.690459, 1, 0.591555; sum 3.282014.
		name: "feedback, first step",
		shares: func(dst, l, c []float64) {
			FeedbackShares(dst, l, c, make([]float64, 3), make([]float64, 3), 1)
		},
		loads: []float64{1, 2, 3}, capacities: ones(3),
		want: []float64{0.515067, 0.304691, 0.180242},
	}} {
		t.Run(tt.name, func(t *testing.T) {
			got := make([]float64, len(tt.loads))
			tt.shares(got, tt.loads, tt.capacities)
			if d := cmp.Diff(tt.want, got, near(1e-5)); d != "" {
				t.Errorf("shares (-want +got):\n%s", d)
			}
		})
	}
}

func TestFeedbackSecondStepAddsOnlyTheChangeOfTheError(t *testing.T) {
	logs, previous := []float64{0, 0}, []float64{0, 0}
	dst := make([]float64, 2)
	FeedbackShares(dst, []float64{1, 3}, ones(2), logs, previous, 1) // e = 0.5, -0.5
	if d := cmp.Diff([]float64{0.525, -0.525}, logs, near(1e-12)); d != "" {
		t.Fatalf("after the first step (-want +got):\n%s", d)
	}
	FeedbackShares(dst, []float64{1.5, 2.5}, ones(2), logs, previous, 2) // e = 0.25, -0.25
	want := 0.525 + 0.05*2*0.25 + (0.25 - 0.5)
	if d := cmp.Diff([]float64{want, -want}, logs, near(1e-12)); d != "" {
		t.Errorf("after the second step (-want +got):\n%s", d)
	}
}

func TestFeedbackFreezesAServerWithoutData(t *testing.T) {
	logs, previous := []float64{0.4, 0, -0.4}, []float64{0.3, 0, 0}
	FeedbackShares(make([]float64, 3), []float64{math.NaN(), 1, 1}, ones(3), logs, previous, 1)
	want := []float64{0.4, 0, -0.4} // the others are equal, so e = 0
	if d := cmp.Diff(want, logs, near(1e-12)); d != "" {
		t.Errorf("log weights (-want +got):\n%s", d)
	}
	if previous[0] != 0.3 {
		t.Errorf("previous error of the frozen server is %v, want 0.3", previous[0])
	}
}

func TestFeedbackReach(t *testing.T) {
	logs, previous := []float64{0, 0}, []float64{0, 0}
	dst := make([]float64, 2)
	for range 1000 {
		FeedbackShares(dst, []float64{0, 1}, []float64{1, 4}, logs, previous, 1)
	}
	if d := cmp.Diff([]float64{3, math.Log(4) - 3}, logs, near(1e-9)); d != "" {
		t.Errorf("log weights (-want +got):\n%s", d)
	}
}

func TestHigherIsBetter(t *testing.T) {
	got := []float64{10, 40, 25}
	HigherIsBetter(got)
	if d := cmp.Diff([]float64{40, 10, 25}, got); d != "" {
		t.Errorf("loads (-want +got):\n%s", d)
	}
	HigherIsBetter(nil)
}

func TestFunctionsWithoutAnyLoadFollowCapacity(t *testing.T) {
	for _, f := range allFunctions {
		got := sharesOf(f, make([]float64, 3), []float64{1, 2, 1})
		if d := cmp.Diff([]float64{0.25, 0.5, 0.25}, got, near(1e-12)); d != "" {
			t.Errorf("%s (-want +got):\n%s", f, d)
		}
	}
}

func TestExponentialOfAnyAggressivenessIsFinite(t *testing.T) {
	got := make([]float64, 3)
	NormalisedExponentialShares(got, []float64{0, 0, 9}, ones(3), 1e9)
	if d := cmp.Diff([]float64{0.5, 0.5, 0}, got, near(1e-12)); d != "" {
		t.Errorf("shares (-want +got):\n%s", d)
	}
}

// TestAggressivenessScalesTheSpread: AF scales the standard deviation of the
// shares exactly until the floor binds.
func TestAggressivenessScalesTheSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loads := rapid.SliceOfN(rapid.Float64Range(0.9, 1.1), 2, 40).Draw(t, "loads")
		af := rapid.Float64Range(0.1, 4).Draw(t, "aggressiveness")
		plain, spread := make([]float64, len(loads)), make([]float64, len(loads))
		LimitedProportionsShares(plain, loads, ones(len(loads)), 5, 1)
		LimitedProportionsShares(spread, loads, ones(len(loads)), 5, af)
		if got, want := deviation(spread), af*deviation(plain); math.Abs(got-want) > 1e-12 {
			t.Fatalf("standard deviation %v, want %v", got, want)
		}
	})
}

func deviation(values []float64) float64 {
	mean := sum(values) / float64(len(values))
	var square float64
	for _, v := range values {
		square += (v - mean) * (v - mean)
	}
	return math.Sqrt(square / float64(len(values)))
}

// TestInverseProportion: AF 1 gives every server the same product of share and load.
func TestInverseProportion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loads := rapid.SliceOfN(rapid.Float64Range(1, 3), 2, 40).Draw(t, "loads")
		shares := make([]float64, len(loads))
		LimitedProportionsShares(shares, loads, ones(len(loads)), 5, 1)
		for i := range loads {
			if got, want := shares[i]*loads[i], shares[0]*loads[0]; math.Abs(got/want-1) > 1e-9 {
				t.Fatalf("share times load is %v for server %d and %v for server 0", got, i, want)
			}
		}
	})
}

// TestWaterFillGainFarFromSaturation: p = (c/C)(1 + (tau/H) e).
func TestWaterFillGainFarFromSaturation(t *testing.T) {
	loads, capacities := []float64{1.98, 1.01, 1.01}, []float64{2, 1, 1}
	const gain = 40.0
	got := make([]float64, 3)
	WaterFillShares(got, loads, capacities, sum(loads)/gain, nil)
	want := make([]float64, 3)
	for i, c := range capacities {
		want[i] = c / 4 * (1 + gain*(1-loads[i]/c))
	}
	if d := cmp.Diff(want, got, near(1e-9)); d != "" {
		t.Errorf("shares (-want +got):\n%s", d)
	}
}

// plant draws loads and capacities of some servers.
func plant(t *rapid.T) (loads, capacities []float64) {
	n := rapid.IntRange(2, 30).Draw(t, "servers")
	load := rapid.OneOf(rapid.Float64Range(0, 10), rapid.Float64Range(0, 1e12), rapid.Just(0.0))
	loads = rapid.SliceOfN(load, n, n).Draw(t, "loads")
	capacities = rapid.SliceOfN(rapid.Float64Range(0.1, 10), n, n).Draw(t, "capacities")
	return loads, capacities
}

func TestLawsOfTheFunctions(t *testing.T) {
	for _, f := range allFunctions {
		t.Run(string(f), func(t *testing.T) {
			t.Run("finite, not negative, sum 1", func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					shares := drawnShares(t, f)
					for _, s := range shares {
						if !(s >= 0) || math.IsInf(s, 0) {
							t.Fatalf("share %v", s)
						}
					}
					if s := sum(shares); math.Abs(s-1) > 1e-9 {
						t.Fatalf("sum of shares %v", s)
					}
				})
			})
			t.Run("permutation", func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) { permutationLaw(t, f) })
			})
			t.Run("scale", func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					loads, capacities := plant(t)
					factor := rapid.Float64Range(1e-6, 1e6).Draw(t, "factor")
					want := sharesOf(f, loads, capacities)
					scaled := slices.Clone(loads)
					scale(scaled, factor)
					if d := cmp.Diff(want, sharesOf(f, scaled, capacities), near(1e-7)); d != "" {
						t.Fatalf("shares after scaling all loads (-want +got):\n%s", d)
					}
				})
			})
			t.Run("monotone at equal capacity", func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					loads, _ := plant(t)
					shares := sharesOf(f, loads, ones(len(loads)))
					for i := range loads {
						for j := range loads {
							if loads[i] > loads[j] && shares[i] > shares[j]+1e-12 {
								t.Fatalf("load %v gets %v, load %v gets %v", loads[i], shares[i], loads[j], shares[j])
							}
						}
					}
				})
			})
			t.Run("equal utilisation", func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					_, capacities := plant(t)
					u := rapid.Float64Range(1e-3, 1e9).Draw(t, "utilisation")
					loads := slices.Clone(capacities)
					scale(loads, u)
					want := slices.Clone(capacities)
					scale(want, 1/sum(capacities))
					if d := cmp.Diff(want, sharesOf(f, loads, capacities), near(1e-9)); d != "" {
						t.Fatalf("shares (-want +got):\n%s", d)
					}
				})
			})
		})
	}
}

func drawnShares(t *rapid.T, f Function) []float64 {
	loads, capacities := plant(t)
	return sharesOf(f, loads, capacities)
}

func permutationLaw(t *rapid.T, f Function) {
	loads, capacities := plant(t)
	order := make([]int, len(loads))
	for i := range order {
		order[i] = i
	}
	order = rapid.Permutation(order).Draw(t, "order")
	want := make([]float64, len(loads))
	l, c := slices.Clone(want), slices.Clone(want)
	plain := sharesOf(f, loads, capacities)
	for i, from := range order {
		l[i], c[i], want[i] = loads[from], capacities[from], plain[from]
	}
	if d := cmp.Diff(want, sharesOf(f, l, c), near(1e-9)); d != "" {
		t.Fatalf("permuted shares (-want +got):\n%s", d)
	}
}
