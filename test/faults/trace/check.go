package trace

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Rules are what a weighter promised for one backend.
type Rules struct {
	Min, Max         int           // of each weight that it sets
	Quorum           float64       // least fraction of servers in rotation with fresh data
	MaxAge, Interval time.Duration // of its configuration
	// Grace is how long something that has happened may take to be known: an
	// answer that was sent is not read yet, an order crosses with a write.
	Grace time.Duration
	// Largest is the most of a point's value that is believed; 0 means no bound.
	Largest float64
	// SPOEGap is the longest time without an answer to SPOE messages.
	SPOEGap     time.Duration
	Resident    int64 // bytes; 0 means no bound
	Descriptors int   // 0 means no bound
	// Wire says that every write goes by Trace.Wrote: what HAProxy has and
	// nobody wrote there is a fault of the test.
	Wire bool
}

// The rules, as breaches name them.
const (
	RuleRange       = "a weight outside [min_weight, max_weight]"
	RuleZeroSet     = "a weight of 0 was set"
	RuleZeroRaised  = "a weight of 0 was raised"
	RuleOut         = "a server in drain or maint was touched"
	RuleQuorum      = "a weight moved without a fresh quorum"
	RuleStill       = "a weight moved while it had to stay"
	RuleLate        = "weights are wrong one pass after the fault"
	RuleStranger    = "a weight moved and nobody wrote it"
	RuleSPOE        = "SPOE messages were not answered"
	RuleResident    = "too much memory"
	RuleDescriptors = "too many file descriptors"
)

// Breach is one broken promise.
type Breach struct {
	At     time.Time
	Rule   string
	Server string // empty: of no server
	Text   string
}

// String is the breach in one line.
func (b Breach) String() string {
	at := b.At.Format("15:04:05.000")
	if b.Server != "" {
		return fmt.Sprintf("%s %s: %s: %s", at, b.Rule, b.Server, b.Text)
	}
	return fmt.Sprintf("%s %s: %s", at, b.Rule, b.Text)
}

// change is one weight that moved within one worker.
type change struct {
	from, to      time.Time // it happened between
	server        string
	before, after Server
	state         *State         // before it
	left          map[string]int // weights of the worker before this one
}

// judge is the work of one Judge.
type judge struct {
	*Trace
	rules    Rules
	breaches []Breach
}

