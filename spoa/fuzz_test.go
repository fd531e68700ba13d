package spoa

import (
	"bytes"
	"encoding/binary"
	"io"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/negasus/haproxy-spoe-go/action"
	"github.com/negasus/haproxy-spoe-go/frame"
	"github.com/negasus/haproxy-spoe-go/message"
	"github.com/negasus/haproxy-spoe-go/payload/kv"
	"github.com/negasus/haproxy-spoe-go/typeddata"
	"github.com/negasus/haproxy-spoe-go/varint"

	"github.com/haproxy-weighter/haproxy-weighter/test/corpus"
)

// tapConn is a connection whose input is there from the start and whose output is kept.
type tapConn struct {
	in  []byte
	cut int // how many bytes one Read brings at most
	out bytes.Buffer
}

func (c *tapConn) Read(b []byte) (int, error) {
	if len(c.in) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), c.cut)], c.in)
	c.in = c.in[n:]
	return n, nil
}

func (c *tapConn) Write(b []byte) (int, error)      { return c.out.Write(b) }
func (c *tapConn) Close() error                     { return nil }
func (c *tapConn) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (c *tapConn) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (c *tapConn) SetDeadline(time.Time) error      { return nil }
func (c *tapConn) SetReadDeadline(time.Time) error  { return nil }
func (c *tapConn) SetWriteDeadline(time.Time) error { return nil }

// converse has a server answer a stream of bytes and returns its output.
func converse(t *testing.T, stream []byte, cut int) ([]byte, *recorder) {
	t.Helper()
	seen := &recorder{closed: make(chan Reason, 1)}
	s := &Server{Handler: echo, Observer: seen, Logger: slog.New(slog.DiscardHandler), started: time.Now()}
	var err error
	if s.settings, err = s.newSettings(); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.prepareLocked()
	s.mu.Unlock()
	tap := &tapConn{in: slices.Clone(stream), cut: cut}
	newConn(s, tap).run()
	return tap.out.Bytes(), seen
}

// FuzzStream: arbitrary bytes, read in arbitrary pieces, never make anything
// panic; each answer is a whole frame under the agreed size; there is an ACK
// for each NOTIFY that was taken; and the pieces make no difference.
func FuzzStream(f *testing.F) {
	corpus.Add(f)
	hello, notify := helloFrame(16380), notifyFrame(1, messageOf("m", "a", "b", "n", int32(7)))
	disconnect := anyFrame(frame.TypeHaproxyDisconnect, 1, 0, 0, items("status-code", uint32(0), "message", ""))
	for _, seed := range [][]byte{
		nil, hello, notify, slices.Concat(hello, notify, notify, disconnect),
		slices.Concat(helloFrame(256), notifyFrame(3, messageOf("m", "v", make([]byte, 200))), notify),
		slices.Concat(hello, notifyFrame(1<<40, bytes.Repeat(messageOf("m"), 65))),
		slices.Concat(hello, anyFrame(frame.TypeNotify, 0, 1, 1, nil)),
		slices.Concat(hello, notify[:20]),
		slices.Concat(hello, []byte{0, 0, 0, 0}), []byte("GET / HTTP/1.0\r\n\r\n"),
		anyFrame(frame.TypeHaproxyHello, 1, 0, 0, append(helloItems(16380), items("healthcheck", true)...)),
	} {
		f.Add(seed, uint16(1))
		f.Add(seed, uint16(math.MaxUint16))
	}
	f.Fuzz(func(t *testing.T, stream []byte, cut uint16) {
		out, seen := converse(t, stream, max(1, int(cut)))
		reason := <-seen.closed
		if reason == ReasonPanic || seen.results[ResultPanic]+seen.results[ResultUndecodable] > 0 {
			t.Fatalf("a panic, or messages that do not decode: %v, results %v", reason, seen.results)
		}
		acks := 0
		limit := DefaultMaxFrameSize
		for rest := out; len(rest) > 0; {
			size := int(binary.BigEndian.Uint32(rest))
			if size > limit || size > len(rest)-4 {
				t.Fatalf("a frame of %d bytes in %d of output, agreed %d", size, len(rest), limit)
			}
			r := parseReply(t, rest[4:4+size])
			rest = rest[4+size:]
			switch r.Kind {
			case frame.TypeAgentHello:
				limit = int(r.Items["max-frame-size"].(uint32))
			case frame.TypeAgentAck:
				acks++
			}
		}
		if acks != seen.results.Total() {
			t.Errorf("%d ACKs, results %v", acks, seen.results)
		}
		if whole, _ := converse(t, stream, math.MaxInt); !bytes.Equal(out, whole) {
			t.Errorf("read in pieces of %d the stream is answered\n% x, else\n% x", cut, out, whole)
		}
	})
}

