package graphite

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// checkError wants a RenderError of the kind whose text contains all of texts.
func checkError(t *testing.T, err error, kind Kind, texts ...string) *RenderError {
	t.Helper()
	var r *RenderError
	if !errors.As(err, &r) {
		t.Fatalf("wanted a RenderError of kind %s, got %v", kind, err)
	}
	if r.Kind != kind {
		t.Errorf("kind is %s, wanted %s: %v", r.Kind, kind, err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error does not say %q: %v", text, err)
		}
	}
	return r
}

func TestRenderReadsAnAnswer(t *testing.T) {
	date := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", date.Format(http.TimeFormat))
		answerWith(200, "Application/JSON; charset=utf-8", ` [
			{"target": "a", "datapoints": [[1, 10], [null, 11], [1e9999, 12], [-1e9999, 13], [2.5, 14]]},
			{"datapoints": [], "tags": {"x": ["y", {}]}, "target": "b"} ] `)(w, r)
	})
	c := client(t, s.URL, func(c *Config) { c.Now = func() time.Time { return date.Add(3 * time.Second) } })
	got, err := c.Render(t.Context(), ask())
	if err != nil {
		t.Fatal(err)
	}
	nan := math.NaN()
	want := &Answer{Now: date, ClockSkew: 3 * time.Second, Series: []Series{
		{Name: "a", Points: []Point{{10, 1}, {11, nan}, {12, nan}, {13, nan}, {14, 2.5}}, OutOfRange: 2},
		{Name: "b", Points: []Point{}},
	}}
	if diff := cmp.Diff(want, got, cmpopts.EquateNaNs(), cmpopts.IgnoreUnexported(Answer{})); diff != "" {
		t.Errorf("wanted (-), got (+):\n%s", diff)
	}
}

func TestRenderEmptyListIsAnAnswer(t *testing.T) {
	s := serve(t, answerJSON("[]"))
	got, err := client(t, s.URL).Render(t.Context(), ask())
	if err != nil || got == nil || len(got.Series) != 0 {
		t.Fatalf("got %+v, %v", got, err)
	}
	if got.Now.IsZero() {
		t.Error("the answer has no clock")
	}
}

// Date is cut to the second: our clock, where it can be the right one, is nearer.
func TestServerClockWithinASecond(t *testing.T) {
	date := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	header := http.Header{"Date": {date.Format(http.TimeFormat)}}
	for ahead, known := range map[time.Duration]bool{
		0: true, 500 * time.Millisecond: true, 999 * time.Millisecond: true,
		time.Second: false, -time.Millisecond: false,
	} {
		ours := date.Add(ahead)
		want, skew := date, ahead
		if known {
			want, skew = ours, 0
		}
		if now, got := serverClock(header, ours); !now.Equal(want) || got != skew {
			t.Errorf("%s ahead of Date: now %s skew %s, wanted %s and %s", ahead, now, got, want, skew)
		}
	}
}

func TestRenderClock(t *testing.T) {
	date := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	ours := date.Add(-time.Hour)
	tests := []struct {
		name, date, age string
		now             time.Time
		skew            time.Duration
	}{
		{"date", date.Format(http.TimeFormat), "", date, -time.Hour},
		{"out of a cache", date.Format(http.TimeFormat), "30", date.Add(30 * time.Second), -time.Hour - 30*time.Second},
		{"age is no number", date.Format(http.TimeFormat), "-3", date, -time.Hour},
		{"no date", "", "", ours, 0},
		{"no date but an age", "", "30", ours, 0},
		{"date is nonsense", "yesterday", "", ours, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header()["Date"] = nil // net/http then sends none
				if test.date != "" {
					w.Header().Set("Date", test.date)
				}
				if test.age != "" {
					w.Header().Set("Age", test.age)
				}
				answerJSON("[]")(w, r)
			})
			c := client(t, s.URL, func(c *Config) { c.Now = func() time.Time { return ours } })
			got, err := c.Render(t.Context(), ask())
			if err != nil {
				t.Fatal(err)
			}
			if !got.Now.Equal(test.now) || got.ClockSkew != test.skew {
				t.Errorf("now %s skew %s, wanted %s and %s", got.Now, got.ClockSkew, test.now, test.skew)
			}
		})
	}
}

