package operations

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/test/child"
	"github.com/haproxy-weighter/haproxy-weighter/test/faults/front"
	"github.com/haproxy-weighter/haproxy-weighter/test/faults/trace"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// patience is how long anything may take before a test fails.
const patience = 40 * time.Second

// The loads of the servers and the weights that they make: in inverse
// proportion, the lightest at 256.
var (
	usualLoads = map[string]float64{"s1": 400, "s2": 200, "s3": 100, "s4": 100}
	otherLoads = map[string]float64{"s1": 100, "s2": 100, "s3": 200, "s4": 400}
)

// scene is the program as it ships, beside a real HAProxy; between them, and
// in place of Graphite and carbon, fronts that misbehave when they are told to.
type scene struct {
	t        *testing.T
	doc      *parsed
	dir      string
	haproxy  *haproxyproc.Process
	socket   *front.Socket
	graphite *front.Graphite
	carbon   *front.Carbon
	daemon   *child.Process
	log      string // file
	read     int    // lines of the log that earlier steps have had
}

// haproxyConfig has the backend ingest under a name and with an algorithm, and
// more lines of its own.
func haproxyConfig(name, balance, more string) string {
	return fmt.Sprintf(`
defaults
	mode tcp
	timeout connect 1s
	timeout client 1m
	timeout server 1m
backend %s
	balance %s
	server s1 127.0.0.1:1 weight 100
	server s2 127.0.0.1:1 weight 100
	server s3 127.0.0.1:1 weight 100
	server s4 127.0.0.1:1 weight 100
%s
`, name, balance, more)
}

