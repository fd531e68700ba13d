package balancer

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// ageReader is what a DataPlane may have besides: the ages of open sessions.
// *haproxy.Client has it.
type ageReader interface {
	SessionAges(ctx context.Context, limit int) (*haproxy.Sessions, error)
}

// The estimators, as Table.LifetimeFrom names them.
const (
	fromSessions = "sessions"
	fromLittle   = "little"
)

// lifetime keeps the estimate of the mean connection lifetime of one plane:
// from the ages of open sessions when they can be had, else by Little's law.
type lifetime struct {
	mean time.Duration // 0 = unknown
	from string        // fromSessions, fromLittle or ""

	reader  ageReader // nil when the DataPlane has none, or the file turns it off
	limit   int       // most open sessions that are listed
	backend string
	timing  weighting.Timing
	little  weighting.Little

	byAge   time.Duration // newest estimate from ages, of this worker; 0 = none
	byAgeAt time.Time     // later by the time in which HAProxy was not read
	noted   time.Time     // when note was called last
	worker  haproxy.Worker
	youth   youth

	asked time.Time // when the newest dump began
	busy  bool
	dumps chan dump
	owned sync.WaitGroup
}

// dump is what one look at the sessions gave.
type dump struct {
	sessions *haproxy.Sessions
	horizon  time.Duration
	at       time.Time
	err      error
}

const (
	dumpLimit = 10 * time.Second // for a client that has lost its own deadline
	// staleDumps is how many turns an estimate from ages outlives its dump.
	staleDumps = 3
)

func newLifetime(data DataPlane, b *config.Backend) *lifetime {
	l := &lifetime{
		limit: b.SessionLimit, backend: b.Name, timing: timingOf(b.Weighting.Timing),
		dumps: make(chan dump, 1),
	}
	l.little.Average = l.timing.ArrivalAverage
	if reader, ok := data.(ageReader); ok && l.limit > 0 {
		l.reader = reader
	}
	return l
}

// timingOf fills in the defaults of the fields that are used here.
func timingOf(t weighting.Timing) weighting.Timing {
	d := weighting.DefaultTiming()
	if t.YoungSession <= 0 {
		t.YoungSession = d.YoungSession
	}
	if t.ArrivalAverage <= 0 {
		t.ArrivalAverage = d.ArrivalAverage
	}
	return t
}

// dumpEvery is the least time between two dumps: 2 min, and in proportion
// where the constants of time are scaled.
func dumpEvery(t weighting.Timing) time.Duration { return timingOf(t).YoungSession * 2 / 5 }

// note takes the counters of one state and chooses the estimate in force.
func (l *lifetime) note(state *haproxy.State, now time.Time, log *slog.Logger) {
	before, from := l.mean, l.from
	l.meet(state.Info.Worker, now)
	if blind := now.Sub(l.noted) - dumpEvery(l.timing); blind > 0 && !l.noted.IsZero() {
		l.byAgeAt = l.byAgeAt.Add(blind)
	}
	l.noted = now
	counts := make([]weighting.SessionCount, len(state.Servers))
	for i := range state.Servers {
		s := &state.Servers[i]
		counts[i] = weighting.SessionCount{Server: s.Name, Open: s.Sessions, Total: s.TotalSessions}
	}
	l.little.Observe(now, counts)
	if state.Info.Uptime < l.youth.trustAt {
		l.doubt(now)
	} else {
		l.believe(now)
	}
	if l.from != from || l.mean < before/2 {
		log.Debug("estimate of the mean connection lifetime", "from", l.from, "lifetime", l.mean.Round(time.Second).String(),
			"before", before.Round(time.Second).String())
	}
}

// own is what the worker that answers shows by itself; 0 when it shows nothing.
func (l *lifetime) own(now time.Time) (mean time.Duration, from string) {
	if l.byAge > 0 && now.Sub(l.byAgeAt) <= staleDumps*dumpEvery(l.timing) {
		return l.byAge, fromSessions
	}
	if mean, ok := l.little.Lifetime(); ok {
		return l.timing.ClampLifetime(mean), fromLittle
	}
	return 0, ""
}

