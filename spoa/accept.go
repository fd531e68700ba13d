package spoa

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"
)

// The accept loop pauses when the system has no descriptor or memory left, each
// time for twice as long.
const (
	minPause = 5 * time.Millisecond
	maxPause = time.Second
)

// refusalTimeout bounds the write of the DISCONNECT that refuses a connection;
// the buffer of a new socket takes it at once.
const refusalTimeout = 100 * time.Millisecond

// Serve accepts connections from l until Shutdown or Close, then returns
// [ErrServerClosed], or until l fails for good, and closes l. It may run
// for several listeners at once, TCP and unix ones. After an error the connections that
// are open go on: call Shutdown or Close in any case.
func (s *Server) Serve(l net.Listener) error {
	if err := s.begin(&l); err != nil {
		l.Close()
		return err
	}
	defer s.end(&l)
	shortage := shortage{log: s.settings.logger.With("listener", l.Addr())}
	defer shortage.end()
	var pause time.Duration
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			s.open(nc)
		case s.closing.Load():
			return ErrServerClosed
		case !passes(err):
			return fmt.Errorf("spoa: accept on %s: %w", l.Addr(), err)
		default:
			shortage.met(err)
			pause = min(max(2*pause, minPause), maxPause)
			s.wait(pause)
		}
	}
}

// shortageQuiet is how long every accept must have succeeded for a shortage to
// be over: at the limit of open files each connection that ends lets one in, and
// the next fails again.
const shortageQuiet = 5 * time.Second

// shortage tells once when connections can't be accepted, and once when that is
// over.
type shortage struct {
	log *slog.Logger

	mu    sync.Mutex
	timer *time.Timer // nil while there is none; fires when it is over
}

// met notes that an accept has failed.
func (s *shortage) met(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	} else {
		s.log.Error("SPOE connections cannot be accepted: new ones wait, open ones go on; raise the limit of open files (LimitNOFILE) if that is the cause",
			"error", err)
	}
	var timer *time.Timer
	timer = time.AfterFunc(shortageQuiet, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.timer == timer { // else it went on, or nobody listens any more
			s.timer = nil
			s.log.Info("SPOE connections are accepted again")
		}
	})
	s.timer = timer
}

// end forgets the shortage: nobody listens any more.
func (s *shortage) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

// passes tells whether an accept may succeed later: nothing is left to make a
// socket of, or (accept(2), "Error handling") the new connection is broken already.
func passes(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.ECONNABORTED, syscall.EPERM, syscall.EPROTO, syscall.ENETDOWN, syscall.ENOPROTOOPT,
		syscall.EHOSTDOWN, syscall.EHOSTUNREACH, syscall.EOPNOTSUPP, syscall.ENETUNREACH} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// wait sleeps, but not beyond the end of the server.
func (s *Server) wait(pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.quit:
	}
}

// begin registers a listener.
func (s *Server) begin(l *net.Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prepareLocked()
	if s.closing.Load() {
		return ErrServerClosed
	}
	if s.started.IsZero() {
		t, err := s.newSettings()
		if err != nil {
			return err
		}
		// A moment ago, so that no time is 0, which means "not set".
		s.settings, s.started = t, time.Now().Add(-time.Nanosecond)
	}
	s.listeners[l] = struct{}{}
	return nil
}

func (s *Server) end(l *net.Listener) {
	(*l).Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
	s.finishLocked()
}

// giveWayAfter is how long a connection must have been idle to give way to
// another one: much longer than HAProxy takes from its HELLO to its first message,
// and so short that who wants to hold all places has to ask without a pause.
const giveWayAfter = 10 * time.Millisecond

const (
	mostLeaving = 64   // connections that give way at a time, beyond MaxConns
	mostLooked  = 1024 // connections that are looked at to find one that gives way
)

// open starts to serve a connection unless there are too many.
func (s *Server) open(nc net.Conn) {
	s.observer().Opened()
	c := newConn(s, nc)
	out, reason := s.admit(c)
	switch reason {
	case ReasonShutdown:
		nc.Close()
		s.observer().Closed(ReasonShutdown)
	case ReasonTooMany:
		s.complain(complaintReason(ReasonTooMany), "SPOE connection refused: too many are open; HAProxy goes on without variables for the streams that it would have served",
			"remote", nc.RemoteAddr(), "max_connections", s.settings.maxConns)
		_ = nc.SetWriteDeadline(time.Now().Add(refusalTimeout))
		_, _ = nc.Write(appendDisconnect(nil, statusResources, "too many connections"))
		nc.Close()
		s.observer().Closed(ReasonTooMany)
	default:
		if out != nil {
			s.complain(complaintReason(ReasonGaveWay), "SPOE connection closed: too many are open, and it was idle when another one came; HAProxy opens it again when it needs it",
				"remote", out.request.RemoteAddr, "has_asked", out.asked.Load(), "in_favour_of", nc.RemoteAddr(), "max_connections", s.settings.maxConns)
			_ = out.nc.SetReadDeadline(time.Unix(1, 0)) // it waits for a frame
		}
		go c.run()
	}
}

// admit registers a connection, or says why not; [numReasons] means it is in.
// When all places are taken an idle connection gives way, which is returned: a
// peer that holds places without using them must not keep HAProxy out.
func (s *Server) admit(c *conn) (out *conn, _ Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return nil, ReasonShutdown
	}
	if s.settings.maxConns > 0 && len(s.conns)-s.leaving >= s.settings.maxConns {
		if out = s.idlestLocked(); out == nil {
			return nil, ReasonTooMany
		}
		out.gaveWay.Store(true)
		s.leaving++
	}
	s.conns[c] = struct{}{}
	return out, numReasons
}

// idlestLocked finds the connection that gives way: one that has never asked
// before those that have, and of these the one that is idle longest. Nil: all are
// in use.
func (s *Server) idlestLocked() *conn {
	if s.leaving >= mostLeaving {
		return nil
	}
	now := s.now()
	var found *conn
	var foundAsked bool
	var foundIdle time.Duration
	looked := 0
	for c := range s.conns {
		if looked++; looked > mostLooked {
			break
		}
		asked, idle := c.asked.Load(), now-time.Duration(c.quiet.Load())
		if idle < giveWayAfter || c.gaveWay.Load() {
			continue
		}
		if found == nil || foundAsked && !asked || foundAsked == asked && idle > foundIdle {
			found, foundAsked, foundIdle = c, asked, idle
		}
	}
	return found
}
