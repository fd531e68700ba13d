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
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return c.wrap(op, commands, fmt.Errorf("given up while waiting for a free connection: %w", context.Cause(ctx)))
	}
	limited, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	conn, err := c.options.Dial(limited)
	if err != nil {
		return c.wrap(op, commands, explainIO(ctx, c.options.Timeout, explainDial(c.address, err)))
	}
	defer conn.Close()
	err = c.converse(limited, conn, c.line(commands), read)
	return c.wrap(op, commands, explainIO(ctx, c.options.Timeout, err))
}

// converse writes the line and reads the answer to its end. HAProxy closes
// after the first line's answer; the master CLI does once we say that no more
// will come.
func (c *Client) converse(ctx context.Context, conn net.Conn, line string, read func(io.Reader) error) error {
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	// A deadline in the past ends a blocked read or write at once.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(conn, line); err != nil {
		return err
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok && c.address.Kind == kindMaster {
		if err := half.CloseWrite(); err != nil {
			return err
		}
	}
	return read(&limitedReader{r: conn, left: c.options.ReplyLimit})
}

// limitedReader fails with ErrTooLarge where io.LimitedReader pretends an end.
type limitedReader struct {
	r    io.Reader
	left int64
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if l.left < 0 {
		return 0, ErrTooLarge
	}
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.r.Read(p)
	l.left -= int64(n)
	if l.left < 0 {
		return n, ErrTooLarge
	}
	return n, err
}
