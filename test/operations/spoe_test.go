package operations

import (
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/negasus/haproxy-spoe-go/action"
	"github.com/negasus/haproxy-spoe-go/message"

	"github.com/haproxy-weighter/haproxy-weighter/internal/query"
	"github.com/haproxy-weighter/haproxy-weighter/lua"
	"github.com/haproxy-weighter/haproxy-weighter/spoa"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// The frames of SPOP (doc/SPOE.txt of HAProxy), as much of them as is spoken here.
const (
	frameHello  = 1
	frameNotify = 3
)

// short appends a text of under 240 bytes, with its length.
func short(b []byte, text string) []byte { return append(append(b, byte(len(text))), text...) }

// argument appends a named string.
func argument(b []byte, name, value string) []byte { return short(append(short(b, name), 8), value) }

// frameOf makes a frame with the length before it.
func frameOf(kind, stream byte, payload []byte) []byte {
	b := append(append(make([]byte, 4), kind, 0, 0, 0, 1, stream, min(stream, 1)), payload...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// hello is what HAProxy begins with; it announces frames of 256 bytes.
func hello() []byte {
	b := append(short(argument(nil, "supported-versions", "2.0"), "max-frame-size"), 3, 0xf0, 1)
	return frameOf(frameHello, 0, argument(b, "capabilities", ""))
}

// question asks messages, each of them its name and its arguments.
func question(messages ...[]string) []byte {
	var b []byte
	for _, m := range messages {
		b = append(short(b, m[0]), byte(len(m)/2))
		for i := 1; i < len(m); i += 2 {
			b = argument(b, m[i], m[i+1])
		}
	}
	return frameOf(frameNotify, 1, b)
}

// send connects to the agent, sends frames and waits for as many answers, or
// for the end of the connection.
func (s *scene) send(address string, frames ...[]byte) {
	s.t.Helper()
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	for _, f := range frames {
		if _, err := conn.Write(f); err != nil {
			return
		}
		size := make([]byte, 4)
		if _, err := io.ReadFull(conn, size); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(size))); err != nil {
			return
		}
	}
}

// spoeFaults has HAProxys and strangers ask what can't be answered.
func spoeFaults(t *testing.T) {
	port, err := haproxyproc.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	agent := fmt.Sprintf("[spoa]\nlisten = [%q]\nmax_connections = 4\n", address)
	s := newScene(t, haproxyConfig("ingest", "roundrobin", ""))
	s.configure(settings{tables: agent})
	s.start(nil)
	s.settle()
	for fault, q := range map[string][]byte{
		"an SPOE message is not known":                                              question([]string{"weighter-typo", "backend", "ingest"}),
		"an SPOE message sets nothing":                                              question([]string{"weighter-server", "backend", "ingest"}),
		"an SPOE message asks for a backend that the configuration does not have":   question([]string{"weighter-backend", "backend", "nope"}),
		"SPOE connection closed because of its peer; others go on":                  frameOf(77, 1, nil),
		"SPOE answer sent without variables; HAProxy goes on as if there were none": question([]string{"weighter-backend", "backend", "ingest", "as", strings.Repeat("x", 64)}),
	} {
		s.send(address, hello(), q)
		s.begins(fault)
	}
	// A burst is refused; what comes once others are idle takes their places.
	var open []net.Conn
	for _, fault := range []string{
		"SPOE connection refused: too many are open; HAProxy goes on without variables for the streams that it would have served",
		"SPOE connection closed: too many are open, and it was idle when another one came; HAProxy opens it again when it needs it",
	} {
		s.until(fault, func() bool {
			for range 16 {
				conn, err := net.DialTimeout("tcp", address, patience)
				if err != nil {
					t.Fatal(err)
				}
				open = append(open, conn)
			}
			return slices.ContainsFunc(s.lines()[s.read:], func(l line) bool { return l.Msg == fault })
		})
		s.begins(fault)
	}
	for _, conn := range open {
		conn.Close()
	}
	s.script("answer.lua", "function answer() error('no') end")
	s.configure(settings{tables: agent + "script = \"{dir}/answer.lua\"\n"})
	s.hangUp()
	s.until("an answer of the script", func() bool {
		s.send(address, hello(), question([]string{"mine", "x", "y"}))
		return s.logs("the script fails on an SPOE message")
	})
	s.begins("the script fails on an SPOE message")
	s.stop()
}

// scriptWorksAgain has the minute pass at once after which a script counts as
// good again.
func scriptWorksAgain(t *testing.T) {
	s := &scene{t: t, doc: readDocument(t), dir: t.TempDir()}
	s.log = s.file("log")
	log, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s.script("answer.lua", "function answer(m) if m == 'bad' then error('no') end return {x = 1} end")
	script, err := lua.Load(s.file("answer.lua"), lua.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	h := query.New(query.Options{Script: script, Now: func() time.Time { return now }, Logger: slog.New(slog.NewJSONHandler(log, nil))})
	for _, name := range []string{"bad", "good"} {
		m := message.AcquireMessage()
		m.Name = name
		var a action.Actions
		if err := h.ServeSPOE(&a, &spoa.Request{Messages: message.Messages{m}}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(2 * time.Minute)
	}
	s.ends("the script fails on an SPOE message")
}

// descriptorFaults has the daemon without file descriptors.
func descriptorFaults(t *testing.T) {
	port, err := haproxyproc.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	s := newScene(t, haproxyConfig("ingest", "roundrobin", ""))
	s.configure(settings{tables: fmt.Sprintf("[spoa]\nlisten = [%q]\n", address)})
	s.start(nil, "prlimit", "--nofile=40:40")
	s.settle()
	const closed, full = "HAProxy's socket can't be opened",
		"SPOE connections cannot be accepted: new ones wait, open ones go on; raise the limit of open files (LimitNOFILE) if that is the cause"
	var open []net.Conn
	for range 60 {
		conn, err := net.DialTimeout("tcp", address, patience)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		open = append(open, conn)
	}
	// Nobody can ask it for its status now.
	s.tells(full, closed)
	s.tellsCause("HAProxy was not asked: this process has no file descriptor left")
	for _, conn := range open {
		conn.Close()
	}
	s.ends(full, closed)
	s.stop()
}