func TestRenderRefuses(t *testing.T) {
	png := "\x89PNG\r\n\x1a\n"
	tests := []struct {
		name    string
		handler http.HandlerFunc
		kind    Kind
		status  int
		text    string
	}{
		{"login page", answerWith(200, "text/html", "<h1>Log in</h1>"), KindNotJSON, 200, "login page"},
		{"picture", answerWith(200, "image/png", png), KindNotJSON, 200, "format=json"},
		{"jsonp", answerWith(200, "text/javascript", "cb([])"), KindNotJSON, 200, "jsonp"},
		{"no content type", func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = w.Write([]byte("[]"))
		}, KindNotJSON, 200, "no content type"},
		{"HTML called JSON", answerJSON("<html></html>"), KindNotJSON, 200, "<html>"},
		{"object", answerJSON(`{"error": "evaluation failed"}`), KindNotSeries, 200, "evaluation failed"},
		{"null", answerJSON("null"), KindNotSeries, 200, "null"},
		{"number", answerJSON("0"), KindNotSeries, 200, "not a list"},
		{"list of numbers", answerJSON("[1,2]"), KindNotSeries, 200, "no list of Graphite series"},
		{"empty", answerJSON(""), KindEmpty, 200, "empty body"},
		{"blank", answerJSON(" \n"), KindEmpty, 200, "empty body"},
		{"cut off", answerJSON(`[{"target": "a", "datapoints": [[1, 2]`), KindNotJSON, 200, "breaks at byte"},
		{"two lists", answerJSON(`[][]`), KindNotJSON, 200, "breaks at byte 2"},
		{"packed unasked", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			answerJSON("[]")(w, r)
		}, KindNotJSON, 200, "br"},
		{"204", answerWith(204, "application/json", ""), KindStatus, 204, "204 No Content"},
		{"401", answerWith(401, "text/plain", "who are you"), KindStatus, 401, "password_file"},
		{"403", answerWith(403, "text/plain", "no"), KindStatus, 403, "403 Forbidden: no; check username"},
		{"404", answerWith(404, "text/plain", "404 page not found"), KindStatus, 404, "path prefix"},
		{"404 in JSON", answerWith(404, "application/json", `{"error":"x"}`), KindStatus, 404, "path prefix"},
		{"405", answerWith(405, "text/plain", ""), KindStatus, 405, "other method"},
		{"414", answerWith(414, "text/plain", ""), KindStatus, 414, "use method POST"},
		{"429", answerWith(429, "text/plain", "slow down"), KindStatus, 429, "slow down"},
		{"400", answerWith(400, "text/plain", `error in "/render": bad`), KindStatus, 400, `error in "/render": bad`},
		{"500", answerWith(500, "text/html", "<p>x</p>"), KindStatus, 500, "500 Internal Server Error: x"},
		{"502", answerWith(502, "text/plain", ""), KindStatus, 502, "behind it is not"},
		{"299", answerWith(299, "application/json", "[]"), KindStatus, 299, "299"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, test.handler)
			answer, err := client(t, s.URL).Render(t.Context(), ask())
			if answer != nil {
				t.Errorf("there is an answer: %+v", answer)
			}
			if r := checkError(t, err, test.kind, test.text, "graphite at "+s.URL+": "); r.Status != test.status {
				t.Errorf("status is %d, wanted %d", r.Status, test.status)
			}
		})
	}
}

