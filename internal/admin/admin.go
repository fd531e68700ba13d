// Package admin is how people and programs look at the daemon and give it
// orders: a status page, JSON, server-sent events and health over HTTP, and the
// control socket, where pins, freezes and modes are ordered.
//
// There are two listeners. The one that Serve serves changes nothing, whatever
// is sent to it. The one of ServeControl is a unix socket that only its owner
// and group may open; it answers the same requests, and those that change
// something.
package admin

import (
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

// Options make a Server.
type Options struct {
	Fleet    func() *balancer.Fleet // the one in force, which changes at a reload; nil before there is one
	Controls *balancer.Controls
	Daemon   func() api.Status // what only the daemon knows: version, pid, started, config, spoa, its own faults
	History  *History          // nil: none is kept
	Metrics  http.Handler      // answers /metrics; nil: there is none
	// Unkept says why orders end with this process; empty: they outlive it. nil
	// means that they do.
	Unkept func() string
	Logger *slog.Logger     // nil means slog.Default()
	Now    func() time.Time // nil means time.Now
}

// Server answers requests on any number of listeners.
type Server struct {
	options  Options
	log      *slog.Logger
	now      func() time.Time
	hostname string
	limits   limits
	first    firsts
	hub      *hub
	heavy    chan struct{} // holds a token for each large answer in the making
}

// New returns a server; it does no I/O.
func New(o Options) *Server {
	s := &Server{options: o, log: o.Logger, now: o.Now, limits: defaultLimits}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.now == nil {
		s.now = time.Now
	}
	if name, err := os.Hostname(); err == nil {
		s.hostname = name
	}
	s.hub = newHub(s.limits.watchers)
	s.heavy = make(chan struct{}, s.limits.heavy)
	return s
}

// Passed tells the server of a pass. It returns at once, and may be called
// from many goroutines.
func (s *Server) Passed(t *balancer.Table) {
	s.first.note(t)
	s.hub.tell(t)
}

// fleet returns the balancers in force; none before there are any.
func (s *Server) fleet() *balancer.Fleet {
	if f := s.options.Fleet(); f != nil {
		return f
	}
	return &balancer.Fleet{}
}
