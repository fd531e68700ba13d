package simulate

import (
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// lifetimeEvery is how often a balancer may ask HAProxy for its sessions' ages.
const lifetimeEvery = 2 * time.Minute

// estimate is the mean lifetime as this balancer can know it.
func (b *proxy) estimate(w *world, in weighting.Input) time.Duration {
	switch w.model.LifetimeFrom {
	case FromModel:
		b.lifetime = w.model.Lifetime.Mean
	case FromLittle:
		b.little.Observe(in.Now, b.counts(w))
		if lifetime, ok := b.little.Lifetime(); ok {
			b.lifetime = w.model.Weighting.Timing.ClampLifetime(lifetime)
		}
	case FromSessions:
		if w.now-b.asked >= lifetimeEvery.Seconds() {
			b.asked = w.now
			b.lifetime = b.fromSessions(w, in)
		}
	}
	if scale := w.policy.LifetimeScale; scale > 0 {
		return time.Duration(scale * float64(b.lifetime))
	}
	return b.lifetime
}

// counts is what HAProxy tells of each server.
func (b *proxy) counts(w *world) []weighting.SessionCount {
	list := make([]weighting.SessionCount, len(w.servers))
	for i := range list {
		list[i] = weighting.SessionCount{Server: w.servers[i].name, Open: b.conns[i], Total: b.totals[i]}
	}
	return list
}

func (b *proxy) fromSessions(w *world, in weighting.Input) time.Duration {
	delay := b.delay
	if delay == 0 {
		for _, s := range in.Servers {
			delay = max(delay, s.DataAge+w.model.Interval/2)
		}
	}
	ages := make([]time.Duration, 0, b.open)
	for id := range w.conns {
		if c := &w.conns[id]; c.open && w.balancers[c.balancer] == b {
			ages = append(ages, seconds(w.now-c.since))
		}
	}
	t := w.model.Weighting.Timing
	lifetime, ok := weighting.FromAges(ages, t.YoungHorizon(delay, b.lifetime))
	if !ok {
		return b.lifetime
	}
	return t.ClampLifetime(lifetime)
}
