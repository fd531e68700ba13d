package balancer

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// Backends ask Graphite one after the other at the start, and none waits longer
// than its interval.
func TestFleetStaggersTheStart(t *testing.T) {
	c, err := config.Parse("weighter.toml", []byte(config.Minimal), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	one := c.Backends[0]
	for range 2999 {
		c.Backends = append(c.Backends, one)
	}
	f, err := NewFleet(c, FleetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	last := time.Duration(-1)
	for i, b := range f.balancers {
		d := b.options.Delay
		if i == 0 && d != 0 || d <= last || d > stagger*time.Duration(i) || d >= one.Interval {
			t.Fatalf("backend %d of %d begins after %v, the one before after %v", i, len(f.balancers), d, last)
		}
		last = d
	}
}

// A fleet that has ended holds no connection: reload after reload would pile
// them up.
func TestFleetLeavesNoConnection(t *testing.T) {
	var open atomic.Int64
	rendered := make(chan struct{}, 1)
	graphite := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("[]"))
	}))
	graphite.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	graphite.Start()
	defer graphite.Close()
	c, err := config.Parse("weighter.toml", []byte(config.Minimal), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	c.Graphite.URL = graphite.URL
	f, err := NewFleet(c, FleetOptions{Observer: renders(rendered)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	<-rendered // and its connection waits for the next one
	if n := open.Load(); n != 1 {
		t.Errorf("%d connections are open while it runs, and the test is for one", n)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(20 * time.Second); open.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a connection to Graphite is still open")
		}
	}
}

// renders is an Observer of renders only.
type renders chan struct{}

func (r renders) Rendered(string, error, time.Duration) { replace(r, struct{}{}) }

func (r renders) Asked(string, string, error, time.Duration) {}

func (r renders) Passed(*Table) {}

// TestHostileGraphiteTakesLittleMemory: what 200 backends take and keep of
// answers made to hurt is a small part of those answers.
func TestHostileGraphiteTakesLittleMemory(t *testing.T) {
	const backends, size, most = 200, 1 << 20, 128 << 20 // bytes; 200 of them decoded are 740 MB
	const head, point, tail = `[{"target":"s1","datapoints":[[1,1]`, ",[1,1]", "]}]"
	body := []byte(head + strings.Repeat(point, (size-len(head)-len(tail))/len(point)) + tail)
	sent, release := make(chan struct{}, 10*backends), make(chan struct{})
	graphite := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body[:size/2]) // who has given up does not read it
		w.(http.Flusher).Flush()
		sent <- struct{}{}
		<-release // all are under way at once
		_, _ = w.Write(body[size/2:])
	}))
	defer graphite.Close()
	c, err := config.Parse("weighter.toml", []byte(config.Minimal), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	c.Graphite.URL, c.Graphite.Timeout = graphite.URL, time.Minute
	one := c.Backends[0]
	for len(c.Backends) < backends {
		c.Backends = append(c.Backends, one)
	}
	rendered := make(chan struct{}, len(c.Backends))
	f, err := NewFleet(c, FleetOptions{Observer: renders(rendered), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	before := live()
	go func() { ended <- f.Run(ctx) }()
	for range backends {
		<-sent
	}
	highest := before
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for range 20 { // they are read meanwhile
		<-look.C
		runtime.GC()
		highest = max(highest, live())
	}
	close(release)
	for range backends / 8 { // enough to see
		<-rendered
		highest = max(highest, live())
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	t.Logf("%d MiB more", (highest-before)>>20)
	if highest-before > most {
		t.Errorf("%d bytes more, above %d", highest-before, most)
	}
}

// live is what the last garbage collection has left of the heap, in bytes.
func live() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
