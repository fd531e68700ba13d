package cli

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFilesOfTheManual holds that the modes in the manual page are those that
// the daemon gives, whatever the umask, and the packages.
func TestFilesOfTheManual(t *testing.T) {
	page := filepath.Join(t.TempDir(), "man")
	if code, _, stderr := command(t, "man", page); code != exitGood {
		t.Fatal(stderr)
	}
	text, err := os.ReadFile(filepath.Join(page, "haproxy-weighter.1"))
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]fs.FileMode{}
	for _, f := range wordsFiles {
		modes[f.path] = f.mode
		if want := fmt.Sprintf("Mode %04o. ", f.mode); f.mode != 0 && !strings.Contains(string(text), want) {
			t.Errorf("the page does not say %s of %s", want, f.path)
		}
	}
	for _, umask := range []int{0, 0o077} {
		dir := shortDir(t)
		startDaemon(t, dir, umask)
		for name, documented := range map[string]string{
			"control.sock": "/run/haproxy-weighter/control.sock", "state.json": "/var/lib/haproxy-weighter/state.json",
			".state.json.lock": "/var/lib/haproxy-weighter/.state.json.lock",
			"page.sock":        "unix:PATH in spoa.listen and admin.listen", "spoe.sock": "unix:PATH in spoa.listen and admin.listen",
		} {
			info, err := os.Lstat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if mode, ok := modes[documented]; !ok || info.Mode().Perm() != mode {
				t.Errorf("umask %#o: %s has mode %04o, and the page says %04o", umask, name, info.Mode().Perm(), mode)
			}
		}
	}
	for path, lines := range map[string][]string{
		"/etc/haproxy-weighter/weighter.toml":              {"nfpm.yaml", "file_info: {mode: %04o}"},
		"/run/haproxy-weighter, /var/lib/haproxy-weighter": {"systemd/tmpfiles.conf", "d /run/haproxy-weighter     %04o ", "d /var/lib/haproxy-weighter %04o "},
	} {
		packaged, err := os.ReadFile(filepath.Join("../../packaging", lines[0]))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines[1:] {
			if want := fmt.Sprintf(line, modes[path]); !strings.Contains(string(packaged), want) {
				t.Errorf("the page says of %s what %s does not: %q", path, lines[0], want)
			}
		}
	}
}

// startDaemon runs a daemon with all its files in dir until the test ends, and
// waits until it has written its state.
func startDaemon(t *testing.T, dir string, umask int) {
	t.Helper()
	file := filepath.Join(dir, "weighter.toml")
	config := strings.ReplaceAll(`
[haproxy]
sockets = ["DIR/none.sock"]
[graphite]
url = "http://127.0.0.1:9"
[spoa]
listen = ["unix:DIR/spoe.sock"]
[admin]
listen = "unix:DIR/page.sock"
control = "DIR/control.sock"
[state]
file = "DIR/state.json"
[[backend]]
name = "in"
target = "x"
`, "DIR", dir)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	old := syscall.Umask(umask)
	var log strings.Builder
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int)
	go func() {
		p := &Program{Version: "1.2.3", Stdout: &log, Stderr: &log}
		ended <- p.Run(ctx, []string{"run", "-f", file})
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != exitGood {
			t.Errorf("exit code %d; log:\n%s", code, &log)
		}
		syscall.Umask(old)
	})
	socket := filepath.Join(dir, "control.sock")
	freeze := []string{"freeze", "in", "--reason", "r", "--for", "1h", "--control", socket}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if code, _, stderr := command(t, freeze...); code == exitGood {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("no daemon: %s", stderr)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || !slices.ContainsFunc(files, func(f os.DirEntry) bool { return f.Name() == "state.json" }) {
		t.Fatalf("an order has been taken, and there is no state file: %v, %v", files, err)
	}
}
