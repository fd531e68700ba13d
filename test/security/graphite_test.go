package security

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
)

// TestRedirectsTakeNoSecretAlong: whatever a Graphite names as the place to go
// to, nobody is asked there, and nothing of this machine is read.
func TestRedirectsTakeNoSecretAlong(t *testing.T) {
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	var to atomic.Pointer[string]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/render" {
			asked.Add(1)
		}
		w.Header().Set("Location", *to.Load())
		w.Header().Set("Refresh", "0; url="+*to.Load())
		w.WriteHeader(http.StatusPermanentRedirect)
	}))
	defer server.Close()
	c, err := graphite.NewClient(graphite.Config{URL: server.URL, Username: "ann", Password: "pAssw0rd"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, place := range []string{other.URL, "//" + strings.TrimPrefix(other.URL, "http://") + "/render", "file:///etc/passwd", "/elsewhere", "unix:/run/haproxy/admin.sock", "\x00"} {
		to.Store(&place)
		answer, err := c.Render(t.Context(), graphite.Request{Targets: []string{"a"}, Window: time.Minute})
		var refused *graphite.RenderError
		if answer != nil || !errors.As(err, &refused) || refused.Kind != graphite.KindRedirect && refused.Kind != graphite.KindConnect {
			t.Errorf("%q: %+v, %v", place, answer, err)
		}
		if err != nil && (strings.Contains(err.Error(), "pAssw0rd") || strings.Contains(err.Error(), "root:")) {
			t.Errorf("%q: %v", place, err)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("somebody else was asked %d times", n)
	}
}

// TestGraphiteIsWhoItSays: a certificate that nobody trusts, or of another
// name, ends it before a secret is sent.
func TestGraphiteIsWhoItSays(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	server.Config.ErrorLog = silent
	server.StartTLS()
	defer server.Close()
	c, err := graphite.NewClient(graphite.Config{URL: server.URL, BearerToken: "token"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Render(t.Context(), graphite.Request{Targets: []string{"a"}, Window: time.Minute})
	var refused *graphite.RenderError
	if !errors.As(err, &refused) || refused.Kind != graphite.KindConnect || asked.Load() != 0 {
		t.Errorf("%v, asked %d times", err, asked.Load())
	}
}
