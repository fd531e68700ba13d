package balancer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/test/logbook"
)

func TestWatchBacksOffOnlyWhenAllSlotsAreTaken(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		least int // looks in a minute
		most  int
		words string
	}{
		"slots taken":   {fmt.Errorf("dial: %w", syscall.EAGAIN), 8, 12, "stats maxconn"},
		"no HAProxy":    {fmt.Errorf("dial: %w", syscall.ECONNREFUSED), 58, 61, "start HAProxy"},
		"no socket":     {fmt.Errorf("dial: %w", syscall.ENOENT), 58, 61, "correct the path"},
		"not allowed":   {fmt.Errorf("dial: %w", syscall.EACCES), 58, 61, "give this user access"},
		"anything else": {haproxy.ErrTruncated, 58, 61, "check that HAProxy runs"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, looks, seen := &logbook.Book{}, 0, 0
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				logger := slog.New(slog.NewTextHandler(log, nil))
				w := &watcher{
					every: time.Second, log: logger, faults: newFaults(logger, time.Now),
					info: func(context.Context) (haproxy.Info, error) { looks++; return haproxy.Info{}, test.err },
					seen: func(haproxy.Worker) { seen++ },
				}
				if err := w.run(ctx); err != nil {
					t.Errorf("run: %v", err)
				}
				if looks < test.least || looks > test.most || seen != 0 {
					t.Errorf("%d looks in a minute (want %d to %d), %d workers told", looks, test.least, test.most, seen)
				}
				if log.Count("does not answer") != 1 || log.Count(test.words) != 1 {
					t.Errorf("log:\n%s", log)
				}
			})
		})
	}
}

func TestWatchPassesOverAStoppingWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		info := haproxy.Info{Worker: haproxy.Worker{PID: 1}, Stopping: true}
		var seen []int
		log := slog.New(slog.DiscardHandler)
		w := &watcher{
			every: time.Second, log: log, faults: newFaults(log, time.Now),
			info: func(context.Context) (haproxy.Info, error) { mu.Lock(); defer mu.Unlock(); return info, nil },
			seen: func(w haproxy.Worker) { seen = append(seen, w.PID) },
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5500*time.Millisecond)
		defer cancel()
		go func() {
			time.Sleep(2500 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			info = haproxy.Info{Worker: haproxy.Worker{PID: 2}}
		}()
		if err := w.run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
		if len(seen) != 3 || seen[0] != 2 {
			t.Errorf("workers told: %v", seen)
		}
	})
}

// TestTwinsAreToldOnce: two sockets of one HAProxy, a third of another one
// with the same numbers, and reloads that the two sockets see one after the other.
func TestTwinsAreToldOnce(t *testing.T) {
	worker := func(pid int, node string) haproxy.Info {
		return haproxy.Info{Worker: haproxy.Worker{PID: pid, StartTime: 1000 + int64(pid)}, Node: node}
	}
	log := &logbook.Book{}
	all := &twins{}
	watchers := map[string]*watcher{}
	for _, socket := range []string{"unix:/a", "unix:/b", "unix:/c"} {
		watchers[socket] = &watcher{
			log:  slog.New(slog.NewTextHandler(log, nil)).With("socket", socket),
			twin: func(i haproxy.Info) string { return all.note(socket, i) },
		}
	}
	for _, look := range []struct {
		socket string
		info   haproxy.Info
		told   bool
	}{
		{"unix:/b", worker(8, "lb1"), false}, // alone so far
		{"unix:/a", worker(8, "lb1"), false}, // the other one tells
		{"unix:/c", worker(8, "lb2"), false}, // another container
		{"unix:/b", worker(8, "lb1"), true},
		{"unix:/b", worker(9, "lb1"), false}, // reloaded; a has not looked yet
		{"unix:/a", worker(9, "lb1"), false},
		{"unix:/b", worker(9, "lb1"), true},
	} {
		if got := watchers[look.socket].tellTwin(look.info); got != look.told {
			t.Errorf("%s, process %d on %s: told %v, want %v", look.socket, look.info.Worker.PID, look.info.Node, got, look.told)
		}
	}
	if log.Count("same HAProxy") != 2 || log.Count("socket=unix:/b other=unix:/a") != 2 {
		t.Errorf("log:\n%s", log)
	}
}

