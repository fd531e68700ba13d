package spoa

import (
	"fmt"
	"math"
	"net"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/negasus/haproxy-spoe-go/action"
	"github.com/negasus/haproxy-spoe-go/frame"
	"github.com/negasus/haproxy-spoe-go/message"
)

// Buffers, in bytes. Most connections of HAProxy have one small frame in
// flight; the others' buffers grow with what comes at once.
const (
	minBuffer = 4 << 10
	maxBuffer = 64 << 10
	// flushSize is how many bytes of answers are written though more frames are
	// at hand.
	flushSize = 32 << 10
)

// state is how far a connection has come.
type state uint8

const (
	stateHello state = iota // nothing but HAPROXY-HELLO is taken
	stateReady              // the HELLOs are exchanged
)

// conn is one connection from HAProxy. All but the net.Conn and what is atomic
// belongs to the goroutine of run.
type conn struct {
	server *Server
	nc     net.Conn
	state  state
	limit  int // max-frame-size in force: ours, after the HELLO the agreed one

	in         []byte // what was read and not answered yet is in[start:end]
	start, end int
	out        []byte // answers to write

	request  Request
	messages message.Messages
	actions  action.Actions
	results  Results // of the answers in out

	timing

	asked   atomic.Bool  // a message has been answered
	quiet   atomic.Int64 // since when it waits for a frame, on Server.now; inUse: it does not
	gaveWay atomic.Bool  // another connection has its place; set under Server.mu
}

// inUse is conn.quiet while frames are answered.
const inUse = math.MaxInt64

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{server: s, nc: nc, limit: s.settings.frameSize, in: make([]byte, minBuffer)}
	c.request.RemoteAddr = nc.RemoteAddr()
	now := s.now()
	// The HELLO is due as if its first byte had come with the connection.
	c.timing = timing{lastRead: now, active: now, frameStart: now, partial: true}
	c.quiet.Store(int64(now))
	return c
}

// run serves the connection until its end and closes it.
func (c *conn) run() {
	reason := ReasonPanic
	defer c.server.forget(c)
	defer func() {
		if p := recover(); p != nil {
			c.server.complain(complaintReason(ReasonPanic), "SPOE connection closed after a fault of this program; others go on",
				"remote", c.request.RemoteAddr, "panic", p, "stack", string(debug.Stack()))
		}
		c.nc.Close()
		c.server.observer().Closed(reason)
	}()
	end := c.serve()
	reason = end.reason
	c.say(end)
	c.leave(end)
}

// serve reads and answers until the connection has to end.
func (c *conn) serve() *ending {
	for {
		end := c.answerAll()
		if fault := c.flush(); fault != nil {
			return fault
		}
		if end != nil {
			return end
		}
		if end = c.fill(); end != nil {
			return end
		}
	}
}

// answerAll takes every whole frame that is in the buffer.
func (c *conn) answerAll() *ending {
	for {
		f, size, fault := splitFrame(c.in[c.start:c.end], c.limit)
		if fault != nil || size == 0 {
			return fault
		}
		c.start += size
		c.partial = false
		if end := c.take(f); end != nil {
			return end
		}
		if len(c.out) >= flushSize {
			if fault := c.flush(); fault != nil {
				return fault
			}
		}
	}
}

// take does what one frame asks for.
func (c *conn) take(f rawFrame) *ending {
	if f.flags&flagFin == 0 || f.flags&flagAbort != 0 || f.kind == typeUnset {
		return &ending{status: statusFragmented, reason: ReasonMalformed, text: "a fragmented or aborted frame, which was not announced"}
	}
	switch {
	case f.kind == frame.TypeHaproxyDisconnect:
		return c.disconnected(f)
	case f.kind == frame.TypeHaproxyHello && c.state == stateHello:
		return c.hello(f)
	case c.state == stateHello:
		return refuse(statusInvalid, fmt.Sprintf("a frame of type %d where HAPROXY-HELLO has to be", f.kind))
	case f.kind == frame.TypeNotify:
		return c.notify(f)
	}
	return malformed("a frame of type %d after the HELLO", f.kind)
}

func (c *conn) hello(f rawFrame) *ending {
	if f.streamID != 0 || f.frameID != 0 {
		return refuse(statusInvalid, "a HELLO with a stream-id or frame-id other than 0")
	}
	h, fault := readHello(f.payload, c.server.settings.frameSize)
	if fault != nil {
		fault.reason = ReasonHello
		return fault
	}
	c.state, c.limit, c.request.EngineID = stateReady, h.frameSize, h.engineID
	c.out = appendHello(c.out, h)
	if h.healthCheck {
		return silently(ReasonHealthCheck, "a health check, answered")
	}
	return nil
}

// disconnected answers HAPROXY-DISCONNECT, which HAProxy sends before it closes.
func (c *conn) disconnected(f rawFrame) *ending {
	items, fault := readItems(f.payload)
	if fault != nil {
		return fault
	}
	status, _ := item[uint32](items, "status-code")
	text, _ := item[string](items, "message")
	return &ending{status: statusNormal, reason: ReasonPeerClosed,
		text: fmt.Sprintf("HAProxy disconnected with status %d: %.100q", status, text)}
}

