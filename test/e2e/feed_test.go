package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/test/graphiteproc"
)

// habit is how one server reports its load.
type habit struct {
	load    float64
	late    int64 // seconds between a datapoint's stamp and its arrival
	gap     int64 // one second in gap is left out; 0 = none
	silent  bool
	restart bool // its counter goes back to 0 once
}

// feeder sends, every second, what each server received in it, and the
// running total since the server's start.
type feeder struct {
	mu     sync.Mutex
	habits map[string]habit
	totals map[string]float64
	fed    int64 // the newest second that carbon has
}

func (f *feeder) lastFed() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fed
}

// startFeeder feeds g until the test ends. It first fills the last 60
// seconds, so that no test waits for a window.
func startFeeder(t *testing.T, g *graphiteproc.Process, habits map[string]habit) *feeder {
	t.Helper()
	f := &feeder{habits: maps.Clone(habits), totals: map[string]float64{}}
	now := time.Now().Unix()
	var past strings.Builder
	for at := now - 60; at < now; at++ {
		past.WriteString(f.second(at))
	}
	if err := g.Send(t.Context(), past.String()); err != nil {
		t.Fatal(err)
	}
	f.visible(t, g)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.run(ctx, g, now)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return f
}

// visible waits until Graphite shows every server: a new metric takes a second.
func (f *feeder) visible(t *testing.T, g *graphiteproc.Process) {
	t.Helper()
	client, err := graphite.NewClient(graphite.Config{URL: g.URL})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "Graphite shows what it was fed", func() string {
		answer, err := client.Render(t.Context(), graphite.Request{Targets: []string{"tcp-service.*.datapoints.*"}, Window: time.Minute})
		if err != nil {
			return err.Error()
		}
		if len(answer.Series) < 2*len(f.habits) {
			return fmt.Sprintf("%d series of %d", len(answer.Series), 2*len(f.habits))
		}
		return ""
	})
}

func (f *feeder) run(ctx context.Context, g *graphiteproc.Process, next int64) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for ; next < time.Now().Unix(); next++ {
			// A send that fails is a second that Graphite missed, which is
			// what happens to real servers while carbon is away.
			g.Send(ctx, f.second(next))
			f.mu.Lock()
			f.fed = next
			f.mu.Unlock()
		}
	}
}

// second gives the lines that arrive right after the second at.
func (f *feeder) second(at int64) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var b strings.Builder
	for name, h := range f.habits {
		if h.restart {
			f.totals[name] = 0
			h.restart = false
			f.habits[name] = h
		}
		f.totals[name] += h.load
		stamp := at - h.late
		if h.silent || h.gap != 0 && stamp%h.gap == 0 {
			continue
		}
		fmt.Fprintf(&b, "tcp-service.%s.datapoints.received %g %d\n", name, h.load, stamp)
		fmt.Fprintf(&b, "tcp-service.%s.datapoints.total %g %d\n", name, f.totals[name], stamp)
	}
	return b.String()
}

// change alters one server's habit from the next second on.
func (f *feeder) change(name string, alter func(*habit)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.habits[name]
	alter(&h)
	f.habits[name] = h
}

// loads returns each server's present load.
func (f *feeder) loads() map[string]float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	loads := map[string]float64{}
	for name, h := range f.habits {
		loads[name] = h.load
	}
	return loads
}
