package daemon

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

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

// TestListenWhereAnybodyMayWrite: who can take our socket away could answer
// HAProxy in our place.
func TestListenWhereAnybodyMayWrite(t *testing.T) {
	for mode, refused := range map[os.FileMode]bool{0o777: true, 0o777 | os.ModeSticky: false, 0o770: false, 0o755: false} {
		folder := t.TempDir()
		if err := os.Chmod(folder, mode); err != nil {
			t.Fatal(err)
		}
		l, err := listen(t.Context(), config.Listener{Network: "unix", Address: filepath.Join(folder, "s")})
		if (err != nil) != refused || err != nil && !strings.Contains(err.Error(), "chmod o-w "+folder) {
			t.Errorf("a folder of mode %v: %v", mode, err)
		}
		if l != nil {
			l.Close()
		}
	}
}
