package security

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/child"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// patience is how long anything may take before a test fails.
const patience = 30 * time.Second

// secrets are all that the daemon of a scene is given to keep.
var secrets = []string{
	"pAssw0rd&1", "pAssw0rd%261", "h3ader-s3cret", "p4th-k3y", "qu3ry-k3y", "t4rget-k3y", "ann-the-user", "YW5uLXRoZS11c2VyOnBBc3N3MHJkJjE=",
}

// scene is the daemon as a process of its own, with a real HAProxy, a Graphite
// that does what a test tells it, and a carbon that keeps what it gets.
type scene struct {
	t       *testing.T
	dir     string
	file    string // the configuration
	log     string
	admin   string // host:port
	spoe    string // host:port
	haproxy *haproxyproc.Process
	daemon  *child.Process
	carbon  *keeper

	answer atomic.Pointer[http.HandlerFunc] // Graphite's
	asked  atomic.Int64                     // how often Graphite was asked
}

// keeper keeps what is sent to a TCP port.
type keeper struct {
	mu   sync.Mutex
	text strings.Builder
}

func (k *keeper) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text.String()
}

const haproxyConfig = `
defaults
	mode tcp
	timeout connect 1s
	timeout client 1s
	timeout server 1s
backend ingest
	balance roundrobin
	server s1 127.0.0.1:1 weight 100
	server s2 127.0.0.1:1 weight 100
	server s3 127.0.0.1:1 weight 100
	server s4 127.0.0.1:1 weight 100
	server zero 127.0.0.1:1 weight 0
	server maint 127.0.0.1:1 weight 77 disabled
	server drained 127.0.0.1:1 weight 77
`

// newScene starts it all; format is that of the log.
func newScene(t *testing.T, format string) *scene {
	t.Helper()
	s := &scene{t: t, carbon: &keeper{}}
	var err error
	if s.dir, err = haproxyproc.TempDir(); err != nil { // short enough for sockets
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(s.dir) })
	s.log, s.file = filepath.Join(s.dir, "log"), filepath.Join(s.dir, "weighter.toml")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if s.haproxy, err = haproxyproc.Start(ctx, haproxyproc.Options{Config: haproxyConfig}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.haproxy.Stop)
	if _, err := s.haproxy.Command(ctx, "set server ingest/drained state drain"); err != nil {
		t.Fatal(err)
	}
	s.say(loads(map[string]float64{"s1": 1, "s2": 1, "s3": 1, "s4": 1}))
	graphite := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		(*s.answer.Load())(w, r)
	}))
	t.Cleanup(graphite.Close)
	s.configure(graphite.URL, format)
	s.run()
	return s
}

// say makes Graphite answer in another way.
func (s *scene) say(h http.HandlerFunc) { s.answer.Store(&h) }

// loads is an answer with a fresh point a series.
func loads(values map[string]float64) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var series []string
		for name, v := range values {
			series = append(series, fmt.Sprintf(`{"target":%q,"datapoints":[[%g,%d]]}`, name, v, time.Now().Unix()))
		}
		fmt.Fprintf(w, "[%s]", strings.Join(series, ","))
	}
}

