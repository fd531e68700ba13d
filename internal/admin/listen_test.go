package admin

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// stale leaves a socket that nobody listens on.
func stale(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
}

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestControlSocketIsForItsGroupOnly(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o077, 0o177} {
		path := t.TempDir() + "/control.sock"
		old := syscall.Umask(umask)
		bound, err := bind(t.Context(), path+".early")
		l, err2 := ListenControl(t.Context(), path)
		syscall.Umask(old)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if mode := modeOf(t, path+".early"); mode&0o007 != 0 {
			t.Errorf("umask %o: before its mode is set, a socket is open to everybody: %o", umask, mode)
		}
		if mode := modeOf(t, path); mode != 0o660 {
			t.Errorf("umask %o: mode %o, want 660", umask, mode)
		}
		bound.Close()
		l.Close()
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("the socket is left behind: %v", err)
		}
	}
}

func TestControlSocketRefused(t *testing.T) {
	folder := t.TempDir()
	mustMkdir := func(name string, mode fs.FileMode) string {
		path := filepath.Join(folder, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(folder, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	live := filepath.Join(folder, "live")
	l, err := net.Listen("unix", live)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cases := map[string]struct{ path, words string }{
		"no folder":         {folder + "/none/control.sock", "RuntimeDirectory=haproxy-weighter"},
		"folder is a file":  {file + "/control.sock", "is not a folder"},
		"open folder":       {mustMkdir("open", 0o777) + "/control.sock", "chmod o-w " + folder + "/open"},
		"open and sticky":   {mustMkdir("sticky", 0o777|fs.ModeSticky) + "/control.sock", "everybody may write"},
		"a file":            {file, "is no socket"},
		"a link":            {link, "is no socket"},
		"a folder":          {mustMkdir("folder", 0o700), "is no socket"},
		"somebody listens":  {live, "another program listens"},
		"path too long":     {filepath.Join(folder, strings.Repeat("x", 108)), "invalid argument"},
		"folder of another": {mustMkdir("another", 0o755) + "/control.sock", "belongs to uid 4242"},
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(folder+"/another", 4242, 0); err != nil {
			t.Fatal(err)
		}
	} else {
		delete(cases, "folder of another") // only root can give one away
	}
	for name, c := range cases {
		got, err := ListenControl(t.Context(), c.path)
		if err == nil {
			got.Close()
			t.Errorf("%s: no error", name)
			continue
		}
		if !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %q", name, err, c.words)
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "precious" {
		t.Errorf("the file has %q, %v", data, err)
	}
	if conn, err := net.Dial("unix", live); err != nil {
		t.Errorf("the live socket has been taken: %v", err)
	} else {
		conn.Close()
	}
}

// TestControlSocketReplacesAStaleOne has several start at once: one takes the
// socket, the others see that it is live.
func TestControlSocketReplacesAStaleOne(t *testing.T) {
	path := t.TempDir() + "/control.sock"
	stale(t, path)
	var wg sync.WaitGroup
	var won atomic.Pointer[net.Listener]
	var wins atomic.Int32
	for range 8 {
		wg.Go(func() {
			l, err := ListenControl(t.Context(), path)
			switch {
			case err == nil:
				won.Store(&l)
				wins.Add(1)
			case !strings.Contains(err.Error(), "another program listens"):
				t.Errorf("refused for %v", err)
			}
		})
	}
	wg.Wait()
	if wins.Load() != 1 {
		t.Fatalf("%d have the socket", wins.Load())
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	(*won.Load()).Close()
}

func TestControlSocketOfSomebodyElseIsNotRemoved(t *testing.T) {
	path := t.TempDir() + "/control.sock"
	l, err := ListenControl(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	stale(t, path)
	l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the other one's socket is gone: %v", err)
	}
}

func TestControlSocketWaitsForALockNotForEver(t *testing.T) {
	folder := t.TempDir()
	unlock, err := lockFolder(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if l, err := ListenControl(ctx, folder+"/control.sock"); err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("%v, %v", l, err)
	}
}

// TestSetSocketModeFollowsNothing: a link in the place of the socket leaves
// what it leads to alone.
func TestSetSocketModeFollowsNothing(t *testing.T) {
	folder := t.TempDir()
	secret := filepath.Join(folder, "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	symbolic, hard := filepath.Join(folder, "symbolic"), filepath.Join(folder, "hard")
	if err := errors.Join(os.Symlink(secret, symbolic), os.Link(secret, hard)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{symbolic, hard, filepath.Join(folder, "nothing")} {
		if err := SetSocketMode(path, 0o666); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if info, err := os.Stat(secret); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is of mode %v now, %v", info.Mode(), err)
	}
}