// Judge says what in the trace is against the rules, in the order of time.
func (t *Trace) Judge(r Rules) []Breach {
	t.mu.Lock()
	defer t.mu.Unlock()
	j := &judge{Trace: t, rules: r}
	for _, c := range j.changes() {
		j.change(&c)
	}
	for _, w := range t.writes {
		j.write(w)
	}
	for _, s := range t.recoveries {
		j.recovery(s)
	}
	for _, o := range t.outages {
		j.outage(o)
	}
	j.usage()
	slices.SortStableFunc(j.breaches, func(a, b Breach) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	return j.breaches
}

func (j *judge) breach(at time.Time, rule, server, format string, args ...any) {
	j.breaches = append(j.breaches, Breach{At: at, Rule: rule, Server: server, Text: fmt.Sprintf(format, args...)})
}

// changes lists the weights that moved. What a new worker begins with is its
// configuration's and no change.
func (j *judge) changes() []change {
	var all []change
	var left map[string]int
	for i := 1; i < len(j.states); i++ {
		before, after := &j.states[i-1], &j.states[i]
		if before.Worker != after.Worker {
			left = weights(before)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(after.Servers)) {
			was, ok := before.Servers[name]
			is := after.Servers[name]
			if !ok || was.Weight == is.Weight {
				continue
			}
			all = append(all, change{
				from: before.LastAsked, to: after.First, server: name,
				before: was, after: is, state: before, left: left,
			})
		}
	}
	return all
}

func weights(s *State) map[string]int {
	w := make(map[string]int, len(s.Servers))
	for name, server := range s.Servers {
		w[name] = server.Weight
	}
	return w
}

// ours tells whether the test itself made the change.
func (j *judge) ours(c *change) bool {
	return slices.ContainsFunc(j.orders, func(o Order) bool {
		return (o.Server == "" || o.Server == c.server) && (o.Weight < 0 || o.Weight == c.after.Weight) &&
			!o.From.After(c.to) && (o.To.IsZero() || !o.To.Before(c.from))
	})
}

// justOrdered tells whether the test touched the server so shortly before that
// a write may have been on its way.
func (j *judge) justOrdered(c *change) bool {
	return slices.ContainsFunc(j.orders, func(o Order) bool {
		return o.Server == c.server && o.From.Before(c.to) && (o.To.IsZero() || c.from.Before(o.To.Add(j.rules.Grace)))
	})
}

func (j *judge) change(c *change) {
	if j.ours(c) {
		return
	}
	r, was, is := &j.rules, c.before.Weight, c.after.Weight
	tell := func(rule string) { j.breach(c.to, rule, c.server, "%d became %d", was, is) }
	if is == 0 {
		tell(RuleZeroSet)
	} else if is < r.Min || is > r.Max {
		if old, ok := c.left[c.server]; !ok || old != is {
			tell(RuleRange)
		}
	}
	if !j.justOrdered(c) {
		if was == 0 {
			tell(RuleZeroRaised)
		}
		if c.before.out() && c.after.out() {
			tell(RuleOut)
		}
	}
	for _, s := range j.stills {
		if c.from.After(s.From) && (s.To.IsZero() || c.to.Before(s.To)) && !j.putBack(c) {
			j.breach(c.to, RuleStill, c.server, "%d became %d: %s", was, is, s.Why)
		}
	}
	if !j.putBack(c) && !j.quorate(c) {
		tell(RuleQuorum)
	}
	if r.Wire && !j.written(c) {
		tell(RuleStranger)
	}
}

// putBack tells whether the weight is the one that the worker before had: that
// needs no data.
func (j *judge) putBack(c *change) bool {
	old, ok := c.left[c.server]
	return ok && old == c.after.Weight
}

// written tells whether the weight was seen on its way.
func (j *judge) written(c *change) bool {
	return slices.ContainsFunc(j.writes, func(w Write) bool {
		return w.Server == c.server && w.Weight == c.after.Weight && !w.From.After(c.to) && !w.To.Before(c.from)
	})
}

// quorate tells whether an answer that may have been the newest one known has
// data enough to move a weight.
func (j *judge) quorate(c *change) bool {
	known := c.from.Add(-j.rules.Grace) // what was sent by then is known
	for _, a := range slices.Backward(j.answers) {
		if a.Sent.After(c.to) {
			continue
		}
		if j.fresh(&a, c) {
			return true
		}
		if a.Sent.Before(known) {
			return false
		}
	}
	return false
}

// fresh tells whether an answer is enough for a change. A weighter may go by it
// for an interval, since the next answer may be that far away.
func (j *judge) fresh(a *Answer, c *change) bool {
	if !a.Whole {
		return false
	}
	serving, usable := 0, 0
	for name, s := range c.state.Servers {
		if !s.inRotation() {
			continue
		}
		serving++
		p, ok := a.Points[name]
		if !ok || math.IsNaN(p.Value) || math.IsInf(p.Value, 0) || p.Value < 0 || j.rules.Largest > 0 && p.Value > j.rules.Largest {
			continue
		}
		// Stamps are of whole seconds.
		if a.Sent.Sub(p.At) > j.rules.MaxAge+time.Second || c.from.Sub(p.At) > j.rules.MaxAge+2*j.rules.Interval+time.Second+j.rules.Grace {
			continue
		}
		usable++
	}
	return usable > 0 && float64(usable) >= j.rules.Quorum*float64(serving)
}

// write judges what was sent, whether or not HAProxy took it.
func (j *judge) write(w Write) {
	r := &j.rules
	switch {
	case w.Weight == 0:
		j.breach(w.From, RuleZeroSet, w.Server, "0 was sent")
	case (w.Weight < r.Min || w.Weight > r.Max) && !j.everHad(w):
		j.breach(w.From, RuleRange, w.Server, "%d was sent", w.Weight)
	}
}

// everHad tells whether the server had the weight in an earlier worker: it may
// be put back.
func (j *judge) everHad(w Write) bool {
	return slices.ContainsFunc(j.states, func(s State) bool {
		had, ok := s.Servers[w.Server]
		return ok && had.Weight == w.Weight && s.First.Before(w.To)
	})
}

// recovery finds the first whole answer after the fault and the question after
// it: until then its pass must have put the weights right.
func (j *judge) recovery(r Recovery) {
	_, next := j.pass(r.At, j.rules.Interval)
	if next < 0 {
		j.breach(r.At, RuleLate, "", "%s: there was no pass after it", r.Why)
		return
	}
	until := j.answers[next].Asked
	var last *State
	for k := range j.states {
		if !j.states[k].First.After(until) {
			last = &j.states[k]
		}
	}
	if last == nil {
		j.breach(until, RuleLate, "", "%s: HAProxy did not answer", r.Why)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(r.Want)) {
		if s, ok := last.Servers[name]; !ok || s.Weight != r.Want[name] {
			j.breach(until, RuleLate, name, "%s: %d is in force and %d is right", r.Why, s.Weight, r.Want[name])
		}
	}
}

func (j *judge) outage(o Outage) {
	if o.To.Sub(o.From) <= j.rules.SPOEGap {
		return
	}
	for _, e := range j.excused {
		if !o.From.Before(e.From.Add(-j.rules.SPOEGap)) && (e.To.IsZero() || !o.To.After(e.To.Add(j.rules.SPOEGap))) {
			return
		}
	}
	j.breach(o.From, RuleSPOE, "", "for %s: %s", o.To.Sub(o.From).Round(time.Millisecond), o.Cause)
}

// usage tells the first moment of each excess.
func (j *judge) usage() {
	var resident, descriptors bool
	for _, u := range j.usages {
		if j.rules.Resident > 0 && u.Peak > j.rules.Resident && !resident {
			resident = true
			j.breach(u.At, RuleResident, "", "%.1f MiB, allowed are %.1f", mib(u.Peak), mib(j.rules.Resident))
		}
		if j.rules.Descriptors > 0 && u.Descriptors > j.rules.Descriptors && !descriptors {
			descriptors = true
			j.breach(u.At, RuleDescriptors, "", "%d are open, allowed are %d", u.Descriptors, j.rules.Descriptors)
		}
	}
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