func (s *scene) configure(graphite, format string) {
	s.t.Helper()
	ports, err := haproxyproc.FreePorts(2)
	if err != nil {
		s.t.Fatal(err)
	}
	s.admin, s.spoe = fmt.Sprint("127.0.0.1:", ports[0]), fmt.Sprint("127.0.0.1:", ports[1])
	text := fmt.Sprintf(`
[haproxy]
sockets = [%q]
watch = "200ms"
[graphite]
url = "%s/${PATH_KEY}/graphite?key=${QUERY_KEY}"
timeout = "400ms"
username = "ann-the-user"
password_file = "password"
headers = { X-Api-Key = "${HEADER_SECRET}" }
[spoa]
listen = [%q, "unix:%s/spoe.sock"]
[admin]
listen = %q
control = "control.sock"
[report]
carbon = %q
interval = "1s"
[state]
file = "state.json"
[log]
format = %q
level = "debug"
[[backend]]
name = "ingest"
target = "aliasByNode(load.*, 1, '${TARGET_KEY}')"
interval = "1s"
`, s.haproxy.SocketPath, graphite, s.spoe, s.dir, s.admin, s.listenCarbon(), format)
	if err := errors.Join(
		os.WriteFile(s.file, []byte(text), 0o600),
		os.WriteFile(filepath.Join(s.dir, "password"), []byte("pAssw0rd&1\n"), 0o600),
	); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) listenCarbon() string {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	var all sync.WaitGroup
	s.t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(patience))
				text, _ := io.ReadAll(io.LimitReader(conn, 1<<20)) // a connection that is cut holds what it held
				s.carbon.mu.Lock()
				defer s.carbon.mu.Unlock()
				s.carbon.text.Write(text)
			})
		}
	})
	return l.Addr().String()
}

// environment has what the configuration takes from there.
func environment() []string {
	return append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0",
		"PATH_KEY=p4th-k3y", "QUERY_KEY=qu3ry-k3y", "HEADER_SECRET=h3ader-s3cret", "TARGET_KEY=t4rget-k3y")
}

// run starts the daemon with a umask that takes nothing away.
func (s *scene) run() {
	s.t.Helper()
	program, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	s.daemon, err = child.Start(child.Command{
		Name: "haproxy-weighter", Program: "/bin/sh", Args: []string{"-c", `umask 000; exec "$0" run -f "$1"`, program, s.file},
		Env: environment(), Log: s.log,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.daemon.Kill)
	s.until("the daemon is ready", func() bool {
		r, err := client.Get("http://" + s.admin + "/-/ready")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
}

// client keeps no connection.
var client = &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}

// until waits for a condition.
func (s *scene) until(what string, holds func() bool) {
	s.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			s.t.Fatalf("not within %s: %s; the log:\n%s", patience, what, s.logged())
		case <-tick.C:
		}
	}
}

// passes waits until Graphite has been asked so many times more, and the last
// of the answers has been dealt with.
func (s *scene) passes(n int64) {
	s.t.Helper()
	want := s.asked.Load() + n + 1
	s.until(fmt.Sprint("asked ", want, " times"), func() bool { return s.asked.Load() >= want })
}

func (s *scene) logged() string {
	text, err := os.ReadFile(s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// get asks the admin listener.
func (s *scene) get(path string) string {
	s.t.Helper()
	r, err := client.Get("http://" + s.admin + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(body)
}

// event is the next one of the event stream.
func (s *scene) event() string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.admin+"/api/v1/events", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := client.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: {\""); ok {
			return data
		}
	}
	s.t.Fatalf("no event: %v", lines.Err())
	return ""
}

// command runs the program beside the daemon; its exit code does not matter.
func (s *scene) command(args ...string) string {
	s.t.Helper()
	program, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, program, append(args, "-f", s.file)...)
	c.Env = environment()
	out, err := c.CombinedOutput()
	var code *exec.ExitError
	if err != nil && !errors.As(err, &code) || len(out) == 0 {
		s.t.Fatalf("%q: %v, %s", args, err, out)
	}
	return string(out)
}

// servers are HAProxy's: by name, weight and admin state.
func (s *scene) servers() map[string]string {
	s.t.Helper()
	text, err := s.haproxy.Command(s.t.Context(), "show servers state ingest")
	if err != nil {
		s.t.Fatal(err)
	}
	servers := make(map[string]string)
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 8 && f[1] == "ingest" {
			servers[f[3]] = f[6] + " " + f[7] // srv_admin_state and srv_uweight
		}
	}
	if len(servers) != 7 || slices.Contains([]string{servers["s1"], servers["drained"]}, "") {
		s.t.Fatalf("the servers are %v", servers)
	}
	return servers
}
