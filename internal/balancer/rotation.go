package balancer

import (
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// rotationOf says whether a server takes part in a pass. What a person decided
// (maint, drain, weight 0) comes before what a health check found.
func rotationOf(s *haproxy.Server) weighting.Rotation {
	switch {
	case s.Admin.Maint():
		return weighting.Maint
	case s.Draining():
		return weighting.Drain
	case !s.InService():
		return weighting.Down
	case s.Backup:
		return weighting.Backup
	}
	return weighting.InRotation
}

// capacitiesOf gives each server's capacity, in the order of servers. With
// "initial-weight" a server whose initial weight is 0 has no size in
// haproxy.cfg; it counts as the average of those that have one.
func capacitiesOf(c config.Capacity, servers []haproxy.Server) []float64 {
	capacities := make([]float64, len(servers))
	sum, sized := 0.0, 0
	for i := range servers {
		capacities[i] = 1
		switch c.Kind {
		case "table":
			if v, ok := c.Table[servers[i].Name]; ok {
				capacities[i] = v
			}
		case "initial-weight":
			capacities[i] = float64(servers[i].InitialWeight)
		}
		if capacities[i] > 0 {
			sum, sized = sum+capacities[i], sized+1
		}
	}
	for i := range capacities {
		switch {
		case capacities[i] > 0:
		case sized > 0:
			capacities[i] = sum / float64(sized)
		default:
			capacities[i] = 1
		}
	}
	return capacities
}

// startSlack is how far the seconds that HAProxy counts its uptime and a
// server's last change in may lie apart when both mean the start.
const startSlack = 2 * time.Second

// arrivals remembers when servers came up, across reloads: a new worker says
// of every server that it changed when the worker started, and a server is not
// cold because HAProxy has been reloaded.
type arrivals struct {
	up      map[string]time.Time // zero: longer ago than anyone remembers
	known   bool                 // false until a first state has been seen
	serving map[string]bool      // servers in rotation
	found   map[string]bool      // servers that have been in rotation in worker
	worker  haproxy.Worker
	waits   map[string]wait // servers that were in rotation in the worker before
}

// wait is for a server that a new worker will soon find up.
type wait struct {
	up    time.Time // when it came up in truth
	until time.Time // later it is one that has just come
}

// note updates the memory from what a worker says at now. A server that was in
// rotation before a reload and is found up soon after it has only been waited
// for.
func (a *arrivals) note(state *haproxy.State, now time.Time) {
	if state.Info.Worker != a.worker {
		waits := make(map[string]wait, len(a.serving))
		for server, w := range a.waits {
			if !a.found[server] {
				waits[server] = w // reloaded again before it was found up
			}
		}
		for server := range a.serving {
			waits[server] = wait{up: a.up[server], until: now.Add(settling)}
		}
		a.worker, a.waits, a.found = state.Info.Worker, waits, make(map[string]bool)
	}
	up, serving := make(map[string]time.Time, len(state.Servers)), make(map[string]bool, len(state.Servers))
	for i := range state.Servers {
		s := &state.Servers[i]
		before, seen := a.up[s.Name]
		fromStart := s.SinceChange+startSlack >= state.Info.Uptime
		w, awaited := a.waits[s.Name]
		if rotationOf(s) == weighting.InRotation {
			serving[s.Name], a.found[s.Name] = true, true
		}
		switch {
		case awaited && !now.Add(-s.SinceChange).After(w.until):
			up[s.Name] = w.up
		case fromStart && seen:
			up[s.Name] = before
		case fromStart && !a.known:
			up[s.Name] = time.Time{} // it may have been up for years before this worker
		default:
			up[s.Name] = now.Add(-s.SinceChange)
		}
	}
	a.up, a.known, a.serving = up, true, serving
}

// awaited tells whether a server was in rotation before a reload that is not long
// ago, and has not been since.
func (a *arrivals) awaited(server string, now time.Time) bool {
	w, served := a.waits[server]
	return served && !a.found[server] && !now.After(w.until)
}
