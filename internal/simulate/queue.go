package simulate

// event is something that happens at a time of the model.
type event struct {
	at   float64 // seconds
	kind eventKind
	id   int32 // connection slot, balancer or disturbance, by kind
}

type eventKind uint8

const (
	depart eventKind = iota
	sample
	pass
	disturb
)

// queue is a four-ary heap of events, earliest first. Four children a node
// halve the depth of a binary heap, and the model spends most of its time here.
// Events of the same time leave by kind, then id, so that runs are repeatable.
type queue struct{ heap []event }

func (e event) before(o event) bool {
	if e.at != o.at {
		return e.at < o.at
	}
	if e.kind != o.kind {
		return e.kind < o.kind
	}
	return e.id < o.id
}

// first is the earliest event; the queue must not be empty.
func (q *queue) first() event { return q.heap[0] }

func (q *queue) push(e event) {
	q.heap = append(q.heap, e)
	i := len(q.heap) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(q.heap[parent]) {
			break
		}
		q.heap[i] = q.heap[parent]
		i = parent
	}
	q.heap[i] = e
}

func (q *queue) pop() event {
	top := q.heap[0]
	last := q.heap[len(q.heap)-1]
	q.heap = q.heap[:len(q.heap)-1]
	n := len(q.heap)
	if n == 0 {
		return top
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= n {
			break
		}
		best := child
		for c := child + 1; c < min(child+4, n); c++ {
			if q.heap[c].before(q.heap[best]) {
				best = c
			}
		}
		if !q.heap[best].before(last) {
			break
		}
		q.heap[i] = q.heap[best]
		i = best
	}
	q.heap[i] = last
	return top
}
