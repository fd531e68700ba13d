package balancer

import (
	"reflect"
	"regexp"
	"slices"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// Inherit takes over what the fleet of an earlier configuration knows, so that
// a reload forgets nothing: tables go on being answered from, the weights that
// we left are known as ours, and no fault is told twice. Call it after the Run
// of old has returned and before that of f. It returns the backends that old
// had and f has not: their weights stay as they are.
func (f *Fleet) Inherit(old *Fleet) (dropped []string) {
	for _, was := range old.balancers {
		b := f.Balancer(was.options.Backend.Name)
		if b == nil {
			dropped = append(dropped, was.options.Backend.Name)
			continue
		}
		b.inherit(was)
	}
	for _, w := range f.watchers {
		i := slices.IndexFunc(old.watchers, func(o *watcher) bool { return o.faults.socket == w.faults.socket })
		if i >= 0 {
			w.faults.inherit(old.watchers[i].faults)
		}
	}
	return dropped
}

// HandOver says that next goes on where f is about to stop: what both keep is
// left as it is. Call it before the Run of f is ended.
func (f *Fleet) HandOver(next *Fleet) {
	for _, b := range f.balancers {
		successor := next.Balancer(b.options.Backend.Name)
		if successor == nil || successor.options.Backend.Maps != b.options.Backend.Maps {
			continue
		}
		for _, p := range b.planes {
			if p.maps != nil && successor.plane(p.socket) != nil {
				p.maps.handed.Store(true)
			}
		}
	}
}

// plane finds the plane of a socket; nil when there is none.
func (b *Balancer) plane(socket string) *plane {
	for _, p := range b.planes {
		if p.socket == socket {
			return p
		}
	}
	return nil
}

func (b *Balancer) inherit(was *Balancer) {
	b.faults.inherit(was.faults)
	for _, p := range b.planes {
		if old := was.plane(p.socket); old != nil {
			p.inherit(old)
		}
	}
}

func (p *plane) inherit(old *plane) {
	p.memory, p.news = old.memory, old.news
	p.faults.inherit(old.faults)
	p.lifetime.inherit(old.lifetime)
	if t := old.table.Load(); t != nil {
		p.setTable(t)
	}
	p.otherLoads = old.otherLoads || !sameLoads(p.backend, old.backend)
	p.sight.Store(old.sight.Load())
	p.learnt.Store(old.learnt.Load())
	if p.maps != nil && old.maps != nil {
		p.maps.inherit(old.maps)
	}
	p.inheritController(old)
}

// inheritController goes on with what is known of the loads, as long as they
// mean the same. Without any change the function's own memory goes on too.
func (p *plane) inheritController(old *plane) {
	if old.controller == nil || !sameLoads(p.backend, old.backend) {
		return
	}
	p.controller, p.function = old.controller, old.function
	if p.backend.FunctionSet == old.backend.FunctionSet && reflect.DeepEqual(p.backend.Weighting, old.backend.Weighting) {
		return
	}
	p.newController() // follow makes another when the function is another
}

// newController makes the controller of p.function, which goes on where the
// last one stopped.
func (p *plane) newController() {
	settings := p.backend.Weighting
	settings.Function = p.function
	last := p.controller
	p.controller = weighting.NewController(settings)
	if last != nil {
		p.controller.Continue(last)
	}
}

// sameLoads tells whether the loads of two configurations of a backend can be
// told together: the same series, read in the same way.
func sameLoads(a, b *config.Backend) bool {
	return a.Target == b.Target && expression(a.ServerRegexp) == expression(b.ServerRegexp) && a.ServerName == b.ServerName &&
		a.Window == b.Window && a.Until == b.Until && a.Aggregate == b.Aggregate && a.Weighting.Better == b.Weighting.Better
}

func expression(r *regexp.Regexp) string {
	if r == nil {
		return ""
	}
	return r.String()
}

// inherit takes over the estimate, and the counters that the next one is made of.
func (l *lifetime) inherit(old *lifetime) {
	l.mean, l.from = old.mean, old.from
	l.byAge, l.byAgeAt, l.noted = old.byAge, old.byAgeAt, old.noted
	l.worker, l.youth = old.worker, old.youth
	l.little = old.little
}
