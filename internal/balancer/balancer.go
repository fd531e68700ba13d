// Package balancer is the loop: read, decide, apply, publish the table. One
// Balancer serves one backend, on every HAProxy socket that has it.
package balancer

import (
	"context"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
)

// Renderer asks for series; *graphite.Client is the one in production.
type Renderer interface {
	Render(ctx context.Context, r graphite.Request) (*graphite.Answer, error)
}

// DataPlane is what a balancer needs of the thing that spreads connections:
// read the servers, apply weights. *haproxy.Client is the one in production.
type DataPlane interface {
	State(ctx context.Context, backend string) (*haproxy.State, error)
	SetWeights(ctx context.Context, backend string, changes []haproxy.Change, perLine int) (*haproxy.Outcome, error)
}
