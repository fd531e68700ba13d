package balancer

import (
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// youth is what is known of the lifetime while the worker that answers is too
// young to tell it: the long connections stay with the one before, and what
// the new one shows is short whatever the truth is. What was learnt before
// stands meanwhile, but not against clear evidence, and not for longer than a
// worker would need to be believed: when HAProxy is reloaded so often that none
// ever is, the longest that they show counts. That is too short rather than too
// long, and too short only balances slowly.
type youth struct {
	trustAt time.Duration // uptime from which the worker is believed
	since   time.Time     // since when none has been; zero: the last one read was
	shown   time.Duration // longest lifetime that a worker has shown since; 0: none
	from    string        // estimator of shown
	judged  time.Time     // when ages could last speak against the lifetime in force
}

const (
	// trustLifetimes is how many lifetimes a worker must have been up before
	// what it shows is believed.
	trustLifetimes = 3
	// trustMost bounds that, and agesAlone is how long counters say nothing
	// against a lifetime after ages could, both in least horizons of the ages
	// (5 min): 6 h and 1 h. Sessions as old as 6 h tell a lifetime that is long
	// enough for the highest gain there is. Counters see the crowd of short
	// connections that ages leave out, so they are asked only without these.
	trustMost = 72
	agesAlone = 12
)

// trust is how long a worker must have been up to be believed.
func (l *lifetime) trust() time.Duration {
	return min(trustLifetimes*l.mean, trustMost*l.timing.YoungSession)
}

// meet takes note of the worker that answers.
func (l *lifetime) meet(w haproxy.Worker, now time.Time) {
	if w == l.worker {
		return
	}
	if l.worker == (haproxy.Worker{}) {
		l.youth.judged = now
	} else {
		l.youth.trustAt = l.trust()
		l.byAge = 0
	}
	l.worker = w
	l.little.Restart()
}

// believe takes what an old worker shows.
func (l *lifetime) believe(now time.Time) {
	l.mean, l.from = l.own(now)
	l.youth.since, l.youth.shown = time.Time{}, 0
}

// doubt takes what a young worker shows.
func (l *lifetime) doubt(now time.Time) {
	y := &l.youth
	if y.since.IsZero() {
		y.since = now
	}
	if own, from := l.own(now); own > y.shown {
		y.shown, y.from = own, from
	}
	if l.reader == nil || now.Sub(y.judged) > agesAlone*l.timing.YoungSession {
		if shorter, ok := l.little.Shorter(l.mean); ok {
			l.shorten(shorter, fromLittle, now)
		}
	}
	if y.shown > 0 && now.Sub(y.since) >= l.trust() {
		l.settle(y.shown, y.from, now)
	}
}

// judge takes the ages of a worker's sessions; of one that is old enough they
// are the better witness.
func (l *lifetime) judge(ages []time.Duration, uptime time.Duration, now time.Time) {
	if uptime < 2*l.timing.YoungSession {
		return
	}
	l.youth.judged = now
	if uptime >= l.youth.trustAt {
		return // the next note believes it
	}
	if shorter, ok := weighting.ShorterByAges(ages, l.timing.YoungSession, uptime, l.mean); ok {
		l.shorten(shorter, fromSessions, now)
	}
}

// shorten takes a lifetime that is clearly shorter than the one in force.
func (l *lifetime) shorten(mean time.Duration, from string, now time.Time) {
	if mean = l.timing.ClampLifetime(mean); mean < l.mean {
		l.settle(mean, from, now)
	}
}

// settle puts a lifetime in force while no worker is believed.
func (l *lifetime) settle(mean time.Duration, from string, now time.Time) {
	l.mean, l.from = mean, from
	y := &l.youth
	y.trustAt = min(y.trustAt, l.trust())
	y.since, y.shown = now, 0
}
