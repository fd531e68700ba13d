package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Server is a TCP server that counts the datapoints (lines) it receives and
// answers nothing. Stop closes it with all its connections, Start opens it
// again, empty, on the same address.
type Server struct {
	name    string
	address string

	mu       sync.Mutex
	listener net.Listener // nil when stopped
	conns    map[*connection]struct{}
	idle     chan struct{} // closed while no connection is open
	meter    *meter
	taken    int64          // total at the last Take
	running  sync.WaitGroup // accept loop and connections
}

// connection is one client as the server sees it.
type connection struct {
	net.Conn
	since    time.Time
	received atomic.Int64
}

// Connection is what a server knows of one open connection.
type Connection struct {
	Remote   string
	Since    time.Time
	Received int64 // datapoints
}

// Counts is the state of a server at one moment.
type Counts struct {
	Running bool
	Open    int     // connections
	Total   int64   // datapoints since the last Start
	Rate    float64 // datapoints received during the last second
}

// Listen starts a server. The address may have port 0: Address tells the port
// that was taken, and a later Start takes the same one.
func Listen(name, address string) (*Server, error) {
	s := &Server{name: name, address: address, idle: make(chan struct{}), meter: new(meter)}
	close(s.idle)
	if err := s.Start(); err != nil {
		return nil, err
	}
	return s, nil
}

// Name returns the name that Listen was given.
func (s *Server) Name() string { return s.name }

// Address returns host:port.
func (s *Server) Address() string { return s.address }

// Start opens a stopped server, with all counts at zero. On a running server
// it does nothing.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		return fmt.Errorf("ingest server %s: %w", s.name, err)
	}
	s.listener = listener
	s.address = listener.Addr().String()
	s.conns = make(map[*connection]struct{})
	s.meter, s.taken = new(meter), 0
	s.running.Add(1)
	go s.accept(listener, s.meter)
	return nil
}

// Stop closes the listener and every connection, and waits until all is
// closed. On a stopped server it does nothing.
func (s *Server) Stop() {
	s.mu.Lock()
	if s.listener != nil {
		_ = s.listener.Close()
		s.listener = nil
		for c := range s.conns {
			_ = c.Close()
		}
	}
	s.mu.Unlock()
	s.running.Wait()
}

// accept owns the listener and every connection that comes from it.
func (s *Server) accept(listener net.Listener, m *meter) {
	defer s.running.Done()
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of file descriptors, or the client is gone again
			continue
		}
		c := &connection{Conn: conn, since: time.Now()}
		if !s.add(listener, c) {
			_ = conn.Close()
			return
		}
		go s.serve(c, m)
	}
}

// add enters a connection, unless its listener was stopped meanwhile.
func (s *Server) add(listener net.Listener, c *connection) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != listener {
		return false
	}
	if len(s.conns) == 0 {
		s.idle = make(chan struct{})
	}
	s.conns[c] = struct{}{}
	s.running.Add(1)
	return true
}

// remove forgets a connection.
func (s *Server) remove(c *connection) {
	_ = c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if len(s.conns) == 0 {
		close(s.idle)
	}
}

// serve counts what one client sends until it closes.
func (s *Server) serve(c *connection, m *meter) {
	defer s.running.Done()
	defer s.remove(c)
	buffer := make([]byte, 32<<10)
	for {
		n, err := c.Read(buffer)
		if lines := int64(bytes.Count(buffer[:n], []byte{'\n'})); lines > 0 {
			c.received.Add(lines)
			m.add(time.Now(), lines)
		}
		if err != nil {
			return
		}
	}
}

// Counts returns the state of the server now.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return Counts{}
	}
	total, rate := s.meter.read(time.Now())
	return Counts{Running: true, Open: len(s.conns), Total: total, Rate: rate}
}

// Take returns the datapoints received since the last Take (or Start); ok is
// false when the server is stopped and so has nothing to report.
func (s *Server) Take() (n int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return 0, false
	}
	total, _ := s.meter.read(time.Now())
	n, s.taken = total-s.taken, total
	return n, true
}

// Connections lists the open connections, the oldest first.
func (s *Server) Connections() []Connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Connection, 0, len(s.conns))
	for c := range s.conns {
		list = append(list, Connection{Remote: c.RemoteAddr().String(), Since: c.since, Received: c.received.Load()})
	}
	slices.SortFunc(list, func(a, b Connection) int { return a.Since.Compare(b.Since) })
	return list
}

// WaitIdle returns nil as soon as no connection is open, or the error of ctx.
func (s *Server) WaitIdle(ctx context.Context) error {
	s.mu.Lock()
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("ingest server %s still has connections: %w", s.name, context.Cause(ctx))
	}
}
