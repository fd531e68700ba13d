package weighting

import (
	"math"
	"time"
)

// Controller decides for one backend and remembers what it must between
// passes. It is not safe for concurrent use.
type Controller struct {
	settings Settings
	timing   Timing
	servers  map[string]*memory
	passes   int
	began    time.Time // first pass
	last     time.Time // of the last pass
	seen     time.Time // when any server last had data, of the first pass before that; later by the time in which nobody looked
	usual    usualTotal
	step     stepping
	weigher  Weigher // for Lua
	words    words
}

// NewController returns a controller for settings that have been checked.
func NewController(s Settings) *Controller {
	c := &Controller{settings: s, timing: s.Timing.complete(), servers: map[string]*memory{}}
	if s.Function == Lua && s.NewWeigher != nil {
		c.weigher = s.NewWeigher()
	}
	return c
}

// Decide works out the weights for one pass.
//
// Servers out of rotation are out of all sums and keep the weight in force.
// With the picture too poor to act on, the verdict is Hold. Otherwise the
// function's shares go through the share cap, the cold ramp, rounding and
// max_step, and the deadband then says Write or Keep. For Hold and Keep every
// ServerDecision.Weight is the weight in force, and Share is always the share
// that the weights of the decision give.
func (c *Controller) Decide(in Input) *Decision {
	p := c.begin(in)
	c.observe(p)
	switch {
	case len(p.entries) == 0:
		return p.hold(HoldNoServers, "no server of the backend is up, ready and above weight 0: nothing to set")
	case p.usable == 0:
		return p.stale()
	case len(p.entries) == 1:
		p.measure()
		return p.keep("one server in rotation takes all connections: nothing to balance")
	}
	p.measure()
	if p.weighed == 0 && p.pinnedOnly() {
		return p.keep("every server in rotation is pinned: nothing to balance")
	}
	if code, why := p.implausible(); code != "" {
		return p.hold(code, why)
	}
	if err := p.apply(); err != nil {
		return p.hold(HoldScript, "the script gives no shares: "+err.Error()+": weights stay as they are")
	}
	p.limitShares()
	p.openStep()
	p.round()
	p.limitSteps()
	return p.settle()
}

// pinnedOnly tells whether no weight is left to work out.
func (p *pass) pinnedOnly() bool {
	for i := range p.entries {
		if !p.entries[i].pinned() {
			return false
		}
	}
	return true
}

// LoopGain returns k*d/tauhat, which says how near the loop is to swinging:
// above LoopGainWarning it begins to, at pi/2 it never comes to rest. 0 when
// the lifetime is unknown.
func (d *Decision) LoopGain() float64 {
	if d.Lifetime <= 0 {
		return 0
	}
	return d.Gain * float64(d.Delay) / float64(d.Lifetime)
}

// LoopGainWarning is the LoopGain above which an operator should be warned:
// the least spread is near it, and beyond it loads overshoot.
const LoopGainWarning = 0.7

// begin starts a pass. Every server starts with its weight in force.
func (c *Controller) begin(in Input) *pass {
	p := &pass{
		c: c, in: in, words: &c.words,
		known: c.passes > 0,
		d: &Decision{
			Function: c.settings.Function,
			Servers:  make([]ServerDecision, len(in.Servers)),
		},
	}
	if p.known {
		p.elapsed = max(in.Now.Sub(c.last), 0)
		blind := c.blind(p.elapsed)
		p.elapsed -= blind
		c.seen = c.seen.Add(blind)
		c.usual.skip(blind)
	} else {
		c.began, c.seen = in.Now, in.Now
	}
	c.passes++
	c.last = in.Now
	reasons := make([]Reason, len(in.Servers)*reasonsPerServer)
	for i := range in.Servers {
		p.d.Servers[i] = ServerDecision{
			Name: in.Servers[i].Name, Weight: in.Servers[i].Weight, Relative: math.NaN(),
			Reasons: reasons[i*reasonsPerServer : i*reasonsPerServer : (i+1)*reasonsPerServer],
		}
	}
	return p
}

// blind is the part of the time since the last pass in which nobody looked:
// HAProxy could not be read, it did not have the backend, or this process was
// stopped. Nothing is known of the loads in it, so it uses up no time that a
// server, or all of them, may be without data. A pass may be as late as
// Graphite and HAProxy are slow.
func (c *Controller) blind(elapsed time.Duration) time.Duration {
	return max(elapsed-max(2*c.settings.Interval, c.timing.MissingHold/3), 0)
}

// remember returns the memory of a server and whether there was one.
func (c *Controller) remember(name string) (m *memory, known bool) {
	m, known = c.servers[name]
	if !known {
		m = &memory{}
		c.servers[name] = m
	}
	m.pass = c.passes
	return m, known
}

// forget drops the memory of servers that are gone.
func (c *Controller) forget() {
	for name, m := range c.servers {
		if m.pass != c.passes {
			delete(c.servers, name)
		}
	}
}
