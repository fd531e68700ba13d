package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watcher is an output that calls a function at each write.
type watcher struct {
	mu   sync.Mutex
	text strings.Builder
	on   func(text string)
}

func (w *watcher) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(b)
	if w.on != nil {
		w.on(string(b))
	}
	return len(b), nil
}

// small is a comparison of a few seconds.
func small(t *testing.T, more ...string) (args []string, plot string) {
	t.Setenv("TMPDIR", t.TempDir())
	plot = filepath.Join(t.TempDir(), "plot.svg")
	return append([]string{
		"--policies", "water-fill", "--servers", "3", "--clients", "20", "--parallel", "2", "--plot", plot,
	}, more...), plot
}

// leftNothing fails when a child process or a temporary file is left.
func leftNothing(t *testing.T) {
	t.Helper()
	files, err := os.ReadDir(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		t.Errorf("%s is left behind", f.Name())
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

func TestRealRunGivesNumbersAndPicture(t *testing.T) {
	args, plot := small(t, "--seeds", "1", "--warm-up", "4s", "--duration", "2s", "--json")
	var stdout, stderr watcher
	if code := command(t.Context(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr.text.String())
	}
	leftNothing(t)
	var r result
	if err := json.Unmarshal([]byte(stdout.text.String()), &r); err != nil {
		t.Fatalf("%v\n%s", err, stdout.text.String())
	}
	if len(r.Policies) != 2 || r.Policies[0].Policy != "equal" || r.Policies[1].Policy != "water-fill" || len(r.Seeds) != 1 {
		t.Fatalf("not one seed of equal weights and water-fill: %s", stdout.text.String())
	}
	for _, p := range r.Policies {
		run := p.Runs[0]
		if len(run.Loads) != 6 || run.Seconds+run.Disturbed != 2 {
			t.Errorf("%s: %d seconds, %d counted and %d disturbed; want 6 and together 2", p.Policy, len(run.Loads), run.Seconds, run.Disturbed)
		}
		if mean, _, _ := spread(run.Loads[len(run.Loads)-1]); mean == 0 {
			t.Errorf("%s: the servers received nothing", p.Policy)
		}
		if run.Clients.Sent == 0 || run.Clients.Refused+run.Clients.Broken > 0 {
			t.Errorf("%s: clients %+v", p.Policy, run.Clients)
		}
	}
	if l := r.Policies[1].Runs[0].Loop; l == nil || l.Passes == 0 || l.Passes == l.Failed || l.Changed == 0 {
		t.Errorf("water-fill made no good pass, or set no weight: %+v\n%s", l, stderr.text.String())
	}
	texts := wellFormed(t, plot)
	for _, want := range []string{"equal weights", "water-fill", "least loaded (computed)", "Load of each server over the mean, water-fill, seed 1"} {
		if !strings.Contains(texts, want) {
			t.Errorf("the picture does not say %q:\n%s", want, texts)
		}
	}
}

// An interrupted run shows the seeds that are complete.
func TestInterruptShowsWhatIsCompleteAndLeavesNothing(t *testing.T) {
	args, plot := small(t, "--seeds", "3", "--warm-up", "0s", "--duration", "2s")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout watcher
	stderr := watcher{on: func(text string) {
		if strings.HasPrefix(text, "2 of 6") {
			cancel()
		}
	}}
	if code := command(ctx, args, &stdout, &stderr); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	leftNothing(t)
	for _, want := range []string{"interrupted", "2 of 6: seed 1"} {
		if !strings.Contains(stderr.text.String(), want) {
			t.Errorf("stderr does not say %q:\n%s", want, stderr.text.String())
		}
	}
	for _, want := range []string{"medians of 1 seed,", "\nequal weights", "\nwater-fill", "--seeds 1 --seed 1 "} {
		if !strings.Contains(stdout.text.String(), want) {
			t.Errorf("stdout does not say %q:\n%s", want, stdout.text.String())
		}
	}
	wellFormed(t, plot)
}

// wellFormed reads all of a picture as XML and returns its texts.
func wellFormed(t *testing.T, file string) string {
	t.Helper()
	picture, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer picture.Close()
	var texts strings.Builder
	for d := xml.NewDecoder(picture); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts.String()
		}
		if err != nil {
			t.Fatalf("the picture is not well-formed: %v", err)
		}
		if text, ok := token.(xml.CharData); ok {
			texts.Write(text)
		}
	}
}
