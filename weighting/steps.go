package weighting

import (
	"math"
	"time"
)

// stepTime is how much of an interval a step of max_step stands for at least:
// passes are up to a tenth of an interval early, and their reads take longer at
// one time than at another.
const stepTime = 0.8

// stepping is what a Controller remembers of max_step. A step starts from the
// weights in force at a pass, and passes that come before the step's time is
// over (an order, a reload) go on with it: however many there are, together
// they take one step.
type stepping struct {
	began time.Time // the step in hand; zero: none
	// closed says that the step was taken before this controller's time: what
	// it started from is not known, so no weight may change before it is over.
	closed bool
}

// openStep begins a step, or goes on with the one in hand. Without max_step
// there are none.
func (p *pass) openStep() {
	if !(p.c.settings.MaxStep > 0) {
		return
	}
	st := &p.c.step
	if st.began.IsZero() && !p.in.LastChange.IsZero() {
		*st = stepping{began: p.in.LastChange, closed: true}
	}
	gone := p.in.Now.Sub(st.began)
	over := st.began.IsZero() || gone < 0 || float64(gone) >= stepTime*float64(p.c.settings.Interval)
	if over {
		*st = stepping{began: p.in.Now}
	}
	p.stepSum = 0
	for i := range p.entries {
		e := &p.entries[i]
		low, high := stepRange(e.mem.stepFrom, p.c.settings.MaxStep)
		// Somebody else has set a weight outside of the step. When it is not to be
		// taken back, it is where its server begins, as one that has just come does.
		if w := e.ours(); over || e.mem.stepFrom == 0 || w < low || w > high {
			e.mem.stepFrom = w
		}
		if e.pinned() {
			e.mem.stepFrom = e.kept()
		}
		p.stepSum += e.mem.stepFrom
	}
}

// stepScale is the largest scale of weights that the step in hand allows.
func (p *pass) stepScale() float64 {
	if !(p.c.settings.MaxStep > 0) {
		return math.Inf(1)
	}
	return float64(p.stepSum) * (1 + p.c.settings.MaxStep/2)
}

// limitSteps applies max_step. MinWeight and MaxWeight come first.
func (p *pass) limitSteps() {
	if !(p.c.settings.MaxStep > 0) {
		return
	}
	for i := range p.entries {
		e := &p.entries[i]
		if e.pinned() {
			continue
		}
		low, high := p.stepLimits(e)
		w := min(max(e.weight, low), high)
		w = min(max(w, p.c.settings.MinWeight, 1), p.c.settings.MaxWeight, largestWeight)
		if w != e.weight {
			e.out.because(StepMaxStep, float64(e.weight), float64(w), p.stepWords(e, low, high))
			e.weight = w
		}
	}
}

// stepLimits returns the weights that an entry may get: a step from where the
// step in hand began, and in this pass no more than one from the weight in force,
// or from the one that we left there.
func (p *pass) stepLimits(e *entry) (low, high int) {
	if p.c.step.closed {
		return e.ours(), e.ours()
	}
	low, high = stepRange(e.mem.stepFrom, p.c.settings.MaxStep)
	lowest, highest := stepRange(e.ours(), p.c.settings.MaxStep)
	return max(low, lowest), min(high, highest)
}

func (p *pass) stepWords(e *entry, low, high int) string {
	gone := p.in.Now.Sub(p.c.step.began)
	if p.c.step.closed {
		return p.words.s("weights were written ").about(gone).s(" ago, and may take one step an interval of ").
			seconds(p.c.settings.Interval).s(": no change yet").end()
	}
	p.words.s("weight ").i(e.mem.stepFrom)
	if gone > 0 {
		p.words.s(", of ").about(gone).s(" ago,")
	}
	return p.words.s(" may change by ").f(p.c.settings.MaxStep * 100).s(" % in one interval: ").i(low).s(" to ").i(high).end()
}

// stepRange returns the weights that one step may reach from weight. The tiny
// slack keeps 100 * 1.1 from being short of 110.
func stepRange(weight int, step float64) (low, high int) {
	const slack = 1e-9
	w := float64(weight)
	low = min(int(math.Ceil(w*(1-step)-slack)), weight-1)
	high = max(int(math.Floor(w*(1+step)+slack)), weight+1)
	return low, high
}
