package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// socketPath is short enough for a unix socket.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "api")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "c.sock")
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", socketPath(t))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serve answers on a unix socket until the test ends.
func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	l := listen(t)
	server := httptest.NewUnstartedServer(h)
	server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	return &Client{Socket: l.Addr().String(), Timeout: 10 * time.Second}
}

func sendJSON(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body)
}

func TestRequests(t *testing.T) {
	var got []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = append(got, fmt.Sprintf("%s %s %s %s", r.Method, r.URL.EscapedPath(), r.Header.Get("Content-Type"), body))
		answers := map[string]string{
			"/api/v1/status":      `{"version": "1", "newer_field": [1]}`,
			"/api/v1/table/a b/c": `{"tables": [{"backend": "a b/c", "servers": [{"server": "s1", "load": 1.5, "in_rotation": true}]}]}`,
			"/api/v1/history/x":   `{"backend": "x", "events": [{"kind": "order"}]}`,
			"/control/v1/pin":     `{"backend": "x", "control": {"pins": {"s1": {"weight": 7, "author": "alice"}}}, "warning": "w"}`,
		}
		sendJSON(w, http.StatusOK, answers[r.URL.Path])
	})
	status, err := c.Status(t.Context())
	if err != nil || status.Version != "1" {
		t.Errorf("status %+v, %v", status, err)
	}
	tables, err := c.Tables(t.Context(), "a b/c")
	if err != nil || len(tables) != 1 || tables[0].Servers[0].Server != "s1" || *tables[0].Servers[0].Load != 1.5 || !tables[0].Servers[0].InRotation {
		t.Errorf("tables %+v, %v", tables, err)
	}
	history, err := c.History(t.Context(), "x")
	if err != nil || history.Events[0].Kind != EventOrder {
		t.Errorf("history %+v, %v", history, err)
	}
	done, err := c.Order(t.Context(), "pin", Order{Backend: "x", Server: "s1", Weight: 7, Reason: "r", ForSeconds: 60})
	if err != nil || done.Control.Pins["s1"].Weight != 7 || done.Control.Pins["s1"].Author != "alice" || done.Warning != "w" {
		t.Errorf("done %+v, %v", done, err)
	}
	want := []string{
		"GET /api/v1/status  ",
		"GET /api/v1/table/a%20b%2Fc  ",
		"GET /api/v1/history/x  ",
		`POST /control/v1/pin application/json {"backend":"x","server":"s1","weight":7,"reason":"r","for_seconds":60}`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("requests (-want +got):\n%s", d)
	}
}

func TestRefused(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		sendJSON(w, http.StatusNotFound, `{"error": "there is no backend", "do": "look"}`)
	})
	_, err := c.Tables(t.Context(), "x")
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Code != http.StatusNotFound || refused.Do != "look" || err.Error() != "there is no backend" {
		t.Errorf("error %#v", err)
	}
}

// TestStrangeAnswers has what is no answer of haproxy-weighter's.
func TestStrangeAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"HTML": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>hello</html>")
		}, `content type "text/html" instead of JSON`},
		"no content type": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			w.WriteHeader(http.StatusOK)
		}, `content type "" instead of JSON`},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/login", http.StatusFound)
		}, "HTTP status 302"},
		"no JSON": {func(w http.ResponseWriter, _ *http.Request) {
			sendJSON(w, http.StatusOK, "hello")
		}, "invalid character"},
		"a list": {func(w http.ResponseWriter, _ *http.Request) {
			sendJSON(w, http.StatusOK, "[]")
		}, "cannot unmarshal array"},
		"two answers": {func(w http.ResponseWriter, _ *http.Request) {
			sendJSON(w, http.StatusOK, "{} {}")
		}, "invalid character"},
		"refusal without a reason": {func(w http.ResponseWriter, _ *http.Request) {
			sendJSON(w, http.StatusTeapot, "{}")
		}, "HTTP status 418, no reason is given"},
		"half an answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			sendJSON(w, http.StatusOK, `{"version":`)
		}, "the answer was cut off"},
		"cut without a length": {func(w http.ResponseWriter, _ *http.Request) {
			sendJSON(w, http.StatusOK, `{"version":`)
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			panic(http.ErrAbortHandler)
		}, "the answer was cut off"},
		"too large": {func(w http.ResponseWriter, _ *http.Request) {
			sendJSON(w, http.StatusOK, `{"version": "`+strings.Repeat("x", 1000)+`"}`)
		}, "the answer is larger than 1000 bytes"},
		"large headers": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", largestHeaders))
			sendJSON(w, http.StatusOK, "{}")
		}, "server response headers exceeded"},
		"cut off at once": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			client := serve(t, c.answer)
			client.MaxBody = 1000
			_, err := client.Status(t.Context())
			wantUnreachable(t, err, client.Socket, true, c.want)
		})
	}
}

func wantUnreachable(t *testing.T, err error, socket string, sent bool, words string) {
	t.Helper()
	var unreachable *UnreachableError
	switch {
	case !errors.As(err, &unreachable):
		t.Fatalf("error %#v", err)
	case unreachable.Sent != sent || unreachable.Socket != socket:
		t.Errorf("sent %v, socket %s", unreachable.Sent, unreachable.Socket)
	case !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), socket):
		t.Errorf("error %q, want %q", err, words)
	}
}

func TestNobody(t *testing.T) {
	path := socketPath(t)
	c := &Client{Socket: path}
	_, err := c.Status(t.Context())
	wantUnreachable(t, err, path, false, "no such file or directory")
	if !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "dial") {
		t.Errorf("error %q", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	_, err = c.Status(t.Context())
	wantUnreachable(t, err, path, false, "connection refused")
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("error %q", err)
	}
}

// TestHung: one that takes the connection and says nothing ends with the time.
func TestHung(t *testing.T) {
	l := listen(t)
	defer l.Close()
	c := &Client{Socket: l.Addr().String(), Timeout: 20 * time.Millisecond}
	_, err := c.Order(t.Context(), "pin", Order{Backend: "x"})
	wantUnreachable(t, err, c.Socket, true, "no answer within 20ms")
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("error %q", err)
	}
}

// TestHungInTheMiddle: the time counts for the answer as a whole.
func TestHungInTheMiddle(t *testing.T) {
	end := make(chan struct{})
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		sendJSON(w, http.StatusOK, `{"version":`)
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-end
	})
	defer close(end)
	c.Timeout = 50 * time.Millisecond
	_, err := c.Status(t.Context())
	wantUnreachable(t, err, c.Socket, true, "no answer within 50ms")
}

func TestInterrupted(t *testing.T) {
	l := listen(t)
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if conn, err := l.Accept(); err == nil {
			cancel()
			conn.Close()
		}
	}()
	_, err := (&Client{Socket: l.Addr().String()}).Status(ctx)
	var unreachable *UnreachableError
	if !errors.Is(err, context.Canceled) || errors.As(err, &unreachable) {
		t.Errorf("error %#v", err)
	}
}

// TestOrderIsSmall: fields that an order does not have are left out, since a
// daemon refuses them.
func TestOrderIsSmall(t *testing.T) {
	text, err := json.Marshal(Order{Backend: "x"})
	if err != nil || string(text) != `{"backend":"x"}` {
		t.Errorf("%s, %v", text, err)
	}
}
