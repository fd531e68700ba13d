package balancer

import (
	"context"
	"maps"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// settling is how long after a reload servers that were in rotation before it
// are awaited: a new worker may find them up only then, when their names are
// resolved or, with init-state down, when a first check has passed.
const settling = time.Minute

// comeback is what is kept of servers that a new worker has not found up yet.
type comeback struct {
	owed map[string]int // the weight that each had in the worker before
	met  time.Time      // when the new worker was met
}

// expect notes what is owed to the servers that are not in rotation in a new
// worker, given the weights from the worker before.
func (c *comeback) expect(from map[string]int, state *haproxy.State, now time.Time) {
	*c = comeback{met: now}
	for i := range state.Servers {
		s := &state.Servers[i]
		w := from[s.Name]
		if w < 1 || s.InitialWeight == 0 || w == s.Weight || rotationOf(s) == weighting.InRotation {
			continue
		}
		if c.owed == nil {
			c.owed = make(map[string]int)
		}
		c.owed[s.Name] = w
	}
}

// with are the weights known of one worker, with those that are still owed.
func (c *comeback) with(belief map[string]int) map[string]int {
	if len(c.owed) == 0 {
		return belief
	}
	all := make(map[string]int, len(belief)+len(c.owed))
	maps.Copy(all, belief)
	maps.Copy(all, c.owed)
	return all
}

// due are the weights that can be put back now. What is owed to a server that is
// gone, or that somebody has given another weight, is forgotten, and all of it
// when it is outdated.
func (c *comeback) due(state *haproxy.State, outdated bool) []haproxy.Change {
	if outdated {
		c.owed = nil
	}
	var due []haproxy.Change
	for server, w := range c.owed {
		s, there := state.Server(server)
		switch {
		case !there || s.Weight != s.InitialWeight:
			delete(c.owed, server)
		case rotationOf(&s) == weighting.InRotation:
			due = append(due, haproxy.Change{Server: server, Weight: w})
		}
	}
	return due
}

// hurried tells whether servers are worth a look before the next pass.
func (c *comeback) hurried(now time.Time) bool {
	return len(c.owed) > 0 && now.Sub(c.met) < settling
}

// repay puts back the weights of servers that have come up since the new worker
// was met. It fails only when HAProxy can't be talked to; then it is tried again.
func (p *plane) repay(ctx context.Context, state *haproxy.State) (*haproxy.State, error) {
	due := p.memory.comeback.due(state, p.outdated(p.now().Sub(p.memory.comeback.met)))
	if len(due) == 0 {
		return state, nil
	}
	written := 0
	if p.write {
		after, n, err := p.send(ctx, state, due)
		if err != nil && !final(err) {
			return nil, err
		}
		if after.Info.Worker != state.Info.Worker {
			return nil, reloadedAgain(state, after)
		}
		state, written = after, n
	}
	now := weightsOf(state.Servers)
	for _, c := range due {
		delete(p.memory.comeback.owed, c.Server)
		p.memory.belief[c.Server] = now[c.Server]
	}
	p.wake()
	p.log.Info("servers have come up after HAProxy's reload", "weights_put_back", written, "differing", len(due))
	return state, nil
}
