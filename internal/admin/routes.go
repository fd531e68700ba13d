package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
)

// readOnly makes the routes of the listener that changes nothing.
func (s *Server) readOnly(ending <-chan struct{}) http.Handler {
	mux := s.routes(ending)
	return s.contain(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			notAllowed(w, "GET, HEAD", "this listener changes nothing",
				"read with GET; orders go to the control socket: see the commands pin, freeze and mode")
			return
		}
		if !s.sane(w, r) {
			return
		}
		mux.ServeHTTP(w, r)
	}))
}

// control makes the routes of the control socket.
func (s *Server) control(ending <-chan struct{}) http.Handler {
	mux := s.routes(ending)
	return s.contain(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if kind, ok := strings.CutPrefix(r.URL.Path, controlPrefix); ok {
			s.serveOrder(w, r, kind)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			notAllowed(w, "GET, HEAD", "only "+controlPrefix+"... takes orders", "")
			return
		}
		if !s.sane(w, r) {
			return
		}
		mux.ServeHTTP(w, r)
	}))
}

// controlPrefix is before the names of the orders.
const controlPrefix = "/control/v1/"

// routes are the requests that both listeners answer.
func (s *Server) routes(ending <-chan struct{}) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", s.servePage)
	mux.HandleFunc("/api/v1/status", s.serveStatus)
	mux.HandleFunc("/api/v1/table", s.serveTables)
	mux.HandleFunc("/api/v1/table/{backend}", s.serveTables)
	mux.HandleFunc("/api/v1/history/{backend}", s.serveHistory)
	mux.HandleFunc("/api/v1/events", func(w http.ResponseWriter, r *http.Request) { s.serveEvents(w, r, ending) })
	mux.HandleFunc("/-/healthy", serveHealthy)
	mux.HandleFunc("/-/ready", s.serveReady)
	if s.options.Metrics != nil {
		mux.Handle("/metrics", s.options.Metrics)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		problem(w, http.StatusNotFound, fmt.Sprintf("there is nothing at %s", strconv.Quote(r.URL.Path)),
			"there are /, /api/v1/status, /api/v1/table[/BACKEND], /api/v1/history/BACKEND, /api/v1/events, /metrics, /-/healthy and /-/ready")
	})
	return mux
}

// contain sets the headers that every answer has, and keeps a panic from
// ending more than the request.
func (s *Server) contain(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			s.log.Error("a mistake in haproxy-weighter stopped the answer to a request", "path", r.URL.Path,
				"panic", fmt.Sprint(p), "stack", string(debug.Stack()),
				"meanwhile", "weights and all other answers go on", "do", "report it with this line")
			// What has been sent can't be taken back: the connection is cut, so that
			// nobody takes a part for the whole.
			panic(http.ErrAbortHandler)
		}()
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Cache-Control", "no-store")
		h.ServeHTTP(w, r)
	})
}

// writeJSON sends v as a whole, with its length, so that a reader of any
// version of HTTP can tell a complete answer.
func (s *Server) writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		s.log.Error("an answer can't be written as JSON", "cause", err.Error(), "do", "report it with this line")
		problem(w, http.StatusInternalServerError, "the answer can't be written as JSON: "+err.Error(), "report it")
		return
	}
	send(w, status, "application/json", append(body, '\n'))
}

func send(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone needs no answer
}

// problem says in words why there is no answer, and what to do.
func problem(w http.ResponseWriter, status int, what, do string) {
	body, err := json.Marshal(api.Problem{Error: what, Do: do})
	if err != nil { // two strings always are JSON
		panic(err)
	}
	send(w, status, "application/json", append(body, '\n'))
}

func notAllowed(w http.ResponseWriter, allow, what, do string) {
	w.Header().Set("Allow", allow)
	w.Header().Set("Connection", "close") // nobody reads the body
	problem(w, http.StatusMethodNotAllowed, what, do)
}

// acquire waits for a turn to make a large answer; false: the client has gone,
// or waited too long and has been told.
func (s *Server) acquire(w http.ResponseWriter, r *http.Request) (release func(), ok bool) {
	ctx, cancel := context.WithTimeout(r.Context(), s.limits.header)
	defer cancel()
	select {
	case s.heavy <- struct{}{}:
		return func() { <-s.heavy }, true
	case <-ctx.Done():
		w.Header().Set("Retry-After", "10")
		problem(w, http.StatusServiceUnavailable, "too many large answers are in the making", "try again in a few seconds")
		return nil, false
	}
}
