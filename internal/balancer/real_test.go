package balancer

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/logbook"
	"github.com/haproxy-weighter/haproxy-weighter/test/memgraphite"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// These tests run whole fleets against real HAProxy processes, with a render
// API that answers from memory.

// patience bounds every wait for something that happens within a second or two
// on a machine that is not busy.
const patience = 60 * time.Second

// site is a render API and the HAProxy processes of one test.
type site struct {
	t       *testing.T
	log     *logbook.Book
	url     string
	mu      sync.Mutex
	loads   map[string]float64
	silent  bool   // no series has a point
	hang    string // a request for this target gets no answer
	haproxy []*haproxyproc.Process
}

func newSite(t *testing.T, loads map[string]float64, configs ...string) *site {
	t.Helper()
	return newSiteOf(t, haproxyproc.Binary{}, loads, configs...)
}

// newSiteOf is newSite with a version of HAProxy.
func newSiteOf(t *testing.T, b haproxyproc.Binary, loads map[string]float64, configs ...string) *site {
	t.Helper()
	s := &site{t: t, log: &logbook.Book{}, loads: loads}
	server := httptest.NewServer(http.HandlerFunc(s.render))
	t.Cleanup(server.Close)
	s.url = server.URL
	for _, c := range configs {
		p, err := haproxyproc.Start(t.Context(), haproxyproc.Options{Binary: b.Path, Config: c, MasterWorker: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Stop)
		s.haproxy = append(s.haproxy, p)
	}
	return s
}

// render answers as if each server had reported each second until now.
func (s *site) render(w http.ResponseWriter, r *http.Request) {
	store := memgraphite.New(nil)
	s.mu.Lock()
	if s.hang != "" && r.FormValue("target") == s.hang {
		s.mu.Unlock()
		<-r.Context().Done()
		return
	}
	for name, load := range s.loads {
		for now, at := time.Now().Unix(), int64(0); at < 60 && !s.silent; at++ {
			store.Add("load."+name, load, now-at)
		}
	}
	s.mu.Unlock()
	store.Handler().ServeHTTP(w, r)
}

// start runs a fleet; the function that is returned ends it and waits.
func (s *site) start(change ...func(*config.Backend)) (*Fleet, func()) {
	s.t.Helper()
	b := quick()
	for _, f := range change {
		f(&b)
	}
	return s.startAll(b)
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

func (s *site) startAll(backends ...config.Backend) (*Fleet, func()) {
	s.t.Helper()
	c := &config.Config{
		HAProxy:  config.HAProxy{Timeout: 2 * time.Second, Watch: 200 * time.Millisecond},
		Graphite: graphite.Config{URL: s.url},
		Backends: backends,
	}
	for _, p := range s.haproxy {
		c.HAProxy.Sockets = append(c.HAProxy.Sockets, haproxy.Address{Kind: "unix", Path: p.SocketPath})
	}
	fleet, err := NewFleet(c, FleetOptions{Logger: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := fleet.Run(ctx); err != nil {
			s.t.Errorf("Run: %v", err)
		}
	})
	stop := sync.OnceFunc(func() { cancel(); wg.Wait() })
	s.t.Cleanup(stop)
	return fleet, stop
}

// until polls for a condition; it fails the test when it does not come true.
func (s *site) until(what string, true_ func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !true_(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("never came true: %s; log:\n%s", what, s.log)
		}
	}
}

func (s *site) command(i int, line string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := s.haproxy[i].Command(ctx, line)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer
}

// weights asks HAProxy itself, in words of its own.
func (s *site) weights(i int) map[string]int {
	s.t.Helper()
	weights := make(map[string]int)
	for _, line := range strings.Split(s.command(i, "show servers state ingest"), "\n") {
		f := strings.Fields(line)
		if len(f) > 8 && f[0] != "#" {
			_, _ = fmt.Sscan(f[7], ptr(weights, f[3]))
		}
	}
	return weights
}

type setInt struct {
	m   map[string]int
	key string
}

func ptr(m map[string]int, key string) *setInt { return &setInt{m, key} }

// Scan makes setInt a target of fmt.Sscan.
func (v *setInt) Scan(state fmt.ScanState, verb rune) error {
	var n int
	if _, err := fmt.Fscan(state, &n); err != nil {
		return err
	}
	v.m[v.key] = n
	return nil
}

func (s *site) weighted(i int) bool {
	w := s.weights(i)
	return w["s1"] > 0 && w["s1"] < w["s2"]
}

func (s *site) wantLog(n int, text string) {
	s.t.Helper()
	if got := s.log.Count(text); got != n {
		s.t.Errorf("%d log lines with %q, want %d; log:\n%s", got, text, n, s.log)
	}
}

// proxy is a haproxy.cfg with the backend ingest and its servers.
func proxy(t *testing.T, balance string, servers ...string) string {
	t.Helper()
	ports, err := haproxyproc.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	c := fmt.Sprintf(`defaults
  mode tcp
  timeout connect 1s
  timeout client 1m
  timeout server 1m
frontend in
  bind 127.0.0.1:%d
  default_backend ingest
backend ingest
  balance %s
`, ports[0], balance)
	for _, s := range servers {
		if !strings.Contains(s, " ") {
			s = fmt.Sprintf("%s 127.0.0.1:%d weight 100", s, ports[1])
		}
		c += "  server " + s + "\n"
	}
	return c
}

func TestRealReloadWithGraphiteSilent(t *testing.T) {
	s := newSite(t, uneven(), proxy(t, "roundrobin", "s1", "s2", "s3", "s4"))
	fleet, _ := s.start()
	s.until("s1 is weighted down", func() bool { return s.weighted(0) })
	want := s.weights(0)
	s.mu.Lock()
	s.silent = true
	s.mu.Unlock()
	s.until("weights are held", func() bool {
		tables := fleet.Balancers()[0].Tables()
		return len(tables) == 1 && tables[0].Verdict == weighting.Hold && tables[0].Fresh == 0
	})
	if err := s.haproxy[0].Reload(""); err != nil {
		t.Fatal(err)
	}
	s.until("weights are back", func() bool { return cmp.Equal(want, s.weights(0)) })
}

func TestRealDaemonRestartKeepsWeights(t *testing.T) {
	s := newSite(t, uneven(), proxy(t, "roundrobin", "s1", "s2", "s3", "s4"))
	_, stop := s.start()
	s.until("s1 is weighted down", func() bool { return s.weighted(0) })
	stop()
	want := s.weights(0)
	s.mu.Lock()
	s.silent = true // so that the next daemon has nothing but what it reads
	s.mu.Unlock()
	fleet, _ := s.start()
	s.until("a pass is made", func() bool {
		tables := fleet.Balancers()[0].Tables()
		return len(tables) == 1 && tables[0].HoldCode != "starting"
	})
	if diff := cmp.Diff(want, s.weights(0)); diff != "" {
		t.Errorf("weights (-before the daemon's restart +after):\n%s", diff)
	}
	got := make(map[string]int)
	for _, row := range fleet.Balancers()[0].Tables()[0].Rows {
		got[row.Server] = row.AppliedWeight
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-in force +applied_weight):\n%s", diff)
	}
	s.wantLog(2, "weights in force")
}

