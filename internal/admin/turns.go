package admin

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// Bounds of one event.
const (
	mostChanges = 12  // weights listed one by one
	mostText    = 500 // bytes
	mostStep    = 100 // bytes of the text of one change
)

// foreignPatience is how many passes without a foreign write end the matter, so that
// a writer who comes every other pass is told of once.
const foreignPatience = 3

// turns is what the last pass of a plane has told, so that each thing becomes
// one event when it begins and one when it ends.
type turns struct {
	last    *balancer.Table // made by reading HAProxy; nil before there is one
	hold    string          // code of the hold that lasts; empty: none
	fault   bool
	foreign map[string]int // passes until a foreign writer of a server counts as gone
}

// events lists what a pass has changed; time and socket are left open.
func (u *turns) events(t *balancer.Table) []api.Event {
	var all []api.Event
	if e, ok := u.reloaded(t); ok {
		all = append(all, e)
	}
	if e, ok := u.foreigners(t); ok {
		all = append(all, e)
	}
	if t.Changes > 0 {
		all = append(all, weightsEvent(t))
	}
	if e, ok := u.held(t); ok {
		all = append(all, e)
	}
	return all
}

func (u *turns) reloaded(t *balancer.Table) (api.Event, bool) {
	before := u.last
	if t.Unread() {
		return api.Event{}, false
	}
	u.last = t
	if before == nil || before.Worker == t.Worker {
		return api.Event{}, false
	}
	return api.Event{Kind: api.EventReload, Text: fmt.Sprintf("HAProxy has a new worker, %d instead of %d: reload or restart", t.Worker.PID, before.Worker.PID)}, true
}

// held turns the hold, or the fault beside it, into an event when it begins,
// changes or ends.
func (u *turns) held(t *balancer.Table) (api.Event, bool) {
	hold, fault := "", t.Fault != ""
	if t.Verdict == weighting.Hold {
		hold = cmp.Or(t.HoldCode, "hold")
	}
	was, faulty := u.hold, u.fault
	u.hold, u.fault = hold, fault
	switch {
	case hold != "" && hold != was:
		return api.Event{Kind: api.EventHold, Text: cutText(t.Why)}, true
	case hold == "" && was != "":
		return api.Event{Kind: api.EventGood, Text: "weights are no longer held (" + was + ")"}, true
	case fault && !faulty:
		return api.Event{Kind: api.EventFault, Text: cutText(t.Fault)}, true
	case !fault && faulty:
		return api.Event{Kind: api.EventGood, Text: "no fault is left"}, true
	}
	return api.Event{}, false
}

// foreigners tells of servers whose weights somebody else has begun to set.
func (u *turns) foreigners(t *balancer.Table) (api.Event, bool) {
	for server := range u.foreign {
		if u.foreign[server]--; u.foreign[server] <= 0 {
			delete(u.foreign, server)
		}
	}
	if t.Foreign == 0 {
		return api.Event{}, false
	}
	if u.foreign == nil {
		u.foreign = make(map[string]int)
	}
	var began []string
	for i := range t.Rows {
		r := &t.Rows[i]
		for _, reason := range r.Reasons {
			if reason.Step != balancer.StepForeign {
				continue
			}
			if _, known := u.foreign[r.Server]; !known {
				began = append(began, fmt.Sprintf("%s: %g found, %g left by us", r.Server, reason.After, reason.Before))
			}
			u.foreign[r.Server] = foreignPatience + 1
		}
	}
	if len(began) == 0 {
		return api.Event{}, false
	}
	return api.Event{Kind: api.EventForeign, Text: "somebody else has set weights: " + listed(began, len(began))}, true
}

