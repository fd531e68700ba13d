package admin

import (
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

// History keeps in memory what has happened to each backend.
type History struct {
	now func() time.Time
}

// NewHistory returns an empty history.
func NewHistory(now func() time.Time) *History { return &History{now: now} }

// Passed takes up the table of a pass.
func (h *History) Passed(*balancer.Table) {}

// Order takes up an operator's order, in words.
func (h *History) Order(backend, text string) {}

// Of returns what is kept of a backend.
func (h *History) Of(backend string) api.History {
	return api.History{Backend: backend, Since: h.now().UTC(), Events: []api.Event{}, Series: []api.Series{}}
}
