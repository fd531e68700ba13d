package graphite

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestRenderRetryAfter(t *testing.T) {
	start := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	httpDate := func(t time.Time) string { return t.Format(http.TimeFormat) }
	tests := []struct {
		name, value string
		status      int
		serverClock time.Time
		wait        time.Duration // 0 = not held
	}{
		{"seconds", "10", 429, start, 10 * time.Second},
		{"seconds on 503", " 7 ", 503, start, 7 * time.Second},
		{"date", httpDate(start.Add(30 * time.Second)), 503, start, 30 * time.Second},
		{"date by another clock", httpDate(start.Add(time.Hour + 30*time.Second)), 503, start.Add(time.Hour), 30 * time.Second},
		{"too long", "86400", 429, start, MaxRetryAfter},
		{"absurd", "99999999999999999999999999", 429, start, MaxRetryAfter},
		{"zero", "0", 429, start, 0},
		{"past", httpDate(start.Add(-time.Second)), 429, start, 0},
		{"nonsense", "soon", 429, start, 0},
		{"negative", "-5", 429, start, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var asked atomic.Int32
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", httpDate(test.serverClock))
				if asked.Add(1) > 1 {
					answerJSON("[]")(w, r)
					return
				}
				w.Header().Set("Retry-After", test.value)
				answerWith(test.status, "text/plain", "busy")(w, r)
			})
			now := start
			c := client(t, s.URL, func(c *Config) { c.Now = func() time.Time { return now } })
			_, err := c.Render(t.Context(), ask())
			if test.wait == 0 {
				checkError(t, err, KindStatus)
				if _, err := c.Render(t.Context(), ask()); err != nil {
					t.Errorf("held without reason: %v", err)
				}
				return
			}
			r := checkError(t, err, KindRetryAfter, "Retry-After", seconds(test.wait))
			if r.Status != test.status || !r.Until.Equal(start.Add(test.wait)) {
				t.Errorf("status %d until %s", r.Status, r.Until)
			}
			now = start.Add(test.wait - time.Second)
			_, err = c.Render(t.Context(), ask())
			if r := checkError(t, err, KindRetryAfter, "another 1 s"); r.Status != 0 {
				t.Errorf("status %d without a request", r.Status)
			}
			if asked.Load() != 1 {
				t.Fatalf("asked %d times while held", asked.Load())
			}
			now = start.Add(test.wait)
			if _, err := c.Render(t.Context(), ask()); err != nil {
				t.Errorf("still held: %v", err)
			}
		})
	}
}

// lateBody has its answer ready once the time is up, as the socket of a
// process has that was stopped meanwhile.
type lateBody struct {
	ctx context.Context
	io.Reader
}

func (b lateBody) Read(p []byte) (int, error) {
	<-b.ctx.Done()
	return b.Reader.Read(p)
}

func (lateBody) Close() error { return nil }

func TestRenderRefusesAnAnswerThatWaitedForUs(t *testing.T) {
	c := client(t, "http://x", func(c *Config) {
		c.Timeout = 10 * time.Millisecond
		c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: -1, Request: r,
				Body: lateBody{r.Context(), strings.NewReader(`[{"target": "a", "datapoints": [[1, 10]]}]`)},
			}, nil
		})
	})
	answer, err := c.Render(t.Context(), ask())
	if answer != nil {
		t.Errorf("an answer: %+v", answer)
	}
	checkError(t, err, KindTimeout)
}

func TestRenderWithoutFileDescriptors(t *testing.T) {
	c := client(t, "http://x", func(c *Config) {
		c.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)}
		})
	})
	_, err := c.Render(t.Context(), ask())
	checkError(t, err, KindConnect, "too many open files", "LimitNOFILE")
}
