package simulate

import "math/rand/v2"

// algorithm is one balancer's way to choose a server, as HAProxy does it.
// Weights are HAProxy's user weights, 1..256.
type algorithm interface {
	pick() int // -1 when no server is up
	took(server int)
	left(server int)
	setWeight(server, weight int)
	setUp(server int, up bool)
}

// HAProxy keeps sixteen steps of effective weight to a step of user weight,
// so that slowstart can ramp; keys and steps are integers in that unit.
const (
	weightScale  = 16
	maxEffective = 256 * weightScale
)

// leastConn spreads as HAProxy's "balance leastconn": the least key wins, 0
// for an idle server and (connections+1)*4096/effective weight, in integers,
// for the others; among equal keys the one that got its key first. Each
// balancer counts its own connections only.
type leastConn struct {
	servers []counted
	moves   int64
}

type counted struct {
	weight int // effective
	up     bool
	conns  int
	key    int
	since  int64 // order among equal keys
}

func newLeastConn(weights []int) *leastConn {
	l := &leastConn{servers: make([]counted, len(weights))}
	for i, w := range weights {
		l.servers[i] = counted{weight: w * weightScale, up: true}
		l.requeue(i)
	}
	return l
}

func (l *leastConn) requeue(i int) {
	s := &l.servers[i]
	s.key = 0
	if s.conns > 0 {
		s.key = (s.conns + 1) * maxEffective / s.weight
	}
	l.moves++
	s.since = l.moves
}

func (l *leastConn) pick() int {
	best := -1
	for i := range l.servers {
		s := &l.servers[i]
		if !s.up {
			continue
		}
		if best < 0 {
			best = i
			continue
		}
		b := &l.servers[best]
		if s.key < b.key || s.key == b.key && s.since < b.since {
			best = i
		}
	}
	return best
}

func (l *leastConn) took(i int) { l.servers[i].conns++; l.requeue(i) }
func (l *leastConn) left(i int) { l.servers[i].conns--; l.requeue(i) }

func (l *leastConn) setWeight(i, weight int) {
	if l.servers[i].weight != weight*weightScale {
		l.servers[i].weight = weight * weightScale
		l.requeue(i)
	}
}

func (l *leastConn) setUp(i int, up bool) {
	if l.servers[i].up != up {
		l.servers[i].up = up
		l.requeue(i)
	}
}

// random spreads as HAProxy's "balance random(n)": n servers are drawn by
// weight, and the one with the fewest connections for its weight gets it.
type random struct {
	draws   int
	rand    *rand.Rand
	servers []counted
	total   int
}

func newRandom(draws int, weights []int, r *rand.Rand) *random {
	a := &random{draws: draws, rand: r, servers: make([]counted, len(weights))}
	for i, w := range weights {
		a.servers[i] = counted{weight: w * weightScale, up: true}
		a.total += w * weightScale
	}
	return a
}

func (a *random) pick() int {
	best := -1
	for range a.draws {
		i := a.draw()
		if i < 0 {
			return -1
		}
		if best >= 0 && best != i {
			b, s := &a.servers[best], &a.servers[i]
			if s.conns*b.weight > b.conns*s.weight {
				continue
			}
		}
		best = i
	}
	return best
}

// draw is one server by weight.
func (a *random) draw() int {
	if a.total == 0 {
		return -1
	}
	at := a.rand.IntN(a.total)
	for i := range a.servers {
		if !a.servers[i].up {
			continue
		}
		if at -= a.servers[i].weight; at < 0 {
			return i
		}
	}
	return -1
}

func (a *random) took(i int) { a.servers[i].conns++ }
func (a *random) left(i int) { a.servers[i].conns-- }

func (a *random) setWeight(i, weight int) {
	if a.servers[i].up {
		a.total += weight*weightScale - a.servers[i].weight
	}
	a.servers[i].weight = weight * weightScale
}

func (a *random) setUp(i int, up bool) {
	if a.servers[i].up == up {
		return
	}
	a.servers[i].up = up
	if up {
		a.total += a.servers[i].weight
	} else {
		a.total -= a.servers[i].weight
	}
}

// leastLoad is the bound: it knows every server's load exactly at every moment
// and gives each connection to the least loaded one. No balancer can do that.
type leastLoad struct {
	relative func(server int) (load float64, up bool)
}

func (l *leastLoad) pick(servers int) int {
	best, least := -1, 0.0
	for i := range servers {
		load, up := l.relative(i)
		if up && (best < 0 || load < least) {
			best, least = i, load
		}
	}
	return best
}
