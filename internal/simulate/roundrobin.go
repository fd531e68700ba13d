package simulate

// roundRobin spreads as HAProxy's "balance roundrobin": each server has a next
// position on a line that advances by one a connection, and comes again after
// total weight / its weight positions, the rounding carried in a remainder. A
// turn beyond the end of the line waits for the next line, where servers start
// again, heaviest first.
//
// Weight changes are modelled too, because with few connections between two
// passes they matter. Up to 3.1 a raised weight pulls the next turn nearer, a
// lowered one keeps the turn that was already due, and a turn that would be
// due within two positions is put off by a whole step. Since 3.2 every change
// puts the next turn a whole step away, as if the server had just come up.
type roundRobin struct {
	since32 bool
	servers []turn
	line    int // length of the present line: total weight when it began
	total   int // effective weight of the servers that are up
	pos     int
	moves   int64
}

type turn struct {
	weight    int // effective
	place     place
	last      int
	next      int
	remainder int
	since     int64 // order among equals
}

// place is where a server waits for its turn.
type place uint8

const (
	out      place = iota // down
	starting              // first turn of this line not taken yet
	queued
	nextLine
)

func newRoundRobin(weights []int, since32 bool) *roundRobin {
	r := &roundRobin{since32: since32, servers: make([]turn, len(weights))}
	for i, w := range weights {
		r.servers[i].weight = w * weightScale
		r.total += w * weightScale
		r.put(i, starting)
	}
	r.line, r.pos = r.total, r.total
	return r
}

func (r *roundRobin) put(i int, p place) {
	r.moves++
	r.servers[i].place, r.servers[i].since = p, r.moves
}

// sooner orders two queued servers: nearest turn, then the heavier one, then
// the one that was queued first.
func (t *turn) sooner(o *turn) bool {
	if t.next != o.next {
		return t.next < o.next
	}
	a, b := (maxEffective+t.remainder-t.weight)/weightScale, (maxEffective+o.remainder-o.weight)/weightScale
	if a != b {
		return a < b
	}
	return t.since < o.since
}

// heavier orders two servers that start a line.
func (t *turn) heavier(o *turn) bool {
	if t.weight != o.weight {
		return t.weight > o.weight
	}
	return t.since < o.since
}

// front finds the server whose turn it is on this line, -1 when all wait for the next.
func (r *roundRobin) front() int {
	due, fresh := -1, -1
	for i := range r.servers {
		s := &r.servers[i]
		switch s.place {
		case queued:
			if due < 0 || s.sooner(&r.servers[due]) {
				due = i
			}
		case starting:
			if fresh < 0 || s.heavier(&r.servers[fresh]) {
				fresh = i
			}
		}
	}
	if fresh >= 0 && (due < 0 || r.servers[due].next > r.pos) {
		r.servers[fresh].next, r.servers[fresh].remainder = 0, 0
		return fresh
	}
	return due
}

func (r *roundRobin) pick() int {
	if r.total == 0 {
		return -1
	}
	if r.line == 0 {
		r.line, r.pos = r.total, r.total
	}
	chosen := r.front()
	if chosen < 0 {
		r.turnLine()
		chosen = r.front()
	}
	if chosen < 0 {
		return -1
	}
	s := &r.servers[chosen]
	if s.next == 0 {
		s.next = r.pos
	}
	s.last = s.next
	s.next += r.total / s.weight
	s.remainder += r.total % s.weight
	if s.remainder >= s.weight {
		s.remainder -= s.weight
		s.next++
	}
	r.pos++
	r.queue(chosen)
	return chosen
}

func (r *roundRobin) turnLine() {
	for i := range r.servers {
		if r.servers[i].place == nextLine {
			r.servers[i].place = starting
		}
	}
	r.line, r.pos = r.total, r.total
}

// queue puts a server where its next position belongs.
func (r *roundRobin) queue(i int) {
	s := &r.servers[i]
	if s.next >= 2*r.line || s.next >= r.line+r.total {
		s.next -= r.line
		r.put(i, nextLine)
		return
	}
	r.put(i, queued)
}

func (r *roundRobin) took(int) {}
func (r *roundRobin) left(int) {}

func (r *roundRobin) setWeight(i, weight int) {
	s := &r.servers[i]
	effective := weight * weightScale
	if effective == s.weight {
		return
	}
	if s.place != out {
		r.total += effective - s.weight
	}
	s.weight = effective
	switch {
	case s.place == out:
		return
	case r.since32:
		r.join(i)
		return
	case s.place == starting:
		r.put(i, starting)
		return
	case s.place == nextLine:
		s.next += r.line
	}
	step := r.total / effective
	s.remainder = 0
	s.next = min(s.last+step, s.next)
	if s.next < r.pos+2 {
		s.next = r.pos + step
	}
	r.queue(i)
}

// join gives a server its next turn as if it had just come up.
func (r *roundRobin) join(i int) {
	s := &r.servers[i]
	s.next = r.pos + (r.total+r.line-r.pos)/s.weight
	r.queue(i)
}

func (r *roundRobin) setUp(i int, up bool) {
	s := &r.servers[i]
	if up == (s.place != out) {
		return
	}
	if !up {
		r.total -= s.weight
		s.place = out
		return
	}
	r.total += s.weight
	r.join(i)
}
