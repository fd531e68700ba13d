package spoa

import (
	"net"

	"github.com/negasus/haproxy-spoe-go/action"
	"github.com/negasus/haproxy-spoe-go/message"
)

// Handler answers NOTIFY frames. One Handler serves all connections of a
// [Server], each on a goroutine of its own, so it must be safe for concurrent use.
type Handler interface {
	// ServeSPOE reads the messages of r and appends to answer what HAProxy is
	// to do: variables to set or to unset. With nothing appended HAProxy gets an
	// answer without variables. The same goes for an error and for a panic:
	// what was appended before is dropped.
	//
	// Values may be nil, bool, any integer or string type, []byte, net.IP
	// and netip.Addr. See [Request] for what may be kept after the return.
	ServeSPOE(answer *action.Actions, r *Request) error
}

// HandlerFunc makes a [Handler] of a function.
type HandlerFunc func(answer *action.Actions, r *Request) error

// ServeSPOE calls f.
func (f HandlerFunc) ServeSPOE(answer *action.Actions, r *Request) error { return f(answer, r) }

// Request is one NOTIFY frame. It, its messages and the []byte and net.IP
// arguments in them are the handler's until it returns and are used again
// afterwards: copy what has to live longer. Strings may be kept.
type Request struct {
	// Messages has at least one message when it comes from HAProxy, and more when
	// several share one event.
	Messages message.Messages
	// StreamID and FrameID identify the frame on its connection. HAProxy gives them
	// different meanings in different versions: use them for logs only.
	StreamID, FrameID uint64
	// EngineID is what HAProxy named itself in its HELLO: one engine of one
	// process. It may be empty.
	EngineID string
	// RemoteAddr is HAProxy's end of the connection.
	RemoteAddr net.Addr
}
