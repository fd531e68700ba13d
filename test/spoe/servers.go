package spoe

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// echoed are the request headers that an HTTP server tells back, as they came.
var echoed = [...]string{"X-Weighter-Load", "X-Weighter-Relative"}

// server is one server behind HAProxy. It says its name: over TCP as the first line, over
// HTTP in the header Server-Name.
type server struct {
	name     string
	listener net.Listener
	http     *http.Server // nil: TCP

	mu    sync.Mutex
	conns map[net.Conn]bool
	done  sync.WaitGroup
}

func startServer(name string, overHTTP bool) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{name: name, listener: l, conns: map[net.Conn]bool{}}
	if overHTTP {
		s.http = &http.Server{Handler: http.HandlerFunc(s.answer), ReadHeaderTimeout: patience}
		s.done.Go(func() { _ = s.http.Serve(l) }) // ends at close
		return s, nil
	}
	s.done.Go(s.accept)
	return s, nil
}

func (s *server) address() string { return s.listener.Addr().String() }

func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Server-Name", s.name)
	for _, name := range echoed {
		if values := r.Header.Values(name); values != nil {
			w.Header().Set("Got-"+name, strings.Join(values, ","))
		}
	}
}

func (s *server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		s.mu.Lock()
		s.conns[c] = true
		s.mu.Unlock()
		s.done.Go(func() { s.greet(c) })
	}
}

// greet says the name and stays until the client goes.
func (s *server) greet(c net.Conn) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintln(c, s.name); err != nil {
		return // a health check that is gone already
	}
	_, _ = io.Copy(io.Discard, c)
}

// close ends the server with all its connections.
func (s *server) close() {
	s.listener.Close()
	if s.http != nil {
		s.http.Close()
	}
	s.mu.Lock()
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.done.Wait()
}
