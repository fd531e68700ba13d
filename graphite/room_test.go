package graphite

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// many is a body of so many bytes that takes the most when it is decoded: points
// as short as they can be.
func many(size int) []byte {
	const head, point, tail = `[{"target":"a","datapoints":[[1,1]`, ",[1,1]", "]}]"
	return []byte(head + strings.Repeat(point, (size-len(head)-len(tail))/len(point)) + tail)
}

// live is what the last garbage collection has left of the heap.
func live() uint64 {
	sample := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}
	runtimemetrics.Read(sample)
	return sample[0].Value.Uint64()
}

// watchLive watches the heap until the function it returns is called, which
// tells by how much it has grown at most.
func watchLive() (most func() uint64) {
	before := debug.SetGCPercent(10)
	debug.FreeOSMemory()
	begin, highest := live(), uint64(0)
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			highest = max(highest, live())
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	})
	return func() uint64 {
		close(stop)
		watching.Wait()
		debug.SetGCPercent(before)
		return max(highest, begin) - begin
	}
}

// TestManyLargeAnswersTakeLittleMemory: 200 answers at once, each as large and
// as costly as may be, take no more than a few of them and the small beginning
// of each. Without a room they would take 3 GB.
func TestManyLargeAnswersTakeLittleMemory(t *testing.T) {
	const renders, size, most = 200, 4 << 20, 200 << 20
	body := many(size)
	chunked := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for rest := body; len(rest) > 0; {
			n := min(len(rest), 64<<10)
			if _, err := w.Write(rest[:n]); err != nil {
				return // it was given up
			}
			w.(http.Flusher).Flush()
			rest = rest[n:]
		}
	})
	announced := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body) // all renders have the same one
	}
	for name, start := range map[string]func() *httptest.Server{
		"of known length":   func() *httptest.Server { return serve(t, announced) },
		"of unknown length": func() *httptest.Server { return serve(t, chunked.ServeHTTP) },
		"by HTTP 2": func() *httptest.Server {
			s := httptest.NewUnstartedServer(chunked)
			s.EnableHTTP2 = true
			s.Config.ErrorLog = log.New(io.Discard, "", 0) // of connections that nobody needed
			s.StartTLS()
			t.Cleanup(s.Close)
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start()
			room := NewRoom()
			c := client(t, s.URL, func(c *Config) {
				c.Room, c.MaxBody, c.Timeout = room, size, 3*time.Second
				if s.TLS != nil {
					c.TLS = s.Client().Transport.(*http.Transport).TLSClientConfig
				}
			})
			first, err := c.Render(t.Context(), ask()) // with HTTP 2 all others share its connection
			if err != nil {
				t.Fatal(err)
			}
			first.Release()
			grown := watchLive()
			var mu sync.Mutex
			var all sync.WaitGroup
			answered := 0
			for range renders {
				all.Go(func() {
					answer, err := c.Render(t.Context(), ask())
					answer.Release()
					mu.Lock()
					defer mu.Unlock()
					var r *RenderError
					switch {
					case err == nil:
						answered++
					case !errors.As(err, &r) || r.Kind != KindTimeout:
						t.Errorf("an error that is not of the waiting: %v", err)
					}
				})
			}
			all.Wait()
			got := grown()
			t.Logf("%d MiB more for %d answers of %d MiB, of which %d were read in time", got>>20, renders, size>>20, answered)
			if got > most {
				t.Errorf("%d bytes, above %d", got, most)
			}
			if n := len(room.reading) + len(room.large) + len(room.small); n != 0 {
				t.Errorf("%d places are taken though nobody is there", n)
			}
		})
	}
}

