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
	master bool                      // the socket is of a master: it is gone for a moment in each reload
	faults *faults
	log    *slog.Logger

	last     haproxy.Worker // that answered
	rivals   rivals
	twinTold bool
	failing  time.Time // when the first look in a row began that failed; zero: the last one went well
}

const (
	watchDefault = time.Second
	watchLimit   = 10 * time.Second // for a client that has lost its own deadline
	// busyMost is the longest rest, in units of watch, while all of HAProxy's
	// slots for the socket are taken: asking faster would keep them taken.
	busyMost = 8
	// masterGrace is how long a master may not answer before that is a fault, and
	// masterAgain the most that lies between two looks meanwhile.
	masterGrace = 2 * time.Second
	masterAgain = 250 * time.Millisecond
)

// run watches until ctx ends. It tells the worker each time and not only when
// it changes: a plane that failed to put weights back then tries again.
func (w *watcher) run(ctx context.Context) error {
	every := w.every
	if every <= 0 {
		every = watchDefault
	}
	rest := every
	for {
		start := time.Now()
		info, err := w.look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			rest = every
			w.answered(info)
		case w.patient(start):
			rest = min(every, masterAgain)
		default:
			w.tell(err)
			if errors.Is(err, syscall.EAGAIN) {
				rest = min(2*rest, busyMost*every)
			} else {
				rest = every
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

// patient tells whether a look that failed is to be made again before it
// counts: a master that takes up its new configuration is gone for a moment, and
// so is the worker behind it. There is a second look in any case.
func (w *watcher) patient(start time.Time) bool {
	first := w.failing.IsZero()
	if first {
		w.failing = start
	}
	_, told := w.faults.open[FaultSocket]
	return w.master && !told && (first || time.Since(w.failing) < masterGrace)
}

// answered takes what a look has found.
func (w *watcher) answered(info haproxy.Info) {
	w.failing = time.Time{}
	if _, lost := w.faults.open[FaultSocket]; lost {
		w.faults.end(FaultSocket)
		if w.back != nil {
			w.back()
		}
	}
	if info.Stopping {
		return
	}
	if info.Worker != w.last {
		w.log.Debug("worker", "pid", info.Worker.PID, "version", info.Version)
		w.last = info.Worker
	}
	w.tellRivals(info.Worker)
	w.seen(info.Worker)
	w.twinTold = w.twinTold || w.tellTwin(info)
}

// rivals notice several HAProxys that answer on one socket in turn: a worker
// that has gone never comes back.
type rivals struct {
	known   []haproxy.Worker // newest last
	returns int              // how often one has come back
	steady  int              // looks in a row that met the same one
}

const (
	// rivalsKept is how many workers are known at once.
	rivalsKept = 8
	// rivalsReturns is how often workers must have come back: in a reload without
	// a master the old one may answer once or twice more.
	rivalsReturns = 5
	// rivalsSteady is after how many looks that met the same one it is alone. If
	// there were two, chance would do that once in 500 million.
	rivalsSteady = 30
)

// note notes who answers.
func (r *rivals) note(w haproxy.Worker) {
	if len(r.known) > 0 && r.known[len(r.known)-1] == w {
		if r.steady++; r.steady >= rivalsSteady {
			r.returns, r.known = 0, r.known[len(r.known)-1:]
		}
		return
	}
	r.steady = 0
	if i := slices.Index(r.known, w); i >= 0 {
		r.known = slices.Delete(r.known, i, i+1)
		r.returns++
	}
	r.known = append(r.known, w)
	if len(r.known) > rivalsKept {
		r.known = slices.Delete(r.known, 0, 1)
	}
}

func (w *watcher) tellRivals(worker haproxy.Worker) {
	w.rivals.note(worker)
	switch {
	case w.rivals.returns >= rivalsReturns:
		w.faults.begin("rivals", "workers that were gone answer again: the socket leads to several HAProxys in turn", wording{
			what:      "several HAProxys answer on one socket",
			over:      "one HAProxy answers on the socket",
			meanwhile: "chance decides which of them is read and which gets the weights; each change looks like a reload",
			do:        "give each HAProxy process a stats socket with a path or port of its own, and list them all in haproxy.sockets; end one that is left over",
		})
	case w.rivals.steady >= rivalsSteady:
		w.faults.end("rivals")
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
		haproxy.ErrNoWorker, syscall.ECONNREFUSED, syscall.EAGAIN, syscall.EACCES, syscall.ENOENT, syscall.EMFILE, syscall.ENFILE,
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
	case errors.Is(err, haproxy.ErrNoWorker):
		words.do = "look at HAProxy's log for the failed reload, and correct its configuration"
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
