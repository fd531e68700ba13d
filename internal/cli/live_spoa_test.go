package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/negasus/haproxy-spoe-go/action"

	"github.com/haproxy-weighter/haproxy-weighter/spoa"
)

// TestSpeaksSPOP has what can listen at the address of an agent.
func TestSpeaksSPOP(t *testing.T) {
	handler := spoa.HandlerFunc(func(*action.Actions, *spoa.Request) error { return nil })
	for name, tt := range map[string]struct {
		serve func(net.Conn)
		want  bool
	}{
		"closes":             {func(c net.Conn) {}, false},
		"talks first":        {func(c net.Conn) { _, _ = io.WriteString(c, "220 mail.example.com ESMTP\r\n") }, false},
		"answers as HTTP":    {func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }, false},
		"ends in the middle": {func(c net.Conn) { _, _ = io.WriteString(c, "\x00\x00\x00\x10") }, false},
		"refuses":            {func(c net.Conn) { _, _ = io.WriteString(c, "\x00\x00\x00\x10\x66") }, true},
		"another frame":      {func(c net.Conn) { _, _ = io.WriteString(c, "\x00\x00\x00\x10\x67") }, false},
	} {
		here, there := net.Pipe()
		var done sync.WaitGroup
		done.Go(func() {
			defer there.Close()
			var b [4 + len(healthCheck)]byte
			if _, err := io.ReadFull(there, b[:]); err != nil {
				t.Errorf("%s: the question: %v", name, err)
			}
			tt.serve(there)
		})
		if got := speaksSPOP(t.Context(), here); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
		here.Close()
		done.Wait()
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(reasons, 1)
	s := &spoa.Server{Handler: handler, Logger: slog.New(slog.DiscardHandler), Observer: seen}
	var done sync.WaitGroup
	done.Go(func() { _ = s.Serve(l) })
	defer done.Wait()
	defer s.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if !speaksSPOP(ctx, conn) {
		t.Error("our own agent is not known")
	}
	if got := <-seen; got != spoa.ReasonHealthCheck {
		t.Errorf("our own agent takes the question for %v", got)
	}
}

// reasons gets the ends of connections.
type reasons chan spoa.Reason

func (reasons) Opened()                              {}
func (r reasons) Closed(reason spoa.Reason)          { r <- reason }
func (reasons) Answered(spoa.Results, time.Duration) {}

func TestHintListen(t *testing.T) {
	for err, want := range map[error]string{
		syscall.EADDRINUSE: "another program", syscall.EACCES: "may not", syscall.EADDRNOTAVAIL: "does not have",
	} {
		if hints := hintListen(&net.OpError{Err: os.NewSyscallError("bind", err)}); len(hints) != 1 || !strings.Contains(hints[0], want) {
			t.Errorf("%v: %v", err, hints)
		}
	}
	if hints := hintListen(errors.New("no luck")); hints != nil {
		t.Errorf("%v", hints)
	}
}
