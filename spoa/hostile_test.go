package spoa

import (
	"bytes"
	"encoding/binary"
	"net"
	"runtime"
	"slices"
	"testing"

	"github.com/negasus/haproxy-spoe-go/action"
	"github.com/negasus/haproxy-spoe-go/frame"
	"github.com/negasus/haproxy-spoe-go/typeddata"
)

// hostile is what a peer sends and how its connection has to end.
type hostile struct {
	name   string
	bytes  []byte
	status uint32
	reason Reason
}

// huge are lengths that become negative or wrap around as an int.
var huge = [][]byte{number(1 << 62), number(1 << 63), number(1<<63 + 5), number(1<<64 - 1)}

// TestHostileBeforeHello: one peer that can connect is no danger.
func TestHostileBeforeHello(t *testing.T) {
	hello := func(payload []byte) []byte { return anyFrame(frame.TypeHaproxyHello, 1, 0, 0, payload) }
	good := helloItems(16380)
	cases := []hostile{
		{"length 0", []byte{0, 0, 0, 0}, statusInvalid, ReasonMalformed},
		{"length 4 GiB", []byte{0xFF, 0xFF, 0xFF, 0xFF}, statusTooBig, ReasonFrameTooBig},
		{"length 4 GiB of a known type", []byte{0xFF, 0xFF, 0xFF, 0xFF, 1}, statusTooBig, ReasonFrameTooBig},
		{"an HTTP request", []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), statusTooBig, ReasonFrameTooBig},
		{"a TLS hello", []byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3}, statusTooBig, ReasonFrameTooBig},
		{"NOTIFY first", notifyFrame(1, messageOf("m")), statusInvalid, ReasonHello},
		{"ACK first", anyFrame(frame.TypeAgentAck, 1, 0, 0, nil), statusInvalid, ReasonHello},
		{"HELLO of the agent", anyFrame(frame.TypeAgentHello, 1, 0, 0, good), statusInvalid, ReasonHello},
		{"HELLO empty", hello(nil), statusNoVersion, ReasonHello},
		{"HELLO with a stream-id", anyFrame(frame.TypeHaproxyHello, 1, 1, 0, good), statusInvalid, ReasonHello},
		{"HELLO in fragments", anyFrame(frame.TypeHaproxyHello, 0, 0, 0, good), statusFragmented, ReasonMalformed},
		{"HELLO key cut", hello([]byte{200}), statusInvalid, ReasonHello},
		{"HELLO without a value", hello(text("healthcheck")), statusInvalid, ReasonHello},
		{"HELLO with an unknown value type", hello(append(text("x"), 0x0A)), statusInvalid, ReasonHello},
		{"HELLO with 65 items", hello(bytes.Repeat(items("a", nil), 65)), statusInvalid, ReasonHello},
	}
	for length := range uint32(minFrameSize) {
		b := binary.BigEndian.AppendUint32(nil, length)
		cases = append(cases, hostile{"length short", append(b, make([]byte, length)...), statusInvalid, ReasonMalformed})
	}
	for _, ids := range [][]byte{{0xFF, 0xFF}, {0, 0xFF}, {0xF0, 0x80}, bytes.Repeat([]byte{0xFF}, 12)} {
		body := append([]byte{1, 0, 0, 0, 1}, ids...)
		cases = append(cases, hostile{"ids cut", rawBytes(body), statusInvalid, ReasonMalformed})
	}
	for _, length := range huge {
		cases = append(cases,
			hostile{"HELLO key huge", hello(append(slices.Clone(length), "abc"...)), statusInvalid, ReasonHello},
			hostile{"HELLO string huge", hello(slices.Concat(text("engine-id"), []byte{typeddata.TypeString}, length)), statusInvalid, ReasonHello})
	}
	for n := 1; n < len(good); n++ {
		if fault := checkItems(good[:n]); fault != nil {
			cases = append(cases, hostile{"HELLO cut", hello(good[:n]), statusInvalid, ReasonHello})
		}
	}
	testHostile(t, cases, false)
}

