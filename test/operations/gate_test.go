package operations

import (
	"bufio"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// gate passes lines on to HAProxy's runtime socket, and may drop some.
type gate struct {
	path, to string
	l        net.Listener
	running  sync.WaitGroup

	mu   sync.Mutex
	drop func(line string) bool // called before HAProxy is dialled; nil: none is dropped
}

func openGate(path, to string) (*gate, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	g := &gate{path: path, to: to, l: l}
	g.running.Go(g.accept)
	return g, nil
}

func (g *gate) close() {
	g.l.Close()
	g.running.Wait()
	os.Remove(g.path)
}

// dropping sets which lines are dropped.
func (g *gate) dropping(drop func(line string) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drop = drop
}

func (g *gate) accept() {
	for {
		conn, err := g.l.Accept()
		if err != nil {
			return
		}
		g.running.Go(func() { defer conn.Close(); g.serve(conn) })
	}
}

func (g *gate) serve(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(patience))
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return
	}
	g.mu.Lock()
	drop := g.drop
	g.mu.Unlock()
	if drop != nil && drop(line) {
		return
	}
	haproxy, err := net.Dial("unix", g.to)
	if err != nil {
		return
	}
	defer haproxy.Close()
	_ = haproxy.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(haproxy, line); err == nil {
		_, _ = io.Copy(conn, haproxy)
	}
}
