package spoa

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/negasus/haproxy-spoe-go/action"
	"github.com/negasus/haproxy-spoe-go/frame"
)

func compareAddrs() cmp.Option { return cmp.Comparer(func(a, b net.IP) bool { return a.Equal(b) }) }

// TestHelloNegotiation: what is agreed for what HAProxy asks.
func TestHelloNegotiation(t *testing.T) {
	type agreed map[string]any
	offer := func(versions string, size uint32, capabilities string) []byte {
		return items("supported-versions", versions, "max-frame-size", size, "capabilities", capabilities)
	}
	cases := []struct {
		name   string
		offer  []byte
		want   agreed
		status uint32 // of the refusal, when there is no agreement
	}{
		{"HAProxy 2.6", offer("2.0", 16380, "pipelining,async"), agreed{"max-frame-size": uint32(16380), "capabilities": "pipelining"}, 0},
		{"HAProxy 3.2", offer("2.0", 16380, "pipelining"), agreed{"max-frame-size": uint32(16380), "capabilities": "pipelining"}, 0},
		{"async alone is not announced", offer("2.0", 16380, "async"), agreed{"max-frame-size": uint32(16380), "capabilities": ""}, 0},
		{"no capabilities", offer("2.0", 16380, ""), agreed{"max-frame-size": uint32(16380), "capabilities": ""}, 0},
		{"spaces", offer("1.0, 2.0", 16380, "fragmentation, pipelining"), agreed{"max-frame-size": uint32(16380), "capabilities": "pipelining"}, 0},
		{"a later minor version", offer("2.7", 16380, ""), agreed{"max-frame-size": uint32(16380), "capabilities": ""}, 0},
		{"a smaller buffer", offer("2.0", 256, ""), agreed{"max-frame-size": uint32(256), "capabilities": ""}, 0},
		{"a larger buffer", offer("2.0", math.MaxUint32, ""), agreed{"max-frame-size": uint32(16380), "capabilities": ""}, 0},
		{"below the least frame size", offer("2.0", 255, ""), nil, statusBadFrameSize},
		{"frame size 0", offer("2.0", 0, ""), nil, statusBadFrameSize},
		{"another version", offer("1.0,3.0", 16380, ""), nil, statusBadVersion},
		{"a version that begins alike", offer("20.0", 16380, ""), nil, statusBadVersion},
		{"no version", items("max-frame-size", uint32(16380), "capabilities", ""), nil, statusNoVersion},
		{"no frame size", items("supported-versions", "2.0", "capabilities", ""), nil, statusNoFrameSize},
		{"no capabilities item", items("supported-versions", "2.0", "max-frame-size", uint32(16380)), nil, statusNoCapability},
	}
	g := start(t, &Server{})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := g.dial()
			p.t = t
			p.send(anyFrame(frame.TypeHaproxyHello, 1, 0, 0, c.offer))
			if c.want == nil {
				p.mustDisconnect(c.status)
				g.seen.mustClose(t, ReasonHello)
				return
			}
			c.want["version"] = "2.0"
			want := reply{Kind: frame.TypeAgentHello, Items: c.want}
			if diff := cmp.Diff(want, p.mustRead()); diff != "" {
				t.Errorf("HELLO (-want +got):\n%s", diff)
			}
			p.nc.Close()
			g.seen.mustClose(t, ReasonPeerClosed)
		})
	}
}

// TestAgreedSizeBinds: the smaller size is in force for both directions.
func TestAgreedSizeBinds(t *testing.T) {
	g := start(t, &Server{})
	p := g.dial()
	p.send(helloFrame(300))
	p.mustRead()
	p.ask(1, messageOf("m", "a", make([]byte, 200)))
	p.send(notifyFrame(1, messageOf("m", "a", make([]byte, 300))))
	p.mustDisconnect(statusTooBig)
}

func TestHealthCheck(t *testing.T) {
	g := start(t, &Server{})
	p := g.dial()
	p.send(anyFrame(frame.TypeHaproxyHello, 1, 0, 0, items("supported-versions", "2.0",
		"max-frame-size", uint32(16380), "capabilities", "", "healthcheck", true)))
	if r := p.mustRead(); r.Kind != frame.TypeAgentHello || r.Items["version"] != "2.0" {
		t.Errorf("got %+v", r)
	}
	p.mustEnd()
	g.seen.mustClose(t, ReasonHealthCheck)
}

