package balancer

import (
	"fmt"
	"slices"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// Steps of a Reason beside those of weighting.
const (
	StepPin     = "pin"           // an operator has set the weight
	StepForeign = "foreign-write" // somebody else had set it
)

// order takes up what operators have ordered by now.
func (p *plane) order() {
	p.control = p.controls.Of(p.backend.Name)
	p.write = p.allowed && p.mode() == config.Live
}

// mode is the one in force.
func (p *plane) mode() config.Mode {
	switch {
	case p.control.Mode != nil:
		return p.control.Mode.Mode
	case p.backend.Mode == "":
		return config.Live
	}
	return p.backend.Mode
}

// mayWrite tells whether this plane sets weights at all.
func (p *plane) mayWrite() bool {
	return p.write && !p.memory.readOnly && p.control.Freeze == nil
}

// watching tells whether weights that somebody else sets are to be taken back.
func (p *plane) watching() bool { return p.mayWrite() }

// obey bends a decision to the operators' orders. A pin goes before whatever
// the function says, also when it says nothing; it never touches a server out
// of rotation or at weight 0. A freeze goes before all.
func (p *plane) obey(d *weighting.Decision, state *haproxy.State) {
	if p.control.Freeze == nil && len(p.control.Pins) == 0 {
		return
	}
	defer share(d, state)
	if f := p.control.Freeze; f != nil {
		d.Verdict, d.HoldCode, d.Why = weighting.Hold, HoldFrozen, "frozen by "+f.words()
		for i := range d.Servers {
			s := &d.Servers[i]
			before := float64(s.Weight)
			if is, ok := state.Server(s.Name); ok {
				s.Weight = is.Weight
			}
			s.Reasons = append(s.Reasons, weighting.Reason{
				Step: weighting.StepHold, Before: before, After: float64(s.Weight), Text: d.Why,
			})
		}
		return
	}
	for i := range d.Servers {
		s := &d.Servers[i]
		pin, pinned := p.control.Pins[s.Name]
		is, ok := state.Server(s.Name)
		if !pinned || !ok || rotationOf(&is) != weighting.InRotation {
			continue
		}
		s.Reasons = append(s.Reasons, weighting.Reason{
			Step: StepPin, Before: float64(is.Weight), After: float64(pin.Weight),
			Text: fmt.Sprintf("pinned at %d by %s", pin.Weight, pin.words()),
		})
		s.Weight = pin.Weight
	}
}

// share makes the shares of a decision those that its weights give.
func share(d *weighting.Decision, state *haproxy.State) {
	taking := func(s *weighting.ServerDecision) bool {
		is, ok := state.Server(s.Name)
		return ok && rotationOf(&is) == weighting.InRotation
	}
	sum := 0
	for i := range d.Servers {
		if s := &d.Servers[i]; taking(s) {
			sum += s.Weight
		}
	}
	for i := range d.Servers {
		if s := &d.Servers[i]; sum > 0 && taking(s) {
			s.Share = float64(s.Weight) / float64(sum)
		}
	}
}

// words says who ordered, until when, and why.
func (o Order) words() string {
	until := "until it is taken back"
	if !o.Until.IsZero() {
		until = "until " + o.Until.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%s %s: %s", o.Author, until, o.Reason)
}

// tellOrders reports the beginning and the end of pins, and pins that are for
// no server in rotation.
func (p *plane) tellOrders(state *haproxy.State) {
	pins, idle := make(map[string]bool), make(map[string]bool)
	for server := range p.control.Pins {
		pins[server] = true
		if s, ok := state.Server(server); !ok || rotationOf(&s) != weighting.InRotation {
			idle[server] = true
		}
	}
	began, ended := p.news.pinned.turn(pins)
	if len(began) > 0 {
		texts := make([]string, len(began))
		for i, server := range began {
			pin := p.control.Pins[server]
			texts[i] = fmt.Sprintf("%s at %d by %s", server, pin.Weight, pin.words())
		}
		p.log.Info("servers are pinned", "pins", cut(texts), "mode", string(p.mode()))
	}
	if len(ended) > 0 {
		p.log.Info("servers are no longer pinned", "servers", cut(ended))
	}
	began, ended = p.news.idlePins.turn(idle)
	if len(began) > 0 {
		p.log.Warn("pins have no effect now", "servers", cut(began), "cause", "there is no such server, or it is out of rotation or at weight 0",
			"meanwhile", "its weight is left alone; the pin counts again once the server is back in rotation",
			"do", "see show servers state, or take the pin back: haproxy-weighter unpin")
	}
	ended = slices.DeleteFunc(ended, func(server string) bool { return !pins[server] })
	if len(ended) > 0 {
		p.log.Info("pins have an effect again", "servers", cut(ended))
	}
}

// PinOf returns the pin of a server; nil when there is none.
func (c Control) PinOf(server string) *Pin {
	if pin, ok := c.Pins[server]; ok {
		return &pin
	}
	return nil
}

// pinsOf lists the pinned weights by server.
func pinsOf(c Control) map[string]int {
	want := make(map[string]int, len(c.Pins))
	for server, pin := range c.Pins {
		want[server] = pin.Weight
	}
	return want
}
