// Package spoa answers HAProxy's stream processing offload engine (SPOE): it
// is the agent's side of SPOP 2.0, as HAProxy 2.6 and later speak it.
//
// A [Handler] gets the messages of one NOTIFY frame and returns variables to
// set; a [Server] does all the rest:
//
//	handler := spoa.HandlerFunc(func(answer *action.Actions, r *spoa.Request) error {
//		message, err := r.Messages.GetByName("check-client")
//		if err != nil {
//			return nil // not for us: an answer without variables
//		}
//		address, _ := message.KV.Get("src")
//		answer.SetVar(action.ScopeTransaction, "score", score(address))
//		return nil
//	})
//	server := &spoa.Server{Handler: handler}
//	listener, err := net.Listen("tcp", "127.0.0.1:9002")
//	...
//	err = server.Serve(listener)
//
// # What the server sees to
//
// Every NOTIFY gets exactly one ACK, in the order in which the frames came,
// whatever happens in the handler: an error, a panic, a value that SPOP cannot
// carry and an answer above the agreed frame size each become an ACK without
// variables, are counted ([Observer]) and logged.
//
// Bytes from the network are not trusted. A frame's length is compared with the
// agreed size before the frame is read, and its payload is checked before
// it is decoded. Whatever is not right ends that connection only, with an
// AGENT-DISCONNECT that carries the reason, so that HAProxy gives up its
// streams at once instead of waiting for its timeout.
//
// A peer that is slow, silent or does not read is disconnected; the number of
// connections is bounded; running out of file descriptors pauses the accept
// loop.
//
// # Handlers must be quick
//
// A connection answers one frame after the other on one goroutine: that is
// what makes an answer cost little more than the system calls to
// receive and send it. A slow handler therefore delays the later frames of the
// same connection, and of no other. Handlers should answer from memory and keep
// the files and the network for goroutines of their own.
//
// # Versions and capabilities
//
// The server takes SPOP 2.x and announces the capability "pipelining" if
// HAProxy has. It never announces "async": HAProxy 2.6 and 3.0 would not fail the
// streams of a broken connection any more, but let each wait for "timeout
// processing". Fragmented payloads are refused. A health check ("option
// spop-check") is answered and closed.
//
// Variables can hold booleans, integers, strings, addresses and bytes; SPOP
// knows no fractions. HAProxy's integers have 64 bits and a sign.
package spoa
