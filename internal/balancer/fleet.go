package balancer

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
)

// Fleet is every balancer of a configuration, with the watch for reloads of
// each HAProxy.
type Fleet struct {
	balancers []*Balancer
	watchers  []*watcher
}

// NewFleet wires a checked configuration; it does no I/O.
func NewFleet(c *config.Config, logger *slog.Logger) (*Fleet, error) {
	renderer, err := graphite.NewClient(c.Graphite)
	if err != nil {
		return nil, fmt.Errorf("graphite: %w", err)
	}
	planes := make([]Plane, len(c.HAProxy.Sockets))
	for i, address := range c.HAProxy.Sockets {
		client := haproxy.NewClient(address, haproxy.Options{Timeout: c.HAProxy.Timeout})
		planes[i] = Plane{
			Socket: address.String(), DataPlane: newSharedAges(client, c.Backends),
			// A client of its own: weights never wait for a map.
			Maps: haproxy.NewClient(address, haproxy.Options{Timeout: c.HAProxy.Timeout, MaxConnections: 1}),
		}
	}
	f, t := &Fleet{}, &twins{}
	for _, b := range c.Backends {
		f.balancers = append(f.balancers, New(Options{
			Backend: b, Renderer: renderer, Planes: planesOf(&b, planes), Logger: logger,
		}))
	}
	for i := range planes {
		socket := planes[i].Socket
		log := logger.With("socket", socket)
		// A client of its own: it has a slot free however busy the others are.
		client := haproxy.NewClient(c.HAProxy.Sockets[i], haproxy.Options{Timeout: c.HAProxy.Timeout})
		f.watchers = append(f.watchers, &watcher{
			info: client.Info, every: c.HAProxy.Watch, log: log, faults: newFaults(log, time.Now),
			twin: func(i haproxy.Info) string { return t.note(socket, i) },
			seen: func(w haproxy.Worker) {
				for _, b := range f.balancers {
					b.workerSeen(socket, w)
				}
			},
		})
	}
	return f, nil
}

// planesOf picks the planes that a backend's file entry allows.
func planesOf(b *config.Backend, all []Plane) []Plane {
	if len(b.Sockets) == 0 {
		return all
	}
	var picked []Plane
	for _, p := range all {
		if slices.ContainsFunc(b.Sockets, func(a haproxy.Address) bool { return a.String() == p.Socket }) {
			picked = append(picked, p)
		}
	}
	return picked
}

// Balancers returns the balancers in the order of the file.
func (f *Fleet) Balancers() []*Balancer { return f.balancers }

// Run balances and watches until ctx ends, then returns nil once every
// goroutine has ended.
func (f *Fleet) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, b := range f.balancers {
		g.Go(func() error { return b.Run(ctx) })
	}
	for _, w := range f.watchers {
		g.Go(func() error { return w.run(ctx) })
	}
	return g.Wait()
}
