package weighting

import "math"

// sameShare is the difference of shares, in fair shares, that is only rounding
// of floating point: weights of 100 and 100 say the same as 256 and 256.
const sameShare = 1e-9

// settle chooses between Write and Keep. The deadband looks at the change that
// is wanted, not at the part of it that max_step allows: small steps would
// never leave it.
func (p *pass) settle() *Decision {
	var changed, weights int
	stepped := false
	for i := range p.entries {
		e := &p.entries[i]
		weights += e.wanted
		stepped = stepped || e.wanted != e.weight
		if e.weight != e.server.Weight {
			changed++
		}
	}
	switch {
	case changed == 0 && stepped:
		return p.keep(p.notice + "max_step allows no further change before the next interval")
	case changed == 0:
		return p.keep(p.notice + "the weights in force are the ones wanted")
	}
	set := &p.c.settings
	total := sum(p.capacities)
	var largest float64
	for i := range p.entries {
		e := &p.entries[i]
		change := math.Abs(float64(e.wanted)/float64(weights)-e.inForce) * total / e.capacity
		largest = max(largest, change)
	}
	// With nothing written yet, a controller counts from its first pass: the
	// start of the program is no reason to write.
	written := p.in.LastChange
	if written.IsZero() {
		written = p.c.began
	}
	since := p.in.Now.Sub(written)
	if largest < sameShare {
		return p.keep(p.notice + "the weights in force give the shares wanted")
	}
	p.words.s(p.notice).s("largest change of a share is ").short(largest * 100).s(" % of the fair share, deadband ").f(set.Deadband * 100).s(" %")
	switch {
	case largest > set.Deadband:
	case p.in.Force != "":
		p.words.s("; written all the same: ").s(p.in.Force)
	case since >= p.c.timing.Rewrite:
		p.words.s("; written all the same: last written ").about(since).s(" ago")
	default:
		return p.keep(p.words.s(": weights in force kept").end())
	}
	p.d.Verdict = Write
	p.d.Why = p.words.s("; ").i(changed).s(" of ").i(len(p.entries)).s(" weights change").end()
	for i := range p.entries {
		e := &p.entries[i]
		e.out.Weight = e.weight
		e.mem.asked = e.weight
	}
	return p.finish()
}

// keep leaves the weights in force, and calls them ours.
func (p *pass) keep(why string) *Decision {
	p.d.Verdict, p.d.Why = Keep, why
	for i := range p.entries {
		e := &p.entries[i]
		e.mem.asked = e.server.Weight
		if e.weight != 0 && e.weight != e.server.Weight {
			e.out.because(StepDeadband, float64(e.weight), float64(e.server.Weight), why)
		}
	}
	return p.finish()
}

// hold leaves the weights in force because the picture is too poor.
func (p *pass) hold(code, why string) *Decision {
	p.d.Verdict, p.d.HoldCode, p.d.Why = Hold, code, why
	for i := range p.entries {
		e := &p.entries[i]
		e.out.because(StepHold, float64(e.server.Weight), float64(e.server.Weight), why)
	}
	return p.finish()
}

// stale decides when no server in rotation has data.
func (p *pass) stale() *Decision {
	set := &p.c.settings
	age := p.in.Now.Sub(p.c.seen)
	if set.OnStale == StaleInitial && age >= set.StaleAfter {
		return p.restore(p.words.s("no server has had data for ").about(age).s(": initial weights").end())
	}
	if age > 0 {
		p.words.s("no server has had data for ").about(age).s(": weights stay as they are")
	} else { // the first pass of all: "for 0 s" would be a guess
		p.words.s("no server has data: weights stay as they are")
	}
	if set.OnStale == StaleInitial {
		p.words.s("; after ").seconds(set.StaleAfter).s(" the initial weights are set")
	}
	return p.hold(HoldStale, p.words.end())
}

// restore sets the initial weights, within the limits. An initial weight of 0
// would be a drain, so that server keeps its weight.
func (p *pass) restore(why string) *Decision {
	changed := false
	for i := range p.entries {
		e := &p.entries[i]
		w := min(e.server.InitialWeight, largestWeight)
		if w < 1 {
			e.out.because(StepStale, float64(e.server.Weight), float64(e.server.Weight),
				"initial weight is 0, which would be a drain: weight in force kept")
			continue
		}
		e.out.because(StepStale, float64(e.server.Weight), float64(w), why)
		w = p.bound(e, w)
		changed = changed || w != e.server.Weight
		e.out.Weight = w
		e.mem.asked = w
	}
	if !changed {
		return p.hold(HoldStale, why+" are in force")
	}
	p.d.Verdict, p.d.Why = Write, why
	return p.finish()
}

// finish fills in the shares that the decided weights give.
func (p *pass) finish() *Decision {
	var weights float64
	for i := range p.entries {
		weights += float64(p.entries[i].out.Weight)
	}
	for i := range p.entries {
		p.entries[i].out.Share = float64(p.entries[i].out.Weight) / weights
	}
	return p.d
}
