package spoa

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

const (
	// armInterval is how often a deadline is moved at most: setting one
	// costs as much as answering a message.
	armInterval = time.Second / 4
	// shrinkAfter is how long a connection is idle before big buffers go.
	shrinkAfter = 10 * time.Second
	// drainQuiet and drainMax bound what a connection still answers at shutdown: it
	// ends after such a silence, or after such a time.
	drainQuiet = 10 * time.Millisecond
	drainMax   = time.Second
	// lingerTime and lingerBytes bound what is read and thrown away after a
	// DISCONNECT, while the peer reads it.
	lingerTime  = time.Second
	lingerBytes = 1 << 20
)

// timing is what a connection waits for. All times count from Server.started. A
// deadline that is armed too early does no harm: when it fires, overdue looks at
// what is due by now and it is armed anew. So a busy connection never moves its
// read deadline.
type timing struct {
	lastRead   time.Duration // when bytes came last
	active     time.Duration // when bytes came or answers were written last
	partial    bool          // a frame has begun and is not complete, or the HELLO is due
	frameStart time.Duration // since when we wait for the rest of it
	readArmed  time.Duration // what the read deadline is set to; 0 = not set
	writeArmed time.Duration // when the write deadline was set; 0 = never

	draining bool // the server shuts down
	drainEnd time.Duration
}

// due is when the wait that begins now has taken too long.
func (c *conn) due() time.Duration {
	s := &c.server.settings
	switch {
	case c.draining && c.start == c.end:
		return min(c.active+drainQuiet, c.drainEnd)
	case c.draining:
		return min(c.frameStart+s.frameTimeout, c.drainEnd)
	case c.partial:
		return c.frameStart + s.frameTimeout
	case len(c.in) > minBuffer || cap(c.out) > minBuffer:
		return c.active + min(shrinkAfter, s.idleTimeout)
	}
	return c.active + s.idleTimeout
}

// since is when the wait has begun that is about to go on.
func (c *conn) since() time.Duration {
	if c.partial {
		return c.frameStart
	}
	return c.active
}

// armRead sets the read deadline unless it fires in time already.
func (c *conn) armRead() {
	due := c.due()
	if c.readArmed == 0 || c.readArmed > due {
		_ = c.nc.SetReadDeadline(c.server.started.Add(due))
		c.readArmed = due
	}
}

// overdue is called when the read deadline has fired. It returns how the
// connection ends, or nil when the wait goes on.
func (c *conn) overdue(now time.Duration) *ending {
	c.readArmed = 0
	s := &c.server.settings
	switch {
	case now < c.due():
		return nil
	case c.draining:
		return &ending{status: statusNormal, reason: ReasonShutdown, text: "the agent shuts down"}
	case c.partial && c.state == stateHello:
		return &ending{status: statusTimeout, reason: ReasonFrameTimeout, text: "no HELLO within " + s.frameTimeout.String()}
	case c.partial:
		return &ending{status: statusTimeout, reason: ReasonFrameTimeout, text: "a frame not complete within " + s.frameTimeout.String()}
	case now < c.active+s.idleTimeout:
		c.shrink()
		return nil
	}
	return &ending{status: statusNormal, reason: ReasonIdle, text: "idle for " + s.idleTimeout.String()}
}

// drain begins the end of a connection whose server shuts down.
func (c *conn) drain(now time.Duration) {
	c.draining, c.drainEnd, c.active = true, now+drainMax, now
}

// armWrite lets the next write take WriteTimeout, and up to armInterval more.
func (c *conn) armWrite() {
	now := c.server.now()
	if c.writeArmed == 0 || now-c.writeArmed > armInterval {
		_ = c.nc.SetWriteDeadline(c.server.started.Add(now + c.server.settings.writeTimeout + armInterval))
		c.writeArmed = now
	}
	c.active = now
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// isClosed knows how connections of HAProxy end: it closes them with answers in
// flight, and with a reset.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// readFault is the end of a connection that cannot be read any more.
func (s *Server) readFault(err error, within bool) *ending {
	switch {
	case errors.Is(err, net.ErrClosed) && s.closing.Load():
		return silently(ReasonShutdown, "closed by us")
	case isClosed(err) && within:
		return silently(ReasonPeerClosed, "closed within a frame: "+err.Error())
	case isClosed(err):
		return silently(ReasonPeerClosed, err.Error())
	}
	return silently(ReasonIO, err.Error())
}

// writeFault is the end of a connection that cannot be written any more.
func (s *Server) writeFault(err error) *ending {
	if isTimeout(err) {
		return silently(ReasonWriteTimeout, "the peer did not read its answers for "+s.settings.writeTimeout.String())
	}
	return s.readFault(err, false)
}
