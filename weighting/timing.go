package weighting

import "time"

// Timing holds the constants of time. They are not configuration keys: the
// documented values fit every backend. A test or a model that runs in
// compressed time scales them (Scaled). In each field zero means the value in
// its comment.
type Timing struct {
	ColdRamp        time.Duration // 5 min: how long a cold server's cap rises
	MissingHold     time.Duration // 3 min: least time a server without data keeps its weight
	Rewrite         time.Duration // 10 min: after it, weights inside the deadband are written too
	UsualTotal      time.Duration // 30 min: time constant of the usual total load
	AssumedLifetime time.Duration // 10 min: mean connection lifetime while it is unknown
	MinLifetime     time.Duration // 2 min: least estimate of the lifetime that is believed
	MaxLifetime     time.Duration // 7 d: largest estimate of the lifetime that is believed
	YoungSession    time.Duration // 5 min: least horizon of the estimate from session ages
	ArrivalAverage  time.Duration // 15 min: time constant of the arrival rate
	FeedbackUnit    time.Duration // 30 s: interval that feedback's integral gain is stated for
}

// DefaultTiming returns the documented values.
func DefaultTiming() Timing { return Timing{}.complete() }

func (t Timing) complete() Timing {
	for _, f := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&t.ColdRamp, 5 * time.Minute},
		{&t.MissingHold, 3 * time.Minute},
		{&t.Rewrite, 10 * time.Minute},
		{&t.UsualTotal, 30 * time.Minute},
		{&t.AssumedLifetime, 10 * time.Minute},
		{&t.MinLifetime, 2 * time.Minute},
		{&t.MaxLifetime, 7 * 24 * time.Hour},
		{&t.YoungSession, 5 * time.Minute},
		{&t.ArrivalAverage, 15 * time.Minute},
		{&t.FeedbackUnit, 30 * time.Second},
	} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	return t
}

// Scaled returns t with every field multiplied by factor: 1/30.0 makes a
// backend with an interval of 1 s behave like one with 30 s.
func (t Timing) Scaled(factor float64) Timing {
	t = t.complete()
	scale := func(d time.Duration) time.Duration { return max(1, time.Duration(float64(d)*factor)) }
	return Timing{
		ColdRamp:        scale(t.ColdRamp),
		MissingHold:     scale(t.MissingHold),
		Rewrite:         scale(t.Rewrite),
		UsualTotal:      scale(t.UsualTotal),
		AssumedLifetime: scale(t.AssumedLifetime),
		MinLifetime:     scale(t.MinLifetime),
		MaxLifetime:     scale(t.MaxLifetime),
		YoungSession:    scale(t.YoungSession),
		ArrivalAverage:  scale(t.ArrivalAverage),
		FeedbackUnit:    scale(t.FeedbackUnit),
	}
}

// ClampLifetime limits an estimate of the mean connection lifetime to what is
// believed: MinLifetime to MaxLifetime.
func (t Timing) ClampLifetime(lifetime time.Duration) time.Duration {
	t = t.complete()
	return min(max(lifetime, t.MinLifetime), t.MaxLifetime)
}

// YoungHorizon returns T', the age below which a session counts as young in
// FromAges: max(5 min, 2H), where H is the horizon of water-fill. A lifetime
// of zero means that there is no estimate yet.
func (t Timing) YoungHorizon(delay, lifetime time.Duration) time.Duration {
	return max(t.complete().YoungSession, 2*horizon(delay, lifetime))
}

// horizon is H = max(2d, tauhat/200): the time until the next decision counts.
// The second term keeps the gain at or below 200.
func horizon(delay, lifetime time.Duration) time.Duration {
	return max(2*delay, lifetime/200, 1)
}
