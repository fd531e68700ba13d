package spoa

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/negasus/haproxy-spoe-go/action"
	"github.com/negasus/haproxy-spoe-go/frame"
	"github.com/negasus/haproxy-spoe-go/payload/kv"
	"github.com/negasus/haproxy-spoe-go/typeddata"
	"github.com/negasus/haproxy-spoe-go/varint"
)

// patience is how long a test waits for what has to come; it bounds failures only.
const patience = 20 * time.Second

// peer plays HAProxy. It encodes and decodes with the library, not with the
// code under test.
type peer struct {
	t  *testing.T
	nc net.Conn
	r  *bufio.Reader
}

// reply is a frame from the agent.
type reply struct {
	Kind              frame.Type
	StreamID, FrameID uint64
	Items             map[string]any // of HELLO and DISCONNECT
	Actions           action.Actions // of ACK
}

func newPeer(t *testing.T, nc net.Conn) *peer {
	t.Helper()
	t.Cleanup(func() { nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &peer{t: t, nc: nc, r: bufio.NewReader(nc)}
}

func (p *peer) send(frames ...[]byte) {
	p.t.Helper()
	var all []byte
	for _, f := range frames {
		all = append(all, f...)
	}
	if _, err := p.nc.Write(all); err != nil {
		p.t.Fatalf("write: %v", err)
	}
}

// read returns the next frame; io.EOF when the agent has closed.
func (p *peer) read() (reply, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(p.r, head); err != nil {
		return reply{}, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head))
	if _, err := io.ReadFull(p.r, body); err != nil {
		return reply{}, err
	}
	return parseReply(p.t, body), nil
}

func (p *peer) mustRead() reply {
	p.t.Helper()
	r, err := p.read()
	if err != nil {
		p.t.Fatalf("read: %v", err)
	}
	return r
}

// mustEnd holds that nothing but the end of the connection comes.
func (p *peer) mustEnd() {
	p.t.Helper()
	if r, err := p.read(); !errors.Is(err, io.EOF) {
		p.t.Fatalf("got %+v, %v instead of the end of the connection", r, err)
	}
}

// mustDisconnect holds that the agent disconnects with a status and closes.
func (p *peer) mustDisconnect(status uint32) {
	p.t.Helper()
	r := p.mustRead()
	if r.Kind != frame.TypeAgentDisconnect || r.Items["status-code"] != status {
		p.t.Fatalf("got %+v, want a DISCONNECT with status %d", r, status)
	}
	if text, ok := r.Items["message"].(string); !ok || text == "" {
		p.t.Errorf("a DISCONNECT without a message: %+v", r)
	}
	p.mustEnd()
	p.nc.Close() // as HAProxy does
}

func (p *peer) hello() {
	p.t.Helper()
	p.send(helloFrame(DefaultMaxFrameSize))
	if r := p.mustRead(); r.Kind != frame.TypeAgentHello {
		p.t.Fatalf("got %+v, want a HELLO", r)
	}
}

// ask sends one NOTIFY and returns its ACK.
func (p *peer) ask(id uint64, payload []byte) reply {
	p.t.Helper()
	p.send(notifyFrame(id, payload))
	r := p.mustRead()
	if r.Kind != frame.TypeAgentAck || r.StreamID != id || r.FrameID != id+1 {
		p.t.Fatalf("got %+v, want the ACK of %d", r, id)
	}
	return r
}

func parseReply(t *testing.T, body []byte) reply {
	t.Helper()
	if len(body) < 7 || binary.BigEndian.Uint32(body[1:]) != 1 {
		t.Fatalf("a frame without FIN, or too short: %x", body)
	}
	r := reply{Kind: frame.Type(body[0])}
	body = body[5:]
	var n int
	r.StreamID, n = varint.Uvarint(body)
	body = body[n:]
	r.FrameID, n = varint.Uvarint(body)
	body = body[n:]
	if r.Kind == frame.TypeAgentAck {
		r.Actions = parseActions(t, body)
		return r
	}
	items := kv.NewKV()
	if err := items.Unmarshal(body); err != nil {
		t.Fatalf("items: %v", err)
	}
	r.Items = make(map[string]any)
	for _, item := range items.Data() {
		r.Items[item.Name] = item.Value
	}
	return r
}

// parseActions reads actions as HAProxy does.
func parseActions(t *testing.T, b []byte) action.Actions {
	t.Helper()
	var actions action.Actions
	for len(b) > 0 {
		a := action.Action{Type: action.Type(b[0]), Scope: action.Scope(b[2])}
		args := b[1]
		length, n := varint.Uvarint(b[3:])
		b = b[3+n:]
		a.Name = string(b[:length])
		b = b[length:]
		switch {
		case a.Type == action.TypeSetVar && args == 3:
			value, n, err := typeddata.Decode(b)
			if err != nil {
				t.Fatalf("value of %s: %v", a.Name, err)
			}
			a.Value, b = value, b[n:]
		case a.Type == action.TypeUnsetVar && args == 2:
		default:
			t.Fatalf("action %d with %d arguments", a.Type, args)
		}
		actions = append(actions, a)
	}
	return actions
}

func anyFrame(kind frame.Type, flags uint32, streamID, frameID uint64, payload []byte) []byte {
	body := []byte{byte(kind)}
	body = binary.BigEndian.AppendUint32(body, flags)
	body = append(body, number(streamID)...)
	body = append(body, number(frameID)...)
	return rawBytes(append(body, payload...))
}

// rawBytes puts the length in front.
func rawBytes(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func number(v uint64) []byte {
	b := make([]byte, 12)
	return b[:varint.PutUvarint(b, v)]
}

func text(s string) []byte { return append(number(uint64(len(s))), s...) }

// items encodes names and values by turns.
func items(pairs ...any) []byte {
	list := kv.NewKV()
	for i := 0; i < len(pairs); i += 2 {
		list.Add(pairs[i].(string), pairs[i+1])
	}
	b, err := list.Bytes()
	if err != nil {
		panic(err)
	}
	return b
}

func helloItems(maxFrameSize uint32) []byte {
	return items("supported-versions", "2.0", "max-frame-size", maxFrameSize,
		"capabilities", "pipelining,async", "engine-id", "engine-1")
}

func helloFrame(maxFrameSize uint32) []byte {
	return anyFrame(frame.TypeHaproxyHello, 1, 0, 0, helloItems(maxFrameSize))
}

// notifyFrame has stream-id id and frame-id id+1.
func notifyFrame(id uint64, payload []byte) []byte {
	return anyFrame(frame.TypeNotify, 1, id, id+1, payload)
}

// messageOf encodes one message; pairs as for items.
func messageOf(name string, pairs ...any) []byte {
	return append(append(text(name), byte(len(pairs)/2)), items(pairs...)...)
}

// recorder is an Observer.
type recorder struct {
	closed   chan Reason // one for each connection that ended
	mu       sync.Mutex
	opened   int
	results  Results
	batches  int
	negative bool // some latency was below zero
}

func (r *recorder) Opened() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened++
}

func (r *recorder) Closed(reason Reason) { r.closed <- reason }

func (r *recorder) Answered(results Results, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, n := range results {
		r.results[i] += n
	}
	r.batches++
	r.negative = r.negative || took < 0
}

func (r *recorder) seen() Results {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.results
}

// mustClose waits for the end of one connection.
func (r *recorder) mustClose(t *testing.T, want Reason) {
	t.Helper()
	select {
	case got := <-r.closed:
		if got != want {
			t.Errorf("connection closed because of %v, want %v", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("no connection closed; want one because of %v", want)
	}
}

// rig is a server on a loopback port.
type rig struct {
	t      *testing.T
	server *Server
	seen   *recorder
	addr   string
}

// echo answers each message with its arguments.
var echo = HandlerFunc(func(answer *action.Actions, r *Request) error {
	for _, m := range r.Messages {
		for _, item := range m.KV.Data() {
			answer.SetVar(action.ScopeTransaction, item.Name, item.Value)
		}
	}
	return nil
})

func start(t *testing.T, s *Server) *rig {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return startOn(t, s, l)
}

func startOn(t *testing.T, s *Server, l net.Listener) *rig {
	t.Helper()
	g := &rig{t: t, server: s, seen: &recorder{closed: make(chan Reason, 1000)}, addr: l.Addr().String()}
	if s.Handler == nil {
		s.Handler = echo
	}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	s.Observer = g.seen
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, ErrServerClosed) {
			t.Errorf("Serve returned %v", err)
		}
		if g.seen.negative {
			t.Error("a negative latency was observed")
		}
	})
	return g
}

// dial connects without a HELLO.
func (g *rig) dial() *peer {
	g.t.Helper()
	nc, err := net.Dial("tcp", g.addr)
	if err != nil {
		g.t.Fatal(err)
	}
	return newPeer(g.t, nc)
}

// connect dials and exchanges HELLOs.
func (g *rig) connect() *peer {
	g.t.Helper()
	p := g.dial()
	p.hello()
	return p
}

// pipeListener hands out in-memory connections, for tests on a fake clock.
type pipeListener struct {
	incoming chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{incoming: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case nc := <-l.incoming:
		return nc, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (l *pipeListener) dial(t *testing.T) *peer {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close() })
	l.incoming <- theirs
	return &peer{t: t, nc: ours, r: bufio.NewReader(ours)}
}
