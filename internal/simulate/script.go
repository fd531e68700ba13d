package simulate

import "math/rand/v2"

// arrival is one connection that comes.
type arrival struct {
	at       float64 // seconds
	life     float64 // seconds
	rate     float64
	balancer int32
}

// resident is one connection that is open when the run begins.
type resident struct {
	age, left float64 // seconds
	rate      float64
	server    int32
	balancer  int32
}

// script is all the luck of one seed that is the same for every policy: who is
// there at the start, and who comes when, through which balancer.
type script struct {
	residents []resident
	arrivals  []arrival
}

// seeded gives an own stream of random numbers for each use of one seed.
func seeded(seed uint64, use uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, use)) }

// The uses of a seed.
const (
	useResidents uint64 = iota + 1
	useArrivals
	useShort
	usePhases
	useDraws
	useReconnect
)

// newScript draws the connections of one seed for a run of so many seconds.
func newScript(m *Model, seed uint64, seconds float64) *script {
	s := &script{}
	d := newDrawer(m, seeded(seed, useResidents))
	for range m.Connections {
		rate, age, left := d.found()
		s.residents = append(s.residents, resident{
			age: age, left: left, rate: rate,
			server: int32(d.rand.IntN(m.Servers)), balancer: int32(d.rand.IntN(m.Balancers)),
		})
	}
	perSecond := float64(m.Connections) / m.Lifetime.Mean.Seconds()
	d = newDrawer(m, seeded(seed, useArrivals))
	long := d.arrivals(perSecond, seconds, d.fresh)
	if m.ShortPerLong == 0 {
		s.arrivals = long
		return s
	}
	d = newDrawer(m, seeded(seed, useShort))
	short := d.arrivals(perSecond*m.ShortPerLong, seconds, func() (float64, float64) {
		return d.rate(), m.ShortLifetime.Seconds() * d.rand.ExpFloat64()
	})
	s.arrivals = merge(long, short)
	return s
}

// arrivals draws a Poisson stream; events that change the rate thin a faster one.
func (d *drawer) arrivals(perSecond, seconds float64, draw func() (rate, life float64)) []arrival {
	m := d.model
	peak := m.arrivalsPeak()
	list := make([]arrival, 0, int(perSecond*seconds*1.05)+16)
	for at := d.rand.ExpFloat64() / (perSecond * peak); at < seconds; at += d.rand.ExpFloat64() / (perSecond * peak) {
		if peak > 1 && d.rand.Float64()*peak >= m.arrivalsFactor(at-m.Warmup.Seconds()) {
			continue
		}
		rate, life := draw()
		list = append(list, arrival{at: at, rate: rate, life: life, balancer: int32(d.rand.IntN(m.Balancers))})
	}
	return list
}

func merge(a, b []arrival) []arrival {
	all := make([]arrival, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0].at <= b[0].at {
			all, a = append(all, a[0]), a[1:]
		} else {
			all, b = append(all, b[0]), b[1:]
		}
	}
	return append(append(all, a...), b...)
}
