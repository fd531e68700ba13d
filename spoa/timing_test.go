package spoa

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/negasus/haproxy-spoe-go/action"
	"github.com/negasus/haproxy-spoe-go/frame"
)

// faked is a server on in-memory connections and a fake clock.
type faked struct {
	t      *testing.T
	l      *pipeListener
	seen   *recorder
	server *Server
}

// fake runs body in a bubble of its own; times in it are exact.
func fake(t *testing.T, s *Server, body func(*testing.T, *faked)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &faked{t: t, l: newPipeListener(), seen: &recorder{closed: make(chan Reason, 10)}, server: s}
		if s.Handler == nil {
			s.Handler = echo
		}
		s.Observer, s.Logger = f.seen, slog.New(slog.DiscardHandler)
		served := make(chan error, 1)
		go func() { served <- s.Serve(f.l) }()
		body(t, f)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, ErrServerClosed) {
			t.Error(err)
		}
	})
}

func (f *faked) connect() *peer {
	p := f.l.dial(f.t)
	p.hello()
	return p
}

// within holds that what has happened since begin took so long.
func within(t *testing.T, begin time.Time, least, most time.Duration) {
	t.Helper()
	if d := time.Since(begin); d < least || d > most {
		t.Errorf("took %v, want %v to %v", d, least, most)
	}
}

// TestSilentPeer: it connects and never says HELLO.
func TestSilentPeer(t *testing.T) {
	fake(t, &Server{}, func(t *testing.T, f *faked) {
		begin := time.Now()
		p := f.l.dial(t)
		p.mustDisconnect(statusTimeout)
		within(t, begin, DefaultFrameTimeout, DefaultFrameTimeout)
		f.seen.mustClose(t, ReasonFrameTimeout)
	})
}

// TestSlowLoris: a byte now and then, of a HELLO and of a NOTIFY.
func TestSlowLoris(t *testing.T) {
	trickle := func(t *testing.T, p *peer, whole []byte) {
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			for _, b := range whole {
				if _, err := p.nc.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second / 2)
			}
		}()
		p.mustDisconnect(statusTimeout)
		<-gone
	}
	fake(t, &Server{}, func(t *testing.T, f *faked) {
		begin := time.Now()
		trickle(t, f.l.dial(t), helloFrame(16380))
		within(t, begin, DefaultFrameTimeout, DefaultFrameTimeout+time.Second)
		f.seen.mustClose(t, ReasonFrameTimeout)

		begin = time.Now()
		trickle(t, f.connect(), notifyFrame(1, messageOf("m", "a", "b")))
		within(t, begin, DefaultFrameTimeout, DefaultFrameTimeout+time.Second)
		f.seen.mustClose(t, ReasonFrameTimeout)
	})
}

// TestFrameTimeoutIsPerFrame: a frame in pieces is fine while each takes less,
// whatever deadlines the frames before have left behind.
func TestFrameTimeoutIsPerFrame(t *testing.T) {
	fake(t, &Server{}, func(t *testing.T, f *faked) {
		p := f.connect()
		whole := notifyFrame(1, messageOf("m", "a", "b"))
		for range 10 {
			p.send(whole[:9])
			time.Sleep(DefaultFrameTimeout - time.Millisecond)
			// The rest, and the beginning of the next one.
			p.send(whole[9:], whole[:3])
			p.mustRead()
			time.Sleep(DefaultFrameTimeout - time.Millisecond)
			p.send(whole[3:])
			p.mustRead()
			time.Sleep(time.Minute)
		}
	})
}

// TestIdle: the time counts from the last frame, and HAProxy is told.
func TestIdle(t *testing.T) {
	fake(t, &Server{IdleTimeout: time.Minute}, func(t *testing.T, f *faked) {
		p := f.connect()
		for range 5 {
			time.Sleep(59 * time.Second)
			p.ask(1, nil)
		}
		begin := time.Now()
		p.mustDisconnect(statusNormal)
		within(t, begin, time.Minute, time.Minute)
		f.seen.mustClose(t, ReasonIdle)
	})
}

func TestIdleNever(t *testing.T) {
	fake(t, &Server{IdleTimeout: -1}, func(t *testing.T, f *faked) {
		p := f.connect()
		time.Sleep(30 * 24 * time.Hour)
		p.ask(1, nil)
	})
}

// TestSlowHandlerIsNotThePeersFault: its next frame was half there meanwhile.
func TestSlowHandlerIsNotThePeersFault(t *testing.T) {
	slow := HandlerFunc(func(*action.Actions, *Request) error {
		time.Sleep(10 * time.Minute)
		return nil
	})
	fake(t, &Server{Handler: slow}, func(t *testing.T, f *faked) {
		p := f.connect()
		whole := notifyFrame(1, nil)
		p.send(whole, whole[:5])
		p.mustRead()
		p.send(whole[5:])
		p.mustRead()
		p.ask(7, nil)
	})
}

// TestPeerThatNeverReads is closed, and leaves nothing.
func TestPeerThatNeverReads(t *testing.T) {
	fake(t, &Server{}, func(t *testing.T, f *faked) {
		p := f.connect()
		begin := time.Now()
		p.send(notifyFrame(1, nil))
		f.seen.mustClose(t, ReasonWriteTimeout)
		within(t, begin, DefaultWriteTimeout, DefaultWriteTimeout+armInterval)
		p.mustEnd()
	})
}

