package simulate

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// little is a plant that runs in milliseconds.
func little() Model {
	m := ModelA()
	m.Servers, m.Connections, m.Balancers = 8, 800, 2
	m.Lifetime.Mean = 10 * time.Minute
	m.Warmup, m.Measured, m.Restart = 10*time.Minute, 20*time.Minute, false
	return m
}

func policy(t *testing.T, name string) Policy {
	t.Helper()
	p, err := ParsePolicy(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func study(t *testing.T, m Model, seeds int, names ...string) *Outcome {
	t.Helper()
	s := Study{Model: m}
	for i := range seeds {
		s.Seeds = append(s.Seeds, uint64(i+1))
	}
	for _, n := range names {
		s.Policies = append(s.Policies, policy(t, n))
	}
	o, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// world at rest after some time with every kind of event in it.
func disturbed(t *testing.T, name string) *world {
	t.Helper()
	m := little()
	m.ShortPerLong, m.ShortLifetime = 2, 5*time.Second
	m.Events = []Event{
		{Kind: Restart, At: time.Minute, Server: 1, For: 20 * time.Second},
		{Kind: Hot, At: 2 * time.Minute, Server: 2, Factor: 5},
		{Kind: Storm, At: 3 * time.Minute, For: time.Minute, Factor: 4},
		{Kind: Swing, At: 0, Factor: 0.5, Period: 10 * time.Minute},
		{Kind: Swing, At: 0, Factor: 0.5, Period: 7 * time.Minute, Rates: true},
		{Kind: Missing, At: 4 * time.Minute, For: time.Minute, Server: 3},
		{Kind: Stuck, At: 4 * time.Minute, For: time.Minute, Server: 4},
	}
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	p := policy(t, name)
	w := newWorld(&m, &p, newScript(&m, 3, m.horizon()), 3)
	if err := w.run(t.Context(), m.horizon(), nil); err != nil {
		t.Fatal(err)
	}
	return w
}

// What is added up incrementally must be what the open connections sum to.
func TestSumsAreThoseOfTheConnections(t *testing.T) {
	for _, name := range []string{"water-fill", "feedback", "random(2)", "bound"} {
		w := disturbed(t, name)
		loads, conns := make([]float64, len(w.servers)), make([]int, len(w.servers))
		own := make([][]int, len(w.balancers))
		for i := range own {
			own[i] = make([]int, len(w.servers))
		}
		open := 0
		for _, c := range w.conns {
			if c.open {
				open++
				loads[c.server] += c.rate
				conns[c.server]++
				own[c.balancer][c.server]++
			}
		}
		if open < 400 || open > 2000 {
			t.Errorf("%s: %d connections are open", name, open)
		}
		for i := range w.servers {
			s := &w.servers[i]
			if s.conns != conns[i] || math.Abs(s.load-loads[i]) > 1e-6*loads[i] {
				t.Errorf("%s: server %d has load %v of %d connections, its connections sum to %v of %d", name, i, s.load, s.conns, loads[i], conns[i])
			}
		}
		for i, b := range w.balancers {
			if diff := cmp.Diff(own[i], b.conns); diff != "" {
				t.Errorf("%s: connections of balancer %d (-sum +counted):\n%s", name, i, diff)
			}
		}
	}
}

func TestSameSeedSameNumbers(t *testing.T) {
	names := []string{"equal", "random(2)", "water-fill", "feedback", "integration", "bound"}
	first, second := study(t, little(), 2, names...), study(t, little(), 2, names...)
	for i := range first.Rows {
		if diff := cmp.Diff(first.Rows[i].Results, second.Rows[i].Results, cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("%s: two runs differ:\n%s", names[i], diff)
		}
	}
	if a, b := first.Rows[0].Results[0].Excess, first.Rows[0].Results[1].Excess; a == b {
		t.Errorf("two seeds gave the same excess %v", a)
	}
}

func TestCancelEndsAStudy(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := Study{Model: little(), Policies: []Policy{policy(t, "equal")}, Seeds: []uint64{1}}
	if _, err := s.Run(ctx); err == nil {
		t.Error("a study whose context has ended gave a result")
	}
}

// A stopped server has nothing, its clients are elsewhere, and none is lost.
func TestStopMovesEveryClient(t *testing.T) {
	m, p := little(), policy(t, "equal")
	w := newWorld(&m, &p, newScript(&m, 1, m.horizon()), 1)
	before := 0
	for i := range w.servers {
		before += w.servers[i].conns
	}
	w.stop(2)
	after := 0
	for i := range w.servers {
		after += w.servers[i].conns
	}
	if w.servers[2].conns != 0 || w.servers[2].load != 0 || after != before {
		t.Errorf("server 2 has %d connections of load %v; %d of %d are left in all", w.servers[2].conns, w.servers[2].load, after, before)
	}
	for range 50 {
		if w.choose(0) == 2 {
			t.Fatal("a stopped server was chosen")
		}
	}
}

func TestHeatMakesAServerHot(t *testing.T) {
	m, p := little(), policy(t, "equal")
	w := newWorld(&m, &p, newScript(&m, 1, m.horizon()), 1)
	w.heat(3, 5)
	others := 0.0
	for i := range w.servers {
		if i != 3 {
			others += w.servers[i].load / float64(m.Servers-1)
		}
	}
	if got := w.servers[3].load / others; math.Abs(got-5) > 1e-9 {
		t.Errorf("server 3 has %v times the others' mean load, want 5", got)
	}
}

// Balancers that have not made a pass differ in phase.
func TestPassesAreOutOfStep(t *testing.T) {
	m, p := little(), policy(t, "water-fill")
	m.Balancers = 4
	w := newWorld(&m, &p, newScript(&m, 1, m.horizon()), 1)
	times := map[float64]bool{}
	for len(w.queue.heap) > 0 {
		if e := w.queue.pop(); e.kind == pass {
			if e.at < 0 || e.at > m.Interval.Seconds() {
				t.Errorf("first pass at %v s", e.at)
			}
			times[e.at] = true
		}
	}
	if len(times) != 4 {
		t.Errorf("four balancers make their first pass at %d times", len(times))
	}
}

func TestArrivalRateFollowsTheEvents(t *testing.T) {
	m := little()
	m.Measured = 2 * time.Hour
	m.Events = []Event{{Kind: Storm, At: 30 * time.Minute, For: 30 * time.Minute, Factor: 3}}
	s := newScript(&m, 1, m.horizon())
	perSecond := float64(m.Connections) / m.Lifetime.Mean.Seconds()
	count := func(from, to float64) float64 {
		n := 0.0
		for _, a := range s.arrivals {
			if at := a.at - m.Warmup.Seconds(); at >= from && at < to {
				n++
			}
		}
		return n / (to - from) / perSecond
	}
	for name, pair := range map[string][2]float64{"before": {count(0, 1800), 1}, "storm": {count(1800, 3600), 3}, "after": {count(3600, 7200), 1}} {
		if math.Abs(pair[0]/pair[1]-1) > 0.08 {
			t.Errorf("%s: %.2f times the usual arrivals, want %v", name, pair[0], pair[1])
		}
	}
}

func TestCapacitiesShareTheLoad(t *testing.T) {
	m := little()
	m.Capacities = []float64{1, 1, 1, 1, 1, 1, 2, 4}
	m.Measured = 2 * time.Hour
	for _, name := range []string{"equal", "water-fill", "feedback", "bound"} {
		m, p := m, policy(t, name)
		w := newWorld(&m, &p, newScript(&m, 1, m.horizon()), 1)
		conns := make([]float64, m.Servers)
		for at := 0.0; at < m.horizon(); at += 60 {
			if err := w.run(t.Context(), at, nil); err != nil {
				t.Fatal(err)
			}
			for i := range conns {
				if at > m.Warmup.Seconds() {
					conns[i] += w.servers[i].load
				}
			}
		}
		small := (conns[0] + conns[1] + conns[2] + conns[3] + conns[4] + conns[5]) / 6
		for i, c := range m.Capacities {
			if got := conns[i] / small; c > 1 && math.Abs(got/c-1) > 0.25 {
				t.Errorf("%s: server %d of capacity %v has %.2f times the load of capacity 1", name, i, c, got)
			}
		}
	}
}

func TestPlot(t *testing.T) {
	s := Study{Model: little(), Seeds: []uint64{1}, Trace: true}
	for _, n := range []string{"equal", "water-fill", "bound"} {
		s.Policies = append(s.Policies, policy(t, n))
	}
	o, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	picture, err := o.Plot("water-fill")
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, picture)
	if _, err := o.Plot("feedback"); err == nil {
		t.Error("a plot of a policy that was not run")
	}
}
