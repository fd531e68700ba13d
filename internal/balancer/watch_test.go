package balancer

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
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
				log, looks, seen := &logBook{}, 0, 0
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
				if log.count("does not answer") != 1 || log.count(test.words) != 1 {
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
