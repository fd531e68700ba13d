package balancer

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// wording is what the operator reads about one kind of fault.
type wording struct {
	what      string // log message when it begins
	over      string // log message when it has ended
	meanwhile string // what the weights do as long as it lasts
	do        string // what to do about it
}

// Fault is something that is wrong now, as the log has told it.
type Fault struct {
	Key       string    `json:"key"`     // fixed identifier of what it is about, e.g. "graphite"
	Backend   string    `json:"backend"` // empty: of a socket as a whole
	Socket    string    `json:"socket"`  // empty: of no socket in particular
	What      string    `json:"what"`
	Cause     string    `json:"cause"`
	Meanwhile string    `json:"meanwhile"` // what the weights do as long as it lasts
	Do        string    `json:"do"`
	Since     time.Time `json:"since"` // UTC
}

// Keys of a Fault that others than the log look at.
const (
	FaultFrozen = "frozen"  // an operator's freeze: an order, and listed for those who wonder
	FaultStatic = "static"  // HAProxy's balance algorithm takes no weights
	FaultSocket = "socket"  // HAProxy's socket does not answer, whatever is asked
	FaultUnread = "haproxy" // HAProxy can't be read for a backend
)

// faults logs each fault once when it begins and once when it ends, however
// many passes it lasts and however its cause is worded in between. It is not
// safe for concurrent use: each goroutine that has faults has its own. Only
// list is for everyone.
type faults struct {
	log             *slog.Logger
	now             func() time.Time
	backend, socket string // where they are
	open            map[string]*fault
	shown           atomic.Pointer[[]Fault] // what is open, sorted by key
}

type fault struct {
	words wording
	cause string // the newest one
	since time.Time
}

func newFaults(log *slog.Logger, now func() time.Time) *faults {
	return &faults{log: log, now: now, open: make(map[string]*fault)}
}

// at says where the faults are.
func (f *faults) at(backend, socket string) *faults {
	f.backend, f.socket = backend, socket
	return f
}

// list returns what is wrong now. It is safe for concurrent use.
func (f *faults) list() []Fault {
	if shown := f.shown.Load(); shown != nil {
		return *shown
	}
	return nil
}

// show brings list up to date.
func (f *faults) show() {
	shown := make([]Fault, 0, len(f.open))
	for _, key := range slices.Sorted(maps.Keys(f.open)) {
		o := f.open[key]
		shown = append(shown, Fault{
			Key: key, Backend: f.backend, Socket: f.socket, What: o.words.what, Cause: o.cause,
			Meanwhile: o.words.meanwhile, Do: o.words.do, Since: o.since.UTC(),
		})
	}
	f.shown.Store(&shown)
}

// inherit takes over what another one has told and not ended: it is told
// again only when it is over.
func (f *faults) inherit(old *faults) {
	f.open = old.open
	f.show()
}

// begin opens the fault key, or notes the newest cause of one that is open,
// with what to do about that one. What it is called stays as the log began it.
func (f *faults) begin(key, cause string, w wording) {
	if old, ok := f.open[key]; ok {
		if old.cause != cause {
			old.cause, old.words.meanwhile, old.words.do = cause, w.meanwhile, w.do
			f.show()
		}
		return
	}
	f.open[key] = &fault{words: w, cause: cause, since: f.now()}
	f.show()
	f.log.Warn(w.what, "cause", cause, "meanwhile", w.meanwhile, "do", w.do)
}

// end closes the fault key if it is open.
func (f *faults) end(key string) {
	old, ok := f.open[key]
	if !ok {
		return
	}
	delete(f.open, key)
	f.show()
	f.log.Info(old.words.over, "after", f.now().Sub(old.since).Round(time.Millisecond).String())
}

// set opens the fault key when err is an error and closes it when it is nil.
func (f *faults) set(key string, err error, w wording) {
	if err == nil {
		f.end(key)
		return
	}
	f.begin(key, err.Error(), w)
}

// endOthers closes every open fault whose key starts with prefix, but for keep.
func (f *faults) endOthers(prefix, keep string) {
	for _, key := range slices.Sorted(maps.Keys(f.open)) {
		if strings.HasPrefix(key, prefix) && key != keep {
			f.end(key)
		}
	}
}

// text puts the open faults into one line; empty when there are none.
func (f *faults) text() string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(f.open)) {
		lines = append(lines, f.open[key].words.what+": "+f.open[key].cause)
	}
	return strings.Join(lines, "; ")
}

// Wording is what operators read about one kind of fault.
type Wording struct {
	What      string // when it begins
	Over      string // when it has ended
	Meanwhile string // what traffic does as long as it lasts
	Do        string
}

// FaultLog tells of faults that are of no backend, as the balancers do: once
// when each begins and once when it ends. It is safe for concurrent use.
type FaultLog struct {
	mu     sync.Mutex
	faults *faults
}

// NewFaultLog returns a FaultLog without faults.
func NewFaultLog(log *slog.Logger, now func() time.Time) *FaultLog {
	return &FaultLog{faults: newFaults(log, now)}
}

// Set begins the fault key when err is an error, and ends it when it is nil.
func (l *FaultLog) Set(key string, err error, w Wording) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults.set(key, err, wording{what: w.What, over: w.Over, meanwhile: w.Meanwhile, do: w.Do})
}

// List returns what is wrong now.
func (l *FaultLog) List() []Fault { return l.faults.list() }
