package admin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// limits bound what clients may take. Tests have smaller ones.
type limits struct {
	header      time.Duration // until the header of a request is there
	read        time.Duration // until a request is there as a whole
	write       time.Duration // of an answer; of one write to an event stream
	idle        time.Duration // of a connection between requests
	shutdown    time.Duration // for answers under way when the server ends
	heartbeat   time.Duration // between comments on a quiet event stream
	headerBytes int
	connections int // open at once on one listener
	watchers    int // open event streams, of all listeners
	heavy       int // large answers made at once
}

var defaultLimits = limits{
	header: 5 * time.Second, read: 10 * time.Second, write: 30 * time.Second, idle: 2 * time.Minute,
	shutdown: 3 * time.Second, heartbeat: 15 * time.Second,
	headerBytes: 8 << 10, connections: 256, watchers: 32, heavy: 4,
}

// Serve answers requests that change nothing until ctx ends; then answers
// under way are given a moment, and it returns nil. The listener is closed.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return s.serve(ctx, l, s.readOnly)
}

// ServeControl is Serve for the control socket: it also takes orders.
func (s *Server) ServeControl(ctx context.Context, l net.Listener) error {
	return s.serve(ctx, l, s.control)
}

// serve serves what routes makes; the argument of routes is closed when event
// streams have to end.
func (s *Server) serve(ctx context.Context, l net.Listener, routes func(ending <-chan struct{}) http.Handler) error {
	ending := make(chan struct{})
	crowd := newCrowd(s.limits.connections)
	server := &http.Server{
		Handler:           routes(ending),
		ReadHeaderTimeout: s.limits.header, ReadTimeout: s.limits.read,
		WriteTimeout: s.limits.write, IdleTimeout: s.limits.idle,
		MaxHeaderBytes: s.limits.headerBytes,
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ConnContext:    withPeer,
		ConnState:      crowd.changed,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		server.Close()
		return err
	case <-ctx.Done():
	}
	close(ending)
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.limits.shutdown)
	defer cancel()
	if err := server.Shutdown(limit); err != nil {
		server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// crowd keeps the connections of a listener below a number. When there are too
// many, the one that has said nothing for the longest time has to go, so that
// idle ones keep nobody out.
type crowd struct {
	most int

	mu    sync.Mutex
	turn  int64
	quiet map[net.Conn]int64 // connections between requests: the turn since when
	busy  map[net.Conn]bool
}

func newCrowd(most int) *crowd {
	return &crowd{most: most, quiet: make(map[net.Conn]int64), busy: make(map[net.Conn]bool)}
}

// changed is an http.Server's ConnState.
func (c *crowd) changed(conn net.Conn, state http.ConnState) {
	if goes := c.note(conn, state); goes != nil {
		goes.Close()
	}
}

// note returns the connection that has to go; nil when there is room.
func (c *crowd) note(conn net.Conn, state http.ConnState) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.quiet, conn)
	delete(c.busy, conn)
	c.turn++
	switch state {
	case http.StateActive:
		c.busy[conn] = true
	case http.StateNew, http.StateIdle:
		c.quiet[conn] = c.turn
	default:
		return nil
	}
	if len(c.quiet)+len(c.busy) <= c.most {
		return nil
	}
	var oldest net.Conn
	for q, turn := range c.quiet {
		if oldest == nil || turn < c.quiet[oldest] {
			oldest = q
		}
	}
	delete(c.quiet, oldest)
	return oldest
}