// A redirect must not be followed: a POST would arrive as a GET without form.
func TestRenderRefusesRedirects(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, method := range []string{"POST", "GET"} {
			var elsewhere atomic.Int32
			other := serve(t, func(w http.ResponseWriter, r *http.Request) {
				elsewhere.Add(1)
				answerJSON("[]")(w, r)
			})
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", other.URL+"/login?next=token")
				w.WriteHeader(status)
			})
			c := client(t, s.URL, func(c *Config) { c.Method = method })
			_, err := c.Render(t.Context(), ask())
			checkError(t, err, KindRedirect, "redirect to "+other.URL+",")
			if strings.Contains(err.Error(), "login?") {
				t.Errorf("the error shows the whole address: %v", err)
			}
			if elsewhere.Load() != 0 {
				t.Errorf("%s %d: the redirect was followed", method, status)
			}
		}
	}
}

func TestRenderNothingMatchedAtCarbonapi(t *testing.T) {
	tests := map[string]http.HandlerFunc{
		"list": answerWith(404, "application/json", "[]\n"),
		"text": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-CTX-CarbonAPI-UUID", "2b0b3e0c")
			answerWith(404, "text/plain; charset=utf-8", "Not Found\n")(w, r)
		},
	}
	for name, handler := range tests {
		t.Run(name, func(t *testing.T) {
			s := serve(t, handler)
			answer, err := client(t, s.URL).Render(t.Context(), ask())
			if err != nil || len(answer.Series) != 0 || answer.Now.IsZero() {
				t.Fatalf("got %+v, %v", answer, err)
			}
		})
	}
}

func TestRenderBodyLimit(t *testing.T) {
	exact := `[{"target":"a","datapoints":[[1,2]]}]`
	limit := func(n int) func(*Config) { return func(c *Config) { c.MaxBody = int64(n) } }
	chunked := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for _, b := range []byte(exact) {
			_, _ = w.Write([]byte{b})
			w.(http.Flusher).Flush()
		}
	}
	for name, handler := range map[string]http.HandlerFunc{"length": answerJSON(exact), "chunks": chunked} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, handler)
			if _, err := client(t, s.URL, limit(len(exact))).Render(t.Context(), ask()); err != nil {
				t.Errorf("a body as long as the limit: %v", err)
			}
			_, err := client(t, s.URL, limit(len(exact)-1)).Render(t.Context(), ask())
			checkError(t, err, KindTooLarge, "max_body", fmt.Sprint(len(exact)-1))
		})
	}
}

// TestRenderHeadLimit: heads are bounded far above what proxies put there.
func TestRenderHeadLimit(t *testing.T) {
	for size, kind := range map[int]Kind{8 << 10: "", maxHeader + 8<<10: KindConnect} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			for i := range size / 64 {
				w.Header().Set(fmt.Sprintf("X-%04d", i), strings.Repeat("x", 64-len("X-0000: \r\n")))
			}
			answerJSON("[]")(w, r)
		})
		_, err := client(t, s.URL).Render(t.Context(), ask())
		if kind != "" {
			checkError(t, err, kind, "headers exceeded")
		} else if err != nil {
			t.Errorf("a head of %d bytes: %v", size, err)
		}
	}
}

// The bomb goes on for ever: the test ends only if the client stops reading.
func TestRenderGzipBomb(t *testing.T) {
	var block bytes.Buffer
	z := gzip.NewWriter(&block)
	_, _ = z.Write(bytes.Repeat([]byte(" "), 1<<20))
	_ = z.Close()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			t.Error("gzip was not asked for")
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		for r.Context().Err() == nil {
			if _, err := w.Write(block.Bytes()); err != nil { // members follow one another
				return
			}
		}
	})
	c := client(t, s.URL, func(c *Config) { c.MaxBody = 4 << 20 })
	_, err := c.Render(t.Context(), ask())
	checkError(t, err, KindTooLarge)
}

