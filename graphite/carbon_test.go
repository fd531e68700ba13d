package graphite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sender returns one to carbon:2003 that no network is behind.
func sender(t *testing.T, change func(*SenderConfig)) *Sender {
	t.Helper()
	c := SenderConfig{Address: CarbonAddress{HostPort: "carbon:2003"}, Now: func() time.Time { return stamp }, Jitter: func() float64 { return 0 }}
	change(&c)
	s, err := NewSender(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNewSenderRefuses(t *testing.T) {
	for _, c := range []SenderConfig{{}, {Address: CarbonAddress{HostPort: "a:1"}, MaxLines: -1}, {Address: CarbonAddress{HostPort: "a:1"}, Timeout: -1}} {
		if _, err := NewSender(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

// fakeCarbon takes connections in the time of a synctest bubble.
type fakeCarbon struct {
	mu    sync.Mutex
	down  error // of each dial
	hung  bool  // dials never end by themselves
	mute  bool  // it reads and never closes
	rate  int   // bytes a second; 0 is no limit
	dials []time.Duration
	start time.Time
	lines []string // read to their end
	conns int      // open
}

func newFakeCarbon() *fakeCarbon { return &fakeCarbon{start: time.Now()} }

func (f *fakeCarbon) set(change func()) { f.mu.Lock(); defer f.mu.Unlock(); change() }

// seen gives when it was dialled and what it has read, so far.
func (f *fakeCarbon) seen() (dials []time.Duration, lines []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.dials), slices.Clone(f.lines)
}

func (f *fakeCarbon) dial(ctx context.Context, _ string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dials = append(f.dials, time.Since(f.start).Round(time.Millisecond))
	if f.hung {
		f.mu.Unlock()
		<-ctx.Done()
		f.mu.Lock()
		return nil, ctx.Err()
	}
	if f.down != nil {
		return nil, f.down
	}
	f.conns++
	return &fakeConn{carbon: f, over: make(chan struct{}), rate: f.rate, mute: f.mute}, nil
}

type fakeConn struct {
	net.Conn // nil: what is not below is not used
	carbon   *fakeCarbon
	got      strings.Builder
	rate     int
	mute     bool
	once     sync.Once
	over     chan struct{} // closed when the deadline has passed
	half     bool
}

func (c *fakeConn) Write(b []byte) (int, error) {
	if c.rate > 0 {
		select {
		case <-time.After(time.Duration(len(b)) * time.Second / time.Duration(c.rate)):
		case <-c.over:
			return 0, os.ErrDeadlineExceeded
		}
	}
	return c.got.Write(b)
}

func (c *fakeConn) CloseWrite() error { c.half = true; return nil }

func (c *fakeConn) Read([]byte) (int, error) {
	if c.mute {
		<-c.over
		return 0, os.ErrDeadlineExceeded
	}
	c.carbon.set(func() {
		for line := range strings.Lines(c.got.String()) {
			c.carbon.lines = append(c.carbon.lines, strings.TrimSuffix(line, "\n"))
		}
	})
	return 0, io.EOF
}

func (c *fakeConn) SetDeadline(time.Time) error { c.once.Do(func() { close(c.over) }); return nil }

func (c *fakeConn) Close() error { c.carbon.set(func() { c.carbon.conns-- }); return nil }

// metrics are n of them, named prefix0, prefix1 and so on, of now.
func metrics(prefix string, n int) []Metric {
	all := make([]Metric, n)
	for i := range all {
		all[i] = Metric{Name: fmt.Sprint(prefix, i), Value: float64(i), Time: time.Now()}
	}
	return all
}

// trial is a sender that runs in a bubble.
type trial struct {
	*Sender
	carbon *fakeCarbon
	lost   []string
	back   []Outage
	stop   func() // ends Run and waits for it
}

func try(t *testing.T, change func(*SenderConfig)) *trial {
	tr := &trial{carbon: newFakeCarbon()}
	tr.Sender = sender(t, func(c *SenderConfig) {
		c.Now, c.Dial = time.Now, tr.carbon.dial
		c.Lost = func(err error) { tr.lost = append(tr.lost, err.Error()) }
		c.Back = func(o Outage) { tr.back = append(tr.back, o) }
		change(c)
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- tr.Run(ctx) }()
	tr.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	return tr
}

func (tr *trial) check(t *testing.T, want SenderStats) {
	t.Helper()
	want.Address = "carbon:2003"
	if diff := cmp.Diff(want, tr.Stats()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSendsABatchInAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := try(t, func(*SenderConfig) {})
		for range 3 {
			tr.Send(metrics("a", 2))
			synctest.Wait()
			time.Sleep(10 * time.Second)
		}
		tr.check(t, SenderStats{Sent: 6, Batches: 3})
		tr.stop()
		if len(tr.carbon.dials) != 3 || tr.carbon.conns != 0 {
			t.Errorf("%d connections, %d of them open", len(tr.carbon.dials), tr.carbon.conns)
		}
		want := "a0 0 946684800 a1 1 946684800 a0 0 946684810 a1 1 946684810 a0 0 946684820 a1 1 946684820"
		if got := strings.Join(tr.carbon.lines, " "); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if tr.lost != nil || tr.back != nil {
			t.Errorf("lost %v, back %v", tr.lost, tr.back)
		}
	})
}

// TestBacksOff: one dial in each wait, however much is sent meanwhile.
func TestBacksOff(t *testing.T) {
	for jitter, want := range map[float64]string{
		0: "[0s 1s 3s 7s 15s 31s 1m1s 1m31s 2m1s]",
		1: "[0s 2s 6s 14s 30s 1m2s 2m2s]",
	} {
		synctest.Test(t, func(t *testing.T) {
			tr := try(t, func(c *SenderConfig) { c.Jitter = func() float64 { return jitter } })
			tr.carbon.down = errors.New("connection refused")
			for range 125 {
				tr.Send(metrics("a", 1))
				time.Sleep(time.Second)
			}
			dials, _ := tr.carbon.seen()
			if got := fmt.Sprint(dials); got != want {
				t.Errorf("jitter %v: dials at %s, want %s", jitter, got, want)
			}
			tr.carbon.set(func() { tr.carbon.down = nil })
			time.Sleep(time.Minute)
			tr.check(t, SenderStats{Sent: 125, Batches: 1, Failures: uint64(len(dials))})
			tr.stop()
			if first := tr.carbon.lines[0]; first != "a0 0 946684800" {
				t.Errorf("the first line is %q: not with its own time", first)
			}
			if diff := cmp.Diff([]string{"connecting to carbon: connection refused"}, tr.lost); diff != "" {
				t.Errorf("told as lost: -want +got:\n%s", diff)
			}
			if len(tr.back) != 1 || tr.back[0].Dropped != 0 || tr.back[0].Lasted < 121*time.Second {
				t.Errorf("told as back: %+v", tr.back)
			}
		})
	}
}

func TestKeepsTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := try(t, func(c *SenderConfig) { c.MaxLines, c.MaxAge = 10, time.Minute })
		tr.carbon.down = errors.New("no route to host")
		tr.Send(metrics("a", 8))
		tr.Send(metrics("b", 6))
		synctest.Wait()
		tr.check(t, SenderStats{Dropped: 4, Queued: 10, Failures: 1, Lost: true})
		time.Sleep(59 * time.Second) // soon a and b are too old
		tr.Send(metrics("c", 3))
		time.Sleep(1500 * time.Millisecond)
		tr.Send(metrics("d", 12))
		tr.carbon.set(func() { tr.carbon.down = nil })
		time.Sleep(time.Minute)
		tr.check(t, SenderStats{Sent: 10, Dropped: 19, Batches: 1, Failures: 6})
		tr.stop()
		if got := tr.carbon.lines; len(got) != 10 || !strings.HasPrefix(got[0], "d2 ") || !strings.HasPrefix(got[9], "d11 ") {
			t.Errorf("%v", got)
		}
		if len(tr.back) != 1 || tr.back[0].Dropped != 15 { // the first four went before
			t.Errorf("told as back: %+v", tr.back)
		}
	})
}

// TestDropsOnTheWay: what is given up while it is on its way is not counted
// twice, and nothing behind it is lost.
func TestDropsOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := try(t, func(c *SenderConfig) { c.MaxLines = 10 })
		tr.carbon.rate = 10
		tr.Send(metrics("a", 10)) // takes 15 s
		synctest.Wait()
		tr.Send(metrics("b", 4))
		time.Sleep(time.Minute)
		tr.check(t, SenderStats{Sent: 10, Dropped: 4, Batches: 2})
		tr.stop()
		if len(tr.carbon.lines) != 14 {
			t.Errorf("%v", tr.carbon.lines)
		}
	})
}