func newScene(t *testing.T, config string) *scene {
	t.Helper()
	s := &scene{t: t, doc: readDocument(t)}
	dir, err := haproxyproc.TempDir() // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s.dir, s.log = dir, filepath.Join(dir, "daemon.log")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	config = strings.ReplaceAll(config, "{dir}", dir)
	if s.haproxy, err = haproxyproc.Start(ctx, haproxyproc.Options{MasterWorker: true, Config: config}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.haproxy.Stop)
	if s.socket, err = front.NewSocket(s.file("between.sock"), s.haproxy.SocketPath, "ingest", &trace.Trace{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.socket.Close)
	if s.graphite, err = front.NewGraphite(&trace.Trace{}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.graphite.Close)
	s.graphite.Set(usualLoads)
	if s.carbon, err = front.NewCarbon(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.carbon.Close)
	t.Cleanup(func() { s.daemon.Kill() })
	return s
}

func (s *scene) file(name string) string { return filepath.Join(s.dir, name) }

// settings are what a configuration has that others have not.
type settings struct {
	sockets []string // nil: the one between
	backend string   // keys of the backend
	tables  string   // more tables
	timeout string   // of HAProxy's socket; empty: 1s
	maxAge  string   // of the backend; empty: 30s
}

// configure writes the configuration.
func (s *scene) configure(c settings) {
	s.t.Helper()
	if c.sockets == nil {
		c.sockets = []string{s.socket.Path}
	}
	sockets := make([]string, len(c.sockets))
	for i, path := range c.sockets {
		sockets[i] = strconv.Quote(path)
	}
	admin := fmt.Sprintf("[admin]\nlisten = \"unix:%s\"\ncontrol = %q\n", s.file("admin.sock"), s.file("control.sock"))
	if strings.Contains(c.tables, "[admin]") {
		admin = ""
	}
	function := "function = \"limited-proportions\"\naggressiveness = 1.0\n"
	if strings.Contains(c.backend, "function") {
		function = ""
	}
	text := fmt.Sprintf(`
[haproxy]
sockets = [%s]
watch = "200ms"
timeout = %q
[graphite]
url = %q
timeout = "900ms"
max_body = "64KiB"
%s
%s
[[backend]]
name = "ingest"
target = "aliasByNode(load.*, 1)"
interval = "1s"
window = "1m"
max_age = %q
%s
%s
`, strings.Join(sockets, ", "), cmp.Or(c.timeout, "1s"), s.graphite.URL, admin, strings.ReplaceAll(c.tables, "{dir}", s.dir), cmp.Or(c.maxAge, "30s"), function, strings.ReplaceAll(c.backend, "{dir}", s.dir))
	if !strings.Contains(text, "[log]") {
		text = "[log]\nformat = \"json\"\n" + text
	}
	if err := os.WriteFile(s.file("weighter.toml"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// start runs the daemon; before are words in front of the command.
func (s *scene) start(env []string, before ...string) {
	s.t.Helper()
	program, err := exec.LookPath("haproxy-weighter")
	if err != nil {
		s.t.Fatal(err)
	}
	words := append(before, program, "run", "-f", s.file("weighter.toml"))
	s.daemon, err = child.Start(child.Command{
		Name: "haproxy-weighter", Program: words[0], Args: words[1:], Log: s.log,
		Env: append(append(os.Environ(), "GORACE=atexit_sleep_ms=0 halt_on_error=1"), env...),
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// settle waits for the first weights.
func (s *scene) settle() {
	s.t.Helper()
	s.until("the first weights", func() bool { return s.weight("s1") == 64 && s.weight("s3") == 256 })
}

// hangUp has the configuration read again, and waits for that.
func (s *scene) hangUp() {
	s.t.Helper()
	have := len(s.lines())
	if err := s.daemon.Signal(syscall.SIGHUP); err != nil {
		s.t.Fatal(err)
	}
	s.until("a reload", func() bool {
		return slices.ContainsFunc(s.lines()[have:], func(l line) bool { return strings.Contains(l.Msg, "reloaded") })
	})
}

// stop ends the daemon in good order.
func (s *scene) stop() {
	s.t.Helper()
	s.daemon.Terminate()
	s.until("the end", s.daemon.Exited)
	if err := s.daemon.Err(); err != nil {
		s.t.Fatalf("it ended with %v; log:\n%s", err, s.tail())
	}
}

// until polls for a condition; it fails the test when it does not come true.
func (s *scene) until(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("never came true: %s; log:\n%s", what, s.tail())
		}
	}
}

// line is one line of the log.
type line struct{ Level, Msg, Cause string }

func (s *scene) lines() []line {
	s.t.Helper()
	data, err := os.ReadFile(s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	var all []line
	for text := range bytes.Lines(data) {
		var l line
		if json.Unmarshal(text, &l) == nil && bytes.HasSuffix(text, []byte("\n")) {
			all = append(all, l)
		}
	}
	return all
}

// logs tells whether a line of the log has a text in it.
func (s *scene) logs(text string) bool {
	return slices.ContainsFunc(s.lines(), func(l line) bool { return strings.Contains(l.Msg, text) })
}

// tail is the end of the log, for messages.
func (s *scene) tail() string {
	data, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-5000):])
}

// ask asks the daemon on whichever socket it has.
func (s *scene) ask(path string) ([]byte, error) {
	socket := s.file("control.sock")
	if _, err := os.Lstat(socket); err != nil {
		socket = s.file("admin.sock")
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}
	answer, err := client.Get("http://localhost" + path)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return io.ReadAll(answer.Body)
}

func (s *scene) status() (status api.Status) {
	if text, err := s.ask("/api/v1/status"); err == nil {
		_ = json.Unmarshal(text, &status) // asked again when it is not whole
	}
	return status
}

// order gives an order as an operator does.
func (s *scene) order(args ...string) {
	s.t.Helper()
	if code, text := s.run(append(args, "--control", s.file("control.sock"))...); code != 0 {
		s.t.Fatalf("%v: exit code %d: %s", args, code, text)
	}
}

// run runs one command of the program to its end.
func (s *scene) run(args ...string) (code int, text string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, "haproxy-weighter", args...)
	c.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		s.t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

// runtime sends a line to HAProxy.
func (s *scene) runtime(line string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	answer, err := s.haproxy.Command(ctx, line)
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(answer)
}

// weight is the one in force.
func (s *scene) weight(server string) int {
	s.t.Helper()
	var w int
	if _, err := fmt.Sscan(s.runtime("get weight ingest/"+server), &w); err != nil {
		s.t.Fatal(err)
	}
	return w
}

// reloadHAProxy reloads it with another configuration.
func (s *scene) reloadHAProxy(config string) {
	s.t.Helper()
	if err := s.haproxy.Reload(strings.ReplaceAll(config, "{dir}", s.dir)); err != nil {
		s.t.Fatal(err)
	}
}
