// Package simulate is a closed-loop model of the plant that weights steer:
// long-lived connections of unequal rates arrive at balancers, are placed by
// HAProxy's own algorithms with the weights in force, load their server until
// they end, and each balancer reads the servers' loads late and in steps, as
// from Graphite, and decides with the same code as the daemon.
//
// It is event driven and deterministic: the same Model, policy and seed give
// the same numbers. Every policy of a seed meets the same connections at the
// same times, so differences between policies are not luck.
package simulate

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// LifetimeFrom names the way a balancer learns the mean connection lifetime.
type LifetimeFrom string

// The ways to learn the mean lifetime.
const (
	FromSessions LifetimeFrom = "sessions" // estimator B: ages of the own open sessions
	FromLittle   LifetimeFrom = "little"   // estimator A: Little's law on the own counters
	FromModel    LifetimeFrom = "exact"    // told the true value: no estimator at all
)

// Model is one plant and the way it is watched. ModelA and ModelB are the two
// that the project's targets are stated in.
type Model struct {
	Servers     int
	Capacities  []float64 // by server, > 0; nil means all are 1
	Connections int       // long connections open in steady state
	Rates       Rates
	Lifetime    Lifetimes

	// ShortPerLong adds this many short connections for each long arrival,
	// of mean lifetime ShortLifetime and rates drawn like the others'.
	ShortPerLong  float64
	ShortLifetime time.Duration

	Balancers int
	// HAProxy32 says that roundrobin takes changes of weights as HAProxy 3.2
	// and later do, not as 2.6 to 3.1.
	HAProxy32 bool
	Interval  time.Duration // between two passes of a balancer
	Jitter    float64       // 0..1: each wait is Interval * (1 +- Jitter)

	Step      time.Duration // of the series; whole seconds
	Lag       time.Duration // from the end of a step until Graphite has its point
	Window    time.Duration // of the render request
	Aggregate graphite.Aggregate
	MaxAge    time.Duration // a point older than this is no data

	LifetimeFrom LifetimeFrom
	Weighting    weighting.Settings // Function, Interval and Window are set by the policy and the fields above
	Events       []Event

	Warmup   time.Duration // steered, not measured
	Measured time.Duration
	// Restart says that after the measured time one server is restarted empty,
	// and its recovery measured.
	Restart bool
}

// ModelA is 30 servers, 6,000 connections of lognormal rates, lifetime 30 min,
// 4 balancers, 10 s data that come 10 s late, passes every 30 s.
func ModelA() Model {
	return Model{
		Servers: 30, Connections: 6000,
		Rates:     Rates{Kind: Lognormal, Median: 50, Sigma: 1.8, Min: 1, Max: 5000},
		Lifetime:  Lifetimes{Mean: 30 * time.Minute},
		Balancers: 4, Interval: 30 * time.Second, Jitter: 0.1,
		Step: 10 * time.Second, Lag: 10 * time.Second,
		Window: 5 * time.Minute, Aggregate: graphite.Last, MaxAge: 90 * time.Second,
		LifetimeFrom: FromSessions, Weighting: weighting.DefaultSettings(),
		Warmup: time.Hour, Measured: 4 * time.Hour, Restart: true,
	}
}

// ModelB is 10 servers, 2,000 connections of bounded Pareto rates, lifetime
// 1 h, one-minute data: half a step (30 s), half a wait for the next point
// (30 s), 30 s late and half an interval (15 s) make a total delay of 105 s.
func ModelB() Model {
	m := ModelA()
	m.Servers, m.Connections = 10, 2000
	m.Rates = Rates{Kind: Pareto, Alpha: 1.1, Min: 5, Max: 5000}
	m.Lifetime = Lifetimes{Mean: time.Hour}
	m.Step, m.Lag, m.MaxAge = time.Minute, 30*time.Second, 3*time.Minute
	m.Warmup, m.Measured = 2*time.Hour, 8*time.Hour
	return m
}

// Delay is the mean total delay d: the age of the newest data at the middle
// of what they stand for, and half an interval.
func (m *Model) Delay() time.Duration {
	return m.Lag + m.Step + m.Interval/2
}

// PredictedCV is the spread that a function of local gain k leaves, from
// theory: CV0 / sqrt(1+k) with CV0 = sqrt((1 + CVr^2)(1 - 1/N) / n).
func (m *Model) PredictedCV(k float64) float64 {
	cvr := m.Rates.CV()
	n := float64(m.Connections) / float64(m.Servers)
	cv0 := math.Sqrt((1 + cvr*cvr) * (1 - 1/float64(m.Servers)) / n)
	return cv0 / math.Sqrt(1+k)
}

// Check says everything that is wrong with the model, naming the command's flags.
func (m *Model) Check() error {
	var faults []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	need(m.Servers >= 2 && m.Servers <= 4095, "servers: %d, want 2..4095", m.Servers)
	need(m.Connections >= m.Servers && m.Connections <= 10_000_000,
		"connections: %d, want at least one a server and at most 10000000", m.Connections)
	need(m.Balancers >= 1 && m.Balancers <= 256, "balancers: %d, want 1..256", m.Balancers)
	need(len(m.Capacities) == 0 || len(m.Capacities) == m.Servers,
		"capacities: %d numbers for %d servers", len(m.Capacities), m.Servers)
	for i, c := range m.Capacities {
		need(c > 0 && !math.IsInf(c, 1), "capacities: number %d is %v, want more than 0", i+1, c)
	}
	need(m.Interval >= time.Second, "interval: %v, want at least 1s", m.Interval)
	need(m.Jitter >= 0 && m.Jitter < 1, "jitter: %v, want 0..1", m.Jitter)
	need(m.Step >= time.Second && m.Step%time.Second == 0, "step: %v, want whole seconds", m.Step)
	need(m.Lag >= 0, "lag: %v, want 0 or more", m.Lag)
	need(m.Window >= m.Step, "window: %v, want at least the step, %v", m.Window, m.Step)
	need(m.MaxAge > m.Lag+2*m.Step,
		"max-age: %v, but a point of this lag and step is up to %v old when it is the newest; give more", m.MaxAge, m.Lag+2*m.Step)
	need(m.Warmup >= 0, "warmup: %v, want 0 or more", m.Warmup)
	need(m.Measured >= 10*m.Step, "duration: %v, want at least ten steps of %v", m.Measured, m.Step)
	need(m.ShortPerLong >= 0, "short-per-long: %v, want 0 or more", m.ShortPerLong)
	need(m.ShortPerLong == 0 || m.ShortLifetime > 0, "short-lifetime: %v, want more than 0", m.ShortLifetime)
	switch m.LifetimeFrom {
	case FromSessions, FromLittle, FromModel:
	default:
		need(false, "lifetime-from: %q, want %s, %s or %s", m.LifetimeFrom, FromSessions, FromLittle, FromModel)
	}
	faults = append(faults, m.Rates.check(), m.Lifetime.check())
	for _, e := range m.Events {
		faults = append(faults, e.check(m))
	}
	return errors.Join(faults...)
}

// capacity of server i.
func (m *Model) capacity(i int) float64 {
	if len(m.Capacities) == 0 {
		return 1
	}
	return m.Capacities[i]
}

// settings are the weighting settings of a policy with this function.
func (m *Model) settings(f weighting.Function) weighting.Settings {
	s := m.Weighting
	s.Function, s.Interval, s.Window = f, m.Interval, m.Window
	return s
}
