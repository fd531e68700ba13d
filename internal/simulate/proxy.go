package simulate

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// proxy is one HAProxy with the daemon beside it. It knows the servers'
// series, like all the others, and of the connections only its own.
type proxy struct {
	algorithm  algorithm
	controller controller // nil: fixed weights
	phases     *rand.Rand
	weights    []int // in force
	initial    []int
	conns      []int   // own, by server
	open       int     // own, all servers
	totals     []int64 // own, ever, by server
	lastChange time.Time

	lifetime time.Duration // tauhat
	asked    float64       // when the sessions' ages were last read
	delay    time.Duration // d of the last pass
	little   weighting.Little
	tally    tally
}

// tally is what a balancer's passes of the measured time add up to.
type tally struct {
	passes, held    int
	writes, changes int
	churn           float64
	lifetime, delay float64 // seconds
	gain            float64
}

func newProxy(w *world, phases, draws *rand.Rand) *proxy {
	m, p := w.model, w.policy
	b := &proxy{
		controller: p.controller(m), phases: phases,
		initial: make([]int, m.Servers), conns: make([]int, m.Servers), totals: make([]int64, m.Servers), asked: math.Inf(-1),
	}
	largest := 0.0
	for i := range m.Servers {
		largest = max(largest, m.capacity(i))
	}
	for i := range m.Servers {
		weight := float64(initialWeight) * m.capacity(i)
		if largest > 2 {
			weight = 256 * m.capacity(i) / largest
		}
		b.initial[i] = max(1, int(math.Round(weight)))
	}
	b.weights = append([]int(nil), b.initial...)
	switch p.Algorithm {
	case RoundRobin:
		b.algorithm = newRoundRobin(b.weights, m.HAProxy32)
	case LeastConn:
		b.algorithm = newLeastConn(b.weights)
	case Random:
		b.algorithm = newRandom(p.Draws, b.weights, draws)
	}
	return b
}

func (b *proxy) took(server int) {
	b.conns[server]++
	b.open++
	if b.algorithm != nil {
		b.algorithm.took(server)
	}
}

func (b *proxy) left(server int) {
	b.conns[server]--
	b.open--
	if b.algorithm != nil {
		b.algorithm.left(server)
	}
}

func (b *proxy) setUp(server int, up bool) {
	if b.algorithm != nil {
		b.algorithm.setUp(server, up)
	}
}

// pass is one run of the daemon's loop.
func (b *proxy) pass(w *world) {
	in := w.input(b)
	in.Lifetime = b.estimate(w, in)
	d := b.controller.Decide(in)
	b.delay = d.Delay
	b.tally.passes++
	b.tally.lifetime += b.lifetime.Seconds()
	b.tally.delay += d.Delay.Seconds()
	b.tally.gain += d.Gain
	if d.Verdict == weighting.Hold {
		b.tally.held++
	}
	if d.Verdict != weighting.Write {
		return
	}
	changed := 0
	for i, s := range d.Servers {
		if s.Weight == b.weights[i] || s.Weight == 0 || w.servers[i].down {
			continue
		}
		changed++
		b.tally.churn += math.Abs(float64(s.Weight - b.weights[i]))
		b.weights[i] = s.Weight
		b.algorithm.setWeight(i, s.Weight)
	}
	if changed > 0 {
		b.tally.writes++
		b.tally.changes += changed
		b.lastChange = in.Now
	}
}
