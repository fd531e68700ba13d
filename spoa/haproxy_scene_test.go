package spoa_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

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
	maxConns             int // the next agent's; 0: the default
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
	a := &agent{&spoa.Server{Handler: h, MaxConns: s.maxConns, Observer: s, Logger: slog.New(slog.DiscardHandler)}, make(chan error, 1)}
	go func() { a.served <- a.server.Serve(l) }()
	s.agent = a
	s.t.Cleanup(func() {
		if err := a.server.Close(); err != nil {
			s.t.Error(err)
		}
	})
}

func newScene(t *testing.T, b haproxyproc.Binary, masterWorker bool, h spoa.HandlerFunc) *scene {
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
	s.haproxy, err = haproxyproc.Start(t.Context(), haproxyproc.Options{Binary: b.Path, Dir: dir, Config: s.config, MasterWorker: masterWorker})
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
