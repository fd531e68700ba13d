package front

import (
	"bufio"
	"net"
	"sync"

	"github.com/haproxy-weighter/haproxy-weighter/test/child"
)

// Carbon takes plaintext lines at a fixed address of 127.0.0.1, or does not.
// Its methods are safe for concurrent use.
type Carbon struct {
	Address string

	mu    sync.Mutex
	hang  chan struct{} // connections are taken and not read until it is closed; nil: they are read
	reset bool          // connections are reset at once
	lines int
	l     net.Listener
	open  map[net.Conn]bool
	wg    sync.WaitGroup
}

// NewCarbon starts one that takes everything.
func NewCarbon() (*Carbon, error) {
	l, err := child.Listen()
	if err != nil {
		return nil, err
	}
	c := &Carbon{Address: l.Addr().String(), open: make(map[net.Conn]bool)}
	c.take(l)
	return c, nil
}

// Accept takes connections (again).
func (c *Carbon) Accept() error {
	l, err := net.Listen("tcp", c.Address)
	if err != nil {
		return err
	}
	c.take(l)
	return nil
}

func (c *Carbon) take(l net.Listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.l, c.reset = l, false
	c.wg.Go(func() { c.accept(l) })
}

// Refuse closes listener and connections.
func (c *Carbon) Refuse() {
	c.mu.Lock()
	c.l.Close()
	c.mu.Unlock()
	c.Recover()
	c.wg.Wait()
}

// Hang leaves what comes unread.
func (c *Carbon) Hang() {
	c.mu.Lock()
	c.hang = make(chan struct{})
	c.mu.Unlock()
	c.cut()
}

// Reset resets every connection.
func (c *Carbon) Reset() {
	c.mu.Lock()
	c.reset = true
	c.mu.Unlock()
	c.cut()
}

// Recover ends Hang and Reset.
func (c *Carbon) Recover() {
	c.mu.Lock()
	if c.hang != nil {
		close(c.hang)
	}
	c.hang, c.reset = nil, false
	c.mu.Unlock()
	c.cut()
}

func (c *Carbon) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		conn.Close()
	}
}

// Lines counts what has come.
func (c *Carbon) Lines() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines
}

// Close ends it.
func (c *Carbon) Close() { c.Refuse() }

func (c *Carbon) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		c.mu.Lock()
		hang, reset := c.hang, c.reset
		c.open[conn] = true
		c.mu.Unlock()
		if reset {
			_ = conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
		}
		if hang != nil {
			_ = conn.(*net.TCPConn).SetReadBuffer(1024)
		}
		c.wg.Go(func() { c.serve(conn, hang) })
	}
}

func (c *Carbon) serve(conn net.Conn, hang <-chan struct{}) {
	defer func() {
		conn.Close()
		c.mu.Lock()
		delete(c.open, conn)
		c.mu.Unlock()
	}()
	if hang != nil {
		<-hang
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		c.mu.Lock()
		c.lines++
		c.mu.Unlock()
	}
}
