package weighting

import (
	"math"
	"slices"
	"time"
)

// role is what a server in rotation counts as in one pass.
type role uint8

const (
	measured role = iota // has data that count
	neutral              // gets the fair share, as an average server would
	held                 // keeps the share that its weight in force gives
	initial              // gets the share that the initial weights give
)

// entry is a server in rotation during one pass.
type entry struct {
	server *Server
	out    *ServerDecision
	mem    *memory

	usable   bool // has a load that can be believed
	stuck    bool // reports zero and is not believed
	role     role
	load     float64 // after the transform of "better"
	capacity float64
	relative float64 // load over capacity, over the mean; 1 when neutral
	cold     float64 // cap in fair shares; +Inf when not cold

	inForce float64 // share that the weight in force gives
	wanted  int     // weight before max_step
	weight  int     // decided so far
}

func (e *entry) isCold() bool { return !math.IsInf(e.cold, 1) }

// weighs tells whether the function decides the share. A neutral server is
// left out of it: put in as one of average load it would come out wherever the
// function puts the average, and with water-fill a long lifetime makes that
// nothing at all as soon as somebody is below it. feedback changes weights
// instead of making them anew, so there it stays in.
//
// A pinned server has its weight already.
func (p *pass) weighs(e *entry) bool {
	return !e.pinned() && (e.role == measured || e.role == neutral && p.c.settings.Function == Feedback)
}

// pinned tells whether an operator has set the weight.
func (e *entry) pinned() bool { return e.server.Pin > 0 }

// keeps tells whether the weight in force is to stay the very number it is.
func (e *entry) keeps() bool { return e.role == held || e.pinned() }

// kept is that number.
func (e *entry) kept() int {
	if e.pinned() {
		return min(e.server.Pin, largestWeight)
	}
	return e.ours()
}

// ours is the weight that a pass goes on from: the one in force, or the one
// that we left where somebody else has set another.
func (e *entry) ours() int {
	if e.server.Left > 0 {
		return min(e.server.Left, largestWeight)
	}
	return e.server.Weight
}

// pass is the work of one Decide.
type pass struct {
	c     *Controller
	in    Input
	d     *Decision
	words *words

	known   bool          // not the controller's first pass
	elapsed time.Duration // since the pass before

	// entries are the servers in rotation. After measure, those that the
	// function weighs come first; the slices below run in the same order.
	entries    []entry
	usable     int // entries with data
	weighed    int // entries that the function weighs
	capacities []float64
	loads      []float64 // in mean loads a unit of capacity: relative * capacity
	shares     []float64
	caps       []float64 // largest share
	ceilings   []float64 // largest share if the server were not cold
	inForce    int       // sum of the weights in force
	ours       int       // the same with what we left in place of what somebody else has set
	pinnedSum  int       // the same with every pin in place
	stepSum    int       // of the weights that the step of max_step starts from
	arrivals   float64   // K of water-fill
	total      float64   // of the measured loads as given
	notice     string    // goes before the decision's Why
}

// measure works out the mean, the relative loads, the delay and the lifetime.
func (p *pass) measure() {
	slices.SortStableFunc(p.entries, func(a, b entry) int {
		return boolRank(p.weighs(&a)) - boolRank(p.weighs(&b))
	})
	n := len(p.entries)
	room := make([]float64, 5*n)
	next := func() []float64 {
		part := room[:n:n]
		room = room[n:]
		return part
	}
	p.capacities, p.loads, p.shares, p.caps, p.ceilings = next(), next(), next(), next(), next()
	p.inForce, p.ours, p.pinnedSum, p.weighed, p.total = 0, 0, 0, 0, 0
	for i := range p.entries {
		e := &p.entries[i]
		p.capacities[i] = e.capacity
		p.inForce += e.server.Weight
		p.ours += e.ours()
		if e.pinned() {
			p.pinnedSum += e.kept()
		} else {
			p.pinnedSum += e.ours()
		}
		if p.weighs(e) {
			p.weighed++
		}
		if e.role == measured {
			p.total += e.load
		}
	}
	for i := range p.entries {
		p.entries[i].inForce = float64(p.entries[i].server.Weight) / float64(p.inForce)
	}
	p.transform()
	p.relate()
	p.times()
}

func boolRank(first bool) int {
	if first {
		return 0
	}
	return 1
}

// transform applies "better = higher" to the measured servers.
func (p *pass) transform() {
	if p.c.settings.Better != Higher {
		return
	}
	var values []float64
	for i := range p.entries {
		if p.entries[i].role == measured {
			values = append(values, p.entries[i].load)
		}
	}
	HigherIsBetter(values)
	for i := range p.entries {
		if e := &p.entries[i]; e.role == measured {
			e.out.because(StepBetter, e.load, values[0], "higher is better: largest + smallest - value")
			e.load = values[0]
			values = values[1:]
		}
	}
}

