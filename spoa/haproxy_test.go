package spoa_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/negasus/haproxy-spoe-go/action"

	"github.com/haproxy-weighter/haproxy-weighter/spoa"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// engine is the SPOE configuration. The timeout is long, so that a test sees
// whether a stream failed at once or waited for it: error 1 is the timeout.
const engine = `[t]
spoe-agent t
  messages ask
  option var-prefix t
  option set-on-error err
  option continue-on-error
  timeout hello 5s
  timeout idle 30s
  timeout processing 10s
  use-backend spoa
spoe-message ask
  args src=src port=dst_port name=str(ingest) number=int(-42) flag=bool(true) id=uuid()
  event on-client-session

`

// variables are printed by the HTTP frontend, in this order.
var variables = []string{"err", "int", "negative", "least", "most", "large", "true", "text", "four", "six", "gone", "after", "port"}

// config has an HTTP frontend that answers with the variables, and a TCP one
// that is routed by one of them.
func config(file string, agent, httpPort, tcpPort int, names [2]string, ports [2]int) string {
	var line strings.Builder
	for _, v := range variables {
		fmt.Fprintf(&line, "%s=%%[var(txn.t.%s)] ", v, v)
	}
	return fmt.Sprintf(`
defaults
  timeout connect 5s
  timeout check 5s
  timeout client 30s
  timeout server 30s
frontend fh
  mode http
  bind 127.0.0.1:%d
  filter spoe engine t config %s
  http-request return status 200 content-type text/plain lf-string "%s"
frontend ft
  mode tcp
  bind 127.0.0.1:%d
  filter spoe engine t config %s
  default_backend tcp
backend tcp
  mode tcp
  use-server %%[var(txn.t.server)] if { var(txn.t.server) -m found }
  server %s 127.0.0.1:%d
  server %s 127.0.0.1:%d
backend spoa
  mode tcp
  option spop-check
  timeout server 60s
  server agent 127.0.0.1:%d check inter 100ms fall 2 rise 1`,
		httpPort, file, line.String(), tcpPort, file, names[0], ports[0], names[1], ports[1], agent)
}

// scene is a HAProxy, an agent for it and two TCP servers that say their names.
type scene struct {
	t                    *testing.T
	haproxy              *haproxyproc.Process
	agent                *agent
	port                 int // the agent's
	http, tcp            string
	config               string
	closed               chan spoa.Reason
	mu                   sync.Mutex
	answered, unanswered int
}

func (s *scene) Opened()                   {}
func (s *scene) Closed(reason spoa.Reason) { s.closed <- reason }
func (s *scene) Answered(r spoa.Results, _ time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered += r[spoa.ResultOK]
	s.unanswered += r.Total() - r[spoa.ResultOK]
}

// agent is one life of a server.
type agent struct {
	server *spoa.Server
	served chan error
}

func (s *scene) startAgent(h spoa.Handler) {
	s.t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
	if err != nil {
		s.t.Fatal(err)
	}
	a := &agent{&spoa.Server{Handler: h, Observer: s, Logger: slog.New(slog.DiscardHandler)}, make(chan error, 1)}
	go func() { a.served <- a.server.Serve(l) }()
	s.agent = a
	s.t.Cleanup(func() {
		if err := a.server.Close(); err != nil {
			s.t.Error(err)
		}
	})
}

func newScene(t *testing.T, masterWorker bool, h spoa.HandlerFunc) *scene {
	t.Helper()
	ports, err := haproxyproc.FreePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, port: ports[0], closed: make(chan spoa.Reason, 100000)}
	s.http, s.tcp = fmt.Sprintf("127.0.0.1:%d", ports[1]), fmt.Sprintf("127.0.0.1:%d", ports[2])
	s.startAgent(h)
	dir, err := haproxyproc.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "t.spoe")
	if err := os.WriteFile(file, []byte(engine), 0o600); err != nil {
		t.Fatal(err)
	}
	s.config = config(file, ports[0], ports[1], ports[2], [2]string{"a", "b"}, [2]int{named(t, "a"), named(t, "b")})
	s.haproxy, err = haproxyproc.Start(t.Context(), haproxyproc.Options{Dir: dir, Config: s.config, MasterWorker: masterWorker})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.haproxy.Stop)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.haproxy.Log())
		}
	})
	return s
}