// TestNothingWaitsForCarbon: with a dial that hangs, a test that waited in
// Send or Stats would never end.
func TestNothingWaitsForCarbon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := try(t, func(c *SenderConfig) { c.Timeout, c.Flush = time.Hour, time.Second })
		tr.carbon.hung = true
		start := time.Now()
		for range 1000 {
			tr.Send(metrics("a", 10))
			synctest.Wait()
			_ = tr.Stats()
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("the calls took %s", took)
		}
		tr.check(t, SenderStats{Queued: 10_000})
		tr.stop()
		if took := time.Since(start); took != time.Second {
			t.Errorf("the end took %s", took)
		}
		tr.check(t, SenderStats{Dropped: 10_000, Failures: 1, Lost: true})
		if diff := cmp.Diff([]string{"connecting to carbon: this program ends"}, tr.lost); diff != "" {
			t.Errorf("told as lost: -want +got:\n%s", diff)
		}
	})
}

func TestFlushesAtTheEnd(t *testing.T) {
	t.Run("while all is well", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tr := try(t, func(c *SenderConfig) { c.Flush = 10 * time.Second })
			tr.carbon.rate = 10_000
			tr.Send(metrics("a", 2000)) // 3 to 4 s
			synctest.Wait()
			tr.Send(metrics("b", 2000))
			tr.stop()
			tr.check(t, SenderStats{Sent: 4000, Batches: 2})
		})
	})
	t.Run("in the middle of a wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tr := try(t, func(*SenderConfig) {})
			tr.carbon.down = errors.New("connection refused")
			tr.Send(metrics("a", 3))
			synctest.Wait()
			tr.carbon.set(func() { tr.carbon.down = nil })
			tr.stop()
			tr.check(t, SenderStats{Sent: 3, Batches: 1, Failures: 1})
			if len(tr.back) != 1 {
				t.Errorf("told as back: %v", tr.back)
			}
		})
	})
}

