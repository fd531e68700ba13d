package balancer

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

// wording is what the operator reads about one kind of fault.
type wording struct {
	what      string // log message when it begins
	over      string // log message when it has ended
	meanwhile string // what the weights do as long as it lasts
	do        string // what to do about it
}

// faults logs each fault once when it begins and once when it ends, however
// many passes it lasts and however its cause is worded in between. It is not
// safe for concurrent use: each goroutine that has faults has its own.
type faults struct {
	log  *slog.Logger
	now  func() time.Time
	open map[string]*fault
}

type fault struct {
	words wording
	cause string // the newest one
	since time.Time
}

func newFaults(log *slog.Logger, now func() time.Time) *faults {
	return &faults{log: log, now: now, open: make(map[string]*fault)}
}

// begin opens the fault key, or notes the newest cause of one that is open.
func (f *faults) begin(key, cause string, w wording) {
	if old, ok := f.open[key]; ok {
		old.cause = cause
		return
	}
	f.open[key] = &fault{words: w, cause: cause, since: f.now()}
	f.log.Warn(w.what, "cause", cause, "meanwhile", w.meanwhile, "do", w.do)
}

// end closes the fault key if it is open.
func (f *faults) end(key string) {
	old, ok := f.open[key]
	if !ok {
		return
	}
	delete(f.open, key)
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
