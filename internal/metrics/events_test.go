package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/spoa"
)

var goversion = runtime.Version()

func TestRenderResult(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "ok"},
		{&graphite.RenderError{Kind: graphite.KindStatus}, "status"},
		{fmt.Errorf("backend in: %w", &graphite.RenderError{Kind: graphite.KindTooLarge}), "too-large"},
		{&graphite.RenderError{Kind: "a kind of tomorrow"}, "other"},
		{context.DeadlineExceeded, "timeout"},
		{context.Canceled, "canceled"},
		{errors.New("a panic"), "other"},
	} {
		got := renderResult(c.err)
		if got != c.want || !slices.Contains(renderResults, got) {
			t.Errorf("%v is %q, want %q of the set", c.err, got, c.want)
		}
	}
}

func TestAskedResult(t *testing.T) {
	op := func(err error) error { return &haproxy.OpError{Op: "read the servers", Err: err} }
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "ok"},
		{op(fmt.Errorf("%w (waited 2s)", haproxy.ErrTimeout)), "timeout"},
		{op(fmt.Errorf("given up: %w", context.DeadlineExceeded)), "timeout"},
		{op(fmt.Errorf("given up: %w", context.Canceled)), "canceled"},
		{op(fmt.Errorf("there is no such file: %w", &net.OpError{Op: "dial", Err: syscall.ENOENT})), "connect"},
		{op(fmt.Errorf("%w: %w", haproxy.ErrTruncated, syscall.EPIPE)), "incomplete"},
		{op(haproxy.ErrTooManySessions), "too-large"},
		{op(&haproxy.ReplyError{Err: haproxy.ErrUnknownCommand}), "refused"},
		{op(&net.OpError{Op: "read", Err: syscall.EIO}), "other"},
	} {
		got := askedResult(c.err)
		if got != c.want || !slices.Contains(askedResults, got) {
			t.Errorf("%v is %q, want %q of the set", c.err, got, c.want)
		}
	}
}

// TestRealSocket classifies what a client of a real socket runs into.
func TestRealSocket(t *testing.T) {
	path := t.TempDir() + "/s"
	client := func(m *Metrics) *haproxy.Client {
		return haproxy.NewClient(haproxy.Address{Kind: "unix", Path: path}, haproxy.Options{
			Timeout: 100 * time.Millisecond,
			Observe: func(command string, err error, took time.Duration) { m.Asked(socket, command, err, took) },
		})
	}
	ask := func(result string) {
		t.Helper()
		s := newScene()
		if _, err := client(s.Metrics).Info(t.Context()); err == nil {
			t.Fatal("an answer without HAProxy")
		}
		var want strings.Builder
		for _, r := range slices.Sorted(slices.Values(askedResults)) {
			n := 0
			if r == result {
				n = 1
			}
			fmt.Fprintf(&want, "runtime_requests_total{command=\"info\",result=%q,socket=%q} %d\n", r, socket, n)
		}
		s.want(t, want.String(), "runtime_requests_total")
	}
	ask("connect")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ask("timeout") // nobody accepts
}

// TestFirstFailure: all results of a backend begin at 0 with its first render.
func TestFirstFailure(t *testing.T) {
	s := newScene()
	s.Rendered("ingest", &graphite.RenderError{Kind: graphite.KindStatus}, time.Second)
	s.Rendered("ingest", nil, 80*time.Millisecond)
	var want strings.Builder
	for _, r := range slices.Sorted(slices.Values(renderResults)) {
		n := 0
		if r == "ok" || r == "status" {
			n = 1
		}
		fmt.Fprintf(&want, "graphite_renders_total{proxy=\"ingest\",result=%q} %d\n", r, n)
	}
	s.want(t, want.String(), "graphite_renders_total")
}

// TestGone: what a reload of the configuration or of HAProxy takes away is not
// shown any more; the rest is counted on.
func TestGone(t *testing.T) {
	s := newScene()
	const other = "unix:/run/other.sock"
	ingest, web := table(row("s1", 1, 1)), table(row("w1", 1, 1))
	web.Backend = "web"
	onOther := *ingest
	onOther.Socket = other
	s.view.backends = append(s.view.backends, &config.Backend{Name: "web"})
	s.view.sockets = append(s.view.sockets, other)
	s.view.tables = []*balancer.Table{ingest, &onOther, web}
	for _, made := range s.view.tables {
		s.Rendered(made.Backend, nil, time.Second)
		s.Asked(made.Socket, "state", nil, time.Second)
		s.Passed(made)
	}
	changed := func(proxy, socket string, n int) string {
		return fmt.Sprintf("backend_weight_changes_total{proxy=%q,socket=%q} %d\n", proxy, socket, n)
	}
	all := changed("ingest", socket, 2) + changed("ingest", other, 2) + changed("web", socket, 2)
	s.want(t, all, "backend_weight_changes_total")

	s.view.backends, s.view.sockets = s.view.backends[:1], s.view.sockets[:1]
	s.view.tables = []*balancer.Table{ingest}
	s.Passed(ingest)
	s.want(t, changed("ingest", socket, 4), "backend_weight_changes_total")
	for _, gone := range []string{other, "web", "w1"} {
		if body := string(s.scrape(t, "")); strings.Contains(body, `"`+gone+`"`) {
			t.Errorf("%s is gone and still shown", gone)
		}
	}

	s.view.tables = nil // the HAProxy was reloaded without the backend
	s.wantNone(t, "backend_weight_changes_total", "backend_passes_total", "backend_foreign_weights_total")
	if s.scrape(t, ""); len(s.feeds)+len(s.backends)+len(s.commands) != 2 {
		t.Errorf("remembered: %v, %v, %v", s.feeds, s.backends, s.commands)
	}
}