func TestRealFunctionOfLeastconn(t *testing.T) {
	s := newSite(t, uneven(), proxy(t, "leastconn", "s1", "s2", "s3", "s4"))
	fleet, _ := s.start()
	s.until("s1 is weighted down", func() bool { return s.weighted(0) })
	if table := fleet.Balancers()[0].Tables()[0]; table.Function != weighting.Feedback || table.Algorithm != "leastconn" {
		t.Errorf("function %s with balance %s", table.Function, table.Algorithm)
	}
}

func TestRealHungHAProxyDelaysNobody(t *testing.T) {
	s := newSite(t, uneven(), proxy(t, "roundrobin", "s1", "s2", "s3", "s4"), proxy(t, "random", "s1", "s2", "s3", "s4"))
	if err := s.haproxy[0].Pause(); err != nil {
		t.Fatal(err)
	}
	fleet, _ := s.start()
	s.until("the well one is weighted while the other hangs", func() bool { return s.weighted(1) })
	s.until("the hung one is told", func() bool { return s.log.Count("HAProxy can't be read") == 1 })
	s.until("its socket is told as well, with the cause in a few words", func() bool {
		return slices.ContainsFunc(fleet.Faults(), func(f Fault) bool {
			return f.Key == FaultSocket && f.Cause == "no full answer in time" && strings.Contains(f.Do, "it hangs or is overloaded")
		})
	})
	if err := s.haproxy[0].Resume(); err != nil {
		t.Fatal(err)
	}
	s.until("the other is weighted once it answers", func() bool { return s.weighted(0) })
	s.until("its end is told", func() bool { return s.log.Count("HAProxy can be read again") == 1 })
}

