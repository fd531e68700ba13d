package balancer

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
)

// watcher looks, every so often, which worker answers on one socket, and tells
// the balancers.
type watcher struct {
	info   func(context.Context) (haproxy.Info, error)
	every  time.Duration
	seen   func(haproxy.Worker)      // never blocks
	back   func()                    // told when the socket answers again; never blocks; nil means that nobody wants to know
	twin   func(haproxy.Info) string // another socket of the same HAProxy; nil means that nobody looks
	faults *faults
	log    *slog.Logger
}

const (
	watchDefault = time.Second
	watchLimit   = 10 * time.Second // for a client that has lost its own deadline
	// busyMost is the longest rest, in units of watch, while all of HAProxy's
	// slots for the socket are taken: asking faster would keep them taken.
	busyMost = 8
)

// run watches until ctx ends. It tells the worker each time and not only when
// it changes: a plane that failed to put weights back then tries again.
func (w *watcher) run(ctx context.Context) error {
	every := w.every
	if every <= 0 {
		every = watchDefault
	}
	rest := every
	var last haproxy.Worker
	twinTold := false
	for {
		start := time.Now()
		info, err := w.look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			w.tell(err)
			if errors.Is(err, syscall.EAGAIN) {
				rest = min(2*rest, busyMost*every)
			} else {
				rest = every
			}
		default:
			rest = every
			if _, lost := w.faults.open[FaultSocket]; lost {
				w.faults.end(FaultSocket)
				if w.back != nil {
					w.back()
				}
			}
			if info.Worker != last && !info.Stopping {
				w.log.Debug("worker", "pid", info.Worker.PID, "version", info.Version)
				last = info.Worker
			}
			if !info.Stopping {
				w.seen(info.Worker)
				twinTold = twinTold || w.tellTwin(info)
			}
		}
		timer := time.NewTimer(max(rest-time.Since(start), every/10))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// tellTwin warns of two sockets that lead to one HAProxy. A configuration does
// not heal by itself, so this is told once and has no end.
func (w *watcher) tellTwin(info haproxy.Info) bool {
	if w.twin == nil {
		return false
	}
	other := w.twin(info)
	if other == "" {
		return false
	}
	w.log.Warn("two sockets lead to the same HAProxy", "other", other, "pid", info.Worker.PID,
		"meanwhile", "both are balanced as if they were two; each finds that somebody else sets its weights, and writes more than it need",
		"do", "list each HAProxy once in haproxy.sockets")
	return true
}

// twins remembers which process answered on which socket.
type twins struct {
	mu   sync.Mutex
	last map[string]haproxy.Info
}

// note notes who answers on socket, and returns another socket on which the
// same process has answered last; "" when there is none. Of two sockets one is
// told: the later one in the alphabet.
func (t *twins) note(socket string, info haproxy.Info) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = make(map[string]haproxy.Info)
	}
	t.last[socket] = info
	for _, other := range slices.Sorted(maps.Keys(t.last)) {
		if other < socket && t.last[other].SameProcess(info) {
			return other
		}
	}
	return ""
}

func (w *watcher) look(ctx context.Context) (haproxy.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, watchLimit)
	defer cancel()
	return w.info(ctx)
}

// socketGone tells whether err says that nobody can reach the socket, whatever
// is asked.
func socketGone(err error) bool {
	for _, no := range []error{
		syscall.ECONNREFUSED, syscall.EAGAIN, syscall.EACCES, syscall.ENOENT, syscall.EMFILE, syscall.ENFILE,
	} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

// doHung is what to do about a HAProxy that gives no answer in time.
const doHung = "see HAProxy's health: it hangs or is overloaded, or other programs hold all connection slots of its stats socket (ss -xp; stats maxconn)"

func (w *watcher) tell(err error) {
	words := wording{
		what:      "HAProxy's socket does not answer",
		over:      "HAProxy's socket answers again",
		meanwhile: "no weight can be set there; those in force stay, and whatever reads the table, such as SPOE, gets the last one known",
		do:        "check that HAProxy runs and that haproxy.sockets names its stats socket",
	}
	switch {
	case errors.Is(err, haproxy.ErrTimeout):
		words.do = doHung
	case errors.Is(err, syscall.ECONNREFUSED):
		words.do = "start HAProxy; if it runs, a second one has taken its socket's path away: restart it, since with a master a reload keeps the lost socket"
	case errors.Is(err, syscall.EAGAIN):
		words.do = "all connection slots of the stats socket are taken: end the clients that hold them, or raise stats maxconn"
	case errors.Is(err, syscall.EACCES):
		words.do = "give this user access: mode, user or group on the stats socket line of haproxy.cfg"
	case errors.Is(err, syscall.ENOENT):
		words.do = "start HAProxy, or correct the path in haproxy.sockets"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		words.what, words.over = "HAProxy's socket can't be opened", "HAProxy's socket can be opened again"
		words.do = "raise the limit of file descriptors of this process (LimitNOFILE in its systemd unit, ulimit -n)"
	}
	w.faults.begin(FaultSocket, haproxy.Cause(err).Error(), words)
}
