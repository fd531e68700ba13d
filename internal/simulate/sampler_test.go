package simulate

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
)

func TestSamplerShowsPointsLate(t *testing.T) {
	m := ModelA() // steps of 10 s, 10 s late
	m.Servers = 1
	s := newSampler(&m, []string{"s1"})
	for i := range 6 {
		value := float64(100 + i)
		if i == 4 {
			value = math.NaN()
		}
		s.add([]float64{value})
	}
	type reading struct {
		Value   float64
		Stamp   int64 // seconds of the model
		Age     time.Duration
		MidAge  time.Duration
		Missing bool
	}
	for _, test := range []struct {
		name string
		now  float64
		want reading
	}{
		{"nothing is there before step and lag", 19.9, reading{Missing: true}},
		// One point alone does not tell the step, so its middle is taken for its start.
		{"the first point, just when it can be read", 20, reading{Value: 100, Stamp: 0, Age: 20 * time.Second, MidAge: 20 * time.Second}},
		{"the second", 30, reading{Value: 101, Stamp: 10, Age: 20 * time.Second, MidAge: 15 * time.Second}},
		{"and just before the third", 39.5, reading{Value: 101, Stamp: 10, Age: 29500 * time.Millisecond, MidAge: 24500 * time.Millisecond}},
		{"a null is passed over", 60, reading{Value: 103, Stamp: 30, Age: 30 * time.Second, MidAge: 25 * time.Second}},
		{"the last", 70, reading{Value: 105, Stamp: 50, Age: 20 * time.Second, MidAge: 15 * time.Second}},
		{"still fresh enough at max_age", 140, reading{Value: 105, Stamp: 50, Age: 90 * time.Second, MidAge: 85 * time.Second}},
		{"too old", 140.1, reading{Missing: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			sample, err := s.read(0, test.now)
			got := reading{Missing: err != nil}
			if err == nil {
				got = reading{Value: sample.Value, Stamp: sample.Time.Unix() - epoch, Age: sample.Age, MidAge: sample.MidAge}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSamplerWindowAndAggregate(t *testing.T) {
	m := ModelA()
	m.Servers, m.Aggregate, m.Window = 1, graphite.Average, time.Minute
	s := newSampler(&m, []string{"s1"})
	const points = 2000 // far more than it keeps
	for i := range points {
		s.add([]float64{float64(i)})
	}
	// At 20,010 s the newest point is number 1999, the window begins at
	// 19,950 s, so points 1995 to 1999 are in it.
	got, err := s.read(0, 20010)
	if err != nil {
		t.Fatal(err)
	}
	if got.Value != 1997 || got.Points != 5 {
		t.Errorf("average %v of %d points, want 1997 of 5", got.Value, got.Points)
	}
	if n := len(s.series[0].Points); n > 400 {
		t.Errorf("%d points are kept", n)
	}
}