// TestAck: ids of 64 bits, several messages in one frame, and the answer's values.
func TestAck(t *testing.T) {
	g := start(t, &Server{})
	p := g.connect()
	payload := append(messageOf("one", "a", int32(7), "b", "text", "c", nil),
		messageOf("two", "d", true, "e", uint64(1<<40), "f", []byte{1, 2})...)
	want := action.Actions{
		action.NewSetVar(action.ScopeTransaction, "a", int32(7)),
		action.NewSetVar(action.ScopeTransaction, "b", "text"),
		action.NewSetVar(action.ScopeTransaction, "c", nil),
		action.NewSetVar(action.ScopeTransaction, "d", true),
		action.NewSetVar(action.ScopeTransaction, "e", uint64(1<<40)),
		action.NewSetVar(action.ScopeTransaction, "f", []byte{1, 2}),
	}
	for _, id := range []uint64{0, 239, 240, 1 << 20, 1 << 40} {
		if diff := cmp.Diff(want, p.ask(id, payload).Actions); diff != "" {
			t.Errorf("ACK %d (-want +got):\n%s", id, diff)
		}
	}
	if r := p.ask(9, nil); len(r.Actions) != 0 {
		t.Errorf("a NOTIFY without messages got %+v", r)
	}
}

// TestRequest: what the handler is told besides the messages.
func TestRequest(t *testing.T) {
	got := make(chan Request, 1)
	g := start(t, &Server{Handler: HandlerFunc(func(_ *action.Actions, r *Request) error {
		got <- *r
		return nil
	})})
	p := g.connect()
	p.ask(41, messageOf("m"))
	r := <-got
	if r.EngineID != "engine-1" || r.StreamID != 41 || r.FrameID != 42 || r.RemoteAddr.String() != p.nc.LocalAddr().String() {
		t.Errorf("got %+v", r)
	}
}

type (
	load  int
	label string
)

// TestAckValues: every type that a handler may use, above all negative and large integers.
func TestAckValues(t *testing.T) {
	cases := []struct {
		value, want any
	}{
		{nil, nil}, {true, true}, {false, false},
		{-1, int64(-1)}, {0, int64(0)}, {239, int64(239)}, {240, int64(240)}, {1 << 53, int64(1 << 53)},
		{int64(1 << 62), int64(1 << 62)}, {int64(math.MinInt64), int64(math.MinInt64)}, {int64(math.MaxInt64), int64(math.MaxInt64)},
		{int32(-1), int32(-1)}, {int32(math.MinInt32), int32(math.MinInt32)}, {uint32(math.MaxUint32), uint32(math.MaxUint32)},
		{uint64(math.MaxUint64), uint64(math.MaxUint64)}, {uint(5), uint64(5)},
		{int8(-5), int64(-5)}, {int16(-300), int64(-300)}, {uint8(200), uint64(200)}, {uint16(60000), uint64(60000)},
		{load(-3), int64(-3)}, {time.Millisecond, int64(1000000)}, {label("x"), "x"},
		{"", ""}, {"text", "text"}, {strings.Repeat("x", 3000), strings.Repeat("x", 3000)}, {[]byte{}, []byte{}}, {[]byte{0, 255}, []byte{0, 255}},
		{net.IPv4(1, 2, 3, 4), net.IP{1, 2, 3, 4}}, {net.IP{1, 2, 3, 4}, net.IP{1, 2, 3, 4}}, {net.ParseIP("2001:db8::1"), net.ParseIP("2001:db8::1")},
		{netip.MustParseAddr("1.2.3.4"), net.IP{1, 2, 3, 4}}, {netip.MustParseAddr("::ffff:1.2.3.4"), net.IP{1, 2, 3, 4}}, {netip.MustParseAddr("fe80::1%eth0"), net.ParseIP("fe80::1")},
	}
	var value any
	g := start(t, &Server{Handler: HandlerFunc(func(answer *action.Actions, _ *Request) error {
		answer.SetVar(action.ScopeProcess, "before", "b")
		answer.UnsetVar(action.ScopeSession, "gone")
		answer.SetVar(action.ScopeResponse, "v", value)
		return nil
	})})
	p := g.connect()
	for _, c := range cases {
		value = c.value
		want := action.Actions{
			action.NewSetVar(action.ScopeProcess, "before", "b"),
			action.NewUnsetVar(action.ScopeSession, "gone"),
			action.NewSetVar(action.ScopeResponse, "v", c.want),
		}
		if diff := cmp.Diff(want, p.ask(1, nil).Actions, compareAddrs()); diff != "" {
			t.Errorf("%T %v (-want +got):\n%s", c.value, c.value, diff)
		}
	}
}