// named is a TCP server that says its name and closes.
func named(t *testing.T, name string) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(nc, name)
			nc.Close()
		}
	})
	t.Cleanup(func() {
		l.Close()
		served.Wait()
	})
	return l.Addr().(*net.TCPAddr).Port
}

// get makes one HTTP request and returns the variables that were set.
func (s *scene) get(client *http.Client) (map[string]string, error) {
	r, err := client.Get("http://" + s.http)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	set := make(map[string]string)
	for pair := range strings.FieldsSeq(string(body)) {
		if name, value, _ := strings.Cut(pair, "="); value != "" && value != "-" {
			set[name] = value
		}
	}
	return set, nil
}

func (s *scene) mustGet() map[string]string {
	s.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	set, err := s.get(client)
	if err != nil {
		s.t.Fatal(err)
	}
	return set
}

// dial makes one TCP connection and returns the name of the server behind it.
func (s *scene) dial() string {
	s.t.Helper()
	nc, err := net.Dial("tcp", s.tcp)
	if err != nil {
		s.t.Fatal(err)
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	b, err := io.ReadAll(nc)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// await waits for the end of a connection for one reason.
func (s *scene) await(reason spoa.Reason) {
	s.t.Helper()
	for timeout := time.After(20 * time.Second); ; {
		select {
		case got := <-s.closed:
			if got == reason {
				return
			}
			if got != spoa.ReasonPeerClosed && got != spoa.ReasonHealthCheck {
				s.t.Fatalf("a connection of HAProxy's ended because of %v", got)
			}
		case <-timeout:
			s.t.Fatalf("no connection ended because of %v", reason)
		}
	}
}

func TestHAProxySetsEveryKindOfVariable(t *testing.T) {
	s := newScene(t, false, func(answer *action.Actions, r *spoa.Request) error {
		kv := r.Messages[0].KV
		port, _ := kv.Get("port")
		for _, v := range []struct {
			name  string
			value any
		}{
			{"int", 7}, {"negative", -1}, {"least", math.MinInt64}, {"most", math.MaxInt64}, {"large", 1 << 60}, {"true", true}, {"text", "some-text"},
			{"four", net.IPv4(192, 0, 2, 1)}, {"six", netip.MustParseAddr("2001:db8::1")}, {"gone", 1}, {"port", port},
		} {
			answer.SetVar(action.ScopeTransaction, v.name, v.value)
		}
		answer.UnsetVar(action.ScopeTransaction, "gone")
		answer.SetVar(action.ScopeTransaction, "after", "still-set")
		number, _ := kv.Get("number")
		src, _ := kv.Get("src")
		flag, _ := kv.Get("flag")
		if name, _ := kv.Get("name"); name != "ingest" || number != int64(-42) || flag != true || !src.(net.IP).IsLoopback() || r.EngineID == "" {
			return fmt.Errorf("unexpected arguments %v of engine %q", kv.Data(), r.EngineID)
		}
		return nil
	})
	_, port, _ := strings.Cut(s.http, ":")
	want := map[string]string{"int": "7", "negative": "-1", "least": "-9223372036854775808", "most": "9223372036854775807",
		"large": "1152921504606846976", "true": "1", "text": "some-text", "four": "192.0.2.1", "six": "2001:db8::1", "after": "still-set", "port": port}
	if got := s.mustGet(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestHAProxyRoutesTCP(t *testing.T) {
	var mu sync.Mutex
	server := "a"
	s := newScene(t, false, func(answer *action.Actions, _ *spoa.Request) error {
		mu.Lock()
		defer mu.Unlock()
		answer.SetVar(action.ScopeTransaction, "server", server)
		return nil
	})
	for _, name := range []string{"a", "b", "b", "a", "a", "b"} {
		mu.Lock()
		server = name
		mu.Unlock()
		if got := s.dial(); got != name {
			t.Errorf("a connection meant for %q reached %q", name, got)
		}
	}
}

func TestHAProxyHealthCheck(t *testing.T) {
	s := newScene(t, false, func(*action.Actions, *spoa.Request) error { return nil })
	s.await(spoa.ReasonHealthCheck)
	s.await(spoa.ReasonHealthCheck) // HAProxy has taken in the first one by now
	// With a star in front of L7OK when the next check runs already.
	stat, err := s.haproxy.Command(t.Context(), "show stat spoa 4 -1")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stat, ",UP,") || !strings.Contains(stat, "L7OK,") {
		t.Errorf("HAProxy does not see the agent as up by a check on layer 7:\n%s", stat)
	}
}

// TestHAProxyFailsAtOnce: an answer that cannot be given does not cost the stream
// the timeout, whether there is an empty answer or the connection ends.
func TestHAProxyFailsAtOnce(t *testing.T) {
	timeout := "1" // what set-on-error says of it
	cases := []struct {
		name    string
		handler spoa.HandlerFunc
		errors  bool // HAProxy sees one
	}{
		{"error", func(*action.Actions, *spoa.Request) error { return errors.New("no table") }, false},
		{"panic", func(*action.Actions, *spoa.Request) error { panic("out") }, false},
		{"too big", func(answer *action.Actions, _ *spoa.Request) error {
			answer.SetVar(action.ScopeTransaction, "int", make([]byte, 20000))
			return nil
		}, false},
		{"fraction", func(answer *action.Actions, _ *spoa.Request) error {
			answer.SetVar(action.ScopeTransaction, "int", 1.5)
			return nil
		}, false},
		{"connection ends", func(*action.Actions, *spoa.Request) error {
			runtime.Goexit()
			return nil
		}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, false, c.handler)
			got := s.mustGet()
			if (got["err"] != "") != c.errors || got["err"] == timeout || got["int"] != "" {
				t.Errorf("variables %v", got)
			}
		})
	}
}

// TestHAProxyReload: no request loses its answer while HAProxy reloads under
// load, and the old worker's connections end in good order.
func TestHAProxyReload(t *testing.T) {
	s := newScene(t, true, func(answer *action.Actions, _ *spoa.Request) error {
		answer.SetVar(action.ScopeTransaction, "int", 7)
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var total sync.WaitGroup
	for range 4 {
		total.Add(1)
		clients.Go(func() {
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
			for n := 0; ctx.Err() == nil; n++ {
				set, err := s.get(client)
				if err != nil {
					t.Errorf("request %d: %v", n, err)
				} else if set["int"] != "7" || set["err"] != "" {
					// A stream of the old worker whose agent connection it has cut; any
					// other error, above all a timeout, is ours.
					if set["err"] != "256" {
						t.Errorf("request %d: variables %v", n, set)
					}
				}
				if n == 20 {
					total.Done()
				}
			}
		})
	}
	total.Wait()
	for range 2 {
		if err := s.haproxy.Reload(""); err != nil {
			t.Error(err)
		}
		if set := s.mustGet(); set["int"] != "7" {
			t.Errorf("after a reload: variables %v", set)
		}
	}
	stop()
	clients.Wait()
	s.haproxy.Stop()
	if err := s.agent.server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	close(s.closed)
	for reason := range s.closed {
		switch reason {
		case spoa.ReasonPeerClosed, spoa.ReasonHealthCheck, spoa.ReasonShutdown:
		default:
			t.Errorf("a connection of HAProxy's ended because of %v", reason)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered == 0 || s.unanswered != 0 {
		t.Errorf("%d answers, %d without what the handler said", s.answered, s.unanswered)
	}
}

// TestHAProxySurvivesRestartOfTheAgent: Shutdown under load fails no request, and a new agent
// on the same port is used.
func TestHAProxySurvivesRestartOfTheAgent(t *testing.T) {
	handler := func(value int) spoa.HandlerFunc {
		return func(answer *action.Actions, _ *spoa.Request) error {
			answer.SetVar(action.ScopeTransaction, "int", value)
			return nil
		}
	}
	s := newScene(t, false, handler(1))
	if set := s.mustGet(); set["int"] != "1" {
		t.Fatalf("variables %v", set)
	}
	transport := &http.Transport{}
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	ctx, stop := context.WithCancel(t.Context())
	warm := make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() {
		defer transport.CloseIdleConnections()
		for n := 0; ctx.Err() == nil; n++ {
			if set, err := s.get(client); err != nil || set["err"] == "1" {
				t.Errorf("request %d: variables %v, %v", n, set, err)
			}
			if n == 50 {
				close(warm)
			}
		}
	})
	<-warm
	if err := s.agent.server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	s.startAgent(handler(2))
	s.await(spoa.ReasonHealthCheck)
	stop()
	load.Wait()
	for timeout := time.Now().Add(20 * time.Second); ; {
		set := s.mustGet()
		if set["int"] == "2" {
			return
		}
		if time.Now().After(timeout) {
			t.Fatalf("the new agent is not used: variables %v", set)
		}
	}
}