// notify appends the ACK of one NOTIFY frame to c.out, in any case.
func (c *conn) notify(f rawFrame) *ending {
	if fault := checkMessages(f.payload); fault != nil {
		return fault
	}
	result, err := c.call(f)
	begin := len(c.out)
	if result == ResultOK {
		c.out, err = appendAck(c.out, f.streamID, f.frameID, c.actions)
		if size := len(c.out) - begin - lengthSize; err != nil {
			result = ResultUnencodable
		} else if size > c.limit {
			result = ResultTooBig
			err = fmt.Errorf("the answer has %d bytes, above the agreed max-frame-size of %d", size, c.limit)
		}
	}
	if result != ResultOK {
		c.out, _ = appendAck(c.out[:begin], f.streamID, f.frameID, nil)
		c.server.complain(complaintResult(result), "SPOE answer sent without variables; HAProxy goes on as if there were none",
			"result", result, "remote", c.request.RemoteAddr, "error", err)
	}
	c.results[result]++
	if !c.asked.Load() {
		c.asked.Store(true)
	}
	return nil
}

// call decodes the messages and runs the handler. Nothing that happens in
// there gets out.
func (c *conn) call(f rawFrame) (result Result, err error) {
	result = ResultUndecodable
	defer c.messages.Reset()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v: %s", p, debug.Stack())
		}
	}()
	if err := c.messages.Decode(f.payload[:len(f.payload):len(f.payload)]); err != nil {
		return ResultUndecodable, err
	}
	r := &c.request
	r.Messages, r.StreamID, r.FrameID = c.messages, f.streamID, f.frameID
	c.actions = c.actions[:0]
	result = ResultPanic // unless it returns
	if err := c.server.Handler.ServeSPOE(&c.actions, r); err != nil {
		return ResultError, err
	}
	return ResultOK, nil
}

// flush writes the answers.
func (c *conn) flush() *ending {
	if len(c.out) == 0 {
		return nil
	}
	c.armWrite()
	_, err := c.nc.Write(c.out)
	c.out = c.out[:0]
	if c.results != (Results{}) {
		if o := c.server.Observer; o != nil {
			o.Answered(c.results, c.server.now()-c.lastRead)
		}
		c.results = Results{}
	}
	if err != nil {
		return c.server.writeFault(err)
	}
	return nil
}

// fill waits for more bytes.
func (c *conn) fill() *ending {
	c.makeRoom()
	for {
		c.armRead()
		if c.server.closing.Load() && !c.draining {
			c.drain(c.server.now())
			continue
		}
		if c.gaveWay.Load() {
			return &ending{status: statusNormal, reason: ReasonGaveWay, text: "idle while all places were taken and another connection came"}
		}
		c.quiet.Store(int64(c.since()))
		n, err := c.nc.Read(c.in[c.end:])
		if n > 0 {
			c.quiet.Store(inUse)
			c.lastRead = c.server.now()
			c.active = c.lastRead
			c.end += n
			return nil
		}
		if isTimeout(err) {
			if end := c.overdue(c.server.now()); end != nil {
				return end
			}
			continue
		}
		if err != nil {
			return c.server.readFault(err, c.end > c.start)
		}
	}
}

// makeRoom leaves space behind end. The buffer doubles when the last read
// filled it: there is more to come, and fewer reads cost less.
func (c *conn) makeRoom() {
	full := c.end == len(c.in)
	if c.start == c.end {
		c.start, c.end = 0, 0
	} else if !c.partial {
		// From here on, for it is not the peer's fault that a handler took its time.
		c.partial, c.frameStart = true, c.server.now()
	}
	to := c.in
	if full && len(c.in) < max(maxBuffer, lengthSize+c.limit) {
		to = make([]byte, 2*len(c.in))
	}
	c.end = copy(to, c.in[c.start:c.end])
	c.in, c.start = to, 0
}

// shrink gives back buffers that a burst has made big.
func (c *conn) shrink() {
	c.in, c.out = make([]byte, minBuffer), nil
	c.start, c.end = 0, 0
}

// say logs the end of the connection: as a warning what HAProxy never does by itself.
func (c *conn) say(end *ending) {
	switch end.reason {
	case ReasonPeerClosed, ReasonHealthCheck, ReasonIdle, ReasonShutdown, ReasonGaveWay: // the last one has been told
		c.server.settings.logger.Debug("SPOE connection closed", "remote", c.request.RemoteAddr,
			"reason", end.reason, "detail", end.text)
	default:
		c.server.complain(complaintReason(end.reason), "SPOE connection closed because of its peer; others go on",
			"reason", end.reason, "remote", c.request.RemoteAddr, "detail", end.text)
	}
}

// leave tells the peer why and makes sure that it can read that: closing
// a socket with unread bytes would reset it and throw away what was sent.
func (c *conn) leave(end *ending) {
	if end.reason == ReasonWriteTimeout {
		// Do not let the kernel keep the answers that the peer does not read.
		if tcp, ok := c.nc.(interface{ SetLinger(int) error }); ok {
			_ = tcp.SetLinger(0)
		}
		return
	}
	if end.silent {
		return
	}
	c.out = appendDisconnect(c.out[:0], end.status, end.text)
	if end.reason == ReasonGaveWay { // it is in nobody's place: no time for one that doesn't read
		_ = c.nc.SetWriteDeadline(time.Now().Add(refusalTimeout))
		_, _ = c.nc.Write(c.out)
		return
	}
	if c.flush() != nil {
		return
	}
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.nc.SetReadDeadline(time.Now().Add(lingerTime))
	for total := 0; total < lingerBytes; {
		n, err := c.nc.Read(c.in)
		if err != nil {
			return
		}
		total += n
	}
}
