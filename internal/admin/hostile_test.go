package admin

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// dial opens a connection to the read-only listener.
func (s *site) dial() net.Conn {
	s.t.Helper()
	conn, err := net.DialTimeout("tcp", s.tcp, patience)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// raw sends bytes and reads one answer; method is that of the request.
func (s *site) raw(method, text string) (*http.Response, string) {
	s.t.Helper()
	conn := s.dial()
	if _, err := io.WriteString(conn, text); err != nil {
		s.t.Fatal(err)
	}
	w, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		s.t.Fatalf("%.60q: %v", text, err)
	}
	body, err := io.ReadAll(w.Body)
	if err != nil {
		s.t.Fatalf("%.60q: %v", text, err)
	}
	return w, string(body)
}

// still fails the test when an honest request is not answered.
func (s *site) still() {
	s.t.Helper()
	if a := s.get("/-/healthy"); a.status != http.StatusOK {
		s.t.Errorf("afterwards: %+v", a)
	}
}

func TestHostileRequests(t *testing.T) {
	s := newSite(t, haproxyOf("ingest", 1), loadsOf(1), quick())
	s.server.hostname = "lb1"
	s.listen()
	s.balance()
	s.passed()
	const host = "Host: localhost\r\n"
	for _, c := range []struct {
		name, request string
		status        int
		words         string
	}{
		{"POST to the read-only listener", "POST / HTTP/1.1\r\n" + host + "Content-Length: 2\r\n\r\n{}", 405, "changes nothing"},
		{"an order to the read-only listener", "POST /control/v1/freeze HTTP/1.1\r\n" + host + "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", 405, "changes nothing"},
		{"an order by GET", "GET /control/v1/freeze HTTP/1.1\r\n" + host + "\r\n", 404, "nothing at"},
		{"PUT", "PUT /api/v1/table HTTP/1.1\r\n" + host + "\r\n", 405, "changes nothing"},
		{"DELETE", "DELETE / HTTP/1.1\r\n" + host + "\r\n", 405, "changes nothing"},
		{"TRACE", "TRACE / HTTP/1.1\r\n" + host + "\r\n", 405, "changes nothing"},
		{"CONNECT", "CONNECT example.com:443 HTTP/1.1\r\n" + host + "\r\n", 405, "changes nothing"},
		{"preflight of another origin", "OPTIONS / HTTP/1.1\r\n" + host + "Origin: http://evil.example\r\nAccess-Control-Request-Method: GET\r\n\r\n", 405, "changes nothing"},
		{"override of the method", "GET /control/v1/freeze HTTP/1.1\r\n" + host + "X-HTTP-Method-Override: POST\r\n\r\n", 404, "nothing at"},
		{"a made-up method", "FROB / HTTP/1.1\r\n" + host + "\r\n", 405, "changes nothing"},
		{"GET with a body", "GET / HTTP/1.1\r\n" + host + "Content-Length: 1000000\r\n\r\n", 413, "has no body"},
		{"GET with a chunked body", "GET / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n", 413, "has no body"},
		{"two lengths", "GET / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, ""},
		{"length and chunked", "POST / HTTP/1.1\r\n" + host + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 405, ""},
		{"large headers", "GET / HTTP/1.1\r\n" + host + "X: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", 431, ""},
		{"a large address", "GET /" + strings.Repeat("x", 64<<10) + " HTTP/1.1\r\n" + host + "\r\n", 431, ""},
		{"many headers", "GET / HTTP/1.1\r\n" + host + strings.Repeat("X: y\r\n", 10000) + "\r\n", 431, ""},
		{"no Host", "GET / HTTP/1.1\r\n\r\n", 400, ""},
		{"two Hosts", "GET / HTTP/1.1\r\n" + host + host + "\r\n", 400, ""},
		{"no HTTP", "show info\n\n", 400, ""},
		{"TLS", "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + strings.Repeat("\x00", 100) + "\r\n\r\n", 400, ""},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 405, ""},
		{"path of a file", "GET /etc/passwd HTTP/1.1\r\n" + host + "\r\n", 404, "nothing at"},
		{"path upwards", "GET /../../../etc/passwd HTTP/1.1\r\n" + host + "\r\n", 307, ""},
		{"path upwards in code", "GET /api/v1/table/%2e%2e%2fstatus HTTP/1.1\r\n" + host + "\r\n", 404, "no backend"},
		{"path with a slash in code", "GET /api/v1/table/ingest%2f HTTP/1.1\r\n" + host + "\r\n", 404, "no backend"},
		{"path with a NUL", "GET /api/v1/table/ingest%00 HTTP/1.1\r\n" + host + "\r\n", 404, "no backend"},
		{"path with markup", "GET /<script>alert(1)</script> HTTP/1.1\r\n" + host + "\r\n", 404, `\u003cscript\u003e`},
		{"redirect to another host", "GET //evil.example/../x HTTP/1.1\r\n" + host + "\r\n", 307, ""},
		{"backend with markup", "GET /?backend=%3Cscript%3E HTTP/1.1\r\n" + host + "\r\n", 404, `\u003cscript\u003e`},
		{"another name (DNS rebinding)", "GET /api/v1/table HTTP/1.1\r\nHost: evil.example:9101\r\n\r\n", 421, "names another"},
		{"another name as an absolute address", "GET http://evil.example/api/v1/table HTTP/1.1\r\nHost: localhost\r\n\r\n", 421, "names another"},
		{"own name", "GET /-/healthy HTTP/1.1\r\nHost: LB1.:9101\r\n\r\n", 200, "healthy"},
		{"name below localhost", "GET /-/healthy HTTP/1.1\r\nHost: weighter.localhost\r\n\r\n", 200, "healthy"},
		{"IPv6 address", "GET /-/healthy HTTP/1.1\r\nHost: [::1]:9101\r\n\r\n", 200, "healthy"},
		{"a page of another site", "GET /api/v1/events HTTP/1.1\r\n" + host + "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n\r\n", 403, "another site"},
		{"a link from another site", "GET / HTTP/1.1\r\n" + host + "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n\r\n", 200, "<!doctype html>"},
		{"HTTP/1.0", "GET /api/v1/table/ingest?reasons=no HTTP/1.0\r\n\r\n", 200, `"backend":"ingest"`},
		{"HTTP/1.0 with keep-alive", "GET /-/healthy HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200, "healthy"},
		{"HEAD", "HEAD /api/v1/table HTTP/1.1\r\n" + host + "\r\n", 200, ""},
	} {
		method, _, _ := strings.Cut(c.request, " ")
		w, body := s.raw(method, c.request)
		if w.StatusCode != c.status || !strings.Contains(body, c.words) {
			t.Errorf("%s: %d %.200s; want %d with %q", c.name, w.StatusCode, body, c.status, c.words)
		}
		for name := range w.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: another origin is allowed: %s", c.name, name)
			}
		}
		if c.status == 405 && w.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: Allow %q", c.name, w.Header.Get("Allow"))
		}
		if c.status == 307 && !strings.HasPrefix(w.Header.Get("Location"), "/") || strings.HasPrefix(w.Header.Get("Location"), "//") {
			t.Errorf("%s: sent to %q", c.name, w.Header.Get("Location"))
		}
		if c.status == 200 && w.ContentLength < 0 {
			t.Errorf("%s: no Content-Length", c.name)
		}
	}
	s.still()
	if orders := s.controls.All(); len(orders) != 0 {
		t.Errorf("something was ordered: %+v", orders)
	}
}

