package report

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/test/graphiteproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// loadBalancer is one HAProxy with its fleet and reporter, as on one machine.
type loadBalancer struct {
	fleet    *balancer.Fleet
	reporter *Reporter
	log      *book
	changes  atomic.Int64 // weights written, as the passes told it
	stop     func()       // ends all and waits
}

// Passed implements balancer.Observer.
func (l *loadBalancer) Passed(t *balancer.Table) {
	l.changes.Add(int64(t.Changes))
	l.reporter.Passed(t)
}

func (*loadBalancer) Rendered(string, error, time.Duration)      {}
func (*loadBalancer) Asked(string, string, error, time.Duration) {}

const proxyConf = `defaults
  mode tcp
  timeout connect 1s
  timeout client 1m
  timeout server 1m
backend ingest
  balance roundrobin
  server s1 127.0.0.1:1 weight 100
  server s2 127.0.0.1:1 weight 100
  server s3 127.0.0.1:1 weight 100
`

func newLoadBalancer(t *testing.T, g *graphiteproc.Process, host string) *loadBalancer {
	t.Helper()
	h, err := haproxyproc.Start(t.Context(), haproxyproc.Options{Config: proxyConf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Stop)
	text := fmt.Sprintf(`
[haproxy]
sockets = [%q]
[graphite]
url = %q
timeout = "900ms"
[report]
carbon = %q
interval = "1s"
[[backend]]
name = "ingest"
target = "aliasByNode(tcp-service.*.received, 1)"
interval = "1s"
max_step = 0.1
deadband = 0
`, h.SocketPath, g.URL, g.CarbonAddr)
	c, err := config.Parse("weighter.toml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	l := &loadBalancer{log: &book{}}
	l.reporter, err = New(Options{
		Config: c.Report, Host: host, Logger: l.log.logger(), Source: func() Source { return SourceOf(c, l.fleet) },
	})
	if err != nil {
		t.Fatal(err)
	}
	l.fleet, err = balancer.NewFleet(c, balancer.FleetOptions{Observer: l, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	l.run(t)
	return l
}

// run ends the fleet before the reporter, as the daemon does.
func (l *loadBalancer) run(t *testing.T) {
	balancing, endFleet := context.WithCancel(context.Background())
	reporting, endReporter := context.WithCancel(context.Background())
	var fleet, reporter errgroup.Group
	fleet.Go(func() error { return l.fleet.Run(balancing) })
	reporter.Go(func() error { return l.reporter.Run(reporting) })
	l.stop = sync.OnceFunc(func() {
		endFleet()
		if err := fleet.Wait(); err != nil {
			t.Error(err)
		}
		endReporter()
		if err := reporter.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(l.stop)
}

// weights are those in force now.
func (l *loadBalancer) weights() map[string]float64 {
	weights := make(map[string]float64)
	for _, t := range l.fleet.Tables() {
		for _, r := range t.Rows {
			weights[r.Server] = float64(r.AppliedWeight)
		}
	}
	return weights
}

// feedLoads keeps the loads of three servers coming until the test ends.
func feedLoads(t *testing.T, g *graphiteproc.Process) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			var b strings.Builder
			for i, load := range []int{500, 1000, 4000} {
				name := []string{"s1", "s2", "s3"}[i]
				fmt.Fprintf(&b, "tcp-service.%s.received %d %d\n", name, load, time.Now().Unix())
			}
			_ = g.Send(ctx, b.String()) // carbon is away for a while
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
}

// drawn is what a panel of Grafana draws for a query: each series with its points.
func drawn(t *testing.T, g *graphiteproc.Process, target string) map[string][]float64 {
	t.Helper()
	c, err := graphite.NewClient(graphite.Config{URL: g.URL, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answer, err := c.Render(t.Context(), graphite.Request{Targets: []string{target}, Window: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	series := make(map[string][]float64)
	for _, s := range answer.Series {
		for _, p := range s.Points {
			if !math.IsNaN(p.Value) {
				series[s.Name] = append(series[s.Name], p.Value)
			}
		}
	}
	return series
}

// newestOf are the newest points, by the component of the name that tells them apart.
func newestOf(series map[string][]float64, component int) map[string]float64 {
	newest := make(map[string]float64)
	for name, points := range series {
		if len(points) > 0 {
			newest[strings.Split(name, ".")[component]] = points[len(points)-1]
		}
	}
	return newest
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestPanels runs two load balancers, each with a real HAProxy, on one real
// Graphite, and draws what one wants to see: the weight of one server at all
// load balancers, and the weights that one of them gives its servers.
func TestPanels(t *testing.T) {
	g, err := graphiteproc.Start(t.Context(), graphiteproc.Options{Dir: t.TempDir(), NoTags: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	feedLoads(t, g)
	host1, host2 := newLoadBalancer(t, g, "host1"), newLoadBalancer(t, g, "host2.example.com")

	until(t, "both load balancers have weighted a few times", func() bool { return host1.changes.Load() > 8 && host2.changes.Load() > 8 })
	until(t, "the weights of host1, as drawn, are those in force", func() bool {
		want := host1.weights()
		return len(want) == 3 && want["s1"] != 100 && cmp.Equal(want, newestOf(drawn(t, g, "haproxy_weighter.host1.ingest.*.weight"), 3))
	})
	until(t, "the weights of s1, as drawn, are those in force", func() bool {
		want := map[string]float64{"host1": host1.weights()["s1"], "host2_example_com": host2.weights()["s1"]}
		return cmp.Equal(want, newestOf(drawn(t, g, "haproxy_weighter.*.ingest.s1.weight"), 1))
	})
	until(t, "the loads, as drawn, are those that were fed", func() bool {
		want := map[string]float64{"s1": 500, "s2": 1000, "s3": 4000}
		return cmp.Equal(want, newestOf(drawn(t, g, "haproxy_weighter.host1.ingest.*.load"), 3))
	})
	until(t, "the imbalance of both is drawn", func() bool {
		imbalance := newestOf(drawn(t, g, "haproxy_weighter.*.ingest.imbalance"), 1)
		return len(imbalance) == 2 && math.Abs(imbalance["host1"]-4000*3/5500.0) < 1e-9
	})
	until(t, "the age of the data is drawn", func() bool {
		age, ok := newestOf(drawn(t, g, "haproxy_weighter.host1.ingest.age"), 1)["host1"]
		return ok && age >= 0 && age < 10
	})

	// Carbon's outage on the way: not one of the changes is missing in the end.
	g.KillCarbon()
	until(t, "the loss is told", func() bool { return strings.Contains(host1.log.String(), "the report does not reach carbon") })
	if err := g.StartCarbon(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "the return is told", func() bool { return strings.Contains(host1.log.String(), "the report reaches carbon again") })
	host1.stop()
	if n := strings.Count(host1.log.String(), "\n"); n != 2 {
		t.Errorf("%d lines are told of one outage:\n%s", n, host1.log.String())
	}
	if s := host1.reporter.Stats()[0]; s.Dropped+s.Refused != 0 || s.Queued != 0 || s.Lost {
		t.Errorf("%+v", s)
	}
	until(t, "the report that was made last is drawn", func() bool {
		return cmp.Equal(host1.weights(), newestOf(drawn(t, g, "haproxy_weighter.host1.ingest.*.weight"), 3))
	})
}

// TestChangesAddUp: the points of changes, summed, are the weights that were
// written, with several passes in an interval and with none.
func TestChangesAddUp(t *testing.T) {
	g, err := graphiteproc.Start(t.Context(), graphiteproc.Options{Dir: t.TempDir(), NoTags: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	feedLoads(t, g)
	l := newLoadBalancer(t, g, "host1")
	until(t, "weights were changed some times", func() bool { return l.changes.Load() > 12 })
	l.stop()
	until(t, "as many changes are drawn as were made", func() bool {
		sum := 0.0
		for _, v := range drawn(t, g, "haproxy_weighter.host1.ingest.changes")["haproxy_weighter.host1.ingest.changes"] {
			sum += v
		}
		return sum == float64(l.changes.Load())
	})
}
