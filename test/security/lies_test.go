package security

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// functions are the built-in ones, and a script that is the liar's own.
var functions = []weighting.Function{
	weighting.WaterFill, weighting.LimitedProportions, weighting.NormalisedExponential, weighting.Feedback, weighting.Lua,
}

// failer is what testing.T and rapid.T have in common here.
type failer interface {
	Fatalf(format string, args ...any)
}

// liar is a Graphite that knows the weights in force and says what it likes.
type liar struct {
	t        failer
	c        *weighting.Controller
	settings weighting.Settings
	in       weighting.Input
}

func newLiar(t failer, s weighting.Settings, servers int) *liar {
	l := &liar{t: t, settings: s}
	if s.Function == weighting.Lua {
		l.settings.NewWeigher = func() weighting.Weigher { return puppet{} }
	}
	l.c = weighting.NewController(l.settings)
	l.in.Now = time.Unix(1_800_000_000, 0)
	for i := range servers {
		l.in.Servers = append(l.in.Servers, weighting.Server{
			Name: fmt.Sprint("s", i), Capacity: 1, Weight: 100, InitialWeight: 100, Sessions: 10,
		})
	}
	return l
}

// puppet is a script that gives all to who has the least load.
type puppet struct{}

func (puppet) Weigh(in weighting.WeighInput) ([]float64, []string, error) {
	shares := make([]float64, len(in.Servers))
	for i, s := range in.Servers {
		shares[i] = 1 / (s.Load + 1e-200)
	}
	return shares, nil, nil
}

// pass makes one pass with loads, and puts what is decided in force as a
// balancer does. NaN is no data.
func (l *liar) pass(loads []float64) *weighting.Decision {
	l.in.Now = l.in.Now.Add(l.settings.Interval)
	for i, load := range loads {
		s := &l.in.Servers[i]
		s.Load, s.LoadTime, s.DataAge = load, l.in.Now, 0
	}
	d := l.c.Decide(l.in)
	l.judge(d)
	if d.Verdict == weighting.Write {
		l.in.LastChange = l.in.Now
		for i := range l.in.Servers {
			if s := &l.in.Servers[i]; taking(s) {
				s.Weight = d.Servers[i].Weight
			}
		}
	}
	return d
}

func taking(s *weighting.Server) bool { return s.Rotation == weighting.InRotation && s.Weight > 0 }

// judge holds what no lie may change.
func (l *liar) judge(d *weighting.Decision) {
	set := &l.settings
	n, held := d.InService, d.Fresh < d.InService
	for i := range l.in.Servers {
		was, is := &l.in.Servers[i], &d.Servers[i]
		if !taking(was) || d.Verdict != weighting.Write {
			if is.Weight != was.Weight {
				l.t.Fatalf("%s (%+v): weight %d by %s: %s", is.Name, was, is.Weight, d.Verdict, d.Why)
			}
			continue
		}
		if is.Weight < set.MinWeight || is.Weight > set.MaxWeight {
			l.t.Fatalf("%s: weight %d, outside of %d to %d", is.Name, is.Weight, set.MinWeight, set.MaxWeight)
		}
		if s := set.MaxStep; s > 0 && was.Weight >= set.MinWeight && was.Weight <= set.MaxWeight {
			if change := math.Abs(float64(is.Weight - was.Weight)); change > max(1, s*float64(was.Weight)+1e-9) {
				l.t.Fatalf("%s: weight %d to %d with max_step %g", is.Name, was.Weight, is.Weight, s)
			}
		}
		if most := mostShare(set, n, held); is.Share > most*(1+1e-9) {
			l.t.Fatalf("%s of %d: share %g, above %g: %+v", is.Name, n, is.Share, most, d)
		}
	}
}

