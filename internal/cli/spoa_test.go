package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/negasus/haproxy-spoe-go/action"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/spoa"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// TestAgentDefaults: the configuration has package spoa's.
func TestAgentDefaults(t *testing.T) {
	c, err := config.Parse("weighter.toml", []byte(config.Minimal), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	s := c.SPOA
	if s.MaxFrameSize != spoa.DefaultMaxFrameSize || s.MaxConnections != spoa.DefaultMaxConns || s.IdleTimeout != spoa.DefaultIdleTimeout {
		t.Errorf("%+v", s)
	}
	for size, want := range map[int]bool{
		spoa.MinMaxFrameSize: true, spoa.MinMaxFrameSize - 1: false, spoa.MaxMaxFrameSize: true, spoa.MaxMaxFrameSize + 1: false,
	} {
		text := config.Minimal + "\n[spoa]\nlisten = [\"127.0.0.1:9002\"]\nmax_frame_size = " + strconv.Itoa(size) + "\n"
		if _, err := config.Parse("weighter.toml", []byte(text), os.LookupEnv); (err == nil) != want {
			t.Errorf("max_frame_size = %d: %v", size, err)
		}
	}
}

func TestSourceOf(t *testing.T) {
	b := &config.Backend{Name: "in", MaxAge: time.Minute, Weighting: weighting.Settings{Quorum: 0.7, Better: weighting.Higher}}
	if s := sourceOf(b, nil); s.Backend != "in" || s.MaxAge != time.Minute || s.Quorum != 0.7 || !s.HigherIsBetter {
		t.Errorf("%+v", s)
	}
	b.Weighting.Better = weighting.Lower
	if sourceOf(b, nil).HigherIsBetter {
		t.Error("lower is taken for higher")
	}
}

func TestListenOnUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l := config.Listener{Network: "unix", Address: path}
	left, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listen(t.Context(), l); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("where somebody listens: %v", err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false) // as when the process is killed
	left.Close()
	opened, err := listen(t.Context(), l)
	if err != nil {
		t.Fatalf("where a dead socket is: %v", err)
	}
	defer opened.Close()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("mode %v, %v: HAProxy's user must be able to connect", info.Mode(), err)
	}
	file := config.Listener{Network: "unix", Address: filepath.Join(t.TempDir(), "file")}
	if err := os.WriteFile(file.Address, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(t.Context(), file); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("where a file is: %v", err)
	}
	if text, err := os.ReadFile(file.Address); err != nil || string(text) != "x" {
		t.Errorf("the file: %q, %v", text, err)
	}
}

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
