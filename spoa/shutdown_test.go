package spoa

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/negasus/haproxy-spoe-go/action"
	"github.com/negasus/haproxy-spoe-go/frame"
)

// TestShutdownAnswersWhatIsInHand: frames that were sent before are answered,
// then HAProxy is told, in this order.
func TestShutdownAnswersWhatIsInHand(t *testing.T) {
	var g *rig
	entered := make(chan struct{})
	g = start(t, &Server{Handler: HandlerFunc(func(answer *action.Actions, r *Request) error {
		if r.StreamID == 0 {
			close(entered)
			<-g.server.quit
		}
		return nil
	})})
	idle, busy := g.connect(), g.connect()
	const frames = 2000 // more than one read brings
	var all []byte
	for id := range uint64(frames) {
		all = append(all, notifyFrame(id, messageOf("m", "a", "b"))...)
	}
	busy.send(all)
	<-entered
	if err := g.server.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	for id := range uint64(frames) {
		if r := busy.mustRead(); r.Kind != frame.TypeAgentAck || r.StreamID != id {
			t.Fatalf("got %+v, want ACK %d", r, id)
		}
	}
	busy.mustDisconnect(statusNormal)
	idle.mustDisconnect(statusNormal)
	for range 2 {
		g.seen.mustClose(t, ReasonShutdown)
	}
	if _, err := net.Dial("tcp", g.addr); err == nil {
		t.Error("the listener is still open")
	}
}

// TestShutdownUnderLoad: many connections ask one by one while it happens. Each ask ends with
// its ACK or with a DISCONNECT.
func TestShutdownUnderLoad(t *testing.T) {
	g := start(t, &Server{})
	var peers sync.WaitGroup
	var warm sync.WaitGroup
	for range 16 {
		p := g.connect()
		warm.Add(1)
		peers.Go(func() {
			for id := uint64(1); ; id++ {
				if _, err := p.nc.Write(notifyFrame(id, nil)); err != nil {
					p.t.Errorf("write without a DISCONNECT before: %v", err)
					return
				}
				r, err := p.read()
				switch {
				case err != nil:
					p.t.Errorf("read: %v", err)
					return
				case r.Kind == frame.TypeAgentDisconnect && r.Items["status-code"] == uint32(statusNormal):
					p.nc.Close()
					return
				case r.Kind != frame.TypeAgentAck || r.StreamID != id:
					p.t.Errorf("got %+v, want ACK %d", r, id)
					return
				}
				if id == 10 {
					warm.Done()
				}
			}
		})
	}
	warm.Wait()
	if err := g.server.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	peers.Wait()
}

// TestShutdownOfAFlood: who never stops sending is cut off after a while.
func TestShutdownOfAFlood(t *testing.T) {
	fake(t, &Server{}, func(t *testing.T, f *faked) {
		p := f.connect()
		var gone sync.WaitGroup
		gone.Go(func() {
			for {
				if _, err := p.nc.Write(notifyFrame(1, nil)); err != nil {
					return
				}
				time.Sleep(drainQuiet / 2)
			}
		})
		gone.Go(func() {
			for {
				if r, err := p.read(); err != nil || r.Kind == frame.TypeAgentDisconnect {
					return
				}
			}
		})
		synctest.Wait()
		begin := time.Now()
		if err := f.server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		within(t, begin, drainMax, drainMax+drainQuiet)
		gone.Wait()
	})
}

// TestShutdownWithoutHello: a connection that has not said anything does not hold it up.
func TestShutdownWithoutHello(t *testing.T) {
	fake(t, &Server{}, func(t *testing.T, f *faked) {
		p := f.l.dial(t)
		synctest.Wait()
		begin := time.Now()
		done := make(chan error)
		go func() { done <- f.server.Shutdown(t.Context()) }()
		p.mustDisconnect(statusNormal)
		if err := <-done; err != nil {
			t.Error(err)
		}
		within(t, begin, drainQuiet, drainQuiet)
	})
}

// TestShutdownOfHalfAFrame: the rest is waited for.
func TestShutdownOfHalfAFrame(t *testing.T) {
	fake(t, &Server{}, func(t *testing.T, f *faked) {
		p := f.connect()
		whole := notifyFrame(5, nil)
		p.send(whole[:6])
		done := make(chan error)
		go func() { done <- f.server.Shutdown(t.Context()) }()
		time.Sleep(drainMax / 2)
		p.send(whole[6:])
		if r := p.mustRead(); r.Kind != frame.TypeAgentAck {
			t.Errorf("got %+v", r)
		}
		p.mustDisconnect(statusNormal)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestShutdownGivesUp: a handler that hangs does not hold Shutdown beyond its context.
func TestShutdownGivesUp(t *testing.T) {
	release, entered := make(chan struct{}), make(chan struct{})
	g := start(t, &Server{Handler: HandlerFunc(func(*action.Actions, *Request) error {
		close(entered)
		<-release
		return nil
	})})
	p := g.connect()
	p.send(notifyFrame(1, nil))
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.server.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown returned %v", err)
	}
	p.mustEnd()
	close(release)
	g.seen.mustClose(t, ReasonShutdown)
}

func TestServeAfterClose(t *testing.T) {
	s := &Server{Handler: echo}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	l := newPipeListener()
	if err := s.Serve(l); !errors.Is(err, ErrServerClosed) {
		t.Errorf("Serve returned %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener was left open: %v", err)
	}
}