// TestFloodThatIsNeverRead: on a real socket, with as many frames as it takes.
func TestFloodThatIsNeverRead(t *testing.T) {
	g := start(t, &Server{WriteTimeout: 100 * time.Millisecond})
	bystander := g.connect()
	goroutines := runtime.NumGoroutine()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p := g.connect()
	flood := notifyFrame(1, messageOf("m", "a", make([]byte, 10000)))
	var err error
	for err == nil {
		_, err = p.nc.Write(flood)
	}
	g.seen.mustClose(t, ReasonWriteTimeout)
	runtime.ReadMemStats(&after)
	if n := int64(after.HeapInuse) - int64(before.HeapInuse); n > 4<<20 {
		t.Errorf("a peer that never reads took %d bytes of heap", n)
	}
	if n := runtime.NumGoroutine(); n > goroutines+2 {
		t.Errorf("%d goroutines, %d before the flood", n, goroutines)
	}
	bystander.ask(1, nil)
}

// TestHalfClosedPeer: it has sent, shut its side and does not read.
func TestHalfClosedPeer(t *testing.T) {
	g := start(t, &Server{})
	p := g.connect()
	p.send(notifyFrame(1, nil), notifyFrame(2, nil), notifyFrame(3, nil)[:6])
	if err := p.nc.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	g.seen.mustClose(t, ReasonPeerClosed)
	for range 2 {
		if r := p.mustRead(); r.Kind != frame.TypeAgentAck {
			t.Errorf("got %+v", r)
		}
	}
	p.mustEnd()
}

// TestReset: abrupt deaths with answers in flight are ordinary ends.
func TestReset(t *testing.T) {
	g := start(t, &Server{})
	for range 10 {
		p := g.connect()
		if err := p.nc.(*net.TCPConn).SetLinger(0); err != nil {
			t.Fatal(err)
		}
		p.send(notifyFrame(1, nil), notifyFrame(2, nil))
		p.nc.Close()
		g.seen.mustClose(t, ReasonPeerClosed)
	}
}

// TestLinger: a peer that goes on sending after its DISCONNECT is not listened to for ever.
func TestLinger(t *testing.T) {
	g := start(t, &Server{})
	p := g.connect()
	p.send(notifyFrame(1, []byte{9}))
	var err error
	for chunk := make([]byte, 100000); err == nil; {
		_, err = p.nc.Write(chunk)
	}
	g.seen.mustClose(t, ReasonMalformed)
}

// sizedConn tells how large the buffer of the last Read was.
type sizedConn struct {
	net.Conn
	size atomic.Int64
}

func (c *sizedConn) Read(b []byte) (int, error) {
	c.size.Store(int64(len(b)))
	return c.Conn.Read(b)
}

// TestShrink: a connection that was busy once costs little when it is idle.
func TestShrink(t *testing.T) {
	fake(t, &Server{}, func(t *testing.T, f *faked) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		sized := &sizedConn{Conn: theirs}
		f.l.incoming <- sized
		p := &peer{t: t, nc: ours, r: bufio.NewReader(ours)}
		p.hello()
		large := notifyFrame(1, messageOf("m", "a", make([]byte, 15000)))
		for range 2 {
			p.send(large)
			p.mustRead()
			synctest.Wait()
			if n := sized.size.Load(); n <= minBuffer {
				t.Errorf("a buffer of %d bytes after a large frame", n)
			}
			time.Sleep(shrinkAfter)
			synctest.Wait()
			if n := sized.size.Load(); n != minBuffer {
				t.Errorf("a buffer of %d bytes when idle", n)
			}
		}
		begin := time.Now()
		p.mustDisconnect(statusNormal)
		within(t, begin, DefaultIdleTimeout-shrinkAfter, DefaultIdleTimeout-shrinkAfter)
	})
}

// countingConn counts the deadlines that are set.
type countingConn struct {
	net.Conn
	reads, writes int
}

func (c *countingConn) SetReadDeadline(t time.Time) error {
	c.reads++
	return c.Conn.SetReadDeadline(t)
}

func (c *countingConn) SetWriteDeadline(t time.Time) error {
	c.writes++
	return c.Conn.SetWriteDeadline(t)
}

// TestDeadlinesAreSetNowAndThen: a busy connection does not pay for them.
func TestDeadlinesAreSetNowAndThen(t *testing.T) {
	fake(t, &Server{}, func(t *testing.T, f *faked) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		counted := &countingConn{Conn: theirs}
		f.l.incoming <- counted
		p := &peer{t: t, nc: ours, r: bufio.NewReader(ours)}
		p.hello()
		for range 1000 { // 10 s
			p.ask(1, nil)
			time.Sleep(10 * time.Millisecond)
		}
		p.nc.Close()
		f.seen.mustClose(t, ReasonPeerClosed)
		if counted.reads > 10 || counted.writes > 4*10+1 {
			t.Errorf("%d read and %d write deadlines in 10 s", counted.reads, counted.writes)
		}
	})
}

// failingConn reads with an error that is nobody's close.
type failingConn struct{ net.Conn }

func (failingConn) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestOtherFault(t *testing.T) {
	fake(t, &Server{}, func(t *testing.T, f *faked) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		f.l.incoming <- failingConn{theirs}
		f.seen.mustClose(t, ReasonIO)
	})
}
