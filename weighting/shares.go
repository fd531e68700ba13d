package weighting

// share turns the raw shares of the weighed entries into parts of what the
// others leave: those keep their share, or get the fair one, or that of their
// initial weight.
func (p *pass) share() {
	n := p.weighed
	rest := 1 - p.fixShares()
	// The weighed ones are never left with less than a cold server gets.
	if least := coldCap * sum(p.capacities[:n]) / sum(p.capacities); rest < least {
		scale(p.shares[n:], (1-least)/(1-rest))
		rest = least
	}
	raw := append([]float64(nil), p.shares[:n]...)
	total := normalise(p.shares[:n], p.capacities[:n])
	scale(p.shares[:n], rest)
	for i := range p.entries {
		e := &p.entries[i]
		e.out.RawShare = p.shares[i]
		if i < n {
			p.explainShare(e, raw[i], total, rest)
		} else {
			p.explainFixed(e)
		}
	}
}

// fixShares sets the shares that the function has no say in, and returns their sum.
func (p *pass) fixShares() float64 {
	capacity := sum(p.capacities)
	var initialWeights float64
	for i := range p.entries {
		initialWeights += float64(max(p.entries[i].server.InitialWeight, 0))
	}
	for i := p.weighed; i < len(p.entries); i++ {
		switch e := &p.entries[i]; {
		case e.pinned():
			p.shares[i] = p.pinnedShare(e)
		case e.role == initial:
			p.shares[i] = float64(e.server.InitialWeight) / initialWeights
		case e.role == neutral:
			p.shares[i] = e.capacity / capacity
		default:
			p.shares[i] = p.keptShare(e)
		}
	}
	return sum(p.shares[p.weighed:])
}

// keptShare is the share that the weight in force of a held server gave when
// its data went away. It is remembered, because rounding and min_weight shift
// the shares in force a little with every write, and that would add up. It is
// taken anew when servers come or go, and when the weight is another although
// nobody wants ours back.
func (p *pass) keptShare(e *entry) float64 {
	m := e.mem
	ours := p.in.Force != "" || m.asked == e.server.Weight
	if m.kept == 0 || m.keptAmong != len(p.entries) || !ours {
		m.kept, m.keptAmong = float64(e.ours())/float64(p.ours), len(p.entries)
	}
	return m.kept
}

// pinnedShare is the share that the pin gave when it was set, beside the weights
// that were in force: the others are weighed on that scale, so that the pin goes
// on to mean what it did. It is taken anew when servers come or go.
func (p *pass) pinnedShare(e *entry) float64 {
	m := e.mem
	if m.pin != e.kept() || m.pinAmong != len(p.entries) {
		m.pin, m.pinSum, m.pinAmong = e.kept(), p.pinnedSum, len(p.entries)
	}
	return float64(m.pin) / float64(m.pinSum)
}

func scale(values []float64, factor float64) {
	for i := range values {
		values[i] *= factor
	}
}

func sum(values []float64) float64 {
	var s float64
	for _, v := range values {
		s += v
	}
	return s
}