// TestWatchTellsTwinsOnce: run asks until it has told, and not again.
func TestWatchTellsTwinsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logbook.Book{}
		logger := slog.New(slog.NewTextHandler(log, nil))
		looks := 0
		w := &watcher{
			every: time.Second, log: logger, faults: newFaults(logger, time.Now), seen: func(haproxy.Worker) {},
			info: func(context.Context) (haproxy.Info, error) {
				return haproxy.Info{Worker: haproxy.Worker{PID: 8}}, nil
			},
			twin: func(haproxy.Info) string {
				if looks++; looks < 3 {
					return ""
				}
				return "unix:/a"
			},
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := w.run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
		if looks != 3 || log.Count("same HAProxy") != 1 {
			t.Errorf("%d looks; log:\n%s", looks, log)
		}
	})
}

// TestMasterIsLookedAtAgain: a master that is gone for a moment, as in each
// reload, is no fault; one that stays away is, soon.
func TestMasterIsLookedAtAgain(t *testing.T) {
	for name, test := range map[string]struct {
		master bool
		err    error
		gone   time.Duration
		told   int
	}{
		"a reload":                    {true, fmt.Errorf("dial: %w", syscall.ECONNREFUSED), 1900 * time.Millisecond, 0},
		"a reload without worker":     {true, haproxy.ErrNoWorker, 1900 * time.Millisecond, 0},
		"an outage":                   {true, fmt.Errorf("dial: %w", syscall.ECONNREFUSED), 2500 * time.Millisecond, 1},
		"a worker's socket":           {false, fmt.Errorf("dial: %w", syscall.ECONNREFUSED), 1900 * time.Millisecond, 1},
		"an outage without a worker":  {true, haproxy.ErrNoWorker, time.Minute, 1},
		"no outage but a slow answer": {true, nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &logbook.Book{}
				logger := slog.New(slog.NewTextHandler(log, nil))
				begun := time.Now()
				w := &watcher{
					every: time.Second, log: logger, faults: newFaults(logger, time.Now), master: test.master,
					info: func(context.Context) (haproxy.Info, error) {
						if at := time.Since(begun) - 10*time.Second; at >= 0 && at < test.gone {
							return haproxy.Info{}, test.err
						}
						return haproxy.Info{Worker: haproxy.Worker{PID: 1}}, nil
					},
					seen: func(haproxy.Worker) {},
				}
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
				defer cancel()
				if err := w.run(ctx); err != nil {
					t.Errorf("run: %v", err)
				}
				if n := log.Count("does not answer"); n != test.told || log.Count("answers again") != test.told {
					t.Errorf("told %d times, want %d; log:\n%s", n, test.told, log)
				}
				if test.err != nil && test.told == 1 && w.failing != (time.Time{}) {
					t.Error("it is still failing")
				}
			})
		})
	}
}

func TestRivals(t *testing.T) {
	for looks, want := range map[string]int{
		"AAAABBBBCCCC":         0, // reloads
		"AABABBBBCCCC":         2, // the old worker answered once more
		"ABABABAB":             6,
		"ABCABCABC":            6,
		"ABCDEFGHIJABCDEFGHIJ": 0, // more than are known
		"ABABAB" + "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" + "BCD": 0, // A alone for long; this B is another one
	} {
		var r rivals
		for _, l := range looks {
			r.note(haproxy.Worker{PID: int(l)})
		}
		if r.returns != want {
			t.Errorf("%s: %d workers have come back, want %d", looks, r.returns, want)
		}
		if len(r.known) > rivalsKept {
			t.Errorf("%s: %d workers are known", looks, len(r.known))
		}
	}
}

// TestClocksAgreeWhenThatIsClear: what is measured goes up and down by a second
// because Graphite gives whole seconds.
func TestClocksAgreeWhenThatIsClear(t *testing.T) {
	log := &logbook.Book{}
	b := New(Options{Backend: ingest(), Logger: slog.New(slog.NewTextHandler(log, nil))})
	look := func(err error, skews ...float64) {
		for _, s := range skews {
			b.tellPicture(&picture{err: err, skew: time.Duration(s * float64(time.Second))})
		}
	}
	want := func(begun, over int) {
		t.Helper()
		if log.Count("clocks differ") != begun || log.Count("clocks agree again") != over {
			t.Errorf("want %d begun and %d over; log:\n%s", begun, over, log)
		}
	}
	for range 20 {
		look(nil, 1.5, 1.9, -1.7)
	}
	want(0, 0)
	for range 20 { // steadily 1.5 s
		look(nil, 1.6, 2.1, 2.4, 1.55, 1.9)
	}
	want(1, 0)
	look(nil, 0.5, -0.9, 1.1, 0.2, 0.1)
	look(errors.New("no answer"), 0)
	want(1, 0)
	look(nil, -0.3)
	want(1, 1)
	look(nil, 0.2, -2.5)
	want(2, 1)
}
