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
	up    map[string]time.Time // zero: longer ago than anyone remembers
	known bool                 // false until a first state has been seen
}

// note updates the memory from what a worker says at now.
func (a *arrivals) note(state *haproxy.State, now time.Time) {
	up := make(map[string]time.Time, len(state.Servers))
	for i := range state.Servers {
		s := &state.Servers[i]
		before, seen := a.up[s.Name]
		fromStart := s.SinceChange+startSlack >= state.Info.Uptime
		switch {
		case fromStart && seen:
			up[s.Name] = before
		case fromStart && !a.known:
			up[s.Name] = time.Time{} // it may have been up for years before this worker
		default:
			up[s.Name] = now.Add(-s.SinceChange)
		}
	}
	a.up, a.known = up, true
}