// relate fills in relative loads. Loads are first divided by the largest so
// that no sum overflows.
func (p *pass) relate() {
	var largest, sum, capacity float64
	for i := range p.entries {
		if e := &p.entries[i]; e.role == measured {
			largest = max(largest, e.load)
		}
	}
	for i := range p.entries {
		if e := &p.entries[i]; e.role == measured {
			capacity += e.capacity
			if largest > 0 {
				sum += e.load / largest
			}
		}
	}
	if capacity > 0 {
		p.d.Mean = sum / capacity * largest
	}
	for i := range p.entries {
		e := &p.entries[i]
		switch {
		case e.role == neutral:
			e.relative = 1
		case e.role != measured:
			e.relative = math.NaN()
		case sum > 0:
			e.relative = e.load / largest / e.capacity / (sum / capacity)
			e.out.Relative = e.relative
			p.d.MaxOverMean = max(p.d.MaxOverMean, e.relative)
			p.explainLoad(e)
			p.explainRelative(e)
		default:
			e.relative = math.NaN()
			p.explainLoad(e)
		}
		p.loads[i] = e.relative * e.capacity
	}
}

// times fills in delay and lifetime.
func (p *pass) times() {
	var age float64
	for i := range p.entries {
		if e := &p.entries[i]; e.role == measured {
			age += float64(max(e.server.DataAge, 0)) / float64(p.d.Fresh)
		}
	}
	p.d.Delay = time.Duration(age) + p.c.settings.Interval/2
	p.d.Lifetime = max(p.in.Lifetime, 0)
}

// implausible says why the picture is too poor to act on; empty when it is not.
func (p *pass) implausible() (code, why string) {
	set, t := &p.c.settings, &p.c.timing
	if p.d.Fresh == 0 || !p.quorate(p.d.Fresh) {
		return HoldQuorum, p.words.s("only ").i(p.d.Fresh).s(" of ").i(len(p.entries)).
			s(" servers in rotation have data; quorum is ").f(set.Quorum).s(": weights stay as they are").end()
	}
	if p.total == 0 || p.d.MaxOverMean == 0 {
		p.c.usual.lowSince = time.Time{}
		return HoldAllZero, "every server reports zero, which tells nothing about their loads: weights stay as they are"
	}
	patience := set.StaleAfter
	if patience <= 0 {
		patience = t.Rewrite
	}
	usual := p.c.usual.mean
	ok, adopted := p.c.usual.plausible(p.total, p.in.Now, t.UsualTotal, patience, set.Interval/2)
	if adopted {
		p.notice = p.words.s("the total load ").f(p.total).s(" has been under 1 % of the usual ").f(usual).
			s(" for ").seconds(patience).s(" and is the usual level from now on; ").end()
	}
	if !ok {
		return HoldTotal, p.words.s("the total load ").f(p.total).s(" is under 1 % of the usual ").f(usual).
			s(", for ").about(p.in.Now.Sub(p.c.usual.lowSince)).
			s(": weights stay as they are; after ").seconds(patience).s(" it counts as the usual level").end()
	}
	return "", ""
}

// apply runs the function. Afterwards shares sum to 1. Only a script can fail.
func (p *pass) apply() error {
	set := &p.c.settings
	n := p.weighed
	share, load, capacity := p.shares[:n], p.loads[:n], p.capacities[:n]
	p.d.Gain = set.Aggressiveness
	switch set.Function {
	case LimitedProportions:
		qbar := limitedProportions(share, load, capacity, set.LimitingFactor, set.Aggressiveness)
		p.explainFunction(func(w *words, e *entry, s float64) {
			w.s("q = 1 / largest of (relative, 1/").f(set.LimitingFactor).s(") = ").
				f(inverse(e.relative, set.LimitingFactor)).s(", mean q ").f(qbar).
				s("; capacity ").f(e.capacity).s(" * largest of (mean q / 64, mean q + ").f(set.Aggressiveness).
				s(" * (q - mean q)) = ").f(s)
		})
	case NormalisedExponential:
		normalisedExponential(share, load, capacity, set.Aggressiveness)
		p.explainFunction(func(w *words, e *entry, s float64) {
			w.s("capacity ").f(e.capacity).s(" * exp(-").f(set.Aggressiveness).s(" * (relative - 1)) = ").f(s)
		})
	case Feedback:
		p.feedback()
	case Lua:
		if err := p.script(share); err != nil {
			return err
		}
	default:
		p.waterFill(share, load, capacity)
	}
	p.share()
	return nil
}

func (p *pass) waterFill(share, load, capacity []float64) {
	lifetime := p.d.Lifetime
	assumed := lifetime == 0
	if assumed {
		lifetime = p.c.timing.AssumedLifetime
		p.d.Lifetime = lifetime
	}
	h := horizon(p.d.Delay, lifetime)
	p.d.Gain = float64(lifetime) / float64(h)
	all := sum(load)
	p.arrivals = all * float64(h) / float64(lifetime)
	level := waterLevel(load, capacity, p.arrivals, nil)
	for i, c := range capacity {
		share[i] = pour(level, load[i], c)
	}
	if assumed {
		text := p.words.s("mean connection lifetime unknown: ").seconds(lifetime).
			s(" is assumed, short so that the gain is low").end()
		for i := range p.entries[:p.weighed] {
			p.entries[i].out.because(StepLifetime, 0, lifetime.Seconds(), text)
		}
	}
	p.explainFunction(func(w *words, e *entry, s float64) {
		w.s("new load K = ").f(all).s(" mean loads * ").seconds(h).s(" / ").seconds(lifetime).s(" = ").f(p.arrivals).
			s(" fills up to level W = ").f(level).s("; largest of (0, W * capacity ").f(e.capacity).
			s(" - relative * capacity) = ").f(s)
	})
}
