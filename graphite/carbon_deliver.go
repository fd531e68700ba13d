package graphite

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// writeSize is how many bytes of lines are made and written at a time.
const writeSize = 32 << 10

// deliver makes one connection and brings a batch through it. sent tells
// whether anything was written at all.
func (s *Sender) deliver(ctx context.Context, batch []Metric) (sent bool, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, s.config.Timeout, errSlow)
	defer cancel()
	conn, err := s.dial(limited)
	if err != nil {
		return false, s.explain(limited, "connecting to carbon", err)
	}
	defer conn.Close()
	// One time limit for all that follows, and the end of ctx, end every read
	// and write on the way.
	detach := context.AfterFunc(limited, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer detach()
	if err := writeLines(conn, batch); err != nil {
		return true, s.explain(limited, "writing to carbon", err)
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		err = half.CloseWrite()
	} else {
		err = errors.New("the connection can't be closed on one side")
	}
	if err != nil {
		return true, s.explain(limited, "ending the lines to carbon", err)
	}
	return true, s.explain(limited, "waiting for carbon to read all lines", readEnd(conn))
}

// errSlow is the cause when a batch took longer than its time.
var errSlow = errors.New("no progress in time")

func (s *Sender) dial(ctx context.Context) (net.Conn, error) {
	address := s.config.Address
	conn, err := s.config.Dial(ctx, address.HostPort)
	if err != nil || !address.TLS {
		return conn, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.config.TLS != nil {
		config = s.config.TLS.Clone()
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address.HostPort) // checked when it was parsed
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return secure, nil
}

// explain says during what an error came; nil stays nil.
func (s *Sender) explain(ctx context.Context, during string, err error) error {
	switch {
	case err == nil:
		return nil
	case context.Cause(ctx) == errSlow:
		return fmt.Errorf("%s took longer than %s: it hangs, or is too slow", during, s.config.Timeout)
	case ctx.Err() != nil:
		return fmt.Errorf("%s: this program ends", during)
	}
	return fmt.Errorf("%s: %w", during, err)
}

func writeLines(w io.Writer, batch []Metric) error {
	b := make([]byte, 0, writeSize+maxName+64)
	for i := range batch {
		b = batch[i].appendLine(b)
		if len(b) < writeSize && i < len(batch)-1 {
			continue
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		b = b[:0]
	}
	return nil
}

// readEnd waits until the other side closes. Carbon never says a word: who
// does is something else, such as a web server that has thrown the lines away.
func readEnd(conn net.Conn) error {
	var word [64]byte
	n, err := io.ReadAtLeast(conn, word[:], 1)
	if n > 0 {
		return fmt.Errorf("it answers %q, and carbon never answers: is this its port for plaintext lines?", word[:n])
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
