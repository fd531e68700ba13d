package demo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/haproxy-weighter/haproxy-weighter/test/graphiteproc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watcher is an output that calls a function at each write.
type watcher struct {
	mu   sync.Mutex
	text strings.Builder
	on   func(text string) error
}

func (w *watcher) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(b)
	if w.on != nil {
		if err := w.on(string(b)); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// leftNothing fails when a child process or a file is left.
func leftNothing(t *testing.T, dir string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		t.Errorf("%s is left behind", filepath.Join(dir, f.Name()))
	}
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(lists) == 0 {
		t.Fatalf("no lists of children in /proc: %v", err)
	}
	for _, list := range lists {
		children, err := os.ReadFile(list)
		if errors.Is(err, os.ErrNotExist) {
			continue // the thread has ended
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(children) > 0 {
			t.Errorf("processes %s are left behind", children)
		}
	}
}

func TestRunPlaysBothPhasesAndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	var out watcher
	result, err := Run(t.Context(), Options{Seed: 1, Servers: 4, Duration: 14 * time.Second, TempDir: dir, Out: &out})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.text.String())
	}
	leftNothing(t, dir)
	checkPlayed(t, result)
	for _, line := range []string{"phase 1 of 2: equal weights for 7 s\n", "phase 2 of 2: haproxy-weighter for 7 s\n"} {
		if !strings.Contains(out.text.String(), line) {
			t.Errorf("no line %q in\n%s", line, out.text.String())
		}
	}
}

// checkPlayed checks what must be so however the load fell out.
func checkPlayed(t *testing.T, r *Result) {
	t.Helper()
	for i, m := range r.Phases {
		if m.Seconds+m.Disturbed != r.PhaseSeconds-r.MeasuredFrom {
			t.Errorf("phase %d: %d seconds measured or disturbed, want %d", i+1, m.Seconds+m.Disturbed, r.PhaseSeconds-r.MeasuredFrom)
		}
		if m.Seconds > 0 && m.MaxMean < 1 || m.MaxMean > float64(r.Servers) {
			t.Errorf("phase %d: max/mean %g", i+1, m.MaxMean)
		}
		if lost(m) != 0 || m.Clients.Started < int64(r.OpenClients) {
			t.Errorf("phase %d: clients %+v", i+1, m.Clients)
		}
	}
	if n := r.Phases[0].WeightsMoved; n != 0 {
		t.Errorf("%d weights changed under equal weights", n)
	}
	if r.Phases[1].WeightsMoved == 0 {
		t.Error("the loop changed no weight: it did not read Graphite, or did not reach HAProxy")
	}
}

func TestRunWithARealGraphite(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	graphite, err := graphiteproc.Start(ctx, graphiteproc.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer graphite.Stop()
	var out watcher
	result, err := Run(ctx, Options{
		Seed: 2, Servers: 3, Duration: 14 * time.Second, TempDir: t.TempDir(), Out: &out,
		GraphiteURL: graphite.URL, Carbon: graphite.CarbonAddr,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.text.String())
	}
	checkPlayed(t, result)
}

// At whatever moment it is interrupted, nothing is left and the terminal is
// as it was.
func TestRunInterrupted(t *testing.T) {
	moments := map[string]string{
		"before anything is shown": "",
		"in the first phase":       "phase 1 of 2",
		"in the second phase":      "phase 2 of 2",
	}
	for name, moment := range moments {
		for _, screen := range []func() Screen{nil, func() Screen { return Screen{Width: 80, Height: 24} }} {
			display := "plain"
			if screen != nil {
				display = "live"
			}
			t.Run(name+", "+display, func(t *testing.T) {
				dir := t.TempDir()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				out := watcher{on: func(text string) error {
					if strings.Contains(text, moment) {
						cancel()
					}
					return nil
				}}
				if moment == "" {
					cancel()
				}
				result, err := Run(ctx, Options{Servers: 2, Duration: 4 * time.Second, TempDir: dir, Out: &out, Screen: screen})
				if !errors.Is(err, context.Canceled) || result != nil {
					t.Errorf("result %v, error %v; want context.Canceled", result, err)
				}
				leftNothing(t, dir)
				text := out.text.String()
				if entered := strings.HasPrefix(text, enterScreen); entered != (screen != nil && moment != "") {
					t.Errorf("the other screen is entered: %v", entered)
				}
				if strings.HasPrefix(text, enterScreen) != strings.HasSuffix(text, leaveScreen) {
					t.Error("the other screen is entered and not left again")
				}
			})
		}
	}
}

// A terminal that is gone ends the run, and nothing is left either.
func TestRunWhoseOutputFails(t *testing.T) {
	dir := t.TempDir()
	gone := errors.New("input/output error")
	out := watcher{on: func(text string) error {
		if strings.Contains(text, "phase 1 of 2") {
			return gone
		}
		return nil
	}}
	if _, err := Run(t.Context(), Options{Servers: 2, TempDir: dir, Out: &out}); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	leftNothing(t, dir)
}

func TestRunWithoutHAProxy(t *testing.T) {
	dir := t.TempDir()
	_, err := Run(t.Context(), Options{HAProxy: "/nonexistent/haproxy", TempDir: dir})
	if err == nil || !strings.Contains(err.Error(), "HAProxy is not at /nonexistent/haproxy") {
		t.Errorf("got %v", err)
	}
	leftNothing(t, dir)
}

func TestRunRefusesOptions(t *testing.T) {
	_, err := Run(t.Context(), Options{Servers: 51})
	var wrong *OptionsError
	if !errors.As(err, &wrong) {
		t.Errorf("got %v", err)
	}
}