// TestHelloMistyped: values of another type than the protocol's.
func TestHelloMistyped(t *testing.T) {
	var cases []hostile
	add := func(name string, status uint32, pairs ...any) {
		cases = append(cases, hostile{name, anyFrame(frame.TypeHaproxyHello, 1, 0, 0, items(pairs...)), status, ReasonHello})
	}
	for _, size := range []any{int32(16380), int64(16380), "16380", nil, true} {
		add("max-frame-size", statusNoFrameSize, "supported-versions", "2.0", "max-frame-size", size, "capabilities", "")
	}
	for _, versions := range []any{uint32(2), nil, []byte("2.0")} {
		add("supported-versions", statusNoVersion, "supported-versions", versions, "max-frame-size", uint32(16380), "capabilities", "")
	}
	add("capabilities", statusNoCapability, "supported-versions", "2.0", "max-frame-size", uint32(16380), "capabilities", uint32(1))
	testHostile(t, cases, false)

	t.Run("healthcheck and engine-id of another type are as good as none", func(t *testing.T) {
		p := start(t, &Server{}).dial()
		p.send(anyFrame(frame.TypeHaproxyHello, 1, 0, 0, append(items("healthcheck", "yes", "engine-id", uint32(1)), helloItems(16380)...)))
		if r := p.mustRead(); r.Kind != frame.TypeAgentHello {
			t.Fatalf("got %+v", r)
		}
		p.ask(1, messageOf("m"))
	})
}