// due tells whether it is time for a dump that is not too large.
func (l *lifetime) due(state *haproxy.State, now time.Time) bool {
	if l.reader == nil || l.busy || !l.asked.IsZero() && now.Sub(l.asked) < dumpEvery(l.timing) {
		return false
	}
	open := 0
	for i := range state.Servers {
		open += max(state.Servers[i].Sessions, 0)
	}
	return open > 0 && open <= l.limit
}

// ask starts a dump when one is due. It runs beside the plane, so that a slow
// one delays neither a pass nor a reload; its result comes by l.dumps.
func (l *lifetime) ask(ctx context.Context, state *haproxy.State, delay time.Duration, now time.Time) {
	if !l.due(state, now) {
		return
	}
	l.asked, l.busy = now, true
	horizon := l.timing.YoungHorizon(delay, l.mean)
	l.owned.Go(func() { l.dumps <- l.read(ctx, horizon, now) })
}

func (l *lifetime) read(ctx context.Context, horizon time.Duration, now time.Time) dump {
	ctx, cancel := context.WithTimeout(ctx, dumpLimit)
	defer cancel()
	sessions, err := l.reader.SessionAges(ctx, l.limit)
	return dump{sessions: sessions, horizon: horizon, at: now, err: err}
}

// take takes the result of a dump.
func (l *lifetime) take(d dump) error {
	l.busy = false
	if d.err != nil {
		return d.err
	}
	if d.sessions.Info.Worker != l.worker {
		return fmt.Errorf("sessions of another worker (%d)", d.sessions.Info.Worker.PID)
	}
	ages := d.sessions.Ages[l.backend]
	mean, ok := weighting.FromAges(ages, d.horizon)
	if !ok {
		return fmt.Errorf("no open session of backend %s is listed", l.backend)
	}
	l.byAge, l.byAgeAt = l.timing.ClampLifetime(mean), d.at
	l.judge(ages, d.sessions.Info.Uptime, d.at)
	return nil
}

// once makes a dump now, if one is due, for a plane that makes a single pass.
func (l *lifetime) once(ctx context.Context, state *haproxy.State, delay time.Duration, now time.Time) error {
	if !l.due(state, now) {
		return nil
	}
	return l.take(l.read(ctx, l.timing.YoungHorizon(delay, l.mean), now))
}

// wait waits for the dump under way; it ends with the context it was given.
func (l *lifetime) wait() { l.owned.Wait() }

// measure brings the estimate up to a state. A plane that makes one pass only
// (Plan) lists the sessions at once, to decide as the running loop would.
func (p *plane) measure(ctx context.Context, state *haproxy.State, now time.Time) {
	p.lifetime.note(state, now, p.log)
	if p.running {
		return
	}
	p.tellAges(p.lifetime.once(ctx, state, p.backend.Interval, now))
	p.lifetime.note(state, now, p.log)
}

// takeAges is what a running plane does with a dump.
func (p *plane) takeAges(d dump) { p.tellAges(p.lifetime.take(d)) }

func (p *plane) tellAges(err error) {
	if err != nil {
		p.log.Debug("no connection lifetime from show sess", "cause", err.Error())
	}
}

// tellLoopGain warns while the loop is near to swinging.
func (p *plane) tellLoopGain(d *weighting.Decision) {
	gain := d.LoopGain()
	if gain <= weighting.LoopGainWarning {
		p.faults.end("loop-gain")
		return
	}
	p.faults.begin("loop-gain", fmt.Sprintf("gain %.3g times delay %s over mean connection lifetime %s is %.2f, above %.1f",
		d.Gain, d.Delay.Round(time.Second), d.Lifetime.Round(time.Second), gain, weighting.LoopGainWarning), wording{
		what:      "weights react more strongly than the age of the data allows",
		over:      "weights react no more strongly than the age of the data allows",
		meanwhile: "weights are set as worked out; loads may overshoot and swing",
		do:        "lower aggressiveness, or interval, window or the delay of the data; or use function = \"water-fill\", which adapts by itself",
	})
}
