package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/test/corpus"
	"github.com/haproxy-weighter/haproxy-weighter/test/logbook"
)

// FuzzRequests sends bytes to one of the two listeners, on a connection that is
// closed for writing behind them. Whatever they are, nothing panics, what comes
// back is HTTP, the listener that changes nothing has changed nothing, and an
// order that got into force is one that the commands could have sent.
func FuzzRequests(f *testing.F) {
	corpus.Add(f)
	for _, request := range []string{
		"", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /?backend=ingest HTTP/1.0\r\n\r\n", "HEAD /api/v1/status HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /api/v1/table/ingest?reasons=no HTTP/1.1\r\nHost: a\r\n\r\nGET /-/ready HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /api/v1/history/ingest?since=1700000000 HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n", "GET /api/v1/events HTTP/1.1\r\nHost: a\r\nSec-Fetch-Site: cross-site\r\n\r\n",
		"GET //evil.example/../x HTTP/1.1\r\nHost: a\r\n\r\n", "GET /%00%1b[2J HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "show info\n",
		posted("pin", `{"backend":"ingest","server":"s1","weight":42,"reason":"new kernel","for_seconds":7200}`),
		posted("freeze", `{"backend":"ingest","reason":"x","for_seconds":60}`) + posted("unfreeze", `{"backend":"ingest"}`),
		posted("mode", `{"backend":"ingest","mode":"observe","reason":"x"}`) + posted("unpin", `{"backend":"ingest","server":"s1"}`),
		"POST /control/v1/freeze HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
	} {
		f.Add([]byte(request), true)
		f.Add([]byte(request), false)
	}
	s := newSite(f, haproxyOf("ingest", 2), loadsOf(2), quick())
	stop := s.balance()
	s.passed()
	stop() // the rest is what the requests do
	mistakes := &logbook.Book{}
	s.server.log = slog.New(slog.NewTextHandler(mistakes, &slog.HandlerOptions{Level: slog.LevelError}))
	s.listen()
	readOnly := s.secondSocket()
	f.Fuzz(func(t *testing.T, request []byte, control bool) {
		socket := readOnly
		if control {
			socket = s.control
		}
		checkAnswer(t, request, exchange(t, socket, request))
		if text := mistakes.String(); text != "" {
			t.Fatalf("%q makes a mistake visible: %s", request, text)
		}
		orders := s.controls.All()
		if !control && len(orders) > 0 {
			t.Fatalf("the listener that changes nothing took an order: %+v", orders)
		}
		for backend, c := range orders {
			checkOrders(t, backend, c)
			s.takeBack(t, backend, c)
		}
	})
}

// posted is an order as a request.
func posted(kind, body string) string {
	return "POST " + controlPrefix + kind + " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

// secondSocket serves what the TCP listener serves at a unix socket, since as
// many TCP connections as a fuzzer makes would use up all ports.
func (s *site) secondSocket() string {
	s.t.Helper()
	path := s.t.TempDir() + "/read.sock"
	l, err := ListenControl(s.t.Context(), path)
	if err != nil {
		s.t.Fatal(err)
	}
	s.background("Serve", func(ctx context.Context) error { return s.server.Serve(ctx, l) })
	return path
}

// exchange sends bytes and reads all that comes back.
func exchange(t *testing.T, socket string, request []byte) []byte {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	// A server that has heard enough may close before all is written, or read.
	_, _ = conn.Write(request)
	_ = conn.(*net.UnixConn).CloseWrite()
	answer, err := io.ReadAll(conn)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("no end after %d bytes of an answer: %v", len(answer), err)
	}
	return answer
}

// checkAnswer looks at the first of the answers.
func checkAnswer(t *testing.T, request, answer []byte) {
	t.Helper()
	if len(answer) == 0 {
		return
	}
	method, _, _ := bytes.Cut(request, []byte(" "))
	w, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), &http.Request{Method: string(method)})
	if err != nil {
		t.Fatalf("%q is answered with %.200q: %v", request, answer, err)
	}
	defer w.Body.Close()
	body, err := io.ReadAll(w.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("%q is answered with %.200q: %v", request, answer, err)
	}
	for name := range w.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("another origin is allowed: %s", name)
		}
	}
	if to := w.Header.Get("Location"); to != "" && (!strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.HasPrefix(to, `/\`)) {
		t.Errorf("%q is sent to %q", request, to)
	}
	if w.Header.Get("Content-Type") != "application/json" {
		return
	}
	if w.StatusCode >= 500 && w.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%q is answered with %d %s", request, w.StatusCode, body)
	}
	var problem api.Problem
	if len(body) > 0 && w.StatusCode >= 400 && (json.Unmarshal(body, &problem) != nil || problem.Error == "" || strings.ContainsFunc(problem.Error, unprintable)) {
		t.Errorf("%q is answered with %q", request, body)
	}
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// checkOrders holds for whatever got into force.
func checkOrders(t *testing.T, backend string, c balancer.Control) {
	t.Helper()
	var all []balancer.Order
	for server, p := range c.Pins {
		all = append(all, p.Order)
		if p.Weight < leastWeight || p.Weight > mostWeight || server != "s1" && server != "s2" || p.Until.IsZero() {
			t.Errorf("%s: a pin %+v", server, p)
		}
	}
	if c.Freeze != nil {
		all = append(all, c.Freeze.Order)
		if c.Freeze.Until.IsZero() {
			t.Errorf("a freeze without an end: %+v", c.Freeze)
		}
	}
	if c.Mode != nil {
		all = append(all, c.Mode.Order)
	}
	for _, o := range all {
		if backend != "ingest" || o.Author == "" || o.Reason == "" || strings.ContainsFunc(o.Reason, unprintable) || o.Until.After(time.Now().Add(mostFor)) {
			t.Errorf("%s: an order %+v", backend, o)
		}
	}
}

// takeBack ends the orders of a backend.
func (s *site) takeBack(t *testing.T, backend string, c balancer.Control) {
	t.Helper()
	var err error
	for server := range c.Pins {
		err = errors.Join(err, s.controls.Unpin(backend, server))
	}
	if c.Freeze != nil {
		err = errors.Join(err, s.controls.Unfreeze(backend))
	}
	if c.Mode != nil {
		err = errors.Join(err, s.controls.SetMode(backend, nil))
	}
	if err != nil {
		t.Fatal(err)
	}
}
