package weighting

// LargestLoad is the largest value that is taken for a load, in the unit of the
// loads: what is above it, such as the largest float64, which some collectors
// send for "unknown", is no data. Sums of many loads stay finite by it.
const LargestLoad = 1e290

// leastCapacity and its inverse bound the capacities that are believed.
const leastCapacity = 1e-9

// observe sorts the servers: out of rotation, measured, or without data and
// then what they count as.
func (c *Controller) observe(p *pass) {
	for i := range p.in.Servers {
		s, out := &p.in.Servers[i], &p.d.Servers[i]
		m, known := c.remember(s.Name)
		if r := rotation(s); r != InRotation {
			if !s.Awaited || !known {
				*m = memory{pass: m.pass, out: true}
			}
			out.because(StepRotation, float64(s.Weight), float64(s.Weight), rotationWords(r))
			continue
		}
		m.enter(p.in.Now, known || !p.known)
		p.entries = append(p.entries, entry{server: s, out: out, mem: m, capacity: usableCapacity(s, out)})
	}
	c.forget()
	p.d.InService = len(p.entries)
	p.believe()
	if p.usable > 0 {
		c.seen = p.in.Now
	}
	p.roles()
}

// rotation is the server's, with a weight of 0 always counted as a drain.
func rotation(s *Server) Rotation {
	if s.Rotation == InRotation && s.Weight <= 0 {
		return Drain
	}
	return s.Rotation
}

func rotationWords(r Rotation) string {
	switch r {
	case Down:
		return "down: weight left as it is"
	case Maint:
		return "in maintenance: weight left as it is"
	case Drain:
		return "in drain or at weight 0: weight left as it is"
	case Backup:
		return "backup server: weight left as it is"
	}
	return "not in rotation: weight left as it is"
}

func usableCapacity(s *Server, out *ServerDecision) float64 {
	if s.Capacity >= leastCapacity && s.Capacity <= 1/leastCapacity {
		return s.Capacity
	}
	out.because(StepCapacity, finite(s.Capacity), 1, "capacity is not a usable number: counts as 1")
	return 1
}

// believe finds the servers whose load of this pass can be believed.
func (p *pass) believe() {
	var sessions, counted float64
	var anyLoad bool
	for i := range p.entries {
		e := &p.entries[i]
		e.load = e.server.Load
		e.usable = e.load >= 0 && e.load <= LargestLoad
		anyLoad = anyLoad || e.usable && e.load > 0
		if e.server.Sessions >= 0 {
			sessions += float64(e.server.Sessions)
			counted++
		}
	}
	for i := range p.entries {
		e := &p.entries[i]
		if e.usable && p.stuck(e, anyLoad, sessions/counted) {
			e.usable, e.stuck = false, true
		}
		if e.usable {
			p.usable++
		}
	}
}

// stuck tells whether a report of zero is not believed: the server has
// reported nothing but zero over stuckPoints data points while it held more
// than half the mean number of sessions and others reported load. With
// "higher is better" a zero is the worst report, not the best, so it stands.
//
// A server that was there before us and has shown no load yet is doubted at
// once: for all we know it was stuck already, and not believed, before this
// process began.
func (p *pass) stuck(e *entry, anyLoad bool, meanSessions float64) bool {
	m := e.mem
	suspect := e.load == 0 && anyLoad && p.c.settings.Better != Higher &&
		e.server.Sessions > 0 && float64(e.server.Sessions) > meanSessions/2
	switch {
	case e.load > 0 || e.load == 0 && anyLoad && !suspect:
		m.zeros = 0
	case suspect && !m.shown && m.seen < stuckPoints:
		m.zeros = stuckPoints
	case suspect && m.fresh(e.server, p.in.Now):
		m.zeros = min(m.zeros+1, stuckPoints)
	}
	m.shown = m.shown || e.load > 0
	if m.fresh(e.server, p.in.Now) {
		m.seen = min(m.seen+1, stuckPoints)
	}
	return m.zeros >= stuckPoints
}

// roles settles what each server in rotation counts as.
func (p *pass) roles() {
	set := &p.c.settings
	enough := p.usable > 0 && p.quorate(p.usable)
	hold := max(holdWindows*set.Window, p.c.timing.MissingHold)
	for i := range p.entries {
		e := &p.entries[i]
		if e.stuck { // the time of suspicion was its hold: its weight may be extreme by now
			e.mem.lost = true
		}
		e.mem.look(e.server, p.in.Now, e.usable, enough, p.elapsed, hold)
		if e.server.Load >= 0 {
			e.mem.stamp = e.mem.stampOf(e.server, p.in.Now)
		}
		e.cold = e.mem.cold(e.server.UpSince, p.in.Now, p.c.timing.ColdRamp, set.MaxShare)
		e.role = p.role(e)
		if e.role == measured {
			p.d.Fresh++
		}
		if e.role != held {
			e.mem.kept = 0
		}
		if !e.pinned() {
			e.mem.pin = 0
		}
		p.explainRole(e)
	}
}

func (p *pass) quorate(n int) bool {
	return float64(n) >= p.c.settings.Quorum*float64(len(p.entries))
}

func (p *pass) role(e *entry) role {
	set := &p.c.settings
	switch {
	case e.usable && !e.mem.lost:
		return measured
	case e.mem.lost && set.OnMissing == MissingInitial && e.server.InitialWeight > 0:
		return initial
	case e.isCold(): // the weight in force stands for an earlier life of the server
		return neutral
	case !e.mem.lost || set.OnMissing == MissingHold && !e.stuck:
		return held
	}
	return neutral
}
