package ingest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Rates is a distribution of datapoints a second.
type Rates interface {
	// Draw returns one rate, > 0.
	Draw(r *rand.Rand) float64
	fmt.Stringer
}

// Lognormal is a lognormal distribution whose draws are clipped to [Min, Max].
type Lognormal struct {
	Median float64 // datapoints a second, > 0
	Sigma  float64 // standard deviation of the logarithm, >= 0
	Min    float64 // datapoints a second, > 0
	Max    float64 // datapoints a second, >= Min
}

// Draw returns one rate.
func (l Lognormal) Draw(r *rand.Rand) float64 {
	return min(max(l.Median*math.Exp(l.Sigma*r.NormFloat64()), l.Min), l.Max)
}

// String describes the distribution in words.
func (l Lognormal) String() string {
	return fmt.Sprintf("lognormal, median %g, sigma %g, clipped to %g..%g datapoints/s", l.Median, l.Sigma, l.Min, l.Max)
}

// BoundedPareto is a Pareto distribution cut off at Max (not clipped: no mass
// gathers there).
type BoundedPareto struct {
	Alpha float64 // tail exponent, > 0; the smaller the heavier
	Min   float64 // datapoints a second, > 0
	Max   float64 // datapoints a second, > Min
}

// Draw returns one rate, by inversion of the distribution function.
func (p BoundedPareto) Draw(r *rand.Rand) float64 {
	// 1 - F(x) = (x^-a - Max^-a) / (Min^-a - Max^-a)
	lo, hi := math.Pow(p.Max, -p.Alpha), math.Pow(p.Min, -p.Alpha)
	return math.Pow(lo+(hi-lo)*r.Float64(), -1/p.Alpha)
}

// String describes the distribution in words.
func (p BoundedPareto) String() string {
	return fmt.Sprintf("bounded Pareto, alpha %g, %g..%g datapoints/s", p.Alpha, p.Min, p.Max)
}

// HeavyTailed is the distribution that the demo uses unless told otherwise:
// most clients send tens of datapoints a second, a few send thousands, and
// those few carry most of the load.
func HeavyTailed() Rates { return Lognormal{Median: 40, Sigma: 1.5, Min: 5, Max: 5000} }

// Workload describes a population of clients. All fields are required.
type Workload struct {
	Seed     uint64
	Open     int           // mean number of clients connected at once, > 0
	Lifetime time.Duration // mean time that a client stays, exponential, > 0
	Rates    Rates
	Duration time.Duration // clients that would arrive later are left out
}

// Arrival is one client of a plan.
type Arrival struct {
	At       time.Duration // since the start of the plan
	Rate     float64       // datapoints a second
	Lifetime time.Duration // from connect to close
}

// initialSpacing keeps the clients that are there from the start in order,
// and keeps them from overflowing the listener's backlog.
const initialSpacing = time.Millisecond

// Plan returns every client of the workload in order of arrival. It depends
// on nothing but the workload, and a longer Duration only adds to the end.
//
// Open clients are there from the start. Their remaining lifetimes have the
// same distribution as whole ones (exponential lifetimes have no memory), so
// that the population is stationary from the first second. The others follow
// as a Poisson process of rate Open/Lifetime.
func (w Workload) Plan() []Arrival {
	random := rand.New(rand.NewPCG(w.Seed, 0x68617077)) // the second word is arbitrary, but fixed
	client := func(at time.Duration) Arrival {
		return Arrival{
			At:       at,
			Rate:     w.Rates.Draw(random),
			Lifetime: time.Duration(random.ExpFloat64() * float64(w.Lifetime)),
		}
	}
	plan := make([]Arrival, 0, w.Open*2)
	for i := range w.Open {
		plan = append(plan, client(time.Duration(i)*initialSpacing))
	}
	at := time.Duration(w.Open) * initialSpacing
	gap := float64(w.Lifetime) / float64(w.Open)
	for {
		at += time.Duration(random.ExpFloat64() * gap)
		if at >= w.Duration {
			return plan
		}
		plan = append(plan, client(at))
	}
}
