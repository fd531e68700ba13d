package spoe

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/negasus/haproxy-spoe-go/action"

	"github.com/haproxy-weighter/haproxy-weighter/spoa"
)

// Agent is the SPOE agent on one address, over all its restarts, with faults to
// switch on.
type Agent struct {
	Address string // host:port

	mu      sync.Mutex
	handler spoa.Handler
	fault   agentFault
	free    chan struct{} // closed when handlers that wait may go on
	called  chan struct{} // closed at the next call of the handler
	server  *spoa.Server
	conns   *recorder
	served  chan error
}

// agentFault is what the agent does when it is asked.
type agentFault int

const (
	sound  agentFault = iota
	silent            // answers when released, and not before
	cut               // resets all its connections
)

// NewAgent makes an agent that does not run yet.
func NewAgent(address string, handler spoa.Handler) *Agent {
	return &Agent{Address: address, handler: handler, free: make(chan struct{}), called: make(chan struct{})}
}

// Start lets the agent listen and answer.
func (a *Agent) Start() error {
	l, err := net.Listen("tcp", a.Address)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conns = &recorder{Listener: l}
	a.server = &spoa.Server{Handler: a, Logger: slog.New(slog.DiscardHandler)}
	a.served = make(chan error, 1)
	go serve(a.server, a.conns, a.served)
	return nil
}

func serve(s *spoa.Server, l net.Listener, served chan<- error) { served <- s.Serve(l) }

// Stop ends the agent abruptly, as a kill would; it may be started again.
func (a *Agent) Stop() {
	_ = a.end((*spoa.Server).Close)
}

// Shutdown ends the agent in good order, as the program does when it is stopped; it may be started again.
func (a *Agent) Shutdown(ctx context.Context) error {
	return a.end(func(s *spoa.Server) error { return s.Shutdown(ctx) })
}

func (a *Agent) end(how func(*spoa.Server) error) error {
	a.mu.Lock()
	s, served := a.server, a.served
	a.server = nil
	a.mu.Unlock()
	if s == nil {
		return nil
	}
	a.Release()
	err := how(s)
	<-served
	return err
}

// Answer changes who answers.
func (a *Agent) Answer(h spoa.Handler) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.handler = h
}

// Break makes the agent faulty, and Release lets waiting answers out and makes it sound again.
func (a *Agent) Break(f agentFault) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fault = f
}

// Release ends a fault.
func (a *Agent) Release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fault = sound
	close(a.free)
	a.free = make(chan struct{})
}

// Called returns a channel that is closed when the agent is next asked.
func (a *Agent) Called() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.called
}

// ServeSPOE answers, or does what the fault is.
func (a *Agent) ServeSPOE(answer *action.Actions, r *spoa.Request) error {
	a.mu.Lock()
	close(a.called)
	a.called = make(chan struct{})
	fault, free, conns, handler := a.fault, a.free, a.conns, a.handler
	a.mu.Unlock()
	switch fault {
	case silent:
		<-free
	case cut:
		conns.reset()
		return nil
	}
	return handler.ServeSPOE(answer, r)
}

// recorder is a listener that knows the connections it has accepted.
type recorder struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

// Accept implements net.Listener.
func (r *recorder) Accept() (net.Conn, error) {
	c, err := r.Listener.Accept()
	if err == nil {
		r.mu.Lock()
		r.conns = append(r.conns, c)
		r.mu.Unlock()
	}
	return c, err
}

// reset ends every connection as the kernel does for a process that died.
func (r *recorder) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		_ = c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	r.conns = nil
}

// Fixed answers with the same variables each time, by the name of the message.
// A value is an int, a bool or a string. The argument "as" is honoured.
type Fixed map[string]map[string]any

// ServeSPOE implements spoa.Handler.
func (f Fixed) ServeSPOE(answer *action.Actions, r *spoa.Request) error {
	for i := 0; i < r.Messages.Len(); i++ {
		m, err := r.Messages.GetByIndex(i)
		if err != nil {
			return err
		}
		variables, ok := f[m.Name]
		if !ok {
			return fmt.Errorf("no answer to %s", m.Name)
		}
		prefix := ""
		if as, ok := m.KV.Get("as"); ok {
			prefix = fmt.Sprint(as) + "_"
		}
		for name, value := range variables {
			answer.SetVar(action.ScopeTransaction, prefix+name, value)
		}
	}
	return nil
}