// TestSlowCarbon: a batch that is too large for the time gets smaller until it
// is not, and all arrives.
func TestSlowCarbon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := try(t, func(c *SenderConfig) { c.Timeout, c.MaxAge = 10*time.Second, time.Hour })
		tr.carbon.rate = 10_000 // so that about 5,000 lines pass in the time
		tr.Send(metrics("a", 20_000))
		time.Sleep(10 * time.Minute)
		if s := tr.Stats(); s.Sent != 20_000 || s.Queued+int(s.Dropped) != 0 || s.Failures > s.Batches {
			t.Errorf("%+v", s)
		}
		tr.stop()
		if len(tr.lost) == 0 || tr.lost[0] != "writing to carbon took longer than 10s: it hangs, or is too slow" {
			t.Errorf("told as lost: %v", tr.lost)
		}
	})
}

func TestCarbonThatNeverCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := try(t, func(c *SenderConfig) { c.MaxAge = time.Hour })
		tr.carbon.mute = true
		tr.Send(metrics("a", 1))
		time.Sleep(10 * time.Minute)
		tr.stop()
		if diff := cmp.Diff([]string{"waiting for carbon to read all lines took longer than 20s: it hangs, or is too slow"}, tr.lost); diff != "" {
			t.Errorf("told as lost: -want +got:\n%s", diff)
		}
		if s := tr.Stats(); s.Sent != 0 || s.Dropped != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// listen starts a TCP server that serves one connection after the other; the
// test's end stops it.
func listen(t *testing.T, serve func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c.(*net.TCPConn))
			c.Close()
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().String()
}

// TestOddCarbons: on real connections, whatever was not read to its end counts
// as not delivered.
func TestOddCarbons(t *testing.T) {
	for name, c := range map[string]struct {
		serve func(*net.TCPConn)
		want  string
	}{
		"resets at once": {func(c *net.TCPConn) { _ = c.SetLinger(0) }, "reset by peer|broken pipe"},
		"resets in the middle": {func(c *net.TCPConn) {
			_, _ = io.CopyN(io.Discard, c, 100_000)
			_ = c.SetLinger(0)
		}, "reset by peer|broken pipe"},
		"closes in the middle": {func(c *net.TCPConn) { _, _ = io.CopyN(io.Discard, c, 100_000) }, "reset by peer|broken pipe"},
		"is a web server": {func(c *net.TCPConn) {
			_, _ = io.Copy(io.Discard, c)
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
		}, `it answers "HTTP/1.1 400 Bad Request`},
	} {
		t.Run(name, func(t *testing.T) {
			s := sender(t, func(sc *SenderConfig) { sc.Address.HostPort = listen(t, c.serve) })
			_, err := s.deliver(t.Context(), metrics("a", 50_000))
			if err == nil {
				t.Fatal("taken for delivered")
			}
			for want := range strings.SplitSeq(c.want, "|") {
				if strings.Contains(err.Error(), want) {
					return
				}
			}
			t.Errorf("error %v, want %s", err, c.want)
		})
	}
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	s := sender(t, func(c *SenderConfig) { c.Address.HostPort = address })
	if sent, err := s.deliver(t.Context(), metrics("a", 1)); sent || err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("sent %v, error %v", sent, err)
	}
	s = sender(t, func(c *SenderConfig) { c.Address.HostPort = "carbon.invalid:2003" })
	if sent, err := s.deliver(t.Context(), metrics("a", 1)); sent || err == nil || !strings.Contains(err.Error(), "carbon.invalid") {
		t.Errorf("sent %v, error %v", sent, err)
	}
}
