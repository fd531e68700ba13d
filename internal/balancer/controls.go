package balancer

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// Order says who asked for something, why, and for how long.
type Order struct {
	Reason string    `json:"reason"`
	Author string    `json:"author"`
	Since  time.Time `json:"since"` // UTC
	Until  time.Time `json:"until"` // UTC; zero: until it is taken back
}

// sameMost is how far two ends of an order may lie apart that are one: who types
// it twice means it once. Of a short order it is less.
const sameMost = time.Minute

// same tells whether a new order of the same kind would change nothing that
// matters.
func (o Order) same(next Order) bool {
	switch {
	case o.Author != next.Author, o.Reason != next.Reason:
		return false
	case o.Until.IsZero(), next.Until.IsZero(): // until it is taken back
		return o.Until.Equal(next.Until)
	}
	return next.Until.Sub(o.Until).Abs() <= min(sameMost, next.Until.Sub(next.Since)/20)
}

// UnchangedError says that an order was not carried out, since all is as it
// wants it.
type UnchangedError struct{ Why string }

// Error implements error.
func (e *UnchangedError) Error() string { return "nothing to do: " + e.Why }

func unchanged(format string, args ...any) error {
	return &UnchangedError{Why: fmt.Sprintf(format, args...)}
}

// over tells whether the order's time has passed.
func (o Order) over(now time.Time) bool { return !o.Until.IsZero() && !now.Before(o.Until) }

// Pin keeps one server at one weight.
type Pin struct {
	Order
	Weight int `json:"weight"` // 1..256
}

// Freeze keeps every weight of a backend as it is.
type Freeze struct{ Order }

// ModeOrder takes the place of the key "mode".
type ModeOrder struct {
	Order
	Mode config.Mode `json:"mode"`
}

// Control is what operators have ordered for one backend. It is immutable.
type Control struct {
	Pins   map[string]Pin `json:"pins"` // by server; nil when there are none
	Freeze *Freeze        `json:"freeze"`
	Mode   *ModeOrder     `json:"mode"` // nil: as configured
}

// Empty tells whether nothing is ordered.
func (c Control) Empty() bool { return len(c.Pins) == 0 && c.Freeze == nil && c.Mode == nil }

// end is when the first of the orders is over; zero when none ends by itself.
func (c Control) end() time.Time {
	var first time.Time
	note := func(o Order) {
		if !o.Until.IsZero() && (first.IsZero() || o.Until.Before(first)) {
			first = o.Until
		}
	}
	for _, pin := range c.Pins {
		note(pin.Order)
	}
	if c.Freeze != nil {
		note(c.Freeze.Order)
	}
	if c.Mode != nil {
		note(c.Mode.Order)
	}
	return first
}

// at leaves out what is over.
func (c Control) at(now time.Time) Control {
	pins := make(map[string]Pin, len(c.Pins))
	for server, p := range c.Pins {
		if !p.over(now) {
			pins[server] = p
		}
	}
	if len(pins) == 0 {
		pins = nil
	}
	c.Pins = pins
	if c.Freeze != nil && c.Freeze.over(now) {
		c.Freeze = nil
	}
	if c.Mode != nil && c.Mode.over(now) {
		c.Mode = nil
	}
	return c
}

// Controls holds the orders for all backends. It outlives reloads of the
// configuration, and is safe for concurrent use.
type Controls struct {
	now     func() time.Time
	changed func(backend string) // called after each change, without a lock

	mu       sync.Mutex
	backends map[string]Control // immutable values
}

// NewControls returns Controls without orders. changed, which may be nil, is
// called after each change with the backend's name.
func NewControls(now func() time.Time, changed func(backend string)) *Controls {
	return &Controls{now: now, changed: changed, backends: make(map[string]Control)}
}

// Of returns what is in force for a backend now. A nil Controls has no orders.
func (c *Controls) Of(backend string) Control {
	if c == nil {
		return Control{}
	}
	c.mu.Lock()
	control := c.backends[backend]
	c.mu.Unlock()
	return control.at(c.now())
}

// All returns the orders in force by backend; backends without are left out.
func (c *Controls) All() map[string]Control {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]Control)
	for name, control := range c.backends {
		if control = control.at(now); !control.Empty() {
			all[name] = control
		}
	}
	return all
}

// Restore puts the orders of a state file in force; those that are over are
// left out.
func (c *Controls) Restore(all map[string]Control) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, control := range all {
		c.backends[name] = control.at(now)
	}
}

// edit replaces a backend's orders by what f makes of those in force.
func (c *Controls) edit(backend string, f func(*Control) error) error {
	c.mu.Lock()
	control := c.backends[backend].at(c.now())
	control.Pins = maps.Clone(control.Pins)
	err := f(&control)
	if err == nil {
		c.backends[backend] = control
	}
	c.mu.Unlock()
	if err == nil && c.changed != nil {
		c.changed(backend)
	}
	return err
}

// Pin keeps a server at a weight, in place of an older pin. Like the other
// orders it gives an [*UnchangedError] when that is so already.
func (c *Controls) Pin(backend, server string, p Pin) error {
	if p.Weight < 1 || p.Weight > 256 {
		return fmt.Errorf("weight %d can't be pinned; allowed: 1 to 256 (0 would be a drain: use HAProxy's set server %s/%s state drain)", p.Weight, backend, server)
	}
	return c.edit(backend, func(control *Control) error {
		if old, ok := control.Pins[server]; ok && old.Weight == p.Weight && old.same(p.Order) {
			return unchanged("%s/%s is pinned at %d already", backend, server, p.Weight)
		}
		if control.Pins == nil {
			control.Pins = make(map[string]Pin)
		}
		control.Pins[server] = p
		return nil
	})
}

// Unpin takes a pin back.
func (c *Controls) Unpin(backend, server string) error {
	return c.edit(backend, func(control *Control) error {
		if _, ok := control.Pins[server]; !ok {
			return unchanged("%s/%s is not pinned", backend, server)
		}
		delete(control.Pins, server)
		return nil
	})
}

// Freeze keeps a backend's weights as they are, in place of an older freeze.
func (c *Controls) Freeze(backend string, f Freeze) error {
	return c.edit(backend, func(control *Control) error {
		if old := control.Freeze; old != nil && old.same(f.Order) {
			return unchanged("%s is frozen already", backend)
		}
		control.Freeze = &f
		return nil
	})
}

// Unfreeze takes a freeze back.
func (c *Controls) Unfreeze(backend string) error {
	return c.edit(backend, func(control *Control) error {
		if control.Freeze == nil {
			return unchanged("%s is not frozen", backend)
		}
		control.Freeze = nil
		return nil
	})
}

// SetMode takes the place of the key "mode"; nil goes back to it.
func (c *Controls) SetMode(backend string, m *ModeOrder) error {
	return c.edit(backend, func(control *Control) error {
		switch old := control.Mode; {
		case m == nil && old == nil:
			return unchanged("%s has the mode that the file says", backend)
		case m != nil && old != nil && old.Mode == m.Mode && old.same(m.Order):
			return unchanged("%s has mode %s by such an order already", backend, m.Mode)
		}
		control.Mode = m
		return nil
	})
}
