package balancer

import (
	"fmt"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// memory is what a plane remembers of its HAProxy between passes.
type memory struct {
	known  bool // false until a first state has been read
	worker haproxy.Worker
	// belief is the weight that each server should have in HAProxy when nobody
	// but us writes: what we applied last, or found when we applied nothing.
	belief map[string]int
	// stood is when belief was last known to stand in worker: that answered then.
	stood time.Time
	// unsure are weights that were sent without an answer: HAProxy may take
	// them yet, and then nobody else has written them.
	unsure     map[string]int
	trusting   bool      // the weights found at first are ours, whatever we know
	readOnly   bool      // the balance algorithm refuses weights; until the next worker
	lastChange time.Time // when we last wrote; zero = never
	arrivals   arrivals
	comeback   comeback
}

// stands notes that a worker has answered at now: if it is the one remembered,
// it has what we left in it.
func (m *memory) stands(w haproxy.Worker, now time.Time) {
	if m.known && w == m.worker {
		m.stood = now
	}
}

// adopt takes over the weights that a worker has at now.
func (m *memory) adopt(state *haproxy.State, now time.Time) {
	m.known, m.worker, m.stood = true, state.Info.Worker, now
	m.belief, m.unsure = weightsOf(state.Servers), nil
}

// foreignWrite is a weight that somebody else has set.
type foreignWrite struct {
	server      string
	ours, found int
	agent       bool // the server has an agent-check
	srv         bool // the server is made from SRV records
	initial     bool // what was found is the initial weight
}

// foreign finds the weights that are not what we left, by server. 0 is not
// among them, neither before nor after: that is an operator's drain, which we
// respect and do not take back. Servers out of rotation are not ours to watch.
func (m *memory) foreign(state *haproxy.State, watching bool) map[string]foreignWrite {
	unsure, trusting := m.unsure, m.trusting
	m.unsure, m.trusting = nil, false
	if !watching || trusting {
		return nil
	}
	found := make(map[string]foreignWrite)
	for i := range state.Servers {
		s := &state.Servers[i]
		ours, ok := m.belief[s.Name]
		if !ok || ours == 0 || ours == s.Weight || rotationOf(s) != weighting.InRotation {
			continue
		}
		if sent, ok := unsure[s.Name]; ok && sent == s.Weight {
			continue
		}
		found[s.Name] = foreignWrite{
			server: s.Name, ours: ours, found: s.Weight,
			agent: s.Agent != "", srv: s.SRV != "", initial: s.Weight == s.InitialWeight,
		}
	}
	return found
}

// settle notes the weights in force after a pass. A foreign write that the
// pass could not take back, because it held, stays one.
func (m *memory) settle(state *haproxy.State, foreign map[string]foreignWrite, v weighting.Verdict, watching bool) {
	belief := weightsOf(state.Servers)
	if v == weighting.Hold && watching {
		for name, f := range foreign {
			if belief[name] == f.found {
				belief[name] = f.ours
			}
		}
	}
	m.belief = belief
}

// who names the likely writers.
func (f *foreignWrite) who() string {
	switch {
	case f.agent:
		return "its agent-check sets a weight with each answer"
	case f.srv:
		return "the SRV record that it is made from has a weight: resolve-opts ignore-weight in haproxy.cfg stops that"
	case f.initial:
		return "it is the initial weight: the server may have been deleted and added again, or somebody reset it"
	}
	return "an operator or another program on a stats socket"
}

func (f *foreignWrite) text() string {
	return fmt.Sprintf("%s: %d found, %d left by us (%s)", f.server, f.found, f.ours, f.who())
}