func TestFrames(t *testing.T) {
	s := newScene()
	s.Opened()
	s.Opened()
	s.Answered(spoa.Results{spoa.ResultOK: 3, spoa.ResultPanic: 1}, 40*time.Microsecond)
	s.Closed(spoa.ReasonMalformed)
	s.want(t, "spoe_connections 1\n", "spoe_connections")
	s.want(t, `spoe_frames_total{result="error"} 0
spoe_frames_total{result="ok"} 3
spoe_frames_total{result="panic"} 1
spoe_frames_total{result="too_big"} 0
spoe_frames_total{result="undecodable"} 0
spoe_frames_total{result="unencodable"} 0
`, "spoe_frames_total")
	s.want(t, `spoe_messages_total{message="weighter-pick",result="answered"} 5
spoe_messages_total{message="weighter-pick",result="not-found"} 4
spoe_messages_total{message="weighter-pick",result="refused"} 3
spoe_messages_total{message="unknown",result="refused"} 2
`, "spoe_messages_total")
	body := string(s.scrape(t, "?name[]=haproxy_weighter_spoe_frame_duration_seconds"))
	for _, line := range []string{`{le="1e-05"} 0`, `{le="2.5e-05"} 0`, `{le="5e-05"} 4`, `_count 4`} {
		if !strings.Contains(body, line) {
			t.Errorf("no %q in\n%s", line, body)
		}
	}
	if body := string(s.scrape(t, "")); !strings.Contains(body, `spoe_connections_closed_total{reason="malformed"} 1`) {
		t.Error("the closed connection is not counted")
	}
}

// TestEveryReason: a reason that package spoa may get is counted, not a crash.
func TestEveryReason(t *testing.T) {
	s := newScene()
	for r := range spoa.ReasonPanic + 1 {
		s.Closed(r)
		if body := string(s.scrape(t, "?name[]=haproxy_weighter_spoe_connections_closed_total")); !strings.Contains(body, fmt.Sprintf("{reason=%q} 1", r)) {
			t.Errorf("%v is not counted:\n%s", r, body)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("package spoa has a reason after ReasonPanic: make frames.byReason as long")
		}
	}()
	_ = (spoa.ReasonPanic + 1).String()
}

// TestWithout: no SPOE agent, no reports.
func TestWithout(t *testing.T) {
	m := New(Options{Version: "1", Fleet: func() *balancer.Fleet { return nil }})
	s := &scene{Metrics: m}
	s.wantNone(t, "spoe_frames_total", "spoe_connections", "spoe_messages_total", "carbon_lines_sent_total", "faults")
}

func TestReloads(t *testing.T) {
	s := newScene()
	names := []string{"config_last_reload_successful", "config_last_reload_success_timestamp_seconds", "config_last_reload_timestamp_seconds", "config_reloads_total"}
	want := func(good int, loaded, last string, failed, ok int) {
		t.Helper()
		s.want(t, fmt.Sprintf(`config_last_reload_success_timestamp_seconds %s
config_last_reload_successful %d
config_last_reload_timestamp_seconds %s
config_reloads_total{result="error"} %d
config_reloads_total{result="ok"} %d
`, loaded, good, last, failed, ok), names...)
	}
	want(1, "1.8e+09", "1.8e+09", 0, 0)
	s.now = start.Add(time.Minute)
	s.Reloaded(errors.New("line 3"))
	want(0, "1.8e+09", "1.80000006e+09", 1, 0)
	s.now = start.Add(2 * time.Minute)
	s.Reloaded(nil)
	want(1, "1.80000012e+09", "1.80000012e+09", 1, 1)
}

// TestAtOnce has everybody call at the same time; it is for the race detector.
func TestAtOnce(t *testing.T) {
	s := newScene()
	s.everything()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 50 {
				s.Rendered("ingest", nil, time.Millisecond)
				s.Asked(socket, haproxy.Commands()[n%len(haproxy.Commands())], nil, time.Millisecond)
				s.Passed(s.view.tables[0])
				s.Answered(spoa.Results{spoa.ResultOK: i}, time.Microsecond)
				s.Reloaded(nil)
			}
		})
	}
	all.Go(func() {
		for range 20 {
			s.look = func() *view { v := *s.view; return &v }
			if _, err := s.Gather(); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
}

// TestTooManyScrapes: one that is not read holds no more than its place.
func TestTooManyScrapes(t *testing.T) {
	s := newScene()
	looking, goOn := make(chan struct{}), make(chan struct{})
	s.look = func() *view {
		looking <- struct{}{}
		<-goOn
		return nil
	}
	handler := s.Handler()
	var all sync.WaitGroup
	for range mostScrapes {
		all.Go(func() { serve(handler) })
		<-looking
	}
	if code := serve(handler); code != 503 {
		t.Errorf("status %d of one scrape too many, want 503", code)
	}
	close(goOn)
	all.Wait()
}
