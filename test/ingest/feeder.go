package ingest

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// Datapoint is one measured value on its way to Graphite.
type Datapoint struct {
	Path  string
	Value float64
	Unix  int64 // start of the second that the value stands for
}

// Sink takes datapoints; Carbon is the one for a real Graphite.
type Sink interface {
	Send(ctx context.Context, points []Datapoint) error
}

// Carbon sends to a carbon plaintext listener, one connection a batch.
type Carbon struct {
	Address string        // host:port
	Timeout time.Duration // dial to close; 0 means 2 s
}

// Send dials, writes every point, closes its half and waits until carbon has
// closed the other: only then has carbon read them all.
func (c Carbon) Send(ctx context.Context, points []Datapoint) error {
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = 2 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", c.Address)
	if err != nil {
		return fmt.Errorf("carbon: %w", err)
	}
	defer conn.Close()
	// A deadline in the past breaks any blocked read or write.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var text strings.Builder
	for _, p := range points {
		fmt.Fprintf(&text, "%s %g %d\n", p.Path, p.Value, p.Unix)
	}
	if _, err := io.WriteString(conn, text.String()); err != nil {
		return fmt.Errorf("carbon %s: %w", c.Address, err)
	}
	if half, ok := conn.(*net.TCPConn); ok {
		if err := half.CloseWrite(); err != nil {
			return fmt.Errorf("carbon %s: %w", c.Address, err)
		}
	}
	if _, err := io.Copy(io.Discard, conn); err != nil {
		return fmt.Errorf("carbon %s took the datapoints but did not close: %w", c.Address, err)
	}
	return nil
}

// Feeder reports once a second what each server received during that second,
// as `PREFIX.NAME.datapoints.received`. A stopped server reports nothing.
type Feeder struct {
	Servers []*Server
	Sink    Sink
	Prefix  string      // "" means "tcp-service"
	Report  func(error) // told of every failed batch; nil means nobody is
}

// Path returns the metric path of a server.
func (f *Feeder) Path(server string) string {
	prefix := f.Prefix
	if prefix == "" {
		prefix = "tcp-service"
	}
	return prefix + "." + server + ".datapoints.received"
}

// Feed takes what every server received since the last Feed and sends it as
// the value of the second that starts at unix.
func (f *Feeder) Feed(ctx context.Context, unix int64) error {
	points := f.take(unix)
	if len(points) == 0 {
		return nil
	}
	return f.Sink.Send(ctx, points)
}

// Run feeds at every full second until ctx ends. Only whole seconds are
// reported: what came before the first full second is dropped, and so is what
// came while a slow sink made Run miss one.
func (f *Feeder) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var taken time.Time // the second at whose start the servers were last read
	for {
		second := time.Now().Truncate(time.Second).Add(time.Second)
		timer.Reset(time.Until(second))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		whole := second.Sub(taken) == time.Second
		taken = second
		points := f.take(second.Unix() - 1)
		if !whole || len(points) == 0 {
			continue
		}
		if err := f.Sink.Send(ctx, points); err != nil && ctx.Err() == nil && f.Report != nil {
			f.Report(err)
		}
	}
}

// take reads and resets what the servers received.
func (f *Feeder) take(unix int64) []Datapoint {
	var points []Datapoint
	for _, s := range f.Servers {
		if n, ok := s.Take(); ok {
			points = append(points, Datapoint{Path: f.Path(s.Name()), Value: float64(n), Unix: unix})
		}
	}
	return points
}
