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
	close     func() // gives back what the clients keep open; nil: nothing
}

// FleetOptions are what balancers need besides the configuration.
type FleetOptions struct {
	Logger   *slog.Logger // nil means slog.Default()
	Controls *Controls    // operators' orders; nil means none
	Observer Observer     // nil means nobody
	Named    bool         // somebody names servers from the tables, so that passes alone look too seldom
}

// stagger lies between the first renders of two backends at the start: hundreds
// at once would be more than a Graphite answers in time. Later on the jitter of
// the interval keeps them apart.
const stagger = 20 * time.Millisecond

// rememberLeast is how old weights may be in any case to be put back into a new
// worker: state.max_age = 0 forgets at a start of this process, and a reload of
// HAProxy is none.
const rememberLeast = time.Minute

// NewFleet wires a checked configuration; it does no I/O.
func NewFleet(c *config.Config, o FleetOptions) (*Fleet, error) {
	logger := o.Logger
	if logger == nil {
		logger = slog.Default()
	}
	asked := c.Graphite
	asked.Room = graphite.NewRoom() // a fleet ends before the next one runs: each may have its own
	renderer, err := graphite.NewClient(asked)
	if err != nil {
		return nil, fmt.Errorf("graphite: %w", err)
	}
	planes := make([]Plane, len(c.HAProxy.Sockets))
	for i, address := range c.HAProxy.Sockets {
		client := haproxy.NewClient(address, clientOptions(c, address, o.Observer, 0))
		planes[i] = Plane{
			Socket: address.String(), DataPlane: newSharedAges(client, c.Backends),
			// A client of its own: weights never wait for a map.
			Maps: haproxy.NewClient(address, clientOptions(c, address, o.Observer, 1)),
		}
	}
	f, t := &Fleet{close: renderer.Close}, &twins{}
	looks := time.Duration(0)
	if o.Named {
		looks = looksOf(c)
	}
	for i, b := range c.Backends {
		f.balancers = append(f.balancers, New(Options{
			Backend: b, Renderer: renderer, Planes: planesOf(&b, planes), Logger: logger,
			Delay:    time.Duration(i) * min(stagger, b.Interval/time.Duration(len(c.Backends))),
			Controls: o.Controls, Observer: o.Observer, Watched: true, Looks: looks,
			Remember: max(c.State.MaxAge, rememberLeast),
		}))
	}
	for i := range planes {
		socket := planes[i].Socket
		log := logger.With("socket", socket)
		// A client of its own: it has a slot free however busy the others are.
		client := haproxy.NewClient(c.HAProxy.Sockets[i], clientOptions(c, c.HAProxy.Sockets[i], o.Observer, 0))
		f.watchers = append(f.watchers, &watcher{
			info: client.Info, every: c.HAProxy.Watch, log: log, faults: newFaults(log, time.Now).at("", socket),
			master: c.HAProxy.Sockets[i].Kind == "master",
			twin:   func(i haproxy.Info) string { return t.note(socket, i) },
			seen: func(w haproxy.Worker) {
				for _, b := range f.balancers {
					b.workerSeen(socket, w)
				}
			},
			back: func() {
				for _, b := range f.balancers {
					b.socketBack(socket)
				}
			},
		})
	}
	return f, nil
}

// clientOptions are those of one client of a socket; connections 0 means the
// default.
func clientOptions(c *config.Config, a haproxy.Address, observer Observer, connections int) haproxy.Options {
	o := haproxy.Options{Timeout: c.HAProxy.Timeout, MaxConnections: connections}
	if observer != nil {
		socket := a.String()
		o.Observe = func(command string, err error, took time.Duration) { observer.Asked(socket, command, err, took) }
	}
	return o
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

// Sockets returns the runtime sockets in the order of the file, as tables print
// them.
func (f *Fleet) Sockets() []string {
	all := make([]string, len(f.watchers))
	for i, w := range f.watchers {
		all[i] = w.faults.socket
	}
	return all
}

// Balancer returns the balancer of a backend; nil when there is none.
func (f *Fleet) Balancer(backend string) *Balancer {
	for _, b := range f.balancers {
		if b.options.Backend.Name == backend {
			return b
		}
	}
	return nil
}

// Faults returns what is wrong now, as the log has told it.
func (f *Fleet) Faults() []Fault {
	var all []Fault
	for _, w := range f.watchers {
		all = append(all, w.faults.list()...)
	}
	for _, b := range f.balancers {
		all = append(all, b.Faults()...)
	}
	return all
}

// Tables returns the newest tables of all backends, in the order of the file.
func (f *Fleet) Tables() []*Table {
	var all []*Table
	for _, b := range f.balancers {
		all = append(all, b.Tables()...)
	}
	return all
}

// Run balances and watches until ctx ends, then returns nil once every
// goroutine has ended and no connection is open.
func (f *Fleet) Run(ctx context.Context) error {
	if f.close != nil {
		defer f.close()
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, b := range f.balancers {
		g.Go(func() error { return b.Run(ctx) })
	}
	for _, w := range f.watchers {
		g.Go(func() error { return w.run(ctx) })
	}
	return g.Wait()
}
