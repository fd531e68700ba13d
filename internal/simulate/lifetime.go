package simulate

import (
	"math"
	"time"
)

// lifetimeEvery is how often a balancer may ask HAProxy for its sessions' ages.
const lifetimeEvery = 2 * time.Minute

// Bounds of the estimate.
const (
	leastLifetime = 2 * time.Minute
	mostLifetime  = 7 * 24 * time.Hour
)

// youngAge is T' of estimator B: max(5 min, 2H), H = max(2d, tauhat/200).
func youngAge(delay, lifetime time.Duration) time.Duration {
	horizon := max(2*delay, lifetime/200)
	return max(5*time.Minute, 2*horizon)
}

// fromAges is estimator B: the fraction of open sessions younger than T'.
func fromAges(young, open int, t time.Duration) time.Duration {
	fraction := (1 + float64(young)) / (2 + float64(open))
	seconds := -t.Seconds() / math.Log(1-fraction)
	return clampLifetime(seconds)
}

func clampLifetime(seconds float64) time.Duration {
	seconds = max(leastLifetime.Seconds(), min(mostLifetime.Seconds(), seconds))
	return time.Duration(seconds * float64(time.Second))
}

// littlesLaw is estimator A: open sessions over a 15-minute average of the
// arrival rate, each sample of it clipped to four times the running value.
type littlesLaw struct {
	rate  float64 // arrivals a second
	total int64
	at    float64
	known bool
}

func (l *littlesLaw) update(now float64, total int64, open int) time.Duration {
	passed := now - l.at
	arrived := float64(total - l.total)
	first := l.at == 0
	l.total, l.at = total, now
	if first || passed <= 0 {
		return 0
	}
	rate := arrived / passed
	if !l.known {
		l.rate, l.known = rate, rate > 0
	} else {
		share := 1 - math.Exp(-passed/(15*time.Minute).Seconds())
		l.rate += share * (min(rate, 4*l.rate) - l.rate)
	}
	if !l.known || l.rate <= 0 {
		return 0
	}
	return clampLifetime(float64(open) / l.rate)
}
