package weighting

import (
	"math"
	"time"
)

// reasonsPerServer is room for the usual number of reasons.
const reasonsPerServer = 8

// because records a step. Numbers are finite by the callers' care.
func (d *ServerDecision) because(step string, before, after float64, text string) {
	d.Reasons = append(d.Reasons, Reason{Step: step, Before: before, After: after, Text: text})
}

// finite keeps what JSON cannot carry out of a Reason.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// seconds adds a duration in seconds.
func (w *words) seconds(d time.Duration) *words { return w.f(d.Seconds()).s(" s") }

// about adds a duration that nobody calculates with.
func (w *words) about(d time.Duration) *words { return w.short(d.Seconds()).s(" s") }

func (p *pass) explainLoad(e *entry) {
	u := e.load / e.capacity
	p.words.s("load ").f(e.load)
	if e.capacity != 1 {
		p.words.s(" / capacity ").f(e.capacity)
	}
	e.out.because(StepLoad, e.load, u, p.words.s(", data ").about(e.server.DataAge).s(" old, from the middle of their step").end())
}

func (p *pass) explainRelative(e *entry) {
	u := e.load / e.capacity
	e.out.because(StepRelative, u, e.relative, p.words.f(u).s(" / mean ").f(p.d.Mean).s(" = ").f(e.relative).end())
}

// explainRole records why a server has no part in the measuring.
func (p *pass) explainRole(e *entry) {
	if e.role == measured {
		return
	}
	load := finite(e.server.Load)
	if e.stuck {
		e.out.because(StepStuck, load, load, p.words.s("reports zero while it holds ").i(e.server.Sessions).
			s(" sessions, more than half of the mean: not believed").end())
	}
	p.words.s(p.whyMissing(e))
	switch e.role {
	case neutral:
		if e.mem.lost {
			p.words.s("; counts as average until it has ").i(trustPoints).s(" data points again")
		} else {
			p.words.s("; it has just come, so it counts as average")
		}
	case held:
		p.words.s("; keeps its share (without data for ").about(e.mem.missingFor).s(")")
	case initial:
		p.words.s("; gets the share of its initial weight ").i(e.server.InitialWeight)
	}
	e.out.because(StepMissing, load, load, p.words.end())
}

func (p *pass) whyMissing(e *entry) string {
	load := e.server.Load
	switch {
	case e.usable:
		return "data are back but not yet trusted"
	case e.stuck:
		return "no believable data"
	case math.IsNaN(load) && e.server.Reason != "":
		return e.server.Reason
	case math.IsNaN(load):
		return "no usable data"
	case load < 0:
		return "a negative load is no load"
	}
	return "an infinite or absurdly large load is no load"
}

// explainFunction records the raw share of every weighed entry; tell adds the
// formula with its numbers.
func (p *pass) explainFunction(tell func(w *words, e *entry, s float64)) {
	for i := range p.entries[:p.weighed] {
		e := &p.entries[i]
		tell(p.words, e, p.shares[i])
		e.out.because(StepFunction, e.relative, p.shares[i], p.words.end())
	}
}

func (p *pass) explainFeedback(e *entry, s float64, before, now feedbackState, steps, mean, all float64) {
	p.words.s("e = 1 - relative, within -1..1, = ").f(now.err).s(", before ").f(before.err).
		s("; log weight = ").f(before.log).s(" + ").f(FeedbackKi).s(" * ").f(steps).s(" * e + ").f(FeedbackKp).
		s(" * (e - before) - mean of all ").f(mean).s(", within ").f(feedbackReach).s(" of log capacity, = ").f(now.log)
	e.out.because(StepFunction, e.relative, s, p.words.s("; exp of it / sum ").f(all).s(" = ").f(s).end())
}

func (p *pass) explainShare(e *entry, raw, total, rest float64) {
	p.words.f(raw).s(" / sum ").f(total)
	if rest != 1 {
		p.words.s(" * ").f(rest).s(", the part that servers without data, or with a pin, leave")
	}
	e.out.because(StepShare, raw, e.out.RawShare, p.words.s(" = ").f(e.out.RawShare).end())
}

func (p *pass) explainFixed(e *entry) {
	var before float64
	switch {
	case e.pinned():
		before = float64(e.kept())
		p.words.s("pinned weight ").i(e.kept()).s(" / ").i(e.mem.pinSum).s(", the sum of all weights when it was set,")
	case e.role == initial:
		before = float64(e.server.InitialWeight)
		p.words.s("initial weight ").f(before).s(" over the sum of all")
	case e.role == neutral:
		before = e.capacity
		p.words.s("capacity ").f(before).s(" / sum ").f(sum(p.capacities))
	default:
		before = e.inForce
		p.words.s("weight in force ").i(e.server.Weight).s(" / sum ").i(p.inForce).s(" = ").f(before).
			s("; share kept from when its data went away")
	}
	e.out.because(StepShare, before, e.out.RawShare, p.words.s(" = ").f(e.out.RawShare).end())
}

// explainLimit records how a share came from before to after. limit is its cap,
// ramped the one that its own ramp alone makes, and ceiling the one without ramps.
func (p *pass) explainLimit(e *entry, before, after, limit, ramped, ceiling float64) {
	const slack = 1e-9
	if e.isCold() && after > ramped*(1+slack) {
		p.explainGivenWay(e, before, after, ramped)
		return
	}
	capped := limit < ceiling*(1-slack) // by a ramp, its own or that of others
	switch {
	case math.Abs(after-before) <= slack*max(before, after):
		return
	case after > before && capped && after >= limit*(1-slack):
		e.out.because(StepRest, before, after, p.words.s("takes its part of what is left beside servers at a limit, up to ").
			f(limit).s(": beyond that their ramps give way").end())
	case after > before || after < limit*(1-slack) || capped && !e.isCold():
		e.out.because(StepRest, before, after, "takes its part of what is left beside servers at a limit")
	case capped:
		e.out.because(StepCold, before, after,
			p.words.s("has just come: share limited to ").f(limit).s(" for now").end())
	default:
		e.out.because(StepMaxShare, before, after, p.words.s("no share above ").f(p.c.settings.MaxShare).
			s(" times the fair share: ").f(limit).end())
	}
}

// explainGivenWay records the share of a cold server above its own ramp.
func (p *pass) explainGivenWay(e *entry, before, after, ramped float64) {
	if before > ramped {
		e.out.because(StepCold, before, ramped, p.words.s("has just come: share limited to ").f(ramped).s(" for now").end())
		before = ramped
	}
	e.out.because(StepRamp, before, after, p.words.s("its ramp gave way: ramps lift no other server above ").f(warmLift).
		s(" times its wanted or its fair share, less where its load is above the mean, so this share is left").end())
}

func (p *pass) explainWeight(e *entry, share, scale float64, rounded int, scaleText string) {
	e.out.because(StepWeight, share, float64(rounded), p.words.s("share ").f(share).s(" * ").f(scale).
		s(" = ").f(share*scale).s("; ").s(scaleText).end())
}
