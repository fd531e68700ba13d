package cli

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// TestServesPage has what can listen at the address of the status page; our own
// is asked in a script.
func TestServesPage(t *testing.T) {
	for name, tt := range map[string]struct {
		answer string
		want   bool
	}{
		"closes":               {"", false},
		"talks another way":    {"220 mail.example.com ESMTP\r\n", false},
		"ends in the middle":   {"HTTP/1.1 200 OK\r\nContent-Type: applic", false},
		"has no such page":     {"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", false},
		"answers with a page":  {"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>", false},
		"answers another JSON": {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"version\": 1, \"status\": 2}", false},
		"answers a list":       {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[]", false},
		"endless blanks":       {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + strings.Repeat(" ", 2*mostStatus) + `{"version": "1", "pid": 2}`, false},
		"cut, and ours":        {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"version\":\"1\",\"pid\":2,\"sta", true},
	} {
		here, there := net.Pipe()
		var done sync.WaitGroup
		done.Go(func() {
			defer there.Close()
			r, err := http.ReadRequest(bufio.NewReader(there))
			if err != nil || r.URL.Path != "/api/v1/status" || r.Host != "localhost" {
				t.Errorf("%s: the question: %+v, %v", name, r, err)
			}
			_, _ = io.WriteString(there, tt.answer) // who has seen enough goes away
		})
		if got := servesPage(t.Context(), here); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
		here.Close()
		done.Wait()
	}
}

// TestDefaultsAreMild holds that nothing about the default addresses fails the
// check, as nothing about them keeps the daemon from starting. What is on this
// machine is not known here.
func TestDefaultsAreMild(t *testing.T) {
	c, err := config.Parse("f", []byte(config.Minimal), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	s := &survey{config: c}
	s.admin(t.Context())
	s.control(t.Context())
	if len(s.findings) != 2 {
		t.Fatalf("%+v", s.findings)
	}
	for _, f := range s.findings {
		if f.Result == fail || f.Result == warn && f.Do == "" {
			t.Errorf("%+v", f)
		}
	}
	// Taken for sure, on an address of ours.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	})
	defer accepting.Wait()
	defer l.Close()
	for _, taken := range []result{warn, fail} {
		s := &survey{}
		s.listen(t.Context(), place{check: "admin", at: config.Listener{Network: "tcp", Address: l.Addr().String()}, taken: taken, ours: servesPage, isOther: wordsPageOther})
		if len(s.findings) != 1 || s.findings[0].Result != taken {
			t.Errorf("%+v, want %s", s.findings, taken)
		}
	}
}
