package spoa

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// The defaults of [Server].
const (
	DefaultMaxFrameSize = 16380 // bytes: what HAProxy announces with its default tune.bufsize
	DefaultMaxConns     = 1024
	DefaultIdleTimeout  = 5 * time.Minute
	DefaultFrameTimeout = 2 * time.Second
	DefaultWriteTimeout = 3 * time.Second
)

// Bounds of Server.MaxFrameSize, in bytes: SPOP's own, and far above any tune.bufsize.
const (
	MinMaxFrameSize = minAgreedSize
	MaxMaxFrameSize = 16 << 20
)

// ErrServerClosed is what Serve returns after Shutdown or Close.
var ErrServerClosed = errors.New("spoa: server closed")

// Server accepts connections from HAProxy and has a [Handler] answer them. Its
// fields must not change after the first Serve. The zero value of each means
// its default; only Handler must be set. A Server is of no further use after Shutdown
// or Close.
type Server struct {
	// Handler answers; it must not be nil.
	Handler Handler

	// MaxFrameSize is the largest frame taken and sent, in bytes without its
	// length field; the smaller one of this and HAProxy's own is agreed for each
	// connection. It can be MinMaxFrameSize to MaxMaxFrameSize; 0 means
	// DefaultMaxFrameSize.
	MaxFrameSize int

	// MaxConns bounds the open connections, health checks included, over all
	// listeners. For a connection above it an idle one is closed: one that has
	// never asked before those that have, the one that is idle longest first. When
	// all are in use it gets a DISCONNECT with status 13. 0 means DefaultMaxConns,
	// negative no bound. HAProxy 2.6 and 3.0 open about one connection for each
	// stream that waits for an answer.
	MaxConns int

	// IdleTimeout ends connections without a frame. It should be longer than HAProxy's
	// "timeout idle", so that HAProxy closes first. 0 means DefaultIdleTimeout,
	// negative never.
	IdleTimeout time.Duration

	// FrameTimeout is how long a frame may take from its first byte to its last,
	// and the HELLO from the accept. 0 means DefaultFrameTimeout; it must not be negative.
	FrameTimeout time.Duration

	// WriteTimeout is how long a peer may leave its answers unread. 0 means
	// DefaultWriteTimeout; it must not be negative.
	WriteTimeout time.Duration

	// Logger gets one line, at most once a second, for each kind of fault. Nil
	// means slog.Default.
	Logger *slog.Logger

	// Observer is told what happens; nil means nobody.
	Observer Observer

	settings settings // with the defaults put in
	started  time.Time
	closing  atomic.Bool

	complaints complaints

	mu        sync.Mutex
	ready     bool // settings, quit and done are set
	listeners map[*net.Listener]struct{}
	conns     map[*conn]struct{}
	leaving   int           // of conns, those that gave way and have not ended yet
	quit      chan struct{} // closed when the end begins
	done      chan struct{} // closed when the last Serve and connection have ended
	finished  bool          // done is closed
}

// settings are the fields of Server with their defaults.
type settings struct {
	frameSize    int
	maxConns     int
	idleTimeout  time.Duration
	frameTimeout time.Duration
	writeTimeout time.Duration
	logger       *slog.Logger
}

// forever stands for no timeout. It leaves room for additions.
const forever = 100 * 365 * 24 * time.Hour

func (s *Server) newSettings() (settings, error) {
	t := settings{s.MaxFrameSize, s.MaxConns, s.IdleTimeout, s.FrameTimeout, s.WriteTimeout, s.Logger}
	orDefault(&t.frameSize, DefaultMaxFrameSize)
	orDefault(&t.maxConns, DefaultMaxConns)
	orDefault(&t.idleTimeout, DefaultIdleTimeout)
	orDefault(&t.frameTimeout, DefaultFrameTimeout)
	orDefault(&t.writeTimeout, DefaultWriteTimeout)
	if t.idleTimeout < 0 {
		t.idleTimeout = forever
	}
	if t.logger == nil {
		t.logger = slog.Default()
	}
	switch {
	case s.Handler == nil:
		return t, errors.New("spoa: Server.Handler is nil")
	case t.frameSize < MinMaxFrameSize || t.frameSize > MaxMaxFrameSize:
		return t, fmt.Errorf("spoa: Server.MaxFrameSize is %d, not within %d and %d", t.frameSize, MinMaxFrameSize, MaxMaxFrameSize)
	case t.frameTimeout < 0 || t.writeTimeout < 0:
		return t, errors.New("spoa: Server.FrameTimeout and WriteTimeout must not be negative")
	}
	return t, nil
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// prepareLocked makes the parts of a Server that was made by a literal.
func (s *Server) prepareLocked() {
	if s.ready {
		return
	}
	s.ready = true
	s.listeners, s.conns = make(map[*net.Listener]struct{}), make(map[*conn]struct{})
	s.quit, s.done = make(chan struct{}), make(chan struct{})
}

// now is the time on the clock that all connections share.
func (s *Server) now() time.Duration { return time.Since(s.started) }

func (s *Server) observer() Observer {
	if s.Observer == nil {
		return noObserver{}
	}
	return s.Observer
}

type noObserver struct{}

func (noObserver) Opened()                         {}
func (noObserver) Closed(Reason)                   {}
func (noObserver) Answered(Results, time.Duration) {}

// Shutdown stops accepting, lets every connection answer the frames that it
// has, tells HAProxy that it disconnects, and returns when all connections have ended. When ctx
// ends first, the rest is closed at once and ctx's error returned; a
// handler that still runs is not waited for then. It must not be called from a Handler.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		s.closeConns()
		return ctx.Err()
	}
}

// Close ends all listeners and connections at once and returns when their
// goroutines have ended, the handlers included. It must not be called from
// a Handler.
func (s *Server) Close() error {
	s.stop()
	s.closeConns()
	<-s.done
	return nil
}

// stop begins the end, once.
func (s *Server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prepareLocked()
	if s.closing.Load() {
		return
	}
	// Before the deadlines: a connection that arms its own afterwards sees it.
	s.closing.Store(true)
	close(s.quit)
	for l := range s.listeners {
		(*l).Close()
	}
	for c := range s.conns {
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	}
	s.finishLocked()
}

func (s *Server) closeConns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.nc.Close()
	}
}

// finishLocked closes done when nothing is left.
func (s *Server) finishLocked() {
	if s.closing.Load() && !s.finished && len(s.listeners) == 0 && len(s.conns) == 0 {
		s.finished = true
		close(s.done)
	}
}

// forget is the last that a connection does.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if c.gaveWay.Load() {
		s.leaving--
	}
	s.finishLocked()
}
