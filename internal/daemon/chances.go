package daemon

import (
	"sync"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

const (
	// reloadPause is the least time between two reloads.
	reloadPause = time.Second
	// chanceMost is the longest that a reload waits for the passes of the
	// generation before it, whatever the timeouts are.
	chanceMost = 15 * time.Second
)

// chances tell when each backend of a generation has had the chance of one
// pass: Graphite was asked, and what it said was tried on a HAProxy. A reload
// ends the questions that are under way: if it came earlier each time, reloads
// without a pause would let no pass through.
type chances struct {
	had chan struct{} // closed when all have had it

	mu   sync.Mutex
	left map[string]bool // the backends that have not, and whether Graphite has answered
}

func newChances(c *config.Config) *chances {
	all := &chances{had: make(chan struct{}), left: make(map[string]bool)}
	for _, b := range c.Backends {
		all.left[b.Name] = false
	}
	return all
}

// chanceLimit is how long a generation may take for its chances: what one
// request to Graphite and one pass on HAProxy may take.
func chanceLimit(c *config.Config) time.Duration {
	return max(reloadPause, min(c.Graphite.Timeout+c.HAProxy.Timeout, chanceMost))
}

// Rendered implements balancer.Observer: without loads there is no pass to
// wait for.
func (c *chances) Rendered(backend string, err error, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, waited := c.left[backend]; !waited {
		return
	}
	if c.left[backend] = true; err != nil {
		c.take(backend)
	}
}

// Asked implements balancer.Observer.
func (c *chances) Asked(string, string, error, time.Duration) {}

// Passed implements balancer.Observer. A table that comes before Graphite has
// answered is of loads from before, or of a HAProxy that does not answer.
func (c *chances) Passed(t *balancer.Table) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left[t.Backend] {
		c.take(t.Backend)
	}
}

func (c *chances) take(backend string) {
	if delete(c.left, backend); len(c.left) == 0 {
		close(c.had)
	}
}
