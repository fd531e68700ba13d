package trace_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/test/faults/trace"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
)

const config = `
defaults
	timeout connect 1s
	timeout client 1s
	timeout server 1s
backend ingest
	server a 127.0.0.1:1 weight 100
	server b 127.0.0.1:1 weight 100
	server maint 127.0.0.1:1 weight 100 disabled
	server drain 127.0.0.1:1 weight 100
	server zero 127.0.0.1:1 weight 0
`

// patience is how long anything may take.
const patience = 30 * time.Second

// A writer that breaks each promise once, on a real HAProxy, each for a few
// milliseconds only: the observer sees all of it.
func TestBrokenWriterIsSeen(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		p, err := haproxyproc.Start(ctx, haproxyproc.Options{Binary: b.Path, Config: config, MasterWorker: true})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Stop()
		record := &trace.Trace{}
		stop := observe(p.SocketPath, record)
		defer stop()
		command := func(line string) {
			t.Helper()
			if answer, err := p.Command(ctx, line); err != nil || answer != "\n" {
				t.Fatalf("%s: %q, %v", line, answer, err)
			}
		}
		command("set server ingest/drain state drain")
		record.Answered(trace.Answer{Sent: time.Now(), Whole: true, Points: map[string]trace.Point{
			"a": {Value: 1, At: time.Now()}, "b": {Value: 1, At: time.Now()},
		}})
		for _, write := range []string{"a weight 50", "a weight 3", "a weight 100", "b weight 0", "b weight 100", "maint weight 50", "drain weight 50", "zero weight 9"} {
			command("set server ingest/" + write)
			seen(t, record, write)
		}
		// After a reload weights may be put back, and no others be set.
		if err := p.Reload(config); err != nil {
			t.Fatal(err)
		}
		record.Answered(trace.Answer{Sent: time.Now().Add(-5 * time.Millisecond)}) // longer ago than the grace
		seen(t, record, "zero weight 0")
		command("set server ingest/maint weight 50")
		command("set server ingest/a weight 99")
		seen(t, record, "a weight 99")
		stop()

		got := map[string]bool{}
		for _, b := range record.Judge(trace.Rules{Min: 4, Max: 200, Quorum: 0.5, MaxAge: patience, Interval: time.Second, Grace: time.Millisecond}) {
			got[b.Rule+" "+b.Server] = true
		}
		want := []string{
			trace.RuleOut + " drain", trace.RuleOut + " maint", trace.RuleQuorum + " a",
			trace.RuleRange + " a", trace.RuleZeroRaised + " b", trace.RuleZeroRaised + " zero", trace.RuleZeroSet + " b",
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got))); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func observe(socket string, record *trace.Trace) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	observer := trace.Observer{Socket: socket, Backend: "ingest", Every: 2 * time.Millisecond, Trace: record}
	running.Go(func() { observer.Run(ctx) })
	return func() { cancel(); running.Wait() }
}

// seen waits until a weight has been observed.
func seen(t *testing.T, record *trace.Trace, write string) {
	t.Helper()
	var server string
	var weight int
	if _, err := fmt.Sscanf(write, "%s weight %d", &server, &weight); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if now, ok := record.Now(); ok && now.Servers[server].Weight == weight {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s was never observed", write)
		}
	}
}
