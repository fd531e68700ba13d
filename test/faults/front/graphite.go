// Package front stands between a weighter and what it talks to, and behaves as
// it is told: a Graphite that lies, a runtime socket that breaks, a carbon that
// hangs. It is for faults that the real programs can't be made to show; what
// it passes on is noted.
package front

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/child"
	"github.com/haproxy-weighter/haproxy-weighter/test/faults/trace"
)

// Answer is how a Graphite answers. The zero value is the good one.
type Answer struct {
	Name    string            // in traces
	Delay   time.Duration     // before the first byte
	Without []string          // servers whose series is missing
	Values  map[string]string // JSON in place of a server's loads: "null", "-5", "0"
	All     string            // JSON in place of every load
	Age     time.Duration     // how old the newest point is
	Clock   time.Duration     // how far its clock is ahead of ours
	Repeat  bool              // the last answer before, with the Date that it had, as out of a cache that does not tell
	Raw     http.HandlerFunc  // in place of a render
}

// render is an answer that has been made.
type render struct {
	date, body string
	points     map[string]trace.Point
}

// Graphite is the render API on a fixed address of 127.0.0.1. Its methods are
// safe for concurrent use.
type Graphite struct {
	URL string
	// Noted tells which targets are noted and counted; nil means all. Set it
	// before the first request.
	Noted func(target string) bool

	trace  *trace.Trace
	tls    *tls.Config // nil: plain HTTP
	listen string

	mu     sync.Mutex
	loads  map[string]float64
	answer Answer
	last   map[string]render // by target; what Answer.Repeat repeats
	behind *url.URL          // a real one that is asked; nil: none
	server *http.Server
	done   chan struct{} // closed when server has ended
	free   chan struct{} // closed to release what hangs
	asked  int
}

// NewGraphite starts one. With certificates it speaks TLS and shows what that
// function returns.
func NewGraphite(t *trace.Trace, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) (*Graphite, error) {
	g := &Graphite{trace: t, loads: map[string]float64{}, last: map[string]render{}, free: make(chan struct{})}
	scheme := "http"
	if certificate != nil {
		g.tls = &tls.Config{GetCertificate: certificate, NextProtos: []string{"http/1.1"}}
		scheme = "https"
	}
	l, err := child.Listen()
	if err != nil {
		return nil, err
	}
	g.listen = l.Addr().String()
	g.URL = scheme + "://" + g.listen
	g.serve(l)
	return g, nil
}

func (g *Graphite) serve(l net.Listener) {
	if g.tls != nil {
		l = tls.NewListener(l, g.tls)
	}
	server, done := &http.Server{Handler: http.HandlerFunc(g.render), ErrorLog: quiet()}, make(chan struct{})
	g.mu.Lock()
	g.server, g.done = server, done
	g.mu.Unlock()
	go func() { defer close(done); _ = server.Serve(l) }()
}

// Set sets the loads of the servers.
func (g *Graphite) Set(loads map[string]float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loads = loads
}

// Loads are those that were set last; they must not be changed.
func (g *Graphite) Loads() map[string]float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.loads
}

// Answer sets how it answers from now on.
func (g *Graphite) Answer(a Answer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answer = a
	close(g.free)
	g.free = make(chan struct{})
}

// Behind has a real Graphite asked, nil none. Its answers are noted as they are.
func (g *Graphite) Behind(base string) error {
	u, err := url.Parse(base)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.behind = u
	return nil
}

// Asked counts the requests.
func (g *Graphite) Asked() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked
}

// Refuse closes the listener and all connections: who dials is refused.
func (g *Graphite) Refuse() {
	g.mu.Lock()
	server, done := g.server, g.done
	close(g.free)
	g.free = make(chan struct{})
	g.mu.Unlock()
	server.Close()
	<-done
}

// Accept ends Refuse.
func (g *Graphite) Accept() error {
	l, err := net.Listen("tcp", g.listen)
	if err != nil {
		return err
	}
	g.serve(l)
	return nil
}

// Close ends it.
func (g *Graphite) Close() { g.Refuse() }

func (g *Graphite) render(w http.ResponseWriter, r *http.Request) {
	asked := time.Now()
	target := r.FormValue("target")
	g.mu.Lock()
	a, loads, behind, free := g.answer, g.loads, g.behind, g.free
	noted := g.Noted == nil || g.Noted(target)
	if noted {
		g.asked++
	}
	g.mu.Unlock()
	note := trace.Answer{Asked: asked, Name: a.Name}
	defer func() {
		note.Sent = time.Now()
		if noted {
			g.trace.Answered(note)
		}
	}()
	if !wait(r.Context(), a.Delay, free) {
		return
	}
	switch {
	case a.Raw != nil:
		a.Raw(w, r.WithContext(releasable(r.Context(), free)))
	case behind != nil:
		g.pass(w, r, behind, &note)
	default:
		is := g.made(target, &a, loads)
		note.Points, note.Whole = is.points, true
		w.Header().Set("Date", is.date)
		w.Header().Set("Content-Type", "application/json")
		if _, err := io.WriteString(w, is.body); err != nil {
			note.Whole = false
		}
	}
}

