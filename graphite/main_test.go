package graphite

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask is a request that every handler here understands.
func ask() Request {
	return Request{Targets: []string{"a.b"}, Window: time.Minute}
}

// serve starts a render API; the test's end stops it.
func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// client returns a client of url; the test's end closes it.
func client(t *testing.T, url string, change ...func(*Config)) *Client {
	t.Helper()
	config := Config{URL: url, Timeout: 20 * time.Second}
	for _, f := range change {
		f(&config)
	}
	c, err := NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// answerWith is a handler that says one thing.
func answerWith(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func answerJSON(body string) http.HandlerFunc { return answerWith(200, "application/json", body) }
