package graphite

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestReduce(t *testing.T) {
	nan := math.NaN()
	now := time.Unix(1000, 0)
	at := func(unix int64) time.Time { return time.Unix(unix, 0) }
	sec := time.Second
	tests := []struct {
		name   string
		points []Point
		a      Aggregate
		want   Sample
	}{
		{"leading edge", []Point{{980, 1}, {990, 2}}, Last,
			Sample{Value: 2, Time: at(990), Age: 10 * sec, MidAge: 5 * sec, Step: 10 * sec, Points: 1}},
		{"not the oldest, with rising data", []Point{{970, 1}, {980, 2}, {990, 3}}, Last,
			Sample{Value: 3, Time: at(990), Age: 10 * sec, MidAge: 5 * sec, Step: 10 * sec, Points: 1}},
		{"nulls at the end", []Point{{970, 1}, {980, 2}, {990, nan}, {1000, nan}}, Last,
			Sample{Value: 2, Time: at(980), Age: 20 * sec, MidAge: 15 * sec, Step: 10 * sec, Points: 1, SkippedNewest: 2}},
		{"a real zero", []Point{{980, 5}, {990, 0}}, Last,
			Sample{Value: 0, Time: at(990), Age: 10 * sec, MidAge: 5 * sec, Step: 10 * sec, Points: 1}},
		{"negative is passed over", []Point{{980, 5}, {990, -3}}, Last,
			Sample{Value: 5, Time: at(980), Age: 20 * sec, MidAge: 15 * sec, Step: 10 * sec, Points: 1, SkippedNewest: 1}},
		{"infinity is passed over", []Point{{980, 5}, {990, math.Inf(1)}}, Last,
			Sample{Value: 5, Time: at(980), Age: 20 * sec, MidAge: 15 * sec, Step: 10 * sec, Points: 1, SkippedNewest: 1}},
		{"one step ahead is no future", []Point{{1000, 5}, {1010, 6}}, Last,
			Sample{Value: 6, Time: at(1010), Age: -10 * sec, MidAge: 0, Step: 10 * sec, Points: 1}},
		{"the future is passed over", []Point{{1000, 5}, {1010, nan}, {1011, 6}}, Last,
			Sample{Value: 5, Time: at(1000), MidAge: 0, Step: 1 * sec, Points: 1, SkippedNewest: 2}},
		{"one point has no step", []Point{{998, 5}}, Last,
			Sample{Value: 5, Time: at(998), Age: 2 * sec, MidAge: 2 * sec, Points: 1}},
		{"interval in progress", []Point{{940, 1}, {1000, 5}}, Last,
			Sample{Value: 5, Time: at(1000), Step: 60 * sec, Points: 1}},
		{"as old as allowed", []Point{{910, 5}}, Last,
			Sample{Value: 5, Time: at(910), Age: 90 * sec, MidAge: 90 * sec, Points: 1}},
		{"step with gaps and doubled stamps", []Point{{940, 1}, {970, 1}, {980, 1}, {980, 2}}, Last,
			Sample{Value: 2, Time: at(980), Age: 20 * sec, MidAge: 15 * sec, Step: 10 * sec, Points: 1}},

		{"average", []Point{{960, 1}, {970, nan}, {980, 2}, {990, 6}}, Average,
			Sample{Value: 3, Time: at(990), Age: 10 * sec, MidAge: 20 * sec, Step: 10 * sec, Points: 3}},
		{"average leaves out what is not usable", []Point{{960, -100}, {970, 4}, {980, 2}, {990, nan}}, Average,
			Sample{Value: 3, Time: at(980), Age: 20 * sec, MidAge: 20 * sec, Step: 10 * sec, Points: 2, SkippedNewest: 1}},
		{"average of huge values", []Point{{980, math.MaxFloat64}, {990, math.MaxFloat64}}, Average,
			Sample{Value: math.MaxFloat64, Time: at(990), Age: 10 * sec, MidAge: 10 * sec, Step: 10 * sec, Points: 2}},
		{"points older than max_age count", []Point{{100, 1}, {990, 3}}, Average,
			Sample{Value: 2, Time: at(990), Age: 10 * sec, MidAge: 450 * sec, Step: 890 * sec, Points: 2}},
		{"median, odd", []Point{{970, 9}, {980, 1}, {990, 5}}, Median,
			Sample{Value: 5, Time: at(990), Age: 10 * sec, MidAge: 15 * sec, Step: 10 * sec, Points: 3}},
		{"median, even", []Point{{960, 9}, {970, 1}, {980, 5}, {990, 2}}, Median,
			Sample{Value: 3.5, Time: at(990), Age: 10 * sec, MidAge: 20 * sec, Step: 10 * sec, Points: 4}},
		{"median of huge values", []Point{{980, math.MaxFloat64}, {990, math.MaxFloat64}}, Median,
			Sample{Value: math.MaxFloat64, Time: at(990), Age: 10 * sec, MidAge: 10 * sec, Step: 10 * sec, Points: 2}},
		{"max", []Point{{970, 1}, {980, 7}, {990, 2}}, Max,
			Sample{Value: 7, Time: at(990), Age: 10 * sec, MidAge: 15 * sec, Step: 10 * sec, Points: 3}},
		{"sum", []Point{{970, 1}, {980, nan}, {990, 2}}, Sum,
			Sample{Value: 3, Time: at(990), Age: 10 * sec, MidAge: 15 * sec, Step: 10 * sec, Points: 2}},
		{"sum of one", []Point{{990, 2}}, Sum,
			Sample{Value: 2, Time: at(990), Age: 10 * sec, MidAge: 10 * sec, Points: 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := Series{Name: "a", Points: test.points}
			before := append([]Point(nil), test.points...)
			got, err := s.Reduce(test.a, now, 90*sec)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("wanted (-), got (+):\n%s", diff)
			}
			if diff := cmp.Diff(before, s.Points, cmp.Comparer(sameFloat)); diff != "" {
				t.Errorf("the points were changed: %s", diff)
			}
		})
	}
}

