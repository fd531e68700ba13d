package weighting

import (
	"math"
	"time"
)

// FromAges estimates the mean connection lifetime from the ages of the open
// sessions of a backend (estimator B). With exponential lifetimes the part of
// sessions younger than horizon is 1 - exp(-horizon/tau), so that
//
//	young = (1 + sessions younger than horizon) / (2 + sessions)
//	tau   = -horizon / ln(1 - young)
//
// The added 1 and 2 (Laplace's rule of succession) pull a small sample towards
// 1.44 horizons: short, and so towards a low gain. It needs no counters, and a
// crowd of short connections beside the long ones hardly moves it, because
// few of those are open at any moment. Not ok without any session. Limit the
// result with Timing.ClampLifetime.
func FromAges(ages []time.Duration, horizon time.Duration) (lifetime time.Duration, ok bool) {
	if len(ages) == 0 || horizon <= 0 {
		return 0, false
	}
	young := 1.0
	for _, age := range ages {
		if age < horizon {
			young++
		}
	}
	young /= float64(2 + len(ages))
	return seconds(-horizon.Seconds() / math.Log1p(-young)), true
}

// SessionCount is what HAProxy counts for one server.
type SessionCount struct {
	Server string
	Open   int   // scur, sessions open now; below 0 counts as 0
	Total  int64 // stot, sessions since the worker started
}

// Little estimates the mean connection lifetime by Little's law (estimator A):
// sessions open now over the arrival rate. The rate is an exponential average
// of the differences of Total, each limited to arrivalClip times the average
// so that a storm of reconnects does not make lifetimes look short for long.
// The zero value is ready for use. It is not safe for concurrent use.
type Little struct {
	// Average is the time constant of the arrival rate; 0 means 15 min.
	Average time.Duration

	totals  map[string]int64
	last    time.Time
	open    int
	rate    float64       // arrivals a second
	samples int           // in rate
	watched time.Duration // that rate stands for
}

// arrivalClip limits one sample of the arrival rate, in running averages.
const arrivalClip = 4

// Observe takes the counts of one moment, of every server of the backend. A
// counter that went backwards means that HAProxy was reloaded or restarted:
// that sample is left out, because too few arrivals would mean too high a
// gain, and counting goes on from the new values. A server seen for the first
// time counts from the next call on.
func (l *Little) Observe(now time.Time, counts []SessionCount) {
	elapsed := now.Sub(l.last)
	first := l.totals == nil
	totals := make(map[string]int64, len(counts))
	var arrived int64
	var reset bool
	l.open = 0
	for _, c := range counts {
		l.open += max(c.Open, 0)
		totals[c.Server] = c.Total
		if before, known := l.totals[c.Server]; known {
			reset = reset || c.Total < before
			arrived += c.Total - before
		}
	}
	l.totals, l.last = totals, now
	if first || reset || elapsed <= 0 {
		return
	}
	l.learn(float64(arrived)/elapsed.Seconds(), elapsed)
}

func (l *Little) learn(rate float64, elapsed time.Duration) {
	if l.rate > 0 {
		rate = min(rate, arrivalClip*l.rate)
	}
	l.samples++
	part := max(1/float64(l.samples), -math.Expm1(-float64(elapsed)/float64(l.average())))
	l.rate += part * (rate - l.rate)
	l.watched = min(l.watched+elapsed, l.average())
}

func (l *Little) average() time.Duration {
	if l.Average > 0 {
		return l.Average
	}
	return DefaultTiming().ArrivalAverage
}

// Lifetime returns the estimate; not ok before two calls of Observe or without
// any session. One arrival more than were seen is counted over the time
// watched, so that little evidence gives a short lifetime and a low gain.
// Limit the result with Timing.ClampLifetime.
func (l *Little) Lifetime() (lifetime time.Duration, ok bool) {
	if l.samples == 0 || l.open == 0 {
		return 0, false
	}
	return seconds(float64(l.open) / (l.rate + 1/l.watched.Seconds())), true
}

// seconds turns a number of seconds into a Duration, at most a century.
func seconds(s float64) time.Duration {
	const century = 100 * 365 * 24 * 3600
	return time.Duration(min(s, century) * float64(time.Second))
}
