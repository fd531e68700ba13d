package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/haproxy-weighter/haproxy-weighter/internal/simulate"
	"github.com/haproxy-weighter/haproxy-weighter/test/ingest"
)

// result is what all trials came to, also as JSON.
type result struct {
	Servers          int       `json:"servers"`
	ClientsPerServer int       `json:"clients_per_server"` // connected at once, on average
	Rates            string    `json:"rates"`              // of the clients, in words
	LifetimeSeconds  float64   `json:"lifetime_seconds"`   // mean
	WarmUpSeconds    int       `json:"warm_up_seconds"`    // of each run, not measured
	MeasuredSeconds  int       `json:"measured_seconds"`   // of each run
	Parallel         int       `json:"parallel"`           // runs side by side
	Seeds            []uint64  `json:"seeds"`
	Policies         []summary `json:"policies"`
	// Floor is computed, not played: each client joins the server that has the
	// least load at that moment. No real policy knows as much.
	Floor summary `json:"floor"`

	mu sync.Mutex // held by add
}

// summary is one policy over all seeds.
type summary struct {
	Policy   string          `json:"policy"` // as --policies takes it; "floor" for the floor
	Balance  string          `json:"balance,omitempty"`
	Function string          `json:"function,omitempty"`
	MaxMean  simulate.Spread `json:"max_over_mean"`
	P99      simulate.Spread `json:"max_over_mean_p99"`
	Excess   simulate.Spread `json:"excess"`
	CV       simulate.Spread `json:"cv"`
	Ratio    simulate.Spread `json:"excess_to_equal"` // excess over that of equal weights with the same clients
	Runs     []runResult     `json:"runs"`            // one a seed

	name string // as it is shown
}

// runResult is one policy with one seed.
type runResult struct {
	Seed uint64 `json:"seed"`
	measured
	Ratio   *float64            `json:"excess_to_equal"` // null: not known
	Loop    *loop               `json:"loop,omitempty"`
	Clients *ingest.ClientStats `json:"clients,omitempty"`
	// Datapoints a second, one row a second, warm-up included: what each server
	// received, and what all clients together sent (absent for the floor).
	Loads   [][]float64 `json:"loads"`
	Offered []float64   `json:"offered,omitempty"`

	played bool
}

func newResult(o options) *result {
	r := &result{
		Servers: o.servers, ClientsPerServer: o.clients, Rates: rates().String(), LifetimeSeconds: lifetime.Seconds(),
		WarmUpSeconds: o.measuredFrom(), MeasuredSeconds: o.seconds() - o.measuredFrom(), Parallel: o.parallel,
		Floor: summary{Policy: "floor", name: "least loaded (computed)", Runs: make([]runResult, o.seeds)},
	}
	for s := range o.seeds {
		r.Seeds = append(r.Seeds, o.first+uint64(s))
	}
	for _, p := range o.policies {
		r.Policies = append(r.Policies, summary{
			Policy: p.id, Balance: p.balance, Function: string(p.function), name: p.name, Runs: make([]runResult, o.seeds),
		})
	}
	return r
}

// add takes in what one policy came to with one seed.
func (r *result) add(seed, policy int, plan []ingest.Arrival, p *played) measured {
	seconds := r.WarmUpSeconds + r.MeasuredSeconds
	run := runResult{Seed: r.Seeds[seed], Clients: &p.clients, Loads: p.loads, Offered: ingest.OfferedEachSecond(plan, seconds), played: true}
	run.measured = measure(run.Loads, r.WarmUpSeconds, run.Offered)
	if r.Policies[policy].Function != "" {
		run.Loop = &p.loop
	}
	floor := runResult{Seed: r.Seeds[seed], Loads: leastLoaded(plan, r.Servers, seconds), played: true}
	floor.measured = measure(floor.Loads, r.WarmUpSeconds, nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Policies[policy].Runs[seed], r.Floor.Runs[seed] = run, floor
	return run.measured
}

// finish leaves out the seeds that some policy was not played with, and sums
// up. It returns false when no seed is left.
func (r *result) finish() bool {
	for s := len(r.Seeds) - 1; s >= 0; s-- {
		if slices.ContainsFunc(r.Policies, func(p summary) bool { return !p.Runs[s].played }) {
			r.Seeds = slices.Delete(r.Seeds, s, s+1)
			for _, p := range r.all() {
				p.Runs = slices.Delete(p.Runs, s, s+1)
			}
		}
	}
	equal := r.of(equalID)
	for _, p := range r.all() {
		for s := range p.Runs {
			run, base := &p.Runs[s], &equal.Runs[s]
			if run.Seconds > 0 && base.Seconds > 0 && base.Excess > 0 {
				ratio := run.Excess / base.Excess
				run.Ratio = &ratio
			}
		}
		p.sum()
	}
	return len(r.Seeds) > 0
}

// all are the policies and the floor.
func (r *result) all() []*summary {
	var list []*summary
	for i := range r.Policies {
		list = append(list, &r.Policies[i])
	}
	return append(list, &r.Floor)
}

// of returns a policy; nil when it was not among those to play.
func (r *result) of(id string) *summary {
	i := slices.IndexFunc(r.Policies, func(p summary) bool { return p.Policy == id })
	if i < 0 {
		return nil
	}
	return &r.Policies[i]
}

// sum fills in the numbers over all seeds.
func (s *summary) sum() {
	over := func(of func(*runResult) float64) simulate.Spread {
		var values []float64
		for i := range s.Runs {
			if s.Runs[i].Seconds > 0 {
				values = append(values, of(&s.Runs[i]))
			}
		}
		return spreadOf(values)
	}
	s.MaxMean = over(func(r *runResult) float64 { return r.MaxMean })
	s.P99 = over(func(r *runResult) float64 { return r.P99 })
	s.Excess = over(func(r *runResult) float64 { return r.Excess })
	s.CV = over(func(r *runResult) float64 { return r.CV })
	s.Ratio = over(func(r *runResult) float64 {
		if r.Ratio == nil {
			return math.NaN()
		}
		return *r.Ratio
	})
}

// spreadOf leaves out what is not a number; all is NaN when nothing is left.
func spreadOf(values []float64) simulate.Spread {
	values = slices.DeleteFunc(values, math.IsNaN)
	n := len(values)
	if n == 0 {
		return simulate.Spread{Median: math.NaN(), Least: math.NaN(), Most: math.NaN()}
	}
	slices.Sort(values)
	return simulate.Spread{Median: (values[(n-1)/2] + values[n/2]) / 2, Least: values[0], Most: values[n-1]}
}

// reproduce are the flags that give this result again, but for luck in time.
func (r *result) reproduce() string {
	flags := fmt.Sprintf("--seeds %d --seed %d --warm-up %ds --duration %ds --servers %d --clients %d --parallel %d",
		len(r.Seeds), r.Seeds[0], r.WarmUpSeconds, r.MeasuredSeconds, r.Servers, r.ClientsPerServer, r.Parallel)
	if len(r.Policies) == len(allPolicies()) {
		return flags
	}
	var ids []string
	for _, p := range r.Policies {
		ids = append(ids, p.Policy)
	}
	return flags + " --policies " + strings.Join(ids, ",")
}
