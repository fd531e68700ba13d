package weighting

import "math"

// feedbackState is what feedback remembers of one server.
type feedbackState struct{ log, err float64 }

// feedback runs the function "feedback" over all entries: those that keep
// their share are frozen, but the mean that is taken off the log weights is
// everybody's, so that a frozen server keeps its place among the others. One
// that counts as average has no error, which also takes back what its last,
// disbelieved report did: a zero raises a weight by a factor of e.
func (p *pass) feedback() {
	n := len(p.entries)
	logs, previous := make([]float64, n), make([]float64, n)
	before := make([]feedbackState, n)
	loads := make([]float64, n)
	p.recall()
	for i := range p.entries {
		e := &p.entries[i]
		logs[i], previous[i] = e.mem.log, e.mem.prevError
		before[i] = feedbackState{e.mem.log, e.mem.prevError}
		loads[i] = p.loads[i]
		if !p.weighs(e) {
			loads[i] = math.NaN()
		}
	}
	interval, unit := p.c.settings.Interval, float64(p.c.timing.FeedbackUnit)
	// The integral adds up over time, not over passes: those may come in bursts.
	elapsed := interval
	if p.known {
		elapsed = min(p.elapsed, interval*3/2)
	}
	steps := float64(elapsed) / unit
	mean, all := FeedbackShares(p.shares, loads, p.capacities, logs, previous, steps)
	// What one pass does about 1 %. The integral goes on adding to it.
	p.d.Gain = FeedbackKp + FeedbackKi*float64(interval)/unit
	for i := range p.entries[:p.weighed] {
		e := &p.entries[i]
		p.explainFeedback(e, p.shares[i], before[i], feedbackState{logs[i], previous[i]}, steps, mean, all)
	}
	for i := range p.entries {
		m := p.entries[i].mem
		m.log, m.prevError, m.tracked = logs[i], previous[i], true
	}
}

// recall makes each log weight fit the weight in force. It stands as it is
// when the weight in force is the one we asked for, and under Force, because
// then our own weights are to come back. A server that is new, or whose weight
// is another although nobody forces ours back (we only observe, or a write
// failed), starts from its weight in force, placed among the others.
func (p *pass) recall() {
	var offset, known float64
	for i := range p.entries {
		e := &p.entries[i]
		m := e.mem
		m.tracked = m.tracked && m.asked > 0 && (p.in.Force != "" || m.asked == e.server.Weight)
		if m.tracked && !e.pinned() { // a pin says nothing of the others' place
			offset += m.log - math.Log(float64(m.asked))
			known++
		}
	}
	if known > 0 {
		offset /= known
	}
	for i := range p.entries {
		if m := p.entries[i].mem; !m.tracked {
			m.log, m.prevError = math.Log(float64(p.entries[i].ours()))+offset, 0
		}
	}
}
