package spoa

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// starvedListener fails to accept a number of times.
type starvedListener struct {
	*pipeListener
	left  atomic.Int64
	err   error
	calls []time.Time
}

// starving returns a listener whose first accepts fail.
func starving(accepts int64, err error) *starvedListener {
	l := &starvedListener{pipeListener: newPipeListener(), err: err}
	l.left.Store(accepts)
	return l
}

func (l *starvedListener) Accept() (net.Conn, error) {
	l.calls = append(l.calls, time.Now())
	if l.left.Load() > 0 {
		l.left.Add(-1)
		return nil, &net.OpError{Op: "accept", Err: l.err}
	}
	return l.pipeListener.Accept()
}

// TestAcceptPausesWithoutDescriptors: it pauses longer and longer, says so
// once, and goes on.
func TestAcceptPausesWithoutDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := starving(12, syscall.EMFILE)
		s := &Server{Handler: echo, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		p := l.dial(t)
		p.hello()
		p.ask(1, nil)
		time.Sleep(shortageQuiet)
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, ErrServerClosed) {
			t.Error(err)
		}
		want := minPause
		for i := 1; i < 12; i++ {
			if got := l.calls[i].Sub(l.calls[i-1]); got != want {
				t.Errorf("pause %d was %v, want %v", i, got, want)
			}
			want = min(2*want, maxPause)
		}
		if n := strings.Count(log.String(), "cannot be accepted"); n != 1 {
			t.Errorf("said %d times: %s", n, log.String())
		}
		if !strings.Contains(log.String(), "accepted again") {
			t.Errorf("the end was not said: %s", log.String())
		}
	})
}

// TestShortageIsToldOnce: at the limit accepts fail and succeed in turn, and
// that is one shortage.
func TestShortageIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := starving(0, syscall.EMFILE)
		s := &Server{Handler: echo, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		for range 2 {
			for range 5 {
				l.left.Store(1)
				l.dial(t).hello() // one more connection after the failure
				time.Sleep(time.Second)
			}
			time.Sleep(shortageQuiet)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, ErrServerClosed) {
			t.Error(err)
		}
		for _, words := range []string{"cannot be accepted", "accepted again"} {
			if n := strings.Count(log.String(), words); n != 2 {
				t.Errorf("%q is said %d times for two shortages: %s", words, n, log.String())
			}
		}
	})
}

// TestCloseEndsAPause: an accept loop that pauses does not hold up the end.
func TestCloseEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := starving(1<<30, syscall.ENFILE)
		s := &Server{Handler: echo, Logger: slog.New(slog.DiscardHandler)}
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		begin := time.Now()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		within(t, begin, 0, 0)
		if err := <-served; !errors.Is(err, ErrServerClosed) && !errors.Is(err, syscall.ENFILE) {
			t.Error(err)
		}
	})
}

// TestAcceptFails: a listener that is broken for good ends Serve, not the connections.
func TestAcceptFails(t *testing.T) {
	l := starving(1, syscall.EINVAL)
	s := &Server{Handler: echo, Logger: slog.New(slog.DiscardHandler)}
	if err := s.Serve(l); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Serve returned %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener was left open: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestMaxConns: one too many is told so; a place that is free again can be taken.
func TestMaxConns(t *testing.T) {
	fake(t, &Server{MaxConns: 2}, func(t *testing.T, f *faked) {
		first, second := f.connect(), f.connect()
		f.l.dial(t).mustDisconnect(statusResources)
		f.seen.mustClose(t, ReasonTooMany)
		first.nc.Close()
		f.seen.mustClose(t, ReasonPeerClosed)
		synctest.Wait()
		f.connect().ask(1, nil)
		second.ask(1, nil)
	})
}

func TestSettings(t *testing.T) {
	cases := []struct {
		name   string
		server *Server
		want   string
	}{
		{"no handler", &Server{}, "Handler is nil"},
		{"frame size", &Server{Handler: echo, MaxFrameSize: 255}, "MaxFrameSize is 255"},
		{"frame size negative", &Server{Handler: echo, MaxFrameSize: -1}, "MaxFrameSize is -1"},
		{"frame size huge", &Server{Handler: echo, MaxFrameSize: 1 << 30}, "MaxFrameSize"},
		{"frame timeout", &Server{Handler: echo, FrameTimeout: -1}, "must not be negative"},
		{"write timeout", &Server{Handler: echo, WriteTimeout: -1}, "must not be negative"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l := newPipeListener()
			if err := c.server.Serve(l); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Serve returned %v, want %q", err, c.want)
			}
			if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("the listener was left open: %v", err)
			}
		})
	}
}

// TestComplaintsAreFew: who floods us with faults does not fill the log.
func TestComplaintsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &Server{Logger: slog.New(slog.NewTextHandler(&log, nil)), started: time.Now()}
		s.settings.logger = s.Logger
		for range 100 {
			time.Sleep(50 * time.Millisecond)
			s.complain(complaintReason(ReasonMalformed), "bad")
		}
		s.complain(complaintResult(ResultPanic), "other")
		if n := strings.Count(log.String(), "bad"); n != 5 {
			t.Errorf("%d lines in 5 s, want 5: %s", n, log.String())
		}
		for _, word := range []string{"more_of_these=19", "other"} {
			if !strings.Contains(log.String(), word) {
				t.Errorf("the log lacks %q: %s", word, log.String())
			}
		}
	})
}
