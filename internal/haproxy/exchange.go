package haproxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// maxLine is the longest line sent: HAProxy 3.2 and later want the whole of
// it in one buffer (16384 bytes by default), with room for a lowered one.
const maxLine = 8000

// line joins commands as the socket wants them. The master CLI passes each
// command on to the current worker when it is told so for each; and because
// that may be another worker for each, the last word is "show info" again.
func (c *Client) line(commands []string) string {
	if c.address.Kind != kindMaster {
		return strings.Join(commands, ";") + "\n"
	}
	line := "@1 " + strings.Join(commands, ";@1 ")
	if c.framed(commands) {
		line += ";@1 show info"
	}
	return line + "\n"
}

// framed tells whether the answer must end in the worker's identity as well.
func (c *Client) framed(commands []string) bool {
	return c.address.Kind == kindMaster && len(commands) > 1 && commands[0] == "show info"
}

// exchange sends one line on a connection of its own and hands the answer,
// up to its end or the limit, to read. The time limit starts once there is a
// free slot; the wait for one ends with ctx.
func (c *Client) exchange(ctx context.Context, op string, commands []string, read func(io.Reader) error) error {
	return c.inSlot(ctx, op, commands, func(c *Client, _ bool) error {
		return c.converse(ctx, op, commands, read)
	})
}

// observe tells Options.Observe how an exchange went.
func (c *Client) observe(op string, start time.Time, err error) {
	if c.options.Observe != nil {
		c.options.Observe(commandOf(op), err, time.Since(start))
	}
}

// inSlot calls f as soon as there is a free slot, with a client to which that
// slot belongs. waited tells whether there was none at first.
func (c *Client) inSlot(ctx context.Context, op string, commands []string, f func(in *Client, waited bool) error) error {
	if c.slots == nil { // it belongs to us
		return f(c, false)
	}
	start, waited := time.Now(), false
	select {
	case c.slots <- struct{}{}:
	default:
		waited = true
		select {
		case c.slots <- struct{}{}:
		case <-ctx.Done():
			err := c.wrap(op, commands, fmt.Errorf("given up while waiting for a free connection: %w", context.Cause(ctx)))
			c.observe(op, start, err)
			return err
		}
	}
	defer func() { <-c.slots }()
	return f(&Client{address: c.address, options: c.options}, waited)
}

// converse is an exchange within a slot.
func (c *Client) converse(ctx context.Context, op string, commands []string, read func(io.Reader) error) (err error) {
	start, whole := time.Now(), false // the answer is, whatever it says
	defer func() {
		observed := err
		if whole {
			observed = nil
		}
		c.observe(op, start, observed)
	}()
	limited, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	explain := func(err error) error { return explainIO(ctx, c.options.Timeout, err) }
	conn, err := c.options.Dial(limited)
	if err != nil {
		return c.wrap(op, commands, explain(explainDial(c.address, err)))
	}
	defer conn.Close()
	// A deadline in the past ends a blocked read or write at once.
	stop := context.AfterFunc(limited, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := c.send(conn, c.line(commands)); err != nil {
		return c.wrap(op, commands, explain(err))
	}
	err = read(&replyReader{r: conn, left: c.options.ReplyLimit, explain: explain})
	if w, ok := err.(wholeAnswer); ok {
		whole, err = true, w.error
	}
	return c.wrap(op, commands, err)
}

// wholeAnswer is what is wrong with an answer that came as it should: HAProxy
// refuses something, or it is another worker's. That is no fault of the
// exchange.
type wholeAnswer struct{ error }

// judge tells the errors of a reading from those of a whole answer.
func judge(err error) error {
	broken := is(err, ErrMismatch, ErrTruncated) && !is(err, errChanging)
	if err == nil || broken {
		return err
	}
	return wholeAnswer{err}
}

// send writes the line. HAProxy closes after the answer to it; the master CLI
// does so only when told that no more will come.
func (c *Client) send(conn net.Conn, line string) error {
	if _, err := io.WriteString(conn, line); err != nil {
		return err
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok && c.address.Kind == kindMaster {
		return half.CloseWrite()
	}
	return nil
}

// replyReader puts errors in words and fails with ErrTooLarge where an
// io.LimitedReader pretends an end.
type replyReader struct {
	r       io.Reader
	left    int64
	explain func(error) error
}

func (l *replyReader) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.r.Read(p)
	l.left -= int64(n)
	switch {
	case l.left < 0:
		l.left = 0
		return n, ErrTooLarge
	case err == nil || err == io.EOF:
		return n, err
	}
	return n, l.explain(err)
}
