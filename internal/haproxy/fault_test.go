package haproxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// takeOver starts a fake whose connections are answered by conn.
func takeOver(t *testing.T, o Options, conn func(c net.Conn, line string)) (*fakeServer, *Client) {
	t.Helper()
	f := newFakeServer(t)
	f.conn = conn
	return f, NewClient(f.address(), o)
}

// hold keeps the connection until the client closes it.
func hold(c net.Conn) { io.Copy(io.Discard, c) }

func TestSlowDrip(t *testing.T) {
	var f *fakeServer
	f, c := takeOver(t, Options{Timeout: 20 * time.Second}, func(c net.Conn, line string) {
		for _, b := range []byte(f.reply(line)) {
			c.Write([]byte{b})
		}
	})
	if s := mustState(t, c, "rr"); len(s.Servers) != 4 {
		t.Errorf("state %+v", s)
	}
	if out := mustSet(t, c, "rr", Change{"s1", 5}); out.Applied != 1 {
		t.Errorf("outcome %+v", out)
	}
}

// TestStall: what has arrived is never taken for the whole, however it ends.
func TestStall(t *testing.T) {
	for name, end := range map[string]func(c net.Conn){
		"stalls": hold,
		"closes": func(c net.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			var f *fakeServer
			f, c := takeOver(t, Options{Timeout: 50 * time.Millisecond}, func(c net.Conn, line string) {
				reply := f.reply(line)
				io.WriteString(c, reply[:len(reply)-1])
				end(c)
			})
			want := ErrTruncated
			if name == "stalls" {
				want = ErrTimeout
			}
			if s, err := c.State(t.Context(), "rr"); s != nil || !errors.Is(err, want) {
				t.Errorf("State = %v, %v", s, err)
			}
			if out, err := c.SetWeights(t.Context(), "rr", []Change{{"s1", 5}}, 0); out != nil || !errors.Is(err, want) {
				t.Errorf("SetWeights = %v, %v", out, err)
			}
			if s, err := c.SessionAges(t.Context(), 10); s != nil || err == nil {
				t.Errorf("SessionAges = %v, %v", s, err)
			}
		})
	}
}

// TestReset: the connection breaks in the middle of an answer.
func TestReset(t *testing.T) {
	f := newFakeServer(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var done sync.WaitGroup
	defer done.Wait()
	done.Go(func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		line, _ := bufio.NewReader(c).ReadString('\n')
		reply := f.reply(line)
		io.WriteString(c, reply[:len(reply)/2])
		c.(*net.TCPConn).SetLinger(0) // close with a reset
		c.Close()
	})
	_, err = NewClient(Address{kindTCP, l.Addr().String()}, Options{}).State(t.Context(), "rr")
	if !is(err, ErrTruncated) {
		t.Errorf("error %v", err)
	}
}

func TestNoAnswerAtAll(t *testing.T) {
	_, c := takeOver(t, Options{}, func(net.Conn, string) {})
	_, err := c.Info(t.Context())
	if !errors.Is(err, ErrTruncated) {
		t.Errorf("error %v", err)
	}
}

// TestCancel: the end of the context breaks a blocked read.
func TestCancel(t *testing.T) {
	reading := make(chan struct{})
	_, c := takeOver(t, Options{Timeout: time.Hour}, func(c net.Conn, _ string) {
		close(reading)
		hold(c)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-reading
		cancel()
	}()
	_, err := c.State(ctx, "rr")
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrTimeout) {
		t.Errorf("error %v", err)
	}
}

