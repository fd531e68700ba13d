package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/logbook"
	"github.com/haproxy-weighter/haproxy-weighter/test/memgraphite"
)

// patience is how long anything may take before a test fails.
const patience = 30 * time.Second

// scene is a real HAProxy with the backends ingest and other, a Graphite in
// memory, and a daemon between them.
type scene struct {
	t       *testing.T
	haproxy *haproxyproc.Process
	store   *memgraphite.Store
	url     string // of Graphite
	dir     string
	file    string // of the configuration
	log     *logbook.Book
	output  io.Writer // where the daemon's lines go; log unless a test says otherwise
	reload  chan os.Signal
	stop    func() // the daemon; nil when it does not run
}

func newScene(t *testing.T) *scene {
	s := &scene{t: t, log: &logbook.Book{}, store: memgraphite.New(nil)}
	s.output = s.log
	dir, err := haproxyproc.TempDir() // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s.dir, s.file = dir, filepath.Join(dir, "weighter.toml")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.haproxy, err = haproxyproc.Start(ctx, haproxyproc.Options{MasterWorker: true, Config: haproxyConfig})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.haproxy.Stop)
	graphite := httptest.NewServer(s.store.Handler())
	t.Cleanup(graphite.Close)
	s.url = graphite.URL
	for name, load := range map[string]float64{"s1": 400, "s2": 200, "s3": 100, "s4": 100} {
		s.load(name, load)
	}
	return s
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
backend other
	balance roundrobin
	server s1 127.0.0.1:1 weight 100
	server s2 127.0.0.1:1 weight 100
`

// load gives a server a load for the next ten minutes of the test.
func (s *scene) load(server string, value float64) {
	now := time.Now().Unix()
	for at := now - 60; at < now+300; at++ {
		s.store.Add("load."+server, value, at)
	}
}

// configure writes the configuration: a function's settings for ingest, and
// more tables.
func (s *scene) configure(settings, more string) {
	s.t.Helper()
	text := fmt.Sprintf(`
[haproxy]
sockets = [%q]
watch = "200ms"
[graphite]
url = %q
timeout = "400ms"
[admin]
listen = "unix:%s/admin.sock"
control = "%s/control.sock"
[state]
file = "%s/state.json"
[log]
level = "debug"
[[backend]]
name = "ingest"
target = "aliasByNode(load.*, 1)"
interval = "1s"
%s
%s
`, s.haproxy.SocketPath, s.url, s.dir, s.dir, s.dir, settings, more)
	if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// start runs the daemon until stop or the end of the test.
func (s *scene) start() {
	s.t.Helper()
	o := s.options()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("Run: %v; log:\n%s", err, s.log)
		}
	})
	s.t.Cleanup(s.stop)
}

func (s *scene) options() Options {
	s.t.Helper()
	c, err := config.Load(s.file)
	if err != nil {
		s.t.Fatal(err)
	}
	s.reload = make(chan os.Signal, 1)
	return Options{
		Config: c, Load: func() (*config.Config, error) { return config.Load(s.file) },
		Reload: s.reload, Version: "test", Log: s.output,
	}
}

// hangUp asks for a reload of the configuration.
func (s *scene) hangUp() { s.reload <- syscall.SIGHUP }

// until polls for a condition; it fails the test when it does not come true.
func (s *scene) until(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("never came true: %s; log:\n%s", what, s.log)
		}
	}
}

func (s *scene) untilLog(n int, text string) {
	s.t.Helper()
	s.until(fmt.Sprintf("%d log lines with %q", n, text), func() bool { return s.log.Count(text) >= n })
}

func (s *scene) runtime(line string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := s.haproxy.Command(ctx, line)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer
}

// weight asks HAProxy for the weight in force.
func (s *scene) weight(server string) int {
	s.t.Helper()
	var w int
	if _, err := fmt.Sscan(s.runtime("get weight "+server), &w); err != nil {
		s.t.Fatal(err)
	}
	return w
}

// http asks one of the daemon's sockets.
func (s *scene) http(socket, method, path string, body any) (int, string) {
	s.t.Helper()
	client := &http.Client{
		Timeout: patience,
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", filepath.Join(s.dir, socket))
		}},
	}
	var text io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			s.t.Fatal(err)
		}
		text = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://localhost"+path, text)
	if err != nil {
		s.t.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(got)
}

func (s *scene) status() api.Status {
	s.t.Helper()
	code, text := s.http("control.sock", "GET", "/api/v1/status", nil)
	var status api.Status
	if err := json.Unmarshal([]byte(text), &status); code != 200 || err != nil {
		s.t.Fatalf("status: %d %s, %v", code, text, err)
	}
	return status
}

func (s *scene) order(what string, o api.Order) {
	s.t.Helper()
	if code, text := s.http("control.sock", "POST", "/control/v1/"+what, o); code != 200 {
		s.t.Fatalf("%s: %d %s", what, code, text)
	}
}