// TestUnsetVarKeepsTheActionsBehindIt: UNSET-VAR is scope and name, not a byte more.
func TestUnsetVarKeepsTheActionsBehindIt(t *testing.T) {
	b, err := appendAction(nil, &action.Action{Type: action.TypeUnsetVar, Scope: action.ScopeRequest, Name: "ab", Value: 1})
	if want := []byte{2, 2, 3, 2, 'a', 'b'}; err != nil || !bytes.Equal(b, want) {
		t.Errorf("got % x, %v; want % x", b, err, want)
	}
}

// TestEveryNotifyGetsAnAck: whatever the handler does, and the next answer is right again.
func TestEveryNotifyGetsAnAck(t *testing.T) {
	set := func(value any) HandlerFunc {
		return func(answer *action.Actions, _ *Request) error {
			answer.SetVar(action.ScopeSession, "first", 1)
			answer.SetVar(action.ScopeSession, "v", value)
			return nil
		}
	}
	var nobody *Request
	cases := []struct {
		name    string
		handler HandlerFunc
		want    Result
	}{
		{"error", func(answer *action.Actions, _ *Request) error {
			answer.SetVar(action.ScopeSession, "half", 1)
			return errors.New("no table")
		}, ResultError},
		{"panic", func(answer *action.Actions, _ *Request) error {
			answer.SetVar(action.ScopeSession, "half", 1)
			panic("out")
		}, ResultPanic},
		{"panic with nil", func(*action.Actions, *Request) error { panic(nil) }, ResultPanic},
		{"nil pointer", func(*action.Actions, *Request) error { return errors.New(nobody.EngineID) }, ResultPanic},
		{"float64", set(1.5), ResultUnencodable},
		{"float32", set(float32(1)), ResultUnencodable},
		{"struct", set(struct{}{}), ResultUnencodable},
		{"slice", set([]string{"a"}), ResultUnencodable},
		{"pointer", set(new(int)), ResultUnencodable},
		{"address of 3 bytes", set(net.IP{1, 2, 3}), ResultUnencodable},
		{"address nil", set(net.IP(nil)), ResultUnencodable},
		{"zero netip", set(netip.Addr{}), ResultUnencodable},
		{"unknown scope", func(answer *action.Actions, _ *Request) error {
			answer.SetVar(5, "a", 1)
			return nil
		}, ResultUnencodable},
		{"unknown action", func(answer *action.Actions, _ *Request) error {
			*answer = append(*answer, action.Action{Type: 9, Name: "a"})
			return nil
		}, ResultUnencodable},
		{"above the frame size", set(make([]byte, DefaultMaxFrameSize)), ResultTooBig},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			g := start(t, &Server{
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
				Handler: HandlerFunc(func(answer *action.Actions, r *Request) error {
					if len(r.Messages) == 0 {
						return c.handler(answer, r)
					}
					return echo(answer, r)
				}),
			})
			p := g.connect()
			good := notifyFrame(1, messageOf("m", "a", "b"))
			p.send(good, notifyFrame(2, nil), good)
			for i, want := range []int{1, 0, 1} {
				if r := p.mustRead(); r.Kind != frame.TypeAgentAck || len(r.Actions) != want {
					t.Errorf("frame %d: got %+v, want an ACK with %d actions", i, r, want)
				}
			}
			p.nc.Close()
			g.seen.mustClose(t, ReasonPeerClosed)
			if got, want := g.seen.seen(), (Results{ResultOK: 2}); got[c.want] != 1 || got.Total() != want.Total()+1 {
				t.Errorf("results %v, want one %v", got, c.want)
			}
			for _, word := range []string{"without variables", "result=" + c.want.String()} {
				if !strings.Contains(log.String(), word) {
					t.Errorf("the log lacks %q: %s", word, log.String())
				}
			}
		})
	}
}

// TestHandlerThatEndsItsGoroutine: the one thing that cannot be answered closes the
// connection at once, so that HAProxy does not wait.
func TestHandlerThatEndsItsGoroutine(t *testing.T) {
	g := start(t, &Server{Handler: HandlerFunc(func(*action.Actions, *Request) error {
		runtime.Goexit()
		return nil
	})})
	p := g.connect()
	p.send(notifyFrame(1, nil))
	p.mustEnd()
	g.seen.mustClose(t, ReasonPanic)
}

