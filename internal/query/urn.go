package query

import "github.com/haproxy-weighter/haproxy-weighter/internal/balancer"

// urn draws servers by their weights in force, each in the same time, by the
// alias method (M. D. Vose, "A linear algorithm for generating random numbers
// with a given distribution", 1991), in whole numbers and so exactly.
type urn struct {
	slots []slot
	total uint64 // of all weights; each slot is worth as much
}

// slot is shared by two servers: the first has the part below bound.
type slot struct {
	first, second any // names, ready to be sent
	bound         uint64
}

// newUrn takes the rows that are in rotation, without those of out.
func newUrn(rows []balancer.Row, out names) urn {
	var u urn
	var left []uint64 // what each server still has to get, in all slots
	for i := range rows {
		if r := &rows[i]; r.InRotation() && !out.has(r.Server) {
			u.slots = append(u.slots, slot{first: r.Server})
			left = append(left, uint64(r.AppliedWeight))
			u.total += uint64(r.AppliedWeight)
		}
	}
	var poor, rich []int
	for i := range left {
		left[i] *= uint64(len(left))
		if left[i] < u.total {
			poor = append(poor, i)
		} else {
			rich = append(rich, i)
		}
	}
	for len(poor) > 0 && len(rich) > 0 {
		p, r := poor[len(poor)-1], rich[len(rich)-1]
		poor = poor[:len(poor)-1]
		u.slots[p].bound, u.slots[p].second = left[p], u.slots[r].first
		left[r] -= u.total - left[p]
		if left[r] < u.total {
			poor, rich = append(poor, r), rich[:len(rich)-1]
		}
	}
	for _, r := range rich { // these have exactly one slot left, their own
		u.slots[r].bound = u.total
	}
	return u
}

// draw returns the name of a server; nil when there is none.
func (u *urn) draw(random func(n uint64) uint64) any {
	if len(u.slots) == 0 {
		return nil
	}
	n := random(uint64(len(u.slots)) * u.total)
	s := &u.slots[n/u.total]
	if n%u.total < s.bound {
		return s.first
	}
	return s.second
}
