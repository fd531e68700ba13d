package spoa

import "time"

// Observer is told what a [Server] does, for metrics. Its methods are called
// from many goroutines, while HAProxy waits: they should only count.
type Observer interface {
	// Opened is called for each connection that was accepted.
	Opened()
	// Closed is called for each connection at its end.
	Closed(reason Reason)
	// Answered is called when the ACKs of all frames that one read brought were
	// written. took is the time from the end of that read to the
	// end of the write; network and HAProxy's own queues are not in it.
	Answered(results Results, took time.Duration)
}

// Results counts frames by what became of them; index it by [Result].
type Results [numResults]int

// Total is the number of frames.
func (r *Results) Total() int {
	n := 0
	for _, c := range r {
		n += c
	}
	return n
}

// Result is what became of one NOTIFY frame. Its String is fit for a metric's
// label.
type Result uint8

// All but the first stand for an ACK without variables.
const (
	ResultOK          Result = iota // the handler's answer was sent
	ResultError                     // the handler returned an error
	ResultPanic                     // the handler panicked
	ResultTooBig                    // the answer was above the agreed frame size
	ResultUnencodable               // the answer had a value that SPOP cannot carry
	ResultUndecodable               // the messages did not decode though they had passed the checks: a fault of this package
	numResults
)

func (r Result) String() string {
	return [...]string{"ok", "error", "panic", "too_big", "unencodable", "undecodable"}[r]
}

// Reason is why a connection ended. Its String is fit for a metric's label.
type Reason uint8

const (
	ReasonPeerClosed   Reason = iota // HAProxy closed or reset it, or announced that it would
	ReasonHealthCheck                // a health check, answered
	ReasonIdle                       // nothing came within Server.IdleTimeout
	ReasonShutdown                   // Shutdown or Close
	ReasonTooMany                    // Server.MaxConns were open already, all in use
	ReasonGaveWay                    // Server.MaxConns were open, this one was idle, and another one came
	ReasonHello                      // the HELLO was missing, broken, or asked for what we do not speak
	ReasonFrameTimeout               // a frame, or the HELLO, was not complete in time
	ReasonWriteTimeout               // the peer did not read its answers
	ReasonFrameTooBig                // a frame above the agreed size
	ReasonMalformed                  // a frame that breaks the protocol
	ReasonIO                         // any other fault of the connection
	ReasonPanic                      // a panic outside the handler: a fault of this package
	numReasons
)

func (r Reason) String() string {
	return [...]string{
		"peer_closed", "health_check", "idle", "shutdown", "too_many", "gave_way", "hello", "frame_timeout",
		"write_timeout", "frame_too_big", "malformed", "io", "panic",
	}[r]
}
