package spoa

import (
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/negasus/haproxy-spoe-go/action"
	"github.com/negasus/haproxy-spoe-go/message"
)

// nowhere is a connection that is always written at once.
type nowhere struct{ tapConn }

func (*nowhere) Write(b []byte) (int, error) { return len(b), nil }

// answering is a connection past its HELLO whose handler sets three variables
// that exist already, as a handler with a table does.
func answering(t testing.TB) *conn {
	t.Helper()
	var weight, load, best any = 100, 123456, "server-1"
	s := &Server{
		Observer: noObserver{},
		Logger:   slog.New(slog.DiscardHandler),
		started:  time.Now(),
		Handler: HandlerFunc(func(answer *action.Actions, r *Request) error {
			if backend, _ := r.Messages[0].KV.Get("backend"); backend == "ingest" {
				answer.SetVar(action.ScopeTransaction, "weight", weight)
				answer.SetVar(action.ScopeTransaction, "load", load)
				answer.SetVar(action.ScopeTransaction, "best", best)
			}
			return nil
		}),
	}
	var err error
	if s.settings, err = s.newSettings(); err != nil {
		t.Fatal(err)
	}
	c := newConn(s, &nowhere{})
	c.state = stateReady
	return c
}

// feed has the connection answer one frame as if it had been read.
func (c *conn) feed(frame []byte) *ending {
	c.start, c.end = 0, copy(c.in, frame)
	if end := c.answerAll(); end != nil {
		return end
	}
	return c.flush()
}

var payloads = []struct {
	name string
	data []byte
}{
	{"small", messageOf("weighter-server", "backend", "ingest", "server", "s1")},
	{"large", messageOf("large", "backend", "ingest", "i", int32(5), "a", strings.Repeat("a", 300), "b", strings.Repeat("b", 300),
		"c", strings.Repeat("c", 300), "d", true, "e", int64(1<<40), "f", []byte("bytes"), "g", "g", "h", nil)},
}

// allocations is the mean of many runs, as a fraction: the race detector makes
// the decoder's pools forget some of what they hold.
func allocations(f func()) float64 {
	const runs = 20000
	return testing.AllocsPerRun(1, func() {
		for range runs {
			f()
		}
	}) / runs
}

// TestAllocations: an answer allocates what the library's decoder does, and nothing more.
func TestAllocations(t *testing.T) {
	for _, p := range payloads {
		t.Run(p.name, func(t *testing.T) {
			var messages message.Messages
			decode := allocations(func() {
				if err := messages.Decode(p.data); err != nil {
					t.Fatal(err)
				}
				messages.Reset()
			})
			c := answering(t)
			whole := notifyFrame(1, p.data)
			answer := allocations(func() {
				if end := c.feed(whole); end != nil {
					t.Fatal(end)
				}
			})
			if answer > decode+0.2 {
				t.Errorf("%v allocations for an answer, %v of them for decoding", answer, decode)
			}
			if decode == 0 {
				t.Error("decoding is said to allocate nothing: what is measured here?")
			}
		})
	}
}

func BenchmarkAnswer(b *testing.B) {
	for _, p := range payloads {
		b.Run(p.name, func(b *testing.B) {
			c := answering(b)
			whole := notifyFrame(1, p.data)
			b.ReportAllocs()
			for b.Loop() {
				c.feed(whole)
			}
		})
	}
}

func BenchmarkCheckMessages(b *testing.B) {
	for _, p := range payloads {
		b.Run(p.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if checkMessages(p.data) != nil {
					b.Fatal("refused")
				}
			}
		})
	}
}

// TestOnlyTheCodecIsUsed: the library's own server, which the network can
// crash, is not even linked.
func TestOnlyTheCodecIsUsed(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	const library = "github.com/negasus/haproxy-spoe-go/"
	var used []string
	for path := range strings.FieldsSeq(string(out)) {
		if name, ok := strings.CutPrefix(path, library); ok {
			used = append(used, name)
		}
	}
	slices.Sort(used)
	want := []string{"action", "frame", "message", "payload/kv", "typeddata", "varint"}
	if !slices.Equal(used, want) {
		t.Errorf("linked of the library: %v, want %v", used, want)
	}
}
