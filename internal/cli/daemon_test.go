package cli

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
)

// noon is the time of the tests.
var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// answers are what a fake daemon says, by method and path.
type answers map[string]any

// fakeDaemon serves answers on a control socket until the test ends, for what
// the real one can't be made to say at will. It fails the test at a request
// that it does not know.
func fakeDaemon(t *testing.T, a answers) (socket string) {
	t.Helper()
	return fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		answer, ok := a[r.Method+" "+r.URL.Path]
		if !ok {
			t.Errorf("the fake daemon is asked for %s %s", r.Method, r.URL.Path)
		}
		code := http.StatusOK
		if _, refused := answer.(api.Problem); refused {
			code = http.StatusConflict
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	})
}

func fakeServer(t *testing.T, h http.HandlerFunc) (socket string) {
	t.Helper()
	socket = filepath.Join(shortDir(t), "c.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(h)
	server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	return socket
}

// shortDir is a folder with a path short enough for a unix socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cli")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// command runs a command line at noon.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err strings.Builder
	p := &Program{Version: "1.2.3", Stdout: &out, Stderr: &err, Now: func() time.Time { return noon }}
	code = p.Run(t.Context(), args)
	return code, out.String(), err.String()
}

// TestFaultsOfTheDaemon has each way in which there is no answer: exit code 3
// and what to do.
func TestFaultsOfTheDaemon(t *testing.T) {
	dir := shortDir(t)
	stale := filepath.Join(dir, "stale.sock")
	l, err := net.Listen("unix", stale)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	html := fakeServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>hello</html>") })
	half := fakeServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "{")
	})
	for _, c := range []struct{ name, socket, want, hint string }{
		{"no socket", filepath.Join(dir, "none.sock"), "no such file or directory", hintDaemonRuns},
		{"stale socket", stale, "connection refused", hintDaemonStart},
		{"no daemon of ours", html, `HTTP status 200, content type "text/html; charset=utf-8" instead of JSON`, hintControlPath},
		{"half an answer", half, "the answer was cut off", hintControlPath},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, args := range [][]string{
				{"status"}, {"explain", "in/s1"}, {"history", "in"}, {"unfreeze", "in"}, {"status", "--json"},
			} {
				code, stdout, stderr := command(t, append(args, "--control", c.socket)...)
				if code != exitUnreachable || stdout != "" {
					t.Errorf("%v: exit code %d, stdout %q", args, code, stdout)
				}
				if !strings.Contains(stderr, "the daemon can't be reached at "+c.socket+": ") || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, c.hint) {
					t.Errorf("%v: stderr %q, want %q and %q", args, stderr, c.want, c.hint)
				}
			}
		})
	}
}

// TestHungDaemon: an interrupt ends the wait for a daemon that says nothing.
func TestHungDaemon(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(shortDir(t), "c.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if conn, err := l.Accept(); err == nil {
			cancel()
			conn.Close()
		}
	}()
	var out, words strings.Builder
	p := &Program{Stdout: &out, Stderr: &words}
	if code := p.Run(ctx, []string{"status", "--control", l.Addr().String()}); code != exitFailed || words.String() != "haproxy-weighter: interrupted\n" {
		t.Errorf("exit code %d, stderr %q", code, words.String())
	}
}

// TestHintsUnreachable has the faults that a test as root can't make.
func TestHintsUnreachable(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		group string
		named bool
		want  string
	}{
		{"not allowed", os.ErrPermission, "haproxy-weighter", false, "usermod -a -G haproxy-weighter USER"},
		{"not allowed, group not known", os.ErrPermission, "", false, "use sudo, or join the group that it belongs to"},
		{"no folder", fs.ErrNotExist, "", false, "mkdir -m 750 /nowhere,"},
		{"no such socket", fs.ErrNotExist, "", true, hintControlNamed},
		{"hung", os.ErrDeadlineExceeded, "", false, hintDaemonHangs},
	} {
		hints := hintsUnreachable(&api.UnreachableError{Socket: "/nowhere/control.sock", Err: c.err}, c.group, c.named)
		if all := strings.Join(hints, "\n"); !strings.Contains(all, c.want) {
			t.Errorf("%s: %q, want %q", c.name, all, c.want)
		}
	}
}

func TestSocketGroup(t *testing.T) {
	dir := shortDir(t)
	if err := os.Chown(dir, -1, os.Getegid()); err != nil {
		t.Fatal(err)
	}
	if got := socketGroup(dir); (got == "") != (os.Getegid() == 0) {
		t.Errorf("group %q of a folder of group %d", got, os.Getegid())
	}
	if got := socketGroup(filepath.Join(dir, "none")); got != "" {
		t.Errorf("group %q of nothing", got)
	}
}

// TestReach has how the socket is found.
func TestReach(t *testing.T) {
	dir := shortDir(t)
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	socket := filepath.Join(dir, "c.sock")
	said := "[admin]\ncontrol = '" + socket + "'\n"
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"--control goes first", []string{"-f", "/none", "--control", "/x.sock"}, exitUnreachable, "at /x.sock:"},
		{"the file says it", []string{"-f", write("good.toml", said)}, exitUnreachable, "at " + socket + ":"},
		{"the file has mistakes elsewhere", []string{"-f", write("bad.toml", "x = 1\n"+said)}, exitUnreachable, "at " + socket + ":"},
		{"off", []string{"-f", write("off.toml", "[admin]\ncontrol = 'off'\n")}, exitUnreachable, hintControlOff},
		{"no file", []string{"-f", filepath.Join(dir, "none.toml")}, exitUsage, "no configuration at"},
		{"no TOML", []string{"-f", write("half.toml", "[admin\n")}, exitUsage, "not valid TOML"},
		{"a folder", []string{"-f", dir}, exitUsage, "is a directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, _, stderr := command(t, append([]string{"status"}, c.args...)...)
			if code != c.code || !strings.Contains(stderr, c.want) {
				t.Errorf("exit code %d, stderr %q, want %d and %q", code, stderr, c.code, c.want)
			}
		})
	}
}

// TestDefaultFileWithMistakes: without -f the daemon must be found although the
// file is being edited.
func TestDefaultFileWithMistakes(t *testing.T) {
	file := filepath.Join(shortDir(t), "weighter.toml")
	if err := os.WriteFile(file, []byte("[admin\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &Program{Stdout: io.Discard, Stderr: io.Discard}
	c := newStatus(p)
	p.file = file // as if it were the default one: the flag is not given
	c.Flags().String("config", file, "")
	client, note, err := p.reach(t.Context(), c)
	if err != nil || client.Socket != "/run/haproxy-weighter/control.sock" || !strings.Contains(note, "not valid TOML") {
		t.Errorf("client %+v, note %q, error %v", client, note, err)
	}
	p.file = filepath.Join(filepath.Dir(file), "none")
	client, note, err = p.reach(t.Context(), c)
	if err != nil || client.Socket != "/run/haproxy-weighter/control.sock" || note != "" {
		t.Errorf("client %+v, note %q, error %v", client, note, err)
	}
}

func TestShellQuote(t *testing.T) {
	for word, want := range map[string]string{
		"ingest/s1": "ingest/s1", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "-f": "-f", "süd": "'süd'",
	} {
		if got := shellQuote(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}