// TestSmallAnswersNeverWaitForLargeOnes: large answers that fill the room, and
// do not end, keep out large ones only, which says so; when they are gone, all
// is as before.
func TestSmallAnswersNeverWaitForLargeOnes(t *testing.T) {
	begun, release := make(chan struct{}, mostReading), make(chan struct{})
	large := many(2 * smallBody)
	slow := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(large[:smallBody+1000])
		w.(http.Flusher).Flush()
		begun <- struct{}{}
		<-release
		_, _ = w.Write(large[smallBody+1000:])
	})
	quick := serve(t, answerJSON(string(large)))
	small := serve(t, answerJSON(string(many(smallBody))))
	room := NewRoom()
	in := func(c *Config) { c.Room = room }
	hurried := func(c *Config) { c.Room, c.Timeout = room, 200*time.Millisecond }
	refused := func() {
		t.Helper()
		_, err := client(t, quick.URL, hurried).Render(t.Context(), ask())
		checkError(t, err, KindTimeout, "more than 256 KiB", "within 200ms", "narrow the targets")
	}
	answers := func(server *httptest.Server) *Answer {
		t.Helper()
		answer, err := client(t, server.URL, in).Render(t.Context(), ask())
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}

	used := answers(quick) // and not released
	refused()
	answers(small).Release()

	var reading sync.WaitGroup
	c := client(t, slow.URL, in)
	for range mostReading {
		reading.Go(func() {
			answer, err := c.Render(t.Context(), ask())
			if err != nil {
				t.Error(err)
			}
			answer.Release()
		})
	}
	for range mostReading {
		<-begun
	}
	used.Release()
	used.Release() // twice is once
	tick, limit := time.NewTicker(time.Millisecond), time.After(20*time.Second)
	defer tick.Stop()
	for len(room.reading) < mostReading { // the bodies are on their way
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%d large bodies are read", len(room.reading))
		}
	}
	refused()
	for range 2 * mostSmall {
		answers(small).Release()
	}

	close(release)
	reading.Wait()
	answers(quick).Release()
	if n := len(room.reading) + len(room.large) + len(room.small); n != 0 {
		t.Errorf("%d places are taken though nobody is there", n)
	}
}

// TestPlacesAreGivenBack: whatever becomes of a render, it leaves the room.
func TestPlacesAreGivenBack(t *testing.T) {
	large := string(many(2 * smallBody))
	for name, handler := range map[string]http.HandlerFunc{
		"an answer":  answerJSON(large),
		"no JSON":    answerJSON(large + "x"),
		"too large":  answerJSON(large + large),
		"an error":   answerWith(500, "text/plain", large),
		"broken off": func(w http.ResponseWriter, r *http.Request) { answerJSON(large)(w, r); panic(http.ErrAbortHandler) },
		"cut": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "400000")
			answerJSON(large[:300_000])(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			room := NewRoom()
			s := serve(t, handler)
			c := client(t, s.URL, func(c *Config) { c.Room, c.MaxBody = room, 3*smallBody })
			for range 2 * mostReading {
				answer, _ := c.Render(t.Context(), ask()) // one that is refused is nil
				answer.Release()
			}
			if n := len(room.reading) + len(room.large) + len(room.small); n != 0 {
				t.Errorf("%d places are taken though nobody is there", n)
			}
		})
	}
}

// TestPartsAreOneAnswer: a request that is sent in parts is bounded as a whole.
func TestPartsAreOneAnswer(t *testing.T) {
	body := many(smallBody - 1000)
	s := serve(t, answerJSON(string(body)))
	request := Request{Targets: make([]string, 2*maxFields), Window: time.Minute}
	for i := range request.Targets {
		request.Targets[i] = "a"
	}
	room := NewRoom()
	c := client(t, s.URL, func(c *Config) { c.Room = room })
	answer, err := c.Render(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.Series) != 3 || len(room.large) != 1 {
		t.Errorf("%d series, %d large answers", len(answer.Series), len(room.large))
	}
	answer.Release()
	c = client(t, s.URL, func(c *Config) { c.Room, c.MaxBody = room, int64(3*len(body)-1) })
	_, err = c.Render(t.Context(), request)
	checkError(t, err, KindTooLarge, "part 3 of 3")
}
