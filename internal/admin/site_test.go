package admin

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/logbook"
	"github.com/haproxy-weighter/haproxy-weighter/test/memgraphite"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// patience bounds every wait for something that happens soon on a machine that
// is not busy.
const patience = 60 * time.Second

// site is a real HAProxy, a render API that answers from memory, the balancers
// between them and the admin server in front.
type site struct {
	t        testing.TB
	log      *logbook.Book
	haproxy  *haproxyproc.Process
	graphite *httptest.Server
	controls *balancer.Controls
	history  *History
	server   *Server
	fleet    *balancer.Fleet

	mu     sync.Mutex
	loads  map[string]float64
	status int    // of the render API; 0: it answers
	words  string // of its error

	tcp     string // address of the read-only listener
	control string // path of the control socket
}

// haproxyOf is a configuration with one backend of so many servers, s1 and on.
func haproxyOf(backend string, servers int) string {
	var b strings.Builder
	b.WriteString("defaults\n\tmode tcp\n\ttimeout connect 1s\n\ttimeout client 10s\n\ttimeout server 10s\n")
	fmt.Fprintf(&b, "backend %s\n\tbalance roundrobin\n", backend)
	for i := range servers {
		fmt.Fprintf(&b, "\tserver s%d 127.0.0.1:%d weight 100\n", i+1, 20000+i)
	}
	return b.String()
}

// quick is the backend ingest at an interval that tests can wait for.
func quick() config.Backend {
	b := config.Backend{
		Name: "ingest", Interval: 500 * time.Millisecond, Target: "load.*", Window: time.Minute,
		ServerRegexp: regexp.MustCompile(`^load\.(.+)$`), ServerName: "$1",
		Aggregate: graphite.Last, MaxAge: 10 * time.Second, Capacity: config.Capacity{Kind: "equal"},
		Mode: config.Live, SessionLimit: 20000, Weighting: weighting.DefaultSettings(),
	}
	b.Weighting.Interval, b.Weighting.Window = b.Interval, b.Window
	return b
}

// newSite starts all but the balancers and the listeners.
func newSite(t testing.TB, haproxyConfig string, loads map[string]float64, backends ...config.Backend) *site {
	t.Helper()
	return newSiteOf(t, haproxyConfig, loads, func(c *config.Config) { c.Backends = backends })
}

// newSiteOf is newSite with whatever change makes of the configuration.
func newSiteOf(t testing.TB, haproxyConfig string, loads map[string]float64, change func(*config.Config)) *site {
	t.Helper()
	s := &site{t: t, log: &logbook.Book{}, loads: loads, history: NewHistory(nil)}
	s.graphite = httptest.NewServer(http.HandlerFunc(s.render))
	t.Cleanup(s.graphite.Close)
	p, err := haproxyproc.Start(t.Context(), haproxyproc.Options{Config: haproxyConfig, MasterWorker: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	s.haproxy = p
	s.controls = balancer.NewControls(time.Now, nil)
	log := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c := &config.Config{
		HAProxy:  config.HAProxy{Timeout: 2 * time.Second, Watch: 200 * time.Millisecond},
		Graphite: graphite.Config{URL: s.graphite.URL},
	}
	change(c)
	c.HAProxy.Sockets = append(c.HAProxy.Sockets, haproxy.Address{Kind: "unix", Path: p.SocketPath})
	s.fleet, err = balancer.NewFleet(c, balancer.FleetOptions{Logger: log, Controls: s.controls, Observer: observer{s}})
	if err != nil {
		t.Fatal(err)
	}
	s.server = New(Options{
		Fleet: func() *balancer.Fleet { return s.fleet }, Controls: s.controls, History: s.history, Logger: log,
		Daemon: func() api.Status {
			return api.Status{Version: "1.2.3", PID: 4711, Started: time.Now().UTC(), Config: api.Config{File: config.DefaultFile, Loaded: time.Now().UTC()}}
		},
	})
	return s
}

// observer tells history and server of passes.
type observer struct{ s *site }

func (o observer) Rendered(string, error, time.Duration)      {}
func (o observer) Asked(string, string, error, time.Duration) {}
func (o observer) Passed(t *balancer.Table)                   { o.s.history.Passed(t); o.s.server.Passed(t) }

// render answers as if each server had reported each second until now.
func (s *site) render(w http.ResponseWriter, r *http.Request) {
	store := memgraphite.New(nil)
	s.mu.Lock()
	status, words := s.status, s.words
	for name, load := range s.loads {
		for now, at := time.Now().Unix(), int64(0); at < 20; at++ {
			store.Add("load."+name, load, now-at)
		}
	}
	s.mu.Unlock()
	if status != 0 {
		http.Error(w, words, status)
		return
	}
	store.Handler().ServeHTTP(w, r)
}

func (s *site) do(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// background runs f until the test ends, or stop is called.
func (s *site) background(what string, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := f(ctx); err != nil {
			s.t.Errorf("%s: %v", what, err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	s.t.Cleanup(stop)
	return stop
}

// balance runs the balancers.
func (s *site) balance() (stop func()) { return s.background("Run", s.fleet.Run) }

// listen opens both listeners.
func (s *site) listen() (stop func()) {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.tcp = l.Addr().String()
	stopTCP := s.background("Serve", func(ctx context.Context) error { return s.server.Serve(ctx, l) })
	s.control = s.t.TempDir() + "/control.sock"
	c, err := ListenControl(s.t.Context(), s.control)
	if err != nil {
		s.t.Fatal(err)
	}
	stopControl := s.background("ServeControl", func(ctx context.Context) error { return s.server.ServeControl(ctx, c) })
	return func() { stopTCP(); stopControl() }
}

// until polls for a condition; it fails the test when it does not come true.
func (s *site) until(what string, condition func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("never came true: %s; log:\n%s", what, s.log)
		}
	}
}

// passed waits for a first pass of all backends.
func (s *site) passed() {
	s.t.Helper()
	s.until("a first pass", func() bool {
		for _, b := range s.fleet.Balancers() {
			tables := b.Tables()
			if len(tables) == 0 || tables[0].HoldCode == balancer.HoldStarting {
				return false
			}
		}
		return true
	})
}

// answer is what came back of a request.
type answer struct {
	status int
	header http.Header
	body   string
}

// get asks the read-only listener.
func (s *site) get(path string) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.tcp+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.send(r)
}

// send sends a request on a connection of its own.
func (s *site) send(r *http.Request) answer {
	s.t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	if r.URL.Host == "control" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", s.control)
		}
	}
	client := &http.Client{Transport: transport, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	w, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer w.Body.Close()
	body, err := io.ReadAll(w.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{status: w.StatusCode, header: w.Header, body: string(body)}
}

// order posts to the control socket.
func (s *site) order(kind, body string) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://control"+controlPrefix+kind, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	return s.send(r)
}
