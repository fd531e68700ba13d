// Package trace records what HAProxy had in force and what Graphite answered
// while a weighter ran between the two, and judges from that record alone
// whether the weighter has kept its promises. So a fault between two
// assertions of a test is seen as well.
//
// It shares no code with the weighter: it has its own connection to HAProxy
// and its own reading of what it sees there.
package trace

import (
	"slices"
	"sync"
	"time"
)

// Server is one server as HAProxy's "show servers state" has it.
type Server struct {
	Weight, Initial int
	Admin           int // bit mask: 1, 2, 4 and 32 maint, 8 and 16 drain
	Op              int // 2 is up
}

// outMask are the bits of Server.Admin that take a server out of rotation.
const outMask = 1 | 2 | 4 | 8 | 16 | 32

func (s Server) out() bool { return s.Admin&outMask != 0 }

// inRotation tells whether the server gets new connections by its weight.
func (s Server) inRotation() bool { return !s.out() && s.Op == 2 && s.Weight > 0 }

// Worker is a process of HAProxy.
type Worker struct {
	PID   int
	Start int64 // seconds since 1970
}

// State is what HAProxy had from one time to another.
type State struct {
	Worker  Worker
	Servers map[string]Server
	// It was first seen in an answer to a question of FirstAsked, which came at
	// First, and last in one to a question of LastAsked, which came at Last.
	FirstAsked, First, LastAsked, Last time.Time
}

// Point is what one answer told of one server.
type Point struct {
	Value float64   // NaN: none
	At    time.Time // by the test's clock, whatever stamp was on it
}

// Answer is one answer of Graphite.
type Answer struct {
	Asked, Sent time.Time        // Sent is when the last byte had gone out
	Whole       bool             // it was a complete render of status 200
	Points      map[string]Point // the newest one of each series
	Name        string           // how the answer was made, for messages
}

// Write is one weight that was seen on its way to HAProxy.
type Write struct {
	From, To time.Time
	Server   string
	Weight   int
}

// Order is something that the test itself, or a program of its, did to a
// server's weight.
type Order struct {
	From, To time.Time // zero To: it goes on
	Server   string    // empty: any
	Weight   int       // -1: any
}

// Still is a time in which no weight may move.
type Still struct {
	From, To time.Time
	Why      string
}

// Recovery is the end of a fault: Want must be in force when the first whole
// answer that was asked for after At has had its pass.
type Recovery struct {
	At   time.Time
	Want map[string]int
	Why  string
}

// Outage is a time in which the weighter did not answer SPOE messages.
type Outage struct {
	From, To time.Time
	Cause    string
}

// Usage is what the weighter's process took at one moment.
type Usage struct {
	At          time.Time
	Resident    int64 // bytes
	Peak        int64 // the most bytes ever resident
	Descriptors int
	Goroutines  int // 0: not asked
}

// Trace is the record of one run. The zero value is ready for use; its methods
// may be called from any goroutine.
type Trace struct {
	mu         sync.Mutex
	states     []State
	answers    []Answer
	writes     []Write
	orders     []Order
	stills     []Still
	recoveries []Recovery
	outages    []Outage
	excused    []Still
	usages     []Usage
	polls      int
}

// note appends to one of the lists of t.
func note[T any](t *Trace, to *[]T, v T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*to = append(*to, v)
}

// Answered notes an answer of Graphite.
func (t *Trace) Answered(a Answer) { note(t, &t.answers, a) }

// Wrote notes a weight on its way to HAProxy.
func (t *Trace) Wrote(w Write) { note(t, &t.writes, w) }

// Ordered notes what the test did itself.
func (t *Trace) Ordered(o Order) { note(t, &t.orders, o) }

// HoldStill notes a time in which no weight may move.
func (t *Trace) HoldStill(s Still) { note(t, &t.stills, s) }

// Recover notes the end of a fault.
func (t *Trace) Recover(r Recovery) { note(t, &t.recoveries, r) }

