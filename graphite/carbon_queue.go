package graphite

import "time"

// queue holds metrics in the order in which they came. Each has a number,
// counted from the first that ever came, so that a batch that was read from the
// queue can be taken out later, whatever has been dropped meanwhile.
type queue struct {
	metrics []Metric
	first   uint64 // number of metrics[0]
}

func (q *queue) len() int { return len(q.metrics) }

func (q *queue) push(m []Metric) { q.metrics = append(q.metrics, m...) }

// cut takes the n oldest out. What is left moves to a place of its own when
// the one it lies in has become too large for it.
func (q *queue) cut(n int) int {
	q.metrics = q.metrics[n:]
	q.first += uint64(n)
	if cap(q.metrics) > 2*len(q.metrics)+mostLines || len(q.metrics) == 0 {
		q.metrics = append([]Metric(nil), q.metrics...)
	}
	return n
}

// trim takes out the oldest beyond most, then those in front that are from
// before limit, and returns how many it took.
func (q *queue) trim(most int, limit time.Time) int {
	n := max(0, len(q.metrics)-most)
	for n < len(q.metrics) && q.metrics[n].Time.Before(limit) {
		n++
	}
	if n == 0 {
		return 0
	}
	return q.cut(n)
}

func (q *queue) clear() int { return q.cut(len(q.metrics)) }

// oldest returns at most n metrics, which stay in the queue, and the mark to
// drop them by. The slice stays as it is when the queue goes on.
func (q *queue) oldest(n int) ([]Metric, uint64) {
	n = min(n, len(q.metrics))
	return q.metrics[:n:n], q.first + uint64(n)
}

// drop takes out what lies before a mark and returns how many that were.
func (q *queue) drop(mark uint64) int {
	if mark <= q.first {
		return 0
	}
	return q.cut(int(min(mark-q.first, uint64(len(q.metrics)))))
}
