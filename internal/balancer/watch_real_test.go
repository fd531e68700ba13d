package balancer

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
	"github.com/haproxy-weighter/haproxy-weighter/test/logbook"
)

// watched is a watcher of a real socket that runs until the end of the test.
type watched struct {
	t       *testing.T
	log     *logbook.Book
	watcher *watcher

	mu   sync.Mutex
	seen map[int]bool
}

func watch(t *testing.T, address string, every time.Duration) *watched {
	t.Helper()
	a, err := haproxy.ParseAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{t: t, log: &logbook.Book{}, seen: map[int]bool{}}
	logger := slog.New(slog.NewTextHandler(w.log, nil))
	w.watcher = &watcher{
		info: haproxy.NewClient(a, haproxy.Options{}).Info, every: every, log: logger,
		faults: newFaults(logger, time.Now), master: a.Kind == "master",
		seen: func(worker haproxy.Worker) { w.mu.Lock(); defer w.mu.Unlock(); w.seen[worker.PID] = true },
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.watcher.run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return w
}

func (w *watched) until(what string, true_ func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !true_(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("never came true: %s; log:\n%s", what, w.log)
		}
	}
}

func (w *watched) workers() int { w.mu.Lock(); defer w.mu.Unlock(); return len(w.seen) }

// TestRealMasterReloads: good reloads are no faults for who watches through the
// master's socket.
func TestRealMasterReloads(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		config := proxy(t, "roundrobin", "s1")
		h, err := haproxyproc.Start(t.Context(), haproxyproc.Options{Binary: b.Path, Config: config, MasterWorker: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(h.Stop)
		w := watch(t, "master:"+h.MasterPath, 20*time.Millisecond)
		w.until("the first worker is seen", func() bool { return w.workers() == 1 })
		for i := range 5 {
			if err := h.Reload(config); err != nil {
				t.Fatal(err)
			}
			w.until("the new worker is seen", func() bool { return w.workers() == i+2 })
		}
		if n := w.log.Count("level=WARN"); n != 0 {
			t.Errorf("%d warnings in good reloads:\n%s", n, w.log)
		}
		h.Stop()
		w.until("an outage is told", func() bool { return w.log.Count("HAProxy's socket does not answer") == 1 })
	})
}

// TestRealSharedPort: two HAProxys that bind one port for their stats socket are
// told, until one of them is left.
func TestRealSharedPort(t *testing.T) {
	ports, err := haproxyproc.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	socket := fmt.Sprintf("127.0.0.1:%d", ports[0])
	var both [2]*haproxyproc.Process
	for i := range both {
		config := "global\n\tstats socket ipv4@" + socket + " level admin\n" + proxy(t, "roundrobin", "s1")
		if both[i], err = haproxyproc.Start(t.Context(), haproxyproc.Options{Config: config}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(both[i].Stop)
	}
	w := watch(t, "tcp:"+socket, 5*time.Millisecond)
	w.until("both are told", func() bool { return w.log.Count("several HAProxys answer on one socket") == 1 })
	both[0].Stop()
	w.until("one is left", func() bool { return w.log.Count("one HAProxy answers on the socket") == 1 })
	if n := w.log.Count("several HAProxys answer on one socket"); n != 1 {
		t.Errorf("told %d times:\n%s", n, w.log)
	}
}