// Silent notes that SPOE messages were not answered.
func (t *Trace) Silent(o Outage) { note(t, &t.outages, o) }

// Excuse notes a time in which SPOE messages need not be answered: the
// weighter was stopped on purpose.
func (t *Trace) Excuse(s Still) { note(t, &t.excused, s) }

// Used notes what the weighter's process takes.
func (t *Trace) Used(u Usage) { note(t, &t.usages, u) }

// saw notes a state of HAProxy; one that is the same as the last only extends it.
func (t *Trace) saw(worker Worker, servers map[string]Server, asked, answered time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.polls++
	if n := len(t.states); n > 0 {
		last := &t.states[n-1]
		if last.Worker == worker && equal(last.Servers, servers) {
			last.LastAsked, last.Last = asked, answered
			return
		}
	}
	t.states = append(t.states, State{
		Worker: worker, Servers: servers, FirstAsked: asked, First: answered, LastAsked: asked, Last: answered,
	})
}

func equal(a, b map[string]Server) bool {
	if len(a) != len(b) {
		return false
	}
	for name, s := range a {
		if other, ok := b[name]; !ok || other != s {
			return false
		}
	}
	return true
}

// Size tells how much has been recorded.
type Size struct{ Polls, States, Answers, Writes int }

// Size tells how much has been recorded.
func (t *Trace) Size() Size {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Size{Polls: t.polls, States: len(t.states), Answers: len(t.answers), Writes: len(t.writes)}
}

// Now is the state that was seen last; false when there is none.
func (t *Trace) Now() (State, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.states) == 0 {
		return State{}, false
	}
	return t.states[len(t.states)-1], true
}

// PassedAfter tells whether a recovery at a time can be judged: there was a
// whole answer, and another question an interval later.
func (t *Trace) PassedAfter(at time.Time, interval time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, next := t.pass(at, interval)
	return next >= 0
}

// pass finds the first whole answer that was asked for after a time, and the
// first question of the pass after it; -1: there is none. A question that comes
// sooner was asked for by hand.
func (t *Trace) pass(at time.Time, interval time.Duration) (first, next int) {
	first = slices.IndexFunc(t.answers, func(a Answer) bool { return a.Whole && a.Asked.After(at) })
	if first < 0 {
		return -1, -1
	}
	turn := t.answers[first].Sent.Add(interval / 2)
	return first, slices.IndexFunc(t.answers, func(a Answer) bool { return a.Asked.After(turn) })
}

// Forget drops what was long enough ago to have been judged: all states but the
// last one of each of the two newest workers, and what else is older than keep.
// What goes on is judged as before.
func (t *Trace) Forget(now time.Time, keep time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := now.Add(-keep)
	if n := len(t.states); n > 0 {
		kept := []State{}
		for i := n - 2; i >= 0; i-- {
			if t.states[i].Worker != t.states[n-1].Worker {
				kept = append(kept, t.states[i])
				break
			}
		}
		t.states = append(kept, t.states[n-1])
	}
	t.answers = slices.DeleteFunc(t.answers, func(a Answer) bool { return a.Sent.Before(old) })
	t.writes = slices.DeleteFunc(t.writes, func(w Write) bool { return w.To.Before(old) })
	t.outages = slices.DeleteFunc(t.outages, func(o Outage) bool { return o.To.Before(old) })
}

// Highest are the largest amounts that the process has taken.
func (t *Trace) Highest() Usage {
	t.mu.Lock()
	defer t.mu.Unlock()
	var most Usage
	for _, u := range t.usages {
		most.Resident, most.Peak = max(most.Resident, u.Resident), max(most.Peak, u.Peak)
		most.Descriptors, most.Goroutines = max(most.Descriptors, u.Descriptors), max(most.Goroutines, u.Goroutines)
	}
	return most
}

// Usages are all of them, in order.
func (t *Trace) Usages() []Usage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.usages)
}