// weightsEvent lists what a pass has written, the largest changes first.
func weightsEvent(t *balancer.Table) api.Event {
	var changes []api.WeightChange
	for i := range t.Rows {
		r := &t.Rows[i]
		if r.WeightBefore == r.AppliedWeight {
			continue
		}
		changes = append(changes, api.WeightChange{
			Server: r.Server, Before: r.WeightBefore, After: r.AppliedWeight, Load: r.Load, Text: bentBy(r.Reasons),
		})
	}
	slices.SortStableFunc(changes, func(a, b api.WeightChange) int { return cmp.Compare(step(b), step(a)) })
	all := len(changes)
	changes = slices.Clone(changes[:min(all, mostChanges)])
	texts := make([]string, len(changes))
	for i, c := range changes {
		texts[i] = fmt.Sprintf("%s %d -> %d", c.Server, c.Before, c.After)
	}
	text := listed(texts, all)
	if all == 0 { // HAProxy said that it took them, and they are gone again
		text = fmt.Sprintf("%d weights written", t.Changes)
	}
	return api.Event{Kind: api.EventWeights, Text: text, Changes: changes}
}

// step is how far a weight moves, in proportion.
func step(c api.WeightChange) float64 {
	return math.Abs(math.Log(float64(max(1, c.After)) / float64(max(1, c.Before))))
}

// bending are the steps that turn a weight away from what the function gives.
var bending = map[string]bool{
	weighting.StepMissing: true, weighting.StepStuck: true, weighting.StepMaxShare: true, weighting.StepCold: true, weighting.StepRamp: true,
	weighting.StepMinWeight: true, weighting.StepMaxWeight: true, weighting.StepMaxStep: true, weighting.StepStale: true,
	balancer.StepPin: true, balancer.StepForeign: true,
}

// bentBy gives the words of the bending steps.
func bentBy(reasons []weighting.Reason) string {
	var texts []string
	for _, r := range reasons {
		if bending[r.Step] {
			texts = append(texts, r.Text)
		}
	}
	return cutTo(strings.Join(texts, "; "), mostStep)
}

// listed joins texts, of which there are all in truth.
func listed(texts []string, all int) string {
	if len(texts) > mostChanges {
		texts = texts[:mostChanges]
	}
	text := strings.Join(texts, ", ")
	if all > len(texts) {
		text += fmt.Sprintf(", and %d more", all-len(texts))
	}
	return cutText(text)
}

func cutText(s string) string { return cutTo(s, mostText) }

// cutTo shortens a text to n bytes, between two characters. The result holds
// no longer text in memory.
func cutTo(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.Clone(strings.ToValidUTF8(s[:n-3], "")) + "..."
}

// orders remembers what operators had ordered, to tell when it ends by itself.
type orders struct{ last balancer.Control }

// ended lists orders whose time has passed since the last call.
func (o *orders) ended(now balancer.Control, at time.Time) []api.Event {
	now = inForce(now, at)
	var all []api.Event
	over := func(was balancer.Order, what string) {
		if passed(was, at) {
			all = append(all, api.Event{
				Time: was.Until.UTC(), Kind: api.EventOrder,
				Text: cutText(fmt.Sprintf("the time of %s by %s has passed: %s", what, was.Author, was.Reason)),
			})
		}
	}
	for _, server := range sortedKeys(o.last.Pins) {
		if _, still := now.Pins[server]; !still {
			over(o.last.Pins[server].Order, "the pin of "+server)
		}
	}
	if f := o.last.Freeze; f != nil && now.Freeze == nil {
		over(f.Order, "the freeze")
	}
	if m := o.last.Mode; m != nil && now.Mode == nil {
		over(m.Order, "mode "+string(m.Mode))
	}
	o.last = now
	return all
}

func passed(o balancer.Order, at time.Time) bool { return !o.Until.IsZero() && !at.Before(o.Until) }

// inForce leaves out what is over: a table may be a moment older than that.
func inForce(c balancer.Control, at time.Time) balancer.Control {
	pins := make(map[string]balancer.Pin, len(c.Pins))
	for server, pin := range c.Pins {
		if !passed(pin.Order, at) {
			pins[server] = pin
		}
	}
	c.Pins = pins
	if c.Freeze != nil && passed(c.Freeze.Order, at) {
		c.Freeze = nil
	}
	if c.Mode != nil && passed(c.Mode.Order, at) {
		c.Mode = nil
	}
	return c
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
