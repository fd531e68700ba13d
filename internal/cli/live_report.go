package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/state"
)

// judgeState reads a state file as a start would, and moves nothing.
func judgeState(path string) (r result, found, do string) {
	c, err := state.Peek(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fail, "this user may not read it", doAsDaemon
	case err != nil:
		return fail, oneLineOf(err, path), doState
	case c.Saved.IsZero():
		return ok, "nothing is kept yet", ""
	}
	pins, freezes, modes := 0, 0, 0
	for _, control := range c.Controls {
		pins += len(control.Pins)
		if control.Freeze != nil {
			freezes++
		}
		if control.Mode != nil {
			modes++
		}
	}
	return ok, fmt.Sprintf("saved %s: %s, %s, %s", api.At(c.Saved),
		count(pins, "pin"), count(freezes, "freeze"), count(modes, "mode")), ""
}

// report tries the connections of report.carbon, and sends nothing.
func (s *survey) report(ctx context.Context) {
	for _, a := range s.config.Report.Carbon {
		subject := a.HostPort
		if a.TLS {
			subject = "tls://" + subject
		}
		if err := reach(ctx, a, s.config.Report.TLS); err != nil {
			s.add("carbon", subject, fail, err.Error(), doCarbon)
			continue
		}
		s.add("carbon", subject, ok, wordsCarbon, "")
	}
}

// reach connects as the report would, and closes the connection.
func reach(ctx context.Context, a graphite.CarbonAddress, config *tls.Config) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	var err error
	var conn net.Conn
	if a.TLS {
		conn, err = (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", a.HostPort)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", a.HostPort)
	}
	switch {
	case err == nil:
		return conn.Close()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("no connection within %s", probeLimit)
	}
	return err
}