// mostShare is the bound of docs/security.md on the share of one of n servers
// of equal capacity. held tells whether some have no data: those keep their
// weights, which are whole numbers already, so the scale is not free.
func mostShare(s *weighting.Settings, n int, held bool) float64 {
	low, high := float64(s.MinWeight), float64(s.MaxWeight)
	limits := high / (high + float64(n-1)*low)
	if s.Function == weighting.Feedback || s.MaxStep > 0 {
		return limits
	}
	fair := 1 / float64(n)
	capped := s.MaxShare * fair
	switch {
	case held || s.MaxWeight < 256:
		capped *= (1 + 1/low) * (1 + 1/low)
	case s.MaxShare < 512:
		capped /= 1 - s.MaxShare/512 // half a unit of rounding in each weight
	}
	return min(limits, max(capped, fair))
}

// TestALyingGraphiteStaysWithinTheLimits: whatever it says, knowing the weights
// in force, with servers that come, go, drain and are down.
func TestALyingGraphiteStaysWithinTheLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := weighting.DefaultSettings()
		s.Function = rapid.SampledFrom(functions).Draw(t, "function")
		s.MinWeight = rapid.SampledFrom([]int{4, 4, 1, 30}).Draw(t, "min_weight")
		s.MaxWeight = rapid.SampledFrom([]int{256, 256, 60}).Draw(t, "max_weight")
		s.MaxShare = rapid.SampledFrom([]float64{4, 4, 1.5, 20}).Draw(t, "max_share")
		s.MaxStep = rapid.SampledFrom([]float64{0, 0, 0.2}).Draw(t, "max_step")
		s.Better = rapid.SampledFrom([]weighting.Better{weighting.Lower, weighting.Higher}).Draw(t, "better")
		n := rapid.IntRange(2, 12).Draw(t, "servers")
		l := newLiar(t, s, n)
		l.in.Lifetime = time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "lifetime"))
		for range 40 {
			l.operate(t)
			l.pass(l.lie(t))
		}
	})
}

// operate is what operators and HAProxy do meanwhile.
func (l *liar) operate(t *rapid.T) {
	if !rapid.Bool().Draw(t, "something happens") {
		return
	}
	s := &l.in.Servers[rapid.IntRange(0, len(l.in.Servers)-1).Draw(t, "to")]
	switch rapid.IntRange(0, 3).Draw(t, "what") {
	case 0:
		s.Rotation = rapid.SampledFrom([]weighting.Rotation{weighting.Down, weighting.Maint, weighting.Drain, weighting.Backup}).Draw(t, "state")
	case 1:
		if s.Rotation != weighting.InRotation {
			s.Rotation, s.UpSince = weighting.InRotation, l.in.Now
		}
	case 2:
		s.Weight = 0
	case 3: // it comes back within the limits: outside of them max_step counts from where it is
		if s.Weight == 0 {
			s.Weight = l.settings.MaxWeight
		}
	}
}

// lie makes up loads, most of the time to feed or to starve one server by what
// it has now.
func (l *liar) lie(t *rapid.T) []float64 {
	n := len(l.in.Servers)
	loads := make([]float64, n)
	victim := l.extreme(rapid.Bool().Draw(t, "heaviest"))
	kind := rapid.IntRange(0, 5).Draw(t, "lie")
	for i := range loads {
		switch kind {
		case 0: // all to one
			loads[i] = 1e9
			if i == victim {
				loads[i] = 1e-9
			}
		case 1: // nothing to one
			loads[i] = 1
			if i == victim {
				loads[i] = 1e12
			}
		case 2: // half are idle
			loads[i] = float64(i%2) * 1e6
		case 3: // some have no data
			loads[i] = rapid.SampledFrom([]float64{math.NaN(), 1, 1e6}).Draw(t, "load")
		case 4:
			loads[i] = rapid.SampledFrom([]float64{0, 5e-324, 1, 1e100, weighting.LargestLoad, math.Inf(1), -1, math.MaxFloat64, math.NaN()}).Draw(t, "load")
		default:
			loads[i] = math.Exp(rapid.Float64Range(-20, 20).Draw(t, "log load"))
		}
	}
	return loads
}

// extreme is the server with the largest or the least weight.
func (l *liar) extreme(largest bool) int {
	best := 0
	for i := range l.in.Servers {
		if a, b := l.in.Servers[i].Weight, l.in.Servers[best].Weight; largest && a > b || !largest && a < b {
			best = i
		}
	}
	return best
}