func TestHeadersOfEveryAnswer(t *testing.T) {
	s := newSite(t, haproxyOf("ingest", 1), loadsOf(1), quick())
	s.listen()
	for _, path := range []string{"/", "/api/v1/status", "/api/v1/table/nope", "/-/ready", "/nowhere"} {
		h := s.get(path).header
		policy := h.Get("Content-Security-Policy")
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != "no-store" ||
			!strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %v", path, h)
		}
	}
}

// TestIdleConnectionsKeepNobodyOut holds a thousand connections open that say
// nothing, and some that say half a request.
func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	s := newSite(t, haproxyOf("ingest", 1), loadsOf(1), quick())
	s.listen()
	for i := range 1000 {
		conn := s.dial()
		if i%2 == 0 {
			fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: local")
		}
	}
	s.still()
}

// TestSlowRequestsAreCutOff holds that a client that never ends its header
// loses its connection.
func TestSlowRequestsAreCutOff(t *testing.T) {
	s := newSite(t, haproxyOf("ingest", 1), loadsOf(1), quick())
	s.server.limits.header, s.server.limits.idle = 100*time.Millisecond, 100*time.Millisecond
	s.listen()
	for _, begin := range []string{"", "GET / HTTP/1.1\r\nHost: localhost\r\nX-", "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
		conn := s.dial()
		if _, err := io.WriteString(conn, begin); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil { // ends when the server closes
			t.Errorf("after %q: %v", begin, err)
		}
	}
	s.still()
}