// TestLargestAck: exactly the agreed size goes out, one byte more does not.
func TestLargestAck(t *testing.T) {
	size := 0
	g := start(t, &Server{Handler: HandlerFunc(func(answer *action.Actions, _ *Request) error {
		answer.SetVar(action.ScopeSession, "v", make([]byte, size))
		return nil
	})})
	size = 1000
	ack, err := appendAck(nil, 1, 2, action.Actions{action.NewSetVar(action.ScopeSession, "v", make([]byte, size))})
	if err != nil {
		t.Fatal(err)
	}
	p := g.dial()
	p.send(helloFrame(uint32(len(ack) - lengthSize)))
	p.mustRead()
	if r := p.ask(1, nil); len(r.Actions) != 1 {
		t.Errorf("an ACK of exactly the agreed size came as %+v", r)
	}
	size++
	if r := p.ask(1, nil); len(r.Actions) != 0 {
		t.Error("an ACK above the agreed size was sent")
	}
	p.nc.Close()
	g.seen.mustClose(t, ReasonPeerClosed)
	if got := g.seen.seen(); got[ResultTooBig] != 1 {
		t.Errorf("results %v", got)
	}
}

// TestPipelining: frames that come at once are answered in order, in few writes.
func TestPipelining(t *testing.T) {
	g := start(t, &Server{})
	p := g.connect()
	const frames = 20
	var all []byte
	for id := range uint64(frames) {
		all = append(all, notifyFrame(id, messageOf("m", "id", id))...)
	}
	p.send(all)
	for id := range uint64(frames) {
		r := p.mustRead()
		if r.StreamID != id || len(r.Actions) != 1 || r.Actions[0].Value != id {
			t.Fatalf("ACK %d: %+v", id, r)
		}
	}
	p.nc.Close()
	g.seen.mustClose(t, ReasonPeerClosed)
	g.seen.mu.Lock()
	defer g.seen.mu.Unlock()
	if g.seen.batches != 1 {
		t.Errorf("%d frames of one write were answered in %d writes", frames, g.seen.batches)
	}
}

// TestBigBurst: more than every buffer, frames of all sizes, in pieces that
// do not respect them.
func TestBigBurst(t *testing.T) {
	g := start(t, &Server{})
	p := g.connect()
	const frames = 400
	var all []byte
	for id := range uint64(frames) {
		all = append(all, notifyFrame(id, messageOf("m", "v", make([]byte, id*37)))...)
	}
	sent := make(chan error, 1)
	go func() {
		for len(all) > 0 {
			n := min(len(all), 7777)
			if _, err := p.nc.Write(all[:n]); err != nil {
				sent <- err
				return
			}
			all = all[n:]
		}
		sent <- nil
	}()
	for id := range uint64(frames) {
		r := p.mustRead()
		if r.StreamID != id || len(r.Actions) != 1 || len(r.Actions[0].Value.([]byte)) != int(id*37) {
			t.Fatalf("ACK %d came as %d with %d actions", id, r.StreamID, len(r.Actions))
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// TestDisconnectFollowsAcks: HAPROXY-DISCONNECT behind NOTIFYs does not overtake.
func TestDisconnectFollowsAcks(t *testing.T) {
	g := start(t, &Server{})
	p := g.connect()
	p.send(notifyFrame(1, nil), notifyFrame(2, nil), notifyFrame(3, nil),
		anyFrame(frame.TypeHaproxyDisconnect, 1, 0, 0, items("status-code", uint32(0), "message", "normal")),
		notifyFrame(4, nil))
	for id := uint64(1); id <= 3; id++ {
		if r := p.mustRead(); r.Kind != frame.TypeAgentAck || r.StreamID != id {
			t.Errorf("got %+v, want ACK %d", r, id)
		}
	}
	p.mustDisconnect(statusNormal)
	g.seen.mustClose(t, ReasonPeerClosed)
}

func TestDisconnectBeforeHello(t *testing.T) {
	g := start(t, &Server{})
	p := g.dial()
	p.send(anyFrame(frame.TypeHaproxyDisconnect, 1, 0, 0, items("status-code", uint32(0), "message", "")))
	p.mustDisconnect(statusNormal)
	g.seen.mustClose(t, ReasonPeerClosed)
}

// TestUnix: a unix listener and a TCP one on the same server.
func TestUnix(t *testing.T) {
	g := start(t, &Server{})
	l, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- g.server.Serve(l) }()
	nc, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p := newPeer(t, nc)
	p.hello()
	p.ask(1, messageOf("m"))
	p.send(notifyFrame(1, []byte{9}))
	p.mustDisconnect(statusInvalid)
	g.connect().ask(1, messageOf("m"))
	if err := g.server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, ErrServerClosed) {
		t.Error(err)
	}
}