// TestCallersDeadline is not reported as HAProxy's slowness.
func TestCallersDeadline(t *testing.T) {
	_, c := takeOver(t, Options{Timeout: time.Hour}, func(c net.Conn, _ string) { hold(c) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.State(ctx, "rr"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrTimeout) {
		t.Errorf("error %v", err)
	}
}

// TestConnectionsAtOnce: with one slot taken, the next call waits, and no longer than its context.
func TestConnectionsAtOnce(t *testing.T) {
	reading, release := make(chan struct{}), make(chan struct{})
	var f *fakeServer
	f, c := takeOver(t, Options{Timeout: time.Hour, MaxConnections: 1}, func(c net.Conn, line string) {
		reading <- struct{}{}
		<-release
		io.WriteString(c, f.reply(line))
	})
	first := make(chan error, 1)
	go func() {
		_, err := c.Info(t.Context())
		first <- err
	}()
	<-reading
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Info(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("second call: %v", err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Errorf("first call: %v", err)
	}
	if n := len(f.received()); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestHugeReply(t *testing.T) {
	_, c := takeOver(t, Options{ReplyLimit: 1 << 16, Timeout: 20 * time.Second}, func(c net.Conn, _ string) {
		for {
			if _, err := io.WriteString(c, strings.Repeat("x", 1000)+"\n"); err != nil {
				return
			}
		}
	})
	if _, err := c.State(t.Context(), "rr"); !errors.Is(err, ErrTooLarge) {
		t.Errorf("State: %v", err)
	}
	if _, err := c.SetWeights(t.Context(), "rr", []Change{{"s1", 5}}, 0); !errors.Is(err, ErrTooLarge) {
		t.Errorf("SetWeights: %v", err)
	}
}

func TestReplyAtTheLimit(t *testing.T) {
	f := newFakeServer(t)
	size := int64(len(f.reply("show info\n")))
	if _, err := NewClient(f.address(), Options{ReplyLimit: size}).Info(t.Context()); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	if _, err := NewClient(f.address(), Options{ReplyLimit: size - 1}).Info(t.Context()); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte above: %v", err)
	}
}

func TestSeverityPrefix(t *testing.T) {
	f := newFakeServer(t)
	f.severity = true
	c := NewClient(f.address(), Options{})
	out := mustSet(t, c, "rr", Change{"s1", 5}, Change{"nosuch", 6})
	if out.Applied != 1 || !errors.Is(out.Failed["nosuch"], ErrNoServer) {
		t.Errorf("outcome %+v", out)
	}
	if err := c.Probe(t.Context()); err != nil {
		t.Errorf("probe: %v", err)
	}
	f.mu.Lock()
	f.denied = true
	f.mu.Unlock()
	if err := c.Probe(t.Context()); !errors.Is(err, ErrPermission) || !strings.Contains(err.Error(), `"[3]: Permission denied"`) {
		t.Errorf("probe: %v", err)
	}
	if _, err := c.State(t.Context(), "nosuch"); !errors.Is(err, ErrNoBackend) {
		t.Errorf("state: %v", err)
	}
}

// TestOnlyAStoppingWorker: the client asks a few times and then says so.
func TestOnlyAStoppingWorker(t *testing.T) {
	f := newFakeServer(t)
	f.info.Stopping = true
	c := NewClient(f.address(), Options{})
	if _, err := c.State(t.Context(), "rr"); !errors.Is(err, ErrStopping) {
		t.Errorf("State: %v", err)
	}
	if n := len(f.received()); n != attempts {
		t.Errorf("%d attempts, want %d", n, attempts)
	}
	if out, err := c.SetWeights(t.Context(), "rr", []Change{{"s1", 5}}, 0); out != nil || !errors.Is(err, ErrStopping) {
		t.Errorf("SetWeights = %v, %v", out, err)
	}
	if _, err := c.SessionAges(t.Context(), 5); !errors.Is(err, ErrStopping) {
		t.Errorf("SessionAges: %v", err)
	}
	if info, err := c.Info(t.Context()); err != nil || !info.Stopping {
		t.Errorf("Info = %+v, %v", info, err)
	}
}

func TestMismatchedAnswers(t *testing.T) {
	f := newFakeServer(t)
	f.conn = func(c net.Conn, line string) {
		reply := f.reply(line)
		if strings.Contains(line, "weight") { // one answer is missing
			reply = f.reply("show info\n") + "\n" + f.reply("show servers state rr\n")
		}
		io.WriteString(c, reply)
	}
	out, err := NewClient(f.address(), Options{}).SetWeights(t.Context(), "rr", []Change{{"s1", 5}, {"s2", 6}}, 0)
	if out != nil || !errors.Is(err, ErrMismatch) {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestServersChangeWhileRead: a server was added between the two dumps; the
// next try is consistent.
func TestServersChangeWhileRead(t *testing.T) {
	f := newFakeServer(t)
	n := 0
	f.conn = func(c net.Conn, line string) {
		reply := f.reply(line)
		if n++; n == 1 {
			reply = strings.Replace(reply, "rr,BACKEND", "rr,s5,0,0,no check,1,0,2,5,,,,,\nrr,BACKEND", 1)
		}
		io.WriteString(c, reply)
	}
	if s := mustState(t, NewClient(f.address(), Options{}), "rr"); len(s.Servers) != 4 || n != 2 {
		t.Errorf("%d connections, %+v", n, s)
	}
}

// TestDialErrors: each has its own words for the operator.
func TestDialErrors(t *testing.T) {
	unix, tcp, master := Address{kindUnix, "/run/s"}, Address{kindTCP, "127.0.0.1:9"}, Address{kindMaster, "/run/m"}
	for _, tt := range []struct {
		address     Address
		errno       error
		want, cause string
	}{
		{unix, syscall.EAGAIN, "all slots of HAProxy's socket are busy", "all slots of HAProxy's socket are busy (`stats maxconn`, 10 by default): resource temporarily unavailable"},
		{unix, syscall.EACCES, "`group` that our user is in", "our user may not open it: permission denied"},
		{unix, syscall.EPERM, "`group` that our user is in", "our user may not open it: operation not permitted"},
		{unix, syscall.ENOENT, "no `stats socket /run/s level admin`", "there is no such file: no such file or directory"},
		{master, syscall.ENOENT, "-S /run/m", "there is no such file: no such file or directory"},
		{unix, syscall.ECONNREFUSED, "nothing listens on it", "the file is there but nothing listens on it: connection refused"},
		{tcp, syscall.ECONNREFUSED, "stats socket ipv4@127.0.0.1:9", "nothing listens there: connection refused"},
		{Address{kindABNS, "x"}, syscall.ECONNREFUSED, "stats socket abns@x", "nothing listens there: connection refused"},
		{unix, syscall.ENOTSOCK, "not a socket", "the file is not a socket: socket operation on non-socket"},
		{unix, context.DeadlineExceeded, ErrTimeout.Error(), "no full answer in time"},
		{unix, errors.New("boing"), "boing", "dial unix: connect: boing"},
	} {
		c := NewClient(tt.address, Options{Dial: func(context.Context) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", tt.errno)}
		}})
		_, err := c.State(t.Context(), "rr")
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), tt.address.String()) {
			t.Errorf("%v: %v, want %q", tt.errno, err, tt.want)
		}
		var op *OpError
		if !errors.As(err, &op) || tt.errno != context.DeadlineExceeded && !errors.Is(err, tt.errno) {
			t.Errorf("%v is not inside %v", tt.errno, err)
		}
		if cause := Cause(err); cause.Error() != tt.cause {
			t.Errorf("%v: cause %q, want %q", tt.errno, cause, tt.cause)
		}
	}
}

func TestErrorTextIsShort(t *testing.T) {
	f := newFakeServer(t)
	f.conn = func(c net.Conn, _ string) {
		io.WriteString(c, strings.Repeat("bad answer \x00\n", 5000)+"\n")
	}
	var changes []Change
	for i := range 300 {
		changes = append(changes, Change{fmt.Sprintf("server-%d", i), 5})
	}
	_, err := NewClient(f.address(), Options{}).SetWeights(t.Context(), "rr", changes, 0)
	if err == nil || len(err.Error()) > 1000 || strings.ContainsAny(err.Error(), "\n\x00") || !strings.Contains(err.Error(), `"bad answer`) {
		t.Errorf("error %v", err)
	}
}

func TestStates(t *testing.T) {
	for state, want := range map[AdminState]string{
		0: "ready", ForcedMaint: "maint (forced-maint)", ConfigMaint: "ready (config-maint)",
		ForcedMaint | ConfigMaint: "maint (forced-maint, config-maint)", InheritedDrain: "drain (inherited-drain)",
		ResolutionMaint | ForcedDrain: "maint (forced-drain, resolution-maint)", FQDNFromCLI: "ready (fqdn-from-cli)", 128: "ready (0x80)",
	} {
		if got := state.String(); got != want {
			t.Errorf("AdminState(%d) = %q, want %q", int(state), got, want)
		}
	}
	if got := OpState(9).String() + " " + OpStarting.String() + " " + OpStopping.String(); got != "op(9) starting stopping" {
		t.Errorf("op states %q", got)
	}
}