// made makes an answer, or takes the last one.
func (g *Graphite) made(target string, a *Answer, loads map[string]float64) render {
	g.mu.Lock()
	defer g.mu.Unlock()
	if is, ok := g.last[target]; ok && a.Repeat {
		return is
	}
	now := time.Now()
	body, points := a.body(loads, now)
	is := render{now.Add(a.Clock).UTC().Format(http.TimeFormat), string(body), points}
	g.last[target] = is
	return is
}

// wait waits; false when the asker has gone or the answer was taken back.
func wait(ctx context.Context, d time.Duration, free <-chan struct{}) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-free:
	}
	return false
}

// releasable ends a context with a channel as well.
func releasable(ctx context.Context, free <-chan struct{}) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		select {
		case <-ctx.Done():
		case <-free:
		}
	}()
	return ctx
}

// seconds is how many points a series has, one a second.
const seconds = 10

// body renders, and says what the newest points are.
func (a *Answer) body(loads map[string]float64, now time.Time) ([]byte, map[string]trace.Point) {
	newest := now.Add(-a.Age).Truncate(time.Second).Add(-time.Second)
	points := make(map[string]trace.Point, len(loads))
	var names []string
	for name := range loads {
		if !slices.Contains(a.Without, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var b bytes.Buffer
	b.WriteByte('[')
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		value := fmt.Sprint(loads[name])
		if a.All != "" {
			value = a.All
		}
		if v, ok := a.Values[name]; ok {
			value = v
		}
		fmt.Fprintf(&b, `{"target":%q,"tags":{},"datapoints":[`, name)
		for n := seconds - 1; n >= 0; n-- {
			fmt.Fprintf(&b, "[%s,%d]", value, newest.Add(a.Clock).Unix()-int64(n))
			if n > 0 {
				b.WriteByte(',')
			}
		}
		b.WriteString("]}")
		points[name] = trace.Point{Value: number(value), At: newest}
	}
	b.WriteByte(']')
	return b.Bytes(), points
}

// number is a value as it was written into an answer; NaN when it is none.
func number(text string) float64 {
	var v float64
	if err := json.Unmarshal([]byte(text), &v); err != nil || text == "null" {
		return math.NaN()
	}
	return v
}

// pass asks the real Graphite and notes what it said.
func (g *Graphite) pass(w http.ResponseWriter, r *http.Request, behind *url.URL, note *trace.Answer) {
	to := *behind
	to.Path, to.RawQuery = r.URL.Path, r.URL.RawQuery
	form := r.PostForm.Encode() // the body has been read for its target
	out, err := http.NewRequestWithContext(r.Context(), r.Method, to.String(), strings.NewReader(form))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	out.Header = r.Header.Clone()
	out.Header.Del("Accept-Encoding")
	out.Close = true // nothing is left open when the scene ends
	answer, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		panic(http.ErrAbortHandler) // as the real one: no answer at all
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	for key := range answer.Header {
		w.Header().Set(key, answer.Header.Get(key))
	}
	w.Header().Del("Content-Length")
	w.WriteHeader(answer.StatusCode)
	_, err = w.Write(body)
	note.Points = newest(body)
	note.Whole = err == nil && answer.StatusCode == http.StatusOK && note.Points != nil
}

// newest reads the newest number of each series of a render; nil when it is none.
func newest(body []byte) map[string]trace.Point {
	var series []struct {
		Target     string
		Datapoints [][2]*float64
	}
	if err := json.Unmarshal(body, &series); err != nil {
		return nil
	}
	points := make(map[string]trace.Point, len(series))
	for _, s := range series {
		points[s.Target] = trace.Point{Value: math.NaN()}
		for _, p := range slices.Backward(s.Datapoints) {
			if p[0] != nil && p[1] != nil {
				points[s.Target] = trace.Point{Value: *p[0], At: time.Unix(int64(*p[1]), 0)}
				break
			}
		}
	}
	return points
}

// Newest asks a Graphite for the newest points of a target in the last 10 s.
func Newest(ctx context.Context, base, target string) (map[string]trace.Point, error) {
	query := url.Values{"format": {"json"}, "from": {"-10s"}, "target": {target}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/render?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	r.Close = true
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	points := newest(body)
	if points == nil {
		return nil, fmt.Errorf("no render: %s", answer.Status)
	}
	return points, nil
}

// Hang never answers, until something else is answered or the asker goes.
func Hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// Status answers with a status and a text.
func Status(code int, contentType, text string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}
}

// Huge sends n bytes of what begins like a render.
func Huge(n int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(w, `[{"target":"s1","datapoints":[`)
		block := strings.Repeat("[1,1790000000],", 4096)
		for sent := int64(0); err == nil && sent < n && r.Context().Err() == nil; sent += int64(len(block)) {
			_, err = io.WriteString(w, block)
		}
	}
}

// Bomb sends what unpacks to n MiB of zeros.
func Bomb(n int) http.HandlerFunc {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(make([]byte, 1<<20)) // a bytes.Buffer takes everything
	_ = z.Close()
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		for i := 0; i < n && r.Context().Err() == nil; i++ {
			if _, err := w.Write(packed.Bytes()); err != nil {
				return
			}
		}
	}
}

// Drip sends a byte of white space now and then, for ever.
func Drip(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := io.WriteString(w, " "); err != nil {
			return
		}
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}
