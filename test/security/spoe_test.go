package security

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/negasus/haproxy-spoe-go/action"
	"github.com/negasus/haproxy-spoe-go/frame"
	"github.com/negasus/haproxy-spoe-go/typeddata"
	"github.com/negasus/haproxy-spoe-go/varint"

	"github.com/haproxy-weighter/haproxy-weighter/spoa"
)

// framed is a whole SPOP frame.
func framed(kind frame.Type, id uint64, payload []byte) []byte {
	body := []byte{byte(kind), 0, 0, 0, 1}
	body = append(number(number(body, id), id), payload...)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func number(b []byte, v uint64) []byte {
	var room [10]byte
	return append(b, room[:varint.PutUvarint(room[:], v)]...)
}

func text(b []byte, s string) []byte { return append(number(b, uint64(len(s))), s...) }

func item(b []byte, name, value string) []byte {
	return text(append(text(b, name), typeddata.TypeString), value)
}

func hello() []byte {
	b := item(nil, "supported-versions", "2.0")
	b = number(append(text(b, "max-frame-size"), typeddata.TypeUInt32), spoa.DefaultMaxFrameSize)
	return framed(frame.TypeHaproxyHello, 0, item(b, "capabilities", "pipelining"))
}

// notify is the payload of a message with one argument.
func notify(message, name, value string) []byte {
	return item(append(text(nil, message), 1), name, value)
}

// tell sends messages on a connection of its own and waits for their answers.
func (s *scene) tell(payloads ...[]byte) {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.spoe)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	for i, frame := range append([][]byte{hello()}, payloads...) {
		if i > 0 {
			frame = framed(3, uint64(i), frame) // NOTIFY
		}
		if _, err := conn.Write(frame); err != nil {
			s.t.Fatal(err)
		}
		var length [4]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			s.t.Fatalf("the answer to frame %d: %v", i, err)
		}
		if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(length[:]))); err != nil {
			s.t.Fatalf("the answer to frame %d: %v", i, err)
		}
	}
}

// mostPerConnection is what docs/security.md says that a SPOE connection may
// take, in bytes.
const mostPerConnection = 160 << 10

// TestMemoryOfSPOEConnections: peers that send all that they may, and read
// nothing, take a bounded memory each.
func TestMemoryOfSPOEConnections(t *testing.T) {
	const peers = 64
	const frames = 20 // that a peer sends; the handler stops in the middle, when buffers are full
	answering := make(chan struct{}, peers)
	release := make(chan struct{})
	var mu sync.Mutex
	calls := make(map[net.Addr]int)
	server := &spoa.Server{FrameTimeout: time.Minute, WriteTimeout: time.Minute, Handler: spoa.HandlerFunc(func(a *action.Actions, r *spoa.Request) error {
		a.SetVar(action.ScopeTransaction, "x", string(bytes.Repeat([]byte("x"), 15<<10)))
		mu.Lock()
		calls[r.RemoteAddr]++
		call := calls[r.RemoteAddr]
		mu.Unlock()
		if call == frames/2 {
			answering <- struct{}{}
			<-release
		}
		return nil
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	defer func() {
		close(release)
		server.Close()
		<-ended
	}()
	burst := framed(3, 1, notify("m", "a", string(bytes.Repeat([]byte("a"), 15<<10))))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range peers {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(append(hello(), bytes.Repeat(burst, frames)...)); err != nil {
			t.Fatal(err)
		}
	}
	for range peers {
		select {
		case <-answering:
		case <-time.After(patience):
			t.Fatal("not every connection has come to its answer")
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / peers
	t.Logf("%d bytes a connection", each)
	if each > mostPerConnection {
		t.Errorf("a connection takes %d bytes, above %d", each, mostPerConnection)
	}
}