func TestEventStreamsAreBounded(t *testing.T) {
	s := newSite(t, haproxyOf("ingest", 1), loadsOf(1), quick())
	s.server.hub.most = 2
	stop := s.listen()
	const ask = "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
	watch := func() (net.Conn, int) {
		conn := s.dial()
		fmt.Fprint(conn, ask)
		w, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		return conn, w.StatusCode
	}
	first, status := watch()
	if _, second := watch(); status != 200 || second != 200 {
		t.Fatalf("status %d, %d", status, second)
	}
	if _, third := watch(); third != http.StatusServiceUnavailable {
		t.Errorf("one too many: status %d", third)
	}
	first.Close()
	s.until("the place is free again", func() bool { _, status := watch(); return status == 200 })
	stop() // ends with streams open
}

// TestSlowStreamIsCutOff holds that a client that does not read is dropped, and
// that passes never wait for it.
func TestSlowStreamIsCutOff(t *testing.T) {
	s := newSite(t, haproxyOf("ingest", 1), loadsOf(1), quick())
	s.server.limits.write = 200 * time.Millisecond
	s.listen()
	s.balance()
	s.passed()
	conn := s.dial()
	fmt.Fprint(conn, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	streams := func() int {
		s.server.hub.mu.Lock()
		defer s.server.hub.mu.Unlock()
		return len(s.server.hub.streams)
	}
	s.until("the stream is open", func() bool { return streams() == 1 })
	s.until("the stream is closed", func() bool {
		for range 1000 {
			s.server.Passed(s.fleet.Tables()[0])
		}
		return streams() == 0
	})
	s.still()
}

func TestPanicIsContained(t *testing.T) {
	s := newSite(t, haproxyOf("ingest", 1), loadsOf(1), quick())
	s.server.options.Metrics = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a mistake") })
	s.listen()
	conn := s.dial()
	fmt.Fprint(conn, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if n, err := io.Copy(io.Discard, conn); n != 0 || err != nil {
		t.Errorf("%d bytes, %v; want a connection that is cut", n, err)
	}
	if log := s.log.String(); !strings.Contains(log, "a mistake in haproxy-weighter") || !strings.Contains(log, "hostile_test.go") {
		t.Errorf("log:\n%s", log)
	}
	s.still()
}

func TestLargeAnswersWaitForEachOther(t *testing.T) {
	s := newSite(t, haproxyOf("ingest", 1), loadsOf(1), quick())
	s.server.limits.header = 50 * time.Millisecond
	s.listen()
	for range cap(s.server.heavy) {
		s.server.heavy <- struct{}{}
	}
	if a := s.get("/"); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("page: %+v", a)
	}
	<-s.server.heavy
	if a := s.get("/"); a.status != http.StatusOK {
		t.Errorf("page: %+v", a)
	}
}