func sameFloat(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

func TestReduceNegativeZero(t *testing.T) {
	s := Series{Points: []Point{{1000, math.Copysign(0, -1)}}}
	got, err := s.Reduce(Last, time.Unix(1000, 0), 0)
	if err != nil || math.Signbit(got.Value) {
		t.Errorf("got %v, %v", got.Value, err)
	}
}

func TestReduceUnusable(t *testing.T) {
	nan := math.NaN()
	tests := []struct {
		name   string
		series Series
		a      Aggregate
		reason Reason
		text   string
	}{
		{"fault", Series{Fault: "its name is empty", Points: []Point{{990, 1}}}, Last, ReasonFault, "its name is empty"},
		{"no points", Series{Points: []Point{}}, Last, ReasonEmpty, "it has no data points"},
		{"all null", Series{Points: []Point{{980, nan}, {990, nan}}}, Last, ReasonNull, "all 2 of its data points are null"},
		{"null and infinite", Series{Points: []Point{{980, nan}, {990, nan}}, OutOfRange: 1}, Last, ReasonNull,
			"none of its 2 data points is usable: 2 null, among them 1 infinite"},
		{"negative", Series{Points: []Point{{970, -1}, {980, -2}, {990, nan}}}, Average, ReasonNegative,
			"none of its 3 data points is usable: 1 null, 2 negative"},
		{"future and negative", Series{Points: []Point{{970, -1}, {980, -1}, {5000, 1}}}, Last, ReasonFuture, "2 negative, 1 in the future"},
		{"all future", Series{Points: []Point{{4000, 1}, {4001, 1}}}, Last, ReasonFuture, "2 in the future; compare the clocks"},
		{"milliseconds", Series{Points: []Point{{980_000, 1}, {990_000, 1}, {1000_000, 1}}}, Last, ReasonFuture, "3 in the future"},
		{"stale", Series{Points: []Point{{905, 1}}}, Last, ReasonStale, "its newest usable data point is 95 s old, max_age is 90 s"},
		{"stale average", Series{Points: []Point{{900, 1}, {905, 1}}}, Average, ReasonStale, "95 s old, max_age is 90 s"},
		{"stale with newer ones", Series{Points: []Point{{905, 1}, {915, -1}, {925, nan}, {935, nan}}}, Max, ReasonStale,
			"95 s old, max_age is 90 s (newer ones: 2 null, 1 negative)"},
		{"sum too large", Series{Points: []Point{{980, math.MaxFloat64}, {990, math.MaxFloat64}}}, Sum, ReasonOverflow, "the sum of its data points"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.series.Name = "s"
			got, err := test.series.Reduce(test.a, time.Unix(1000, 0), 90*time.Second)
			var u *UnusableError
			if !errors.As(err, &u) {
				t.Fatalf("got %+v, %v", got, err)
			}
			if u.Reason != test.reason || u.Series != "s" || !strings.Contains(err.Error(), test.text) {
				t.Errorf("reason %s, series %q: %v", u.Reason, u.Series, err)
			}
			if test.reason == ReasonStale && u.Age != 95*time.Second {
				t.Errorf("age %s", u.Age)
			}
			if got != (Sample{}) {
				t.Errorf("there is a sample beside the error: %+v", got)
			}
		})
	}
	s := Series{Points: []Point{{990, 1}}}
	for _, a := range []Aggregate{"", "avg", "LAST"} {
		if _, err := s.Reduce(a, time.Unix(1000, 0), time.Minute); err == nil || a.Valid() {
			t.Errorf("%q is taken for an aggregate", a)
		}
	}
}