func TestRenderRetries(t *testing.T) {
	drop := func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }
	half := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("[{"))
	}
	good := answerJSON("[]")
	tests := []struct {
		name  string
		steps []http.HandlerFunc
		kind  Kind // "" = an answer
		asked int
	}{
		{"500 then good", []http.HandlerFunc{answerWith(500, "text/html", ""), good}, "", 2},
		{"503 then good", []http.HandlerFunc{answerWith(503, "text/html", ""), good}, "", 2},
		{"dropped then good", []http.HandlerFunc{drop, good}, "", 2},
		{"broken off then good", []http.HandlerFunc{half, good}, "", 2},
		{"500 for ever", []http.HandlerFunc{answerWith(500, "text/html", "")}, KindStatus, 2},
		{"dropped for ever", []http.HandlerFunc{drop}, KindConnect, 2},
		{"broken off for ever", []http.HandlerFunc{half}, KindConnect, 2},
		{"400", []http.HandlerFunc{answerWith(400, "text/html", ""), good}, KindStatus, 1},
		{"404", []http.HandlerFunc{answerWith(404, "text/html", ""), good}, KindStatus, 1},
		{"redirect", []http.HandlerFunc{answerWith(302, "text/html", ""), good}, KindRedirect, 1},
		{"no JSON", []http.HandlerFunc{answerJSON("x"), good}, KindNotJSON, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				n := int(asked.Add(1))
				test.steps[min(n, len(test.steps))-1](w, r)
			})
			s.Config.ErrorLog = nil
			_, err := client(t, s.URL).Render(t.Context(), ask())
			if test.kind == "" && err != nil {
				t.Error(err)
			} else if test.kind != "" {
				checkError(t, err, test.kind)
			}
			if int(asked.Load()) != test.asked {
				t.Errorf("asked %d times, wanted %d", asked.Load(), test.asked)
			}
		})
	}
}

// A connection that the server closed meanwhile is not worth the one retry.
func TestRenderReusesAndRedials(t *testing.T) {
	var asked atomic.Int32
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		answerJSON("[]")(w, r)
	})
	c := client(t, s.URL)
	for range 3 {
		if _, err := c.Render(t.Context(), ask()); err != nil {
			t.Fatal(err)
		}
		s.CloseClientConnections()
	}
	if asked.Load() != 3 {
		t.Errorf("asked %d times", asked.Load())
	}
}

func TestRenderNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + l.Addr().String()
	l.Close()
	_, err = client(t, address).Render(t.Context(), ask())
	checkError(t, err, KindConnect, address, "connection refused", "check that it runs")
}

func TestRenderTimeout(t *testing.T) {
	var asked atomic.Int32
	hang := func(after func(http.ResponseWriter)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			_, _ = io.Copy(io.Discard, r.Body) // else the server doesn't notice that we are gone
			after(w)
			<-r.Context().Done()
		}
	}
	tests := map[string]http.HandlerFunc{
		"nothing": hang(func(http.ResponseWriter) {}),
		"half a body": hang(func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("[{"))
			w.(http.Flusher).Flush()
		}),
	}
	for name, handler := range tests {
		t.Run(name, func(t *testing.T) {
			asked.Store(0)
			s := serve(t, handler)
			c := client(t, s.URL, func(c *Config) { c.Timeout = 50 * time.Millisecond })
			_, err := c.Render(t.Context(), ask())
			checkError(t, err, KindTimeout, "no whole answer within 50ms", "raise timeout")
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error("it does not unwrap to context.DeadlineExceeded")
			}
			if asked.Load() != 1 {
				t.Errorf("asked %d times", asked.Load())
			}
		})
	}
}

func TestRenderContext(t *testing.T) {
	arrived := make(chan struct{}, 4)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	c := client(t, s.URL)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	_, err := c.Render(ctx, ask())
	checkError(t, err, KindCanceled)
	if !errors.Is(err, context.Canceled) {
		t.Error("it does not unwrap to context.Canceled")
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = c.Render(ctx, ask())
	checkError(t, err, KindTimeout, "time that was left")
	if len(arrived) > 1 {
		t.Error("it was tried again after the context's end")
	}
}
