package balancer

import (
	"context"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// lifetime keeps the estimate of the mean connection lifetime of one plane.
type lifetime struct {
	mean  time.Duration // 0 = unknown
	from  string        // "sessions", "little" or ""
	dumps chan dump
}

type dump struct{}

func newLifetime(DataPlane, *config.Backend) lifetime { return lifetime{dumps: make(chan dump, 1)} }

func (l *lifetime) note(*haproxy.State, time.Time) {}
func (l *lifetime) wait()                          {}
func (l *lifetime) ask(context.Context, *plane, *haproxy.State, *weighting.Decision, time.Time) {
}
func (p *plane) takeAges(dump) {}