// Whatever the points: a sample is finite, not negative, not older than
// allowed, within the values used, and made of real points only.
func TestReduceLaws(t *testing.T) {
	value := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, 1, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64}))
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(rapid.Int64Range(0, 1<<40).Draw(t, "now"), 0)
		s := Series{Name: "s"}
		stamp := now.Unix() - rapid.Int64Range(-100, 400).Draw(t, "start")
		for range rapid.IntRange(0, 20).Draw(t, "n") {
			s.Points = append(s.Points, Point{Unix: stamp, Value: value.Draw(t, "v")})
			stamp += rapid.Int64Range(0, 60).Draw(t, "gap")
		}
		if rapid.IntRange(0, 9).Draw(t, "wild") == 0 {
			s.Points = append(s.Points, Point{Unix: rapid.Int64().Draw(t, "stamp"), Value: 1})
		}
		a := rapid.SampledFrom([]Aggregate{Last, Average, Median, Max, Sum}).Draw(t, "a")
		maxAge := time.Duration(rapid.Int64Range(0, 500).Draw(t, "maxAge")) * time.Second
		got, err := s.Reduce(a, now, maxAge)
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error without a text")
			}
			return
		}
		low, high, sum, n := math.Inf(1), 0.0, 0.0, 0
		for _, p := range s.Points {
			if p.Value >= 0 && !math.IsInf(p.Value, 0) {
				low, high, sum, n = min(low, p.Value), max(high, p.Value), sum+p.Value, n+1
			}
		}
		switch {
		case math.IsNaN(got.Value) || math.IsInf(got.Value, 0) || math.Signbit(got.Value):
			t.Fatalf("value %v", got.Value)
		case got.Age > maxAge || got.MidAge < 0:
			t.Fatalf("age %s, middle %s", got.Age, got.MidAge)
		case got.Points < 1 || got.Points > n:
			t.Fatalf("%d points of %d", got.Points, n)
		case a == Sum && got.Value > sum:
			t.Fatalf("sum %v of %v", got.Value, sum)
		case a != Sum && (got.Value < low*(1-1e-12) || got.Value > high*(1+1e-12)):
			t.Fatalf("%v is not in %v..%v", got.Value, low, high)
		}
	})
}

func BenchmarkReduce(b *testing.B) {
	series, derr := decode(tenThousand())
	if derr != nil {
		b.Fatal(derr.text)
	}
	now := time.Unix(1795974170, 0)
	b.ReportAllocs()
	for b.Loop() {
		for i := range series {
			if _, err := series[i].Reduce(Last, now, time.Minute); err != nil {
				b.Fatal(err)
			}
		}
	}
}
