package simulate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// initialWeight is what haproxy.cfg gives a server of capacity 1.
const initialWeight = 128

// world is one run: one model, one policy, one seed.
type world struct {
	model  *Model
	policy *Policy
	script *script
	now    float64
	queue  queue
	next   int // of script.arrivals

	conns     []conn
	free      []int32
	servers   []server
	balancers []*proxy
	bound     *leastLoad // instead of the balancers' algorithms

	points    *sampler
	values    []float64 // scratch of one sample
	actions   []func()
	reconnect *rand.Rand
	watch     watch
}

type conn struct {
	rate     float64
	since    float64
	server   int32
	balancer int32
	open     bool
}

type server struct {
	name     string
	capacity float64
	load     float64
	conns    int
	area     float64 // integral of load over the present step
	touched  float64
	down     bool
	upSince  time.Time
	silent   int // > 0: its series has nulls
	stuck    int // > 0: its series says 0
}

// newWorld lays the plant out with the script's residents in place.
func newWorld(m *Model, p *Policy, s *script, seed uint64) *world {
	w := &world{
		model: m, policy: p, script: s,
		servers: make([]server, m.Servers), values: make([]float64, m.Servers),
		reconnect: seeded(seed, useReconnect),
	}
	names := make([]string, m.Servers)
	for i := range w.servers {
		names[i] = fmt.Sprintf("s%d", i+1)
		w.servers[i] = server{name: names[i], capacity: m.capacity(i)}
	}
	w.points = newSampler(m, names)
	if p.Algorithm == LeastLoad {
		w.bound = &leastLoad{relative: func(i int) (float64, bool) {
			return w.servers[i].load / w.servers[i].capacity, !w.servers[i].down
		}}
	}
	phases, draws := seeded(seed, usePhases), seeded(seed, useDraws)
	for i := range m.Balancers {
		b := newProxy(w, phases, draws)
		w.balancers = append(w.balancers, b)
		if b.controller != nil {
			w.queue.push(event{at: phases.Float64() * m.Interval.Seconds(), kind: pass, id: int32(i)})
		}
	}
	for _, r := range s.residents {
		w.open(conn{rate: r.rate, since: -r.age, balancer: r.balancer}, int(r.server), r.left)
	}
	w.queue.push(event{at: m.Step.Seconds(), kind: sample})
	for i := range m.Events {
		w.schedule(&m.Events[i])
	}
	return w
}

// run goes on until the model's time is end, or done says so.
func (w *world) run(ctx context.Context, end float64, done func() bool) error {
	arrivals := w.script.arrivals
	for steps := 0; ; steps++ {
		if steps%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if done != nil && done() {
			return nil
		}
		at := w.queue.first().at
		if w.next < len(arrivals) && arrivals[w.next].at < at {
			a := arrivals[w.next]
			if a.at >= end {
				break
			}
			w.now = a.at
			w.next++
			w.arrive(conn{rate: a.rate, balancer: a.balancer}, a.life)
			continue
		}
		if at > end {
			break
		}
		w.handle(w.queue.pop())
	}
	w.now = end
	return nil
}

func (w *world) handle(e event) {
	w.now = e.at
	switch e.kind {
	case depart:
		w.close(e.id)
	case sample:
		w.sample()
		w.queue.push(event{at: e.at + w.model.Step.Seconds(), kind: sample})
	case pass:
		b := w.balancers[e.id]
		b.pass(w)
		wait := w.model.Interval.Seconds() * (1 + w.model.Jitter*(2*b.phases.Float64()-1))
		w.queue.push(event{at: e.at + wait, kind: pass, id: e.id})
	case disturb:
		w.actions[e.id]()
	}
}

// arrive places a connection through its balancer. With no server up it is lost.
func (w *world) arrive(c conn, life float64) {
	c.since = w.now
	if chosen := w.choose(c.balancer); chosen >= 0 {
		w.balancers[c.balancer].totals[chosen]++
		w.open(c, chosen, life)
	}
}

func (w *world) choose(balancer int32) int {
	if w.bound != nil {
		return w.bound.pick(len(w.servers))
	}
	return w.balancers[balancer].algorithm.pick()
}

func (w *world) open(c conn, server int, life float64) {
	c.open = true
	var id int32
	if n := len(w.free); n > 0 {
		id, w.free = w.free[n-1], w.free[:n-1]
	} else {
		id = int32(len(w.conns))
		w.conns = append(w.conns, conn{})
	}
	w.conns[id] = c
	w.attach(id, server)
	w.queue.push(event{at: w.now + life, kind: depart, id: id})
}

func (w *world) attach(id int32, server int) {
	c := &w.conns[id]
	c.server = int32(server)
	s := &w.servers[server]
	w.touch(s)
	s.load += c.rate
	s.conns++
	w.balancers[c.balancer].took(server)
}

func (w *world) detach(id int32) {
	c := &w.conns[id]
	s := &w.servers[c.server]
	w.touch(s)
	s.conns--
	s.load -= c.rate
	if s.conns == 0 {
		s.load = 0 // what adding and subtracting has left
	}
	w.balancers[c.balancer].left(int(c.server))
}

func (w *world) close(id int32) {
	w.detach(id)
	w.conns[id].open = false
	w.free = append(w.free, id)
}

// touch brings the integral of a server's load up to now, before the load changes.
func (w *world) touch(s *server) {
	s.area += s.load * (w.now - s.touched)
	s.touched = w.now
}

// sample ends one step of the series and looks at the spread.
func (w *world) sample() {
	factor := w.model.ratesFactor(w.now - w.model.Warmup.Seconds())
	for i := range w.servers {
		s := &w.servers[i]
		w.touch(s)
		w.values[i] = s.area / w.model.Step.Seconds() * factor
		s.area = 0
		switch {
		case s.down || s.silent > 0:
			w.values[i] = math.NaN()
		case s.stuck > 0:
			w.values[i] = 0
		}
	}
	w.points.add(w.values)
	if w.now > w.model.Warmup.Seconds() {
		w.watch.look(w, factor)
	}
}

// relative is a server's load for its capacity over the mean of those that are up.
func (w *world) relative(i int) float64 {
	load, capacity := 0.0, 0.0
	for j := range w.servers {
		if !w.servers[j].down {
			load += w.servers[j].load
			capacity += w.servers[j].capacity
		}
	}
	return w.servers[i].load / w.servers[i].capacity / (load / capacity)
}

// input is what a pass of a balancer knows.
func (w *world) input(b *proxy) weighting.Input {
	in := weighting.Input{Now: wall(w.now), Servers: make([]weighting.Server, len(w.servers)), LastChange: b.lastChange}
	for i := range w.servers {
		s := &w.servers[i]
		v := weighting.Server{
			Name: s.name, Load: math.NaN(), Capacity: s.capacity,
			Weight: b.weights[i], InitialWeight: b.initial[i], UpSince: s.upSince, Sessions: b.conns[i],
		}
		if s.down {
			v.Rotation = weighting.Down
		}
		if got, err := w.points.read(i, w.now); err == nil {
			v.Load, v.LoadTime, v.DataAge = got.Value, got.Time, got.MidAge
		} else {
			v.Reason = err.Error()
		}
		in.Servers[i] = v
	}
	return in
}
