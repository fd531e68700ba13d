package metrics

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/child"
	"github.com/haproxy-weighter/haproxy-weighter/test/graphiteproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// loads are what the servers of the backend report, datapoints a second.
var loads = map[string]float64{"s1": 300, "s2": 200, "s3": 100, "s4": 100}

// engine asks everything, and one thing that nobody can answer.
const engine = `[weighter]
spoe-agent weighter-agent
  messages weighter-backend weighter-server weighter-pick weighter-choose weighter-typo
  option var-prefix weighter
  option set-on-error error
  timeout hello 10s
  timeout idle 30s
  timeout processing 10s
  use-backend weighter-agent
spoe-message weighter-backend
  args backend=str(ingest)
  event on-client-session
spoe-message weighter-server
  args backend=str(ingest) server=str(s1)
  event on-client-session
spoe-message weighter-pick
  args backend=str(ingest)
  event on-client-session
spoe-message weighter-choose
  args backends=str(ingest)
  event on-client-session
spoe-message weighter-typo
  args backend=str(ingest)
  event on-client-session

`

const haproxyConfig = `
defaults
  mode tcp
  timeout connect 1s
  timeout client 20s
  timeout server 20s
frontend ft
  bind 127.0.0.1:%[1]d
  filter spoe engine weighter config %[2]s
  default_backend ingest
backend ingest
  balance roundrobin
%[3]s
backend weighter-agent
  option spop-check
  timeout connect 5s
  timeout server 60s
  server agent 127.0.0.1:%[4]d check inter 200ms fall 1 rise 1 pool-low-conn 64
`

const weighterConfig = `
[haproxy]
sockets = [%q]
watch = "200ms"
[graphite]
url = %q
timeout = "900ms"
[spoa]
listen = ["127.0.0.1:%d"]
[admin]
listen = %q
control = "%s/control.sock"
[report]
carbon = %q
interval = "1s"
[[backend]]
name = "ingest"
target = "aliasByNode(tcp-service.*.datapoints.received, 1)"
window = "1m"
max_age = "10s"
interval = "1s"
`

// scene is the program with all that it works with, and a Prometheus.
type scene struct {
	t        *testing.T
	dir      string
	haproxy  *haproxyproc.Process
	graphite *graphiteproc.Process
	front    int    // port of HAProxy's frontend
	agent    int    // port of the SPOE agent
	server   int    // port of the servers
	admin    string // host:port of the daemon's listener
	prom     string // URL of Prometheus
}

func newScene(t *testing.T) *scene {
	t.Helper()
	dir, err := haproxyproc.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ports, err := child.FreePorts(4)
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, dir: dir, front: ports[0], agent: ports[1], admin: fmt.Sprintf("127.0.0.1:%d", ports[2])}
	s.prom = fmt.Sprintf("http://127.0.0.1:%d", ports[3])
	s.server = s.serve()
	s.write("weighter.spoe", engine)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if s.graphite, err = graphiteproc.Start(ctx, graphiteproc.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.graphite.Stop)
	s.haproxy, err = haproxyproc.Start(ctx, haproxyproc.Options{Config: s.config("s1", "s2", "s3", "s4"), MasterWorker: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.haproxy.Stop)
	s.feed()
	s.write("weighter.toml", fmt.Sprintf(weighterConfig, s.haproxy.SocketPath, s.graphite.URL, s.agent, s.admin, dir, s.graphite.CarbonAddr))
	s.run("haproxy-weighter", program, "run", "-f", filepath.Join(dir, "weighter.toml"))
	s.eventually("the daemon answers", func() string { return s.answers("http://" + s.admin + "/metrics") })
	s.traffic()
	s.startPrometheus()
	return s
}

// config is HAProxy's, with the servers named.
func (s *scene) config(servers ...string) string {
	var lines strings.Builder
	for _, name := range servers {
		fmt.Fprintf(&lines, "  server %s 127.0.0.1:%d weight 100\n", name, s.server)
	}
	return fmt.Sprintf(haproxyConfig, s.front, filepath.Join(s.dir, "weighter.spoe"), lines.String(), s.agent)
}

func (s *scene) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// run starts a program that ends with the test.
func (s *scene) run(name, path string, args ...string) {
	s.t.Helper()
	file := filepath.Join(s.dir, name+".log")
	p, err := child.Start(child.Command{Name: name, Program: path, Args: args, Dir: s.dir, Log: file})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		p.Kill()
		if s.t.Failed() {
			text, _ := os.ReadFile(file)
			s.t.Logf("log of %s:\n%s", name, text)
		}
	})
}

// serve takes connections, says a word and ends them.
func (s *scene) serve() (port int) {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.background(func(context.Context) {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello")
			c.Close()
		}
	}, func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

// background runs f until the test ends, and waits for its end.
func (s *scene) background(f func(context.Context), stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { f(ctx) })
	s.t.Cleanup(func() {
		cancel()
		if stop != nil {
			stop()
		}
		done.Wait()
	})
}

// every calls f at once and then in each interval until ctx ends.
func every(ctx context.Context, interval time.Duration, f func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		f()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// feed reports the loads to carbon each second.
func (s *scene) feed() {
	s.background(func(ctx context.Context) {
		every(ctx, 500*time.Millisecond, func() {
			var lines strings.Builder
			for name, load := range loads {
				fmt.Fprintf(&lines, "tcp-service.%s.datapoints.received %g %d\n", name, load, time.Now().Unix())
			}
			_ = s.graphite.Send(ctx, lines.String()) // a second that Graphite missed shows as missing data
		})
	}, nil)
}

// traffic makes connections through HAProxy, so that it asks the SPOE agent.
func (s *scene) traffic() {
	s.background(func(ctx context.Context) {
		every(ctx, 50*time.Millisecond, func() {
			dialer := net.Dialer{Timeout: time.Second}
			c, err := dialer.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", s.front))
			if err != nil {
				return // HAProxy is being reloaded, or the test has ended
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(5 * time.Second))
			_, _ = io.ReadAll(c)
		})
	}, nil)
}

// client keeps no connection: nothing is left over at the end.
var client = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// get gives the body of an answer with status 200.
func (s *scene) get(url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(s.t.Context(), "GET", url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != 200 {
		err = fmt.Errorf("status %d: %s", answer.StatusCode, body)
	}
	return body, err
}

func (s *scene) answers(url string) string {
	if _, err := s.get(url); err != nil {
		return err.Error()
	}
	return ""
}

// eventually waits until ok says "" and ends the test with its last answer otherwise.
func (s *scene) eventually(what string, ok func() string) {
	s.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for {
		why := ok()
		if why == "" {
			return
		}
		select {
		case <-poll.C:
		case <-deadline.C:
			s.t.Fatalf("%s: %s", what, why)
		}
	}
}