// sketch is what a message says, read a third way. Values are as on the wire.
type sketch struct {
	Name string
	Args []sketchArg
}

type sketchArg struct {
	Name  string
	Kind  byte
	Value []byte // without a length in front
}

// sketchMessages reads messages that have been checked, byte by byte.
func sketchMessages(b []byte) []sketch {
	var all []sketch
	take := func(n uint64) []byte {
		v := b[:n]
		b = b[n:]
		return v
	}
	integer := func() uint64 {
		v, n := varint.Uvarint(b)
		b = b[n:]
		return v
	}
	for len(b) > 0 {
		m := sketch{Name: string(take(integer()))}
		for range take(1)[0] {
			a := sketchArg{Name: string(take(integer()))}
			a.Kind = take(1)[0]
			switch a.Kind & 0x0F {
			case typeddata.TypeInt32, typeddata.TypeUInt32, typeddata.TypeInt64, typeddata.TypeUInt64:
				a.Value = binary.BigEndian.AppendUint64(nil, integer())
			case typeddata.TypeIPv4:
				a.Value = take(4)
			case typeddata.TypeIPv6:
				a.Value = take(16)
			case typeddata.TypeString, typeddata.TypeBinary:
				a.Value = take(integer())
			}
			m.Args = append(m.Args, a)
		}
		all = append(all, m)
	}
	return all
}

// sketchDecoded says the same of what the library has decoded.
func sketchDecoded(t *testing.T, messages message.Messages, kinds []sketch) []sketch {
	t.Helper()
	var all []sketch
	for i, m := range messages {
		s := sketch{Name: m.Name}
		for j, item := range m.KV.Data() {
			a := sketchArg{Name: item.Name, Kind: kinds[i].Args[j].Kind}
			wide := uint64(0)
			switch v := item.Value.(type) {
			case bool:
				if v != (a.Kind&0x10 != 0) {
					t.Errorf("boolean %x decoded as %v", a.Kind, v)
				}
			case string:
				a.Value = []byte(v)
			case []byte:
				a.Value = v
			case net.IP:
				a.Value = v
			case int32: // the library cuts it to its type
				wide = binary.BigEndian.Uint64(kinds[i].Args[j].Value)
				if int32(wide) != v {
					t.Errorf("int32 %x decoded as %d", wide, v)
				}
			case uint32:
				wide = binary.BigEndian.Uint64(kinds[i].Args[j].Value)
				if uint32(wide) != v {
					t.Errorf("uint32 %x decoded as %d", wide, v)
				}
			case int64:
				wide = uint64(v)
			case uint64:
				wide = v
			}
			if kind := a.Kind & 0x0F; kind >= typeddata.TypeInt32 && kind <= typeddata.TypeUInt64 {
				a.Value = binary.BigEndian.AppendUint64(nil, wide)
			}
			s.Args = append(s.Args, a)
		}
		all = append(all, s)
	}
	return all
}

// FuzzValidate: what the checks let pass, the library decodes without an error
// or a panic, and to what is written there; the same for lists of items.
func FuzzValidate(f *testing.F) {
	corpus.Add(f)
	every := append(messageOf("m", "nil", nil, "t", true, "f", false, "i32", int32(70000), "u32", uint32(1), "i64", int64(1<<40),
		"u64", uint64(3), "s", "text", "b", []byte{1, 2, 3}), messageOf("n")...)
	ips := slices.Concat(text("m"), []byte{2}, text("4"), []byte{typeddata.TypeIPv4, 1, 2, 3, 4}, text("6"), []byte{typeddata.TypeIPv6}, make([]byte, 16))
	for _, seed := range [][]byte{nil, every, ips, helloItems(16380), {0, 0}, {1, 'a', 1, 0, 0xFF}, bytes.Repeat([]byte{0xFF}, 30),
		slices.Concat(text("m"), []byte{1}, text("a"), []byte{typeddata.TypeString}, number(1<<63)),
		slices.Concat(text("m"), []byte{1}, text("a"), []byte{typeddata.TypeUInt64}, number(math.MaxUint64)),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		if checkMessages(payload) == nil {
			want := sketchMessages(payload)
			messages := message.NewMessages()
			if err := messages.Decode(slices.Clip(payload)); err != nil {
				t.Fatalf("the checks let pass what does not decode: %v", err)
			}
			if diff := cmp.Diff(want, sketchDecoded(t, *messages, want), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("messages (-written +decoded):\n%s", diff)
			}
			messages.Reset()
		}
		if checkItems(payload) == nil {
			if err := kv.NewKV().Unmarshal(slices.Clip(payload)); err != nil {
				t.Errorf("the checks let pass items that do not decode: %v", err)
			}
		}
		if h, fault := readHello(payload, DefaultMaxFrameSize); fault == nil && (h.frameSize < minAgreedSize || h.frameSize > DefaultMaxFrameSize) {
			t.Errorf("agreed to a frame size of %d", h.frameSize)
		}
	})
}

