package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func pipe(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestPipe: <(...) names a pipe, whose writer may come after the reader.
func TestPipe(t *testing.T) {
	name := pipe(t)
	written := make(chan error, 1)
	go func() { // opening it for writing waits for the reader
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString(Minimal)
			err = errors.Join(err, f.Close())
		}
		written <- err
	}()
	c, err := LoadContext(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if len(c.Backends) != 1 {
		t.Errorf("%d backends were read", len(c.Backends))
	}
}

// TestSilentPipe: the end of the context ends the wait for a writer that does
// not come, and for one that comes and says nothing.
func TestSilentPipe(t *testing.T) {
	for _, writer := range []bool{false, true} {
		name := pipe(t)
		if writer {
			f, err := os.OpenFile(name, os.O_RDWR, 0) // does not wait
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := LoadContext(ctx, name)
			ended <- err
		}()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), name) {
			t.Errorf("writer %v: %v", writer, err)
		}
	}
}

func TestControlPath(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ name, text, want, err string }{
		{"unsaid", "", DefaultControl, ""},
		{"said", "[admin]\ncontrol = '/run/x.sock'\n", "/run/x.sock", ""},
		{"beside", "[admin]\ncontrol = 'x.sock'\n", filepath.Join(dir, "x.sock"), ""},
		{"off", "[admin]\ncontrol = 'off'\n", "", ""},
		{"mistakes elsewhere", "nonsense = 1\n[graphite]\npassword_file = '/none'\n[admin]\nlisten = 7\ncontrol = '/run/x.sock'\n", "/run/x.sock", ""},
		{"wrong type", "[admin]\ncontrol = 7\n", "", ":2: admin.control: is"},
		{"not a table", "admin = 7\n", "", ":1: admin: is"},
		{"no TOML", "[admin\n", "", ":2:7: not valid TOML"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(dir, "weighter.toml")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := ControlPath(t.Context(), file)
			switch {
			case c.err == "" && err != nil:
				t.Error(err)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("error %v, want %q", err, c.err)
			case got != c.want:
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	if _, err := ControlPath(t.Context(), filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
