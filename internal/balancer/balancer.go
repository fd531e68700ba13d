// Package balancer is the loop: read, decide, apply, publish the table. One
// Balancer serves one backend, on every HAProxy socket that has it.
package balancer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
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

// Plane is one HAProxy as a balancer reaches it.
type Plane struct {
	Socket string // as printed in tables and logs
	DataPlane
}

// Options make a Balancer.
type Options struct {
	Backend  config.Backend
	Renderer Renderer
	Planes   []Plane
	Logger   *slog.Logger
	Now      func() time.Time // nil means time.Now
	Jitter   func() float64   // uniform in [0,1); nil means math/rand
}

// Balancer is one backend's loop.
type Balancer struct{ options Options }

// New returns a balancer; it does no I/O.
func New(o Options) *Balancer { return &Balancer{o} }

// Run makes passes until ctx ends, then returns nil.
func (b *Balancer) Run(ctx context.Context) error { return errors.New("balancer: not built yet") }

// Plan makes one pass that changes nothing and returns its tables, one a plane.
func (b *Balancer) Plan(ctx context.Context) ([]*Table, error) {
	return nil, errors.New("balancer: not built yet")
}

// Tables returns the tables of the last pass, one a plane that has had one.
// It never blocks and takes no lock.
func (b *Balancer) Tables() []*Table { return nil }

// RunAll runs every backend of a configuration, and the watch for reloads of
// each HAProxy, until ctx ends. It is what the command "run" calls.
func RunAll(ctx context.Context, c *config.Config, logger *slog.Logger) error {
	return errors.New("balancer: not built yet")
}

// LoadRow is one line of the command "loads". Its JSON form is documented and stable.
type LoadRow struct {
	Backend    string   `json:"backend"`
	Series     string   `json:"series"` // empty: a server that no series is for
	Server     string   `json:"server"` // empty: the series gives no server name
	Value      *float64 `json:"value"`
	Timestamp  *int64   `json:"timestamp"` // seconds since 1970
	AgeSeconds *float64 `json:"age_seconds"`
	Usable     bool     `json:"usable"`
	Reason     string   `json:"reason"` // why not usable; empty when usable
}

// Loads renders once and says, per series, which server it is for and whether
// it is usable. servers are the names that HAProxy has; nil when not known.
func Loads(ctx context.Context, r Renderer, b config.Backend, servers []string) ([]LoadRow, error) {
	return nil, errors.New("balancer: not built yet")
}
