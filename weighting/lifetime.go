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

	seen    map[string]SessionCount // in the newest observation
	last    time.Time
	open    int
	rate    float64       // arrivals a second
	samples int           // in rate
	watched time.Duration // that rate stands for

	ended float64 // connections that ended of late
	lived float64 // seconds that connections have been open in the same time
}

const (
	arrivalClip = 4 // limits one sample of the arrival rate, in running averages
	endingTime  = 4 // time constant of what has ended of late, in that of the arrival rate
)

// Observe takes the counts of one moment, of every server of the backend. A
// counter that went backwards means that HAProxy was reloaded or restarted:
// that sample is left out, because too few arrivals would mean too high a
// gain, and counting goes on from the new values. A server seen for the first
// time counts from the next call on.
func (l *Little) Observe(now time.Time, counts []SessionCount) {
	elapsed := now.Sub(l.last)
	first := l.seen == nil
	seen := make(map[string]SessionCount, len(counts))
	var arrived, more int64
	var reset bool
	var open float64 // on average since the last time, on servers known then
	l.open = 0
	for _, c := range counts {
		c.Open = max(c.Open, 0)
		l.open += c.Open
		seen[c.Server] = c
		if before, known := l.seen[c.Server]; known {
			reset = reset || c.Total < before.Total
			arrived += c.Total - before.Total
			more += int64(c.Open - before.Open)
			open += float64(c.Open+before.Open) / 2
		}
	}
	l.seen, l.last = seen, now
	if first || reset || elapsed <= 0 {
		return
	}
	l.learn(float64(arrived)/elapsed.Seconds(), elapsed)
	stays := math.Exp(-float64(elapsed) / float64(endingTime*l.average()))
	l.ended = stays*l.ended + float64(max(arrived-more, 0))
	l.lived = stays*l.lived + open*elapsed.Seconds()
}

// Restart says that another worker counts from now on. The next observation is
// left out as the first one is, even if no counter should be below its old value.
func (l *Little) Restart() { l.seen = nil }

// Shorter tells whether connections end so often that their mean lifetime is
// clearly shorter than believed, and gives the one that fits: the time that all
// of them were open over the number that ended. That needs no steady state, and
// so it holds in a young worker too; it adds up over several of them. As in
// Lifetime, short connections beside the long ones make it short.
func (l *Little) Shorter(believed time.Duration) (lifetime time.Duration, ok bool) {
	if believed <= 0 || !surely(l.ended, l.lived/believed.Seconds()*clearly, 1) {
		return 0, false
	}
	return seconds(l.lived / l.ended), true
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
