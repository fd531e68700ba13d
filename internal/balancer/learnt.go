package balancer

import (
	"maps"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
)

// Learnt is what a balancer knows of one backend on one HAProxy that a restart
// of this process would lose. It is immutable.
type Learnt struct {
	Backend      string         `json:"backend"`
	Socket       string         `json:"socket"`
	Time         time.Time      `json:"time"` // when it was true, UTC
	Worker       haproxy.Worker `json:"worker"`
	Weights      map[string]int `json:"weights"` // that we left in force, by server
	LastChange   time.Time      `json:"last_change"`
	Lifetime     time.Duration  `json:"lifetime"` // mean connection lifetime in ns; 0 unknown
	LifetimeFrom string         `json:"lifetime_from"`
}

// learn notes what should survive. The memory's maps are replaced as a whole
// when they change, so they can be shared, but for belief, which apply edits.
func (p *plane) learn() {
	p.learnt.Store(&Learnt{
		Backend: p.backend.Name, Socket: p.socket, Time: p.memory.stood.UTC(), Worker: p.memory.worker,
		Weights: maps.Clone(p.memory.belief), LastChange: p.memory.lastChange,
		Lifetime: p.lifetime.mean, LifetimeFrom: p.lifetime.from,
	})
}

// recall takes up what an earlier process knew. When another worker answers
// now, the weights are put back as after any reload.
//
// A daemon that was killed may have set weights after it last said so: then, for
// the same worker, what is found is taken for its doing and not for somebody
// else's.
func (p *plane) recall(l Learnt, ended bool) {
	p.memory.trusting = !ended
	p.memory.known, p.memory.worker = true, l.Worker
	p.memory.stood, p.memory.lastChange = l.Time, l.LastChange
	p.memory.belief = make(map[string]int, len(l.Weights))
	maps.Copy(p.memory.belief, l.Weights)
	p.lifetime.recall(l)
}

// recall takes up a lifetime with the worker that it was true of: another one
// may answer now.
func (l *lifetime) recall(from Learnt) {
	l.mean, l.from = from.Lifetime, from.LifetimeFrom
	if from.LifetimeFrom == fromSessions {
		l.byAge, l.byAgeAt = from.Lifetime, from.Time
	}
	l.worker, l.noted = from.Worker, from.Time
	l.youth = youth{trustAt: l.trust(), judged: from.Time}
}

// Learnt returns what is worth keeping over a restart of this process.
func (f *Fleet) Learnt() []Learnt {
	var all []Learnt
	for _, b := range f.balancers {
		for _, p := range b.planes {
			if l := p.learnt.Load(); l != nil {
				all = append(all, *l)
			}
		}
	}
	return all
}

// Recall takes up what Learnt gave to an earlier process; what is older than
// maxAge is left out. ended says that nothing came after it, because that
// process ended in good order. Call it before Run.
func (f *Fleet) Recall(all []Learnt, now time.Time, maxAge time.Duration, ended bool) {
	for _, l := range all {
		age := now.Sub(l.Time)
		b := f.Balancer(l.Backend)
		if b == nil || age < 0 || age > maxAge {
			continue
		}
		for _, p := range b.planes {
			if p.socket == l.Socket {
				p.recall(l, ended)
			}
		}
	}
}
