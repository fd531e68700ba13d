package ingest

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func workload(seed uint64) Workload {
	return Workload{Seed: seed, Open: 300, Lifetime: 20 * time.Second, Rates: HeavyTailed(), Duration: time.Minute}
}

func TestPlanSameSeedSameClients(t *testing.T) {
	if diff := cmp.Diff(workload(7).Plan(), workload(7).Plan()); diff != "" {
		t.Errorf("two plans of one seed differ:\n%s", diff)
	}
	if cmp.Equal(workload(7).Plan(), workload(8).Plan()) {
		t.Error("two seeds gave the same plan")
	}
}

func TestPlanLongerDurationOnlyAdds(t *testing.T) {
	short, long := workload(7), workload(7)
	long.Duration *= 3
	a, b := short.Plan(), long.Plan()
	if len(b) <= len(a) {
		t.Fatalf("three times the duration gave %d clients, the short plan has %d", len(b), len(a))
	}
	if diff := cmp.Diff(a, b[:len(a)]); diff != "" {
		t.Errorf("the start of the longer plan differs:\n%s", diff)
	}
}

func TestPlanIsInOrderAndInRange(t *testing.T) {
	w := workload(1)
	plan := w.Plan()
	for i, a := range plan {
		if i > 0 && a.At < plan[i-1].At {
			t.Fatalf("client %d arrives at %v, before client %d", i, a.At, i-1)
		}
		if a.At >= w.Duration || a.Rate < 5 || a.Rate > 5000 || a.Lifetime < 0 {
			t.Fatalf("client %d is out of range: %+v", i, a)
		}
	}
}

// Over many seeds the plan has the stated number of clients open at every
// time, the stated mean lifetime, and rates that a few clients dominate.
func TestPlanIsStationaryAndHeavyTailed(t *testing.T) {
	const seeds = 100
	times := []time.Duration{time.Second, 10 * time.Second, 30 * time.Second, 59 * time.Second}
	open := make([]float64, len(times))
	var lifetime, clients, rate, square float64
	for seed := range uint64(seeds) {
		for _, a := range workload(seed).Plan() {
			lifetime += a.Lifetime.Seconds()
			rate += a.Rate
			square += a.Rate * a.Rate
			clients++
			for i, at := range times {
				if a.At <= at && at < a.At+a.Lifetime {
					open[i]++
				}
			}
		}
	}
	for i, at := range times {
		if mean := open[i] / seeds; mean < 0.97*300 || mean > 1.03*300 {
			t.Errorf("%v after the start %.0f clients are open on average, want 300", at, mean)
		}
	}
	if mean := lifetime / clients; mean < 19.5 || mean > 20.5 {
		t.Errorf("mean lifetime %.2f s, want 20 s", mean)
	}
	mean := rate / clients
	if cv := math.Sqrt(square/clients-mean*mean) / mean; cv < 1.8 || cv > 3 {
		t.Errorf("the rates' coefficient of variation is %.2f, want about 2.2", cv)
	}
}

func TestBoundedParetoStaysInBoundsAndHitsItsMedian(t *testing.T) {
	w := workload(3)
	w.Rates = BoundedPareto{Alpha: 1.1, Min: 5, Max: 5000}
	w.Open = 20000
	below := 0
	// Half of the mass lies below the x at which F(x) = 1/2.
	lo, hi := math.Pow(5000, -1.1), math.Pow(5, -1.1)
	median := math.Pow((lo+hi)/2, -1/1.1)
	plan := w.Plan()[:w.Open]
	for _, a := range plan {
		if a.Rate < 5 || a.Rate > 5000 {
			t.Fatalf("rate %g is out of bounds", a.Rate)
		}
		if a.Rate < median {
			below++
		}
	}
	if part := float64(below) / float64(len(plan)); part < 0.49 || part > 0.51 {
		t.Errorf("%.3f of the rates are below the median", part)
	}
}
