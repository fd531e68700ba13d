package ingest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLeastLoaded(t *testing.T) {
	s := time.Second
	plan := []Arrival{
		{At: 0, Rate: 10, Lifetime: 5 * s},      // to the first
		{At: 0, Rate: 4, Lifetime: 100 * s},     // to the second
		{At: 1 * s, Rate: 3, Lifetime: 100 * s}, // second: 7
		{At: 2 * s, Rate: 5, Lifetime: 1 * s},   // second: 12, until 3 s
		{At: 4 * s, Rate: 1, Lifetime: 100 * s}, // second: 8
		{At: 6 * s, Rate: 2, Lifetime: 100 * s}, // the first is empty by now
	}
	times := []time.Duration{500 * time.Millisecond, 2500 * time.Millisecond, 3 * s, 5 * s, 6 * s, 7 * s, 1000 * s}
	got := LeastLoaded(plan, 2, times)
	want := [][]float64{{10, 4}, {10, 12}, {10, 7}, {0, 8}, {2, 8}, {2, 8}, {0, 0}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]float64{14, 22, 17, 8, 10, 10, 0}, Offered(plan, times)); diff != "" {
		t.Errorf("offered:\n%s", diff)
	}
}