// TestHostileAfterHello: frames that the library would panic on, believe or wait for.
func TestHostileAfterHello(t *testing.T) {
	message := slices.Concat(text("name"), []byte{2},
		text("ip"), []byte{typeddata.TypeIPv4, 1, 2, 3, 4},
		text("ip6"), []byte{typeddata.TypeIPv6, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	bad := func(name string, payload []byte) hostile {
		return hostile{name, notifyFrame(5, payload), statusInvalid, ReasonMalformed}
	}
	other := func(name string, kind frame.Type, flags uint32, status uint32) hostile {
		return hostile{name, anyFrame(kind, flags, 0, 0, nil), status, ReasonMalformed}
	}
	arg := func(value ...byte) []byte { return slices.Concat(text("m"), []byte{1}, text("a"), value) }
	cases := []hostile{
		{"length 0", []byte{0, 0, 0, 0}, statusInvalid, ReasonMalformed},
		{"frame one byte above the agreed size", binary.BigEndian.AppendUint32(nil, DefaultMaxFrameSize+1), statusTooBig, ReasonFrameTooBig},
		{"frame of 1 MiB", binary.BigEndian.AppendUint32(nil, 1<<20), statusTooBig, ReasonFrameTooBig},
		other("a second HELLO", frame.TypeHaproxyHello, 1, statusInvalid),
		other("an agent's frame", frame.TypeAgentAck, 1, statusInvalid),
		other("an unknown frame", 77, 1, statusInvalid),
		other("the rest of a fragment", frame.TypeUnset, 1, statusFragmented),
		other("NOTIFY without FIN", frame.TypeNotify, 0, statusFragmented),
		other("NOTIFY with ABORT", frame.TypeNotify, 3, statusFragmented),
		{"fragment cut inside an IP", anyFrame(frame.TypeNotify, 0, 1, 1, message[:12]), statusFragmented, ReasonMalformed},
		{"DISCONNECT with a cut string", anyFrame(frame.TypeHaproxyDisconnect, 1, 0, 0, append(text("message"), typeddata.TypeString, 9, 'x')), statusInvalid, ReasonMalformed},
		{"overlong varint", rawBytes(append([]byte{3, 0, 0, 0, 1, 0xFF}, bytes.Repeat([]byte{0x80}, 40)...)), statusInvalid, ReasonMalformed},
		bad("name longer than the frame", []byte{100, 'a'}),
		bad("no number of arguments", text("name")),
		bad("argument missing", append(text("name"), 1)),
		bad("argument without a type", arg()),
		bad("int without a byte", arg(typeddata.TypeInt32)),
		bad("int cut", arg(typeddata.TypeInt64, 0xFF, 0xFF)),
		bad("int overlong", arg(append([]byte{typeddata.TypeInt64}, bytes.Repeat([]byte{0xFF}, 12)...)...)),
		bad("IPv4 cut", arg(typeddata.TypeIPv4, 1, 2, 3)),
		bad("IPv6 cut", arg(typeddata.TypeIPv6, 1, 2, 3)),
		bad("string cut", arg(typeddata.TypeString, 5, 'a')),
		bad("unknown type", arg(0x0F)),
		bad("65 messages", bytes.Repeat(messageOf("m"), maxMessages+1)),
	}
	for n := 1; n < len(message); n++ {
		cases = append(cases, bad("message cut", message[:n]))
	}
	for _, length := range huge {
		cases = append(cases,
			bad("message name huge", append(slices.Clone(length), "abc"...)),
			bad("argument name huge", slices.Concat(text("m"), []byte{1}, length)),
			bad("string huge", arg(append([]byte{typeddata.TypeString}, length...)...)),
			bad("binary huge", arg(append([]byte{typeddata.TypeBinary}, length...)...)))
	}
	testHostile(t, cases, true)
}

// testHostile runs each case on a connection of its own to one server, to
// which a bystander talks all the time.
func testHostile(t *testing.T, cases []hostile, afterHello bool) {
	t.Helper()
	g := start(t, &Server{})
	bystander := g.connect()
	for i, c := range cases {
		p := g.dial()
		p.t = t
		if afterHello {
			p.hello()
			// What came before the fault is answered, and before the DISCONNECT.
			p.send(notifyFrame(1, messageOf("m", "a", "b")), c.bytes)
			if r := p.mustRead(); r.Kind != frame.TypeAgentAck {
				t.Fatalf("%s: got %+v", c.name, r)
			}
		} else {
			p.send(c.bytes)
		}
		r, err := p.read()
		if err != nil || r.Kind != frame.TypeAgentDisconnect || r.Items["status-code"] != c.status {
			t.Errorf("%s: % x: got %+v, %v; want a DISCONNECT with status %d", c.name, c.bytes, r, err, c.status)
		} else {
			p.mustEnd()
		}
		p.nc.Close()
		g.seen.mustClose(t, c.reason)
		bystander.ask(uint64(i), messageOf("m", "a", "b"))
	}
	bystander.nc.Close()
	g.seen.mustClose(t, ReasonPeerClosed)
	want := Results{ResultOK: len(cases)}
	if afterHello {
		want[ResultOK] *= 2
	}
	if got := g.seen.seen(); got != want {
		t.Errorf("results %v, want %v", got, want)
	}
}

// TestFrameLengthAllocatesNothing: the length is refused before it is believed.
func TestFrameLengthAllocatesNothing(t *testing.T) {
	g := start(t, &Server{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 20 {
		p := g.dial()
		p.send([]byte{0xFF, 0xFF, 0xFF, 0xFE, byte(frame.TypeHaproxyHello)})
		p.mustDisconnect(statusTooBig)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
		t.Errorf("20 frames that claim 4 GiB made the process allocate %d bytes", n)
	}
}

// TestLargestFrame: exactly the agreed size is taken and sent.
func TestLargestFrame(t *testing.T) {
	p := start(t, &Server{}).connect()
	frameOf := func(size int) []byte { return notifyFrame(1, messageOf("m", "a", make([]byte, size))) }
	overhead := len(frameOf(10000)) - 10000 - lengthSize
	want := make([]byte, DefaultMaxFrameSize-overhead-10)
	p.send(notifyFrame(1, messageOf("m", "a", want)))
	r := p.mustRead()
	if len(r.Actions) != 1 || !bytes.Equal(r.Actions[0].Value.([]byte), want) {
		t.Errorf("got %d actions", len(r.Actions))
	}
	p.send(frameOf(DefaultMaxFrameSize - overhead))
	if r := p.mustRead(); r.Kind != frame.TypeAgentAck {
		t.Errorf("a frame of exactly the agreed size got %+v", r)
	}
	p.send(frameOf(DefaultMaxFrameSize - overhead + 1))
	p.mustDisconnect(statusTooBig)
}

// TestArgumentsSurviveTheBuffer: addresses and bytes point into the
// connection's buffer, and what strings hold stays when it is used again.
func TestArgumentsSurviveTheBuffer(t *testing.T) {
	kept := make(chan string, 2)
	g := start(t, &Server{Handler: HandlerFunc(func(answer *action.Actions, r *Request) error {
		v, _ := r.Messages[0].KV.Get("s")
		kept <- v.(string)
		ip, _ := r.Messages[0].KV.Get("ip")
		answer.SetVar(action.ScopeTransaction, "ip", ip)
		return nil
	})})
	p := g.connect()
	payload := func(s string, ip byte) []byte {
		return slices.Concat(text("m"), []byte{2}, items("s", s), text("ip"), []byte{typeddata.TypeIPv4, ip, ip, ip, ip})
	}
	for i, s := range []string{"first", "again"} {
		ip := byte(i + 1)
		if got := p.ask(1, payload(s, ip)).Actions[0].Value.(net.IP); !got.Equal(net.IPv4(ip, ip, ip, ip)) {
			t.Errorf("got %v", got)
		}
	}
	if a, b := <-kept, <-kept; a != "first" || b != "again" {
		t.Errorf("kept %q and %q", a, b)
	}
}