func TestRealSlowTargetDelaysNoOtherBackend(t *testing.T) {
	both := proxy(t, "roundrobin", "s1", "s2", "s3", "s4")
	_, servers, _ := strings.Cut(both, "\nbackend ingest\n")
	s := newSite(t, uneven(), both+"backend slow\n"+servers)
	s.hang = "load.{s1,s2}"
	slow := quick()
	slow.Name, slow.Target = "slow", s.hang
	fleet, _ := s.startAll(slow, quick())
	s.until("the other backend is weighted", func() bool { return s.weighted(0) })
	passes := make(map[time.Time]bool)
	s.until("five passes of the other backend are made while Graphite hangs for the first", func() bool {
		passes[fleet.Balancers()[1].Tables()[0].Time] = true
		return len(passes) > 5
	})
	if tables := fleet.Balancers()[0].Tables(); len(tables) != 1 || tables[0].row("s1").AppliedWeight != 100 {
		t.Errorf("the slow backend has tables %+v, want the weights in force", tables)
	}
}

func TestRealBackendOnOneSocketOnly(t *testing.T) {
	other := strings.ReplaceAll(proxy(t, "roundrobin", "s1"), "ingest", "web")
	s := newSite(t, uneven(), proxy(t, "roundrobin", "s1", "s2", "s3", "s4"), other)
	fleet, _ := s.start()
	s.until("s1 is weighted down", func() bool { return s.weighted(0) })
	s.until("the other socket is told", func() bool { return s.log.Count("does not have the backend") == 1 })
	if n := len(fleet.Balancers()[0].Tables()); n != 1 {
		t.Errorf("%d tables, want that of the HAProxy that has the backend", n)
	}
	s.wantLog(0, "backend not found")
}

func TestRealServersOfTarget(t *testing.T) {
	s := newSite(t, uneven(), proxy(t, "roundrobin", "s1", "s2", "s3", "s4"))
	s.start(func(b *config.Backend) { b.Target, b.ServerRegexp = "sumSeries(load.{server})", nil })
	s.until("s1 is weighted down", func() bool { return s.weighted(0) })
}

func TestRealLifetimeFromSessions(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() { hold(l, &served) })
	t.Cleanup(func() { l.Close(); served.Wait() })
	backend := "s1 " + l.Addr().String() + " weight 100"
	cfg := proxy(t, "roundrobin", backend, strings.Replace(backend, "s1", "s2", 1))
	port := regexp.MustCompile(`bind (\S+)`).FindStringSubmatch(cfg)[1]
	s := newSite(t, map[string]float64{"s1": 400, "s2": 100}, cfg)
	for range 20 {
		c, err := net.Dial("tcp", port)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	fleet, _ := s.start(func(b *config.Backend) { b.Weighting.Timing = weighting.DefaultTiming().Scaled(1.0 / 120) })
	s.until("the lifetime is told from the sessions", func() bool {
		tables := fleet.Balancers()[0].Tables()
		return len(tables) == 1 && tables[0].LifetimeFrom == "sessions" && tables[0].Lifetime > 0
	})
}

// hold accepts connections and keeps each open until the other side closes it.
func hold(l net.Listener, served *sync.WaitGroup) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		served.Go(func() {
			defer c.Close()
			_, _ = io.Copy(io.Discard, c)
		})
	}
}