// FuzzAck: what is encoded, the library's decoder reads back.
func FuzzAck(f *testing.F) {
	corpus.Add(f)
	f.Add(uint64(0), uint64(1), "load", int64(-1), uint64(math.MaxUint64), "text", []byte{1}, byte(2), true)
	f.Add(uint64(240), uint64(1<<63), "", int64(math.MinInt64), uint64(239), "", []byte(nil), byte(0), false)
	f.Add(uint64(2287), uint64(2288), "x", int64(1<<53), uint64(1<<60), "y", []byte("0123456789abcdef"), byte(4), true)
	f.Fuzz(func(t *testing.T, streamID, frameID uint64, name string, i int64, u uint64, s string, b []byte, scope byte, flag bool) {
		in := action.Scope(scope % 5)
		actions := action.Actions{
			action.NewUnsetVar(in, name), action.NewSetVar(in, name, i), action.NewSetVar(in, name, int32(i)),
			action.NewSetVar(in, name, u), action.NewSetVar(in, name, uint32(u)), action.NewSetVar(in, name, s),
			action.NewSetVar(in, name, flag), action.NewSetVar(in, name, nil),
		}
		want := slices.Clone(actions)
		if b != nil { // the library decodes an empty one as empty, not as nil
			actions = append(actions, action.NewSetVar(in, name, b))
			want = append(want, action.NewSetVar(in, name, b))
		}
		if address, ok := netip.AddrFromSlice(b); ok {
			actions = append(actions, action.NewSetVar(in, name, address), action.NewUnsetVar(in, name))
			want = append(want, action.NewSetVar(in, name, net.IP(address.Unmap().AsSlice())), action.NewUnsetVar(in, name))
		}
		front := []byte("what is there already")
		out, err := appendAck(slices.Clone(front), streamID, frameID, actions)
		if err != nil {
			t.Fatal(err)
		}
		whole, ok := bytes.CutPrefix(out, front)
		if !ok || int(binary.BigEndian.Uint32(whole)) != len(whole)-4 {
			t.Fatalf("wrong length or front: % x", out)
		}
		got := parseReply(t, whole[4:])
		if diff := cmp.Diff(reply{Kind: frame.TypeAgentAck, StreamID: streamID, FrameID: frameID, Actions: want}, got, compareAddrs()); diff != "" {
			t.Errorf("ACK (-want +got):\n%s", diff)
		}
		refused := append(actions, action.NewSetVar(in, name, 1.5))
		if out, err := appendAck(slices.Clone(front), streamID, frameID, refused); err == nil || !bytes.Equal(out, front) {
			t.Errorf("an ACK that is refused leaves % x, %v", out, err)
		}
	})
}

// FuzzUvarint: agrees with the library's, and refuses what overflows.
func FuzzUvarint(f *testing.F) {
	corpus.Add(f)
	for _, v := range []uint64{0, 239, 240, 2287, 2288, 264431, 264432, 1 << 32, 1 << 63, math.MaxUint64} {
		f.Add(v, number(v))
	}
	f.Add(uint64(0), bytes.Repeat([]byte{0xFF}, 12))
	f.Fuzz(func(t *testing.T, v uint64, b []byte) {
		encoded := appendUvarint(nil, v)
		if !bytes.Equal(encoded, number(v)) || len(encoded) > maxVarint {
			t.Errorf("%d is encoded as % x, the library says % x", v, encoded, number(v))
		}
		if got, n := uvarint(encoded); got != v || n != len(encoded) {
			t.Errorf("%d came back as %d in %d bytes", v, got, n)
		}
		got, n := uvarint(b)
		if n == 0 {
			return
		}
		if want, m := varint.Uvarint(b); got != want || n != m {
			t.Errorf("% x: %d in %d bytes, the library says %d in %d", b, got, n, want, m)
		}
		if !bytes.Equal(appendUvarint(nil, got), b[:n]) {
			t.Errorf("% x has a second encoding of %d", b[:n], got)
		}
	})
}

// TestPeerClosesInTheMiddle: a stream cut at each byte ends quietly.
func TestPeerClosesInTheMiddle(t *testing.T) {
	stream := slices.Concat(helloFrame(16380), notifyFrame(1, messageOf("m", "a", "b")), notifyFrame(2, nil))
	for n := range stream {
		_, seen := converse(t, stream[:n], 3)
		if got := <-seen.closed; got != ReasonPeerClosed {
			t.Errorf("after %d bytes: %v", n, got)
		}
	}
}
