package lua

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	engine "github.com/yuin/gopher-lua"
)

// Arg is one argument of an SPOE message.
type Arg struct {
	Name  string // may be empty
	Value any    // nil, bool, int64, float64 or string
}

// Variable is what a script sets.
type Variable struct {
	Name  string
	Value any // bool, int64 or string
}

// Bounds of an answer: it has to fit into a frame.
const (
	maxVariables    = 64
	maxVariableName = 64
	maxAnswer       = 8 << 10 // bytes of all names and texts together
)

// Answerer calls the function answer of a script. It is safe for concurrent
// use: there is a state, with globals of its own, for each processor, so that
// answers do not wait for one another, and one more, since now and then one
// must be looked after.
type Answerer struct {
	script  *Script
	seats   chan seat      // those that are free
	tending sync.WaitGroup // of states between two answers
	tender  chan struct{}  // holds one value while somebody measures
}

// seat has a state; or why there is none, which the next answer tells.
type seat struct {
	state *state
	err   error
}

// NewAnswerer returns an answerer with its states made, so that no answer has
// to wait for the script's top level.
func (s *Script) NewAnswerer() *Answerer {
	a := &Answerer{script: s, seats: make(chan seat, runtime.GOMAXPROCS(0)+1), tender: make(chan struct{}, 1)}
	for range cap(a.seats) {
		a.seats <- a.newSeat()
	}
	return a
}

func (a *Answerer) newSeat() seat {
	st, err := a.script.newState(nil)
	if err != nil { // it ran when it was loaded
		return seat{err: err}
	}
	return seat{state: st}
}

// Wait waits until no state is being looked after: what an answer leaves to be
// done is done after it is out, and takes a fraction of a second. It must not
// be called while an answer is being given.
func (a *Answerer) Wait() { a.tending.Wait() }

// Answer returns what the script sets for a message, sorted by name; none when
// it returns nil. It takes AnswerLimit at most, waiting for a state included.
// The error is an *Error; nothing is set then.
func (a *Answerer) Answer(message string, args []Arg, tables View) (set []Variable, printed []string, err error) {
	st, limit, err := a.take()
	if err != nil {
		return nil, nil, err
	}
	defer a.release(st)
	answer, ok := st.global("answer").(*engine.LFunction)
	if !ok {
		return nil, nil, &Error{File: a.script.name, Text: "it defines no function answer any more"}
	}
	l := st.l
	result, fault := st.call(answer, limit, engine.LString(message), st.args(args), st.views.value(l, tables))
	if fault != nil {
		return nil, st.printed, fault
	}
	set, text := variablesOf(result)
	if text != "" {
		line := 0
		if answer.Proto != nil {
			line = answer.Proto.LineDefined
		}
		return nil, st.printed, &Error{File: a.script.name, Line: line, Text: "answer " + text}
	}
	return set, st.printed, nil
}

// take waits for a free state and returns it with the time that is left.
func (a *Answerer) take() (*state, time.Duration, error) {
	var s seat
	left := AnswerLimit
	select {
	case s = <-a.seats:
	default:
		began := a.script.options.Now()
		timer := time.NewTimer(AnswerLimit)
		defer timer.Stop()
		select {
		case s = <-a.seats:
			left -= a.script.options.Now().Sub(began)
		case <-timer.C:
			return nil, 0, a.busy()
		}
	}
	switch {
	case s.state == nil:
		a.renew()
		return nil, 0, s.err
	case left <= 0:
		a.seats <- s
		return nil, 0, a.busy()
	}
	return s.state, left, nil
}

// release gives a state back, at once or after it has been looked after, which
// no answer waits for. One at a time is measured, for the others go on
// meanwhile, unless one may not be used before.
func (a *Answerer) release(st *state) {
	if st.spent() {
		a.renew()
		return
	}
	if st.meter.due {
		select {
		case a.tender <- struct{}{}:
			a.tending.Go(func() { a.tend(st) })
			return
		default:
		}
		if st.meter.overdue() {
			a.tending.Go(func() {
				a.tender <- struct{}{}
				a.tend(st)
			})
			return
		}
	}
	a.seats <- seat{state: st}
}

// tend measures a state and gives it back.
func (a *Answerer) tend(st *state) {
	err := st.tend(runtime.Gosched)
	<-a.tender
	if err != nil {
		a.seats <- seat{err: err}
		return
	}
	a.seats <- seat{state: st}
}

// renew makes a new state in the place of one that can't be used any more.
func (a *Answerer) renew() {
	a.tending.Go(func() { a.seats <- a.newSeat() })
}

func (a *Answerer) busy() error {
	return &Error{File: a.script.name, Text: fmt.Sprintf("all %d states were busy for %s", cap(a.seats), AnswerLimit)}
}

// args has each argument by its position and, if it has one, by its name.
func (st *state) args(args []Arg) *engine.LTable {
	t := st.l.CreateTable(len(args), len(args))
	for i, a := range args {
		v := engine.LNil
		switch value := a.Value.(type) {
		case bool:
			v = engine.LBool(value)
		case int64:
			v = engine.LNumber(value)
		case float64:
			v = engine.LNumber(value)
		case string:
			v = engine.LString(value)
		}
		if v == engine.LNil {
			continue
		}
		t.RawSetInt(i+1, v)
		if a.Name != "" {
			t.RawSetString(a.Name, v)
		}
	}
	return t
}

// variablesOf reads what answer has returned; text says what is wrong with it.
func variablesOf(result engine.LValue) (set []Variable, text string) {
	if result == engine.LNil {
		return nil, ""
	}
	t, ok := result.(*engine.LTable)
	if !ok {
		return nil, fmt.Sprintf("has returned %s; it returns a table of variable name = value, or nil", article(result.Type()))
	}
	if t.MaxN() > 0 {
		return nil, "has returned a table with a number for a key; its keys are the variables' names"
	}
	if named(t) > maxVariables {
		return nil, fmt.Sprintf("has returned more than %d variables", maxVariables)
	}
	var faults []string
	size := 0
	t.ForEach(func(key, v engine.LValue) {
		name, isName := key.(engine.LString)
		if !isName {
			faults = append(faults, fmt.Sprintf("has returned a table with %s for a key; its keys are the variables' names", article(key.Type())))
			return
		}
		value, fault := variableOf(string(name), v)
		if fault != "" {
			faults = append(faults, fault)
		}
		if s, isText := value.(string); isText {
			size += len(s)
		}
		size += len(name)
		set = append(set, Variable{Name: string(name), Value: value})
	})
	switch {
	case len(faults) > 0:
		return nil, slices.Min(faults)
	case size > maxAnswer:
		return nil, fmt.Sprintf("has returned %d bytes; names and texts together have at most %d", size, maxAnswer)
	}
	slices.SortFunc(set, func(a, b Variable) int { return strings.Compare(a.Name, b.Name) })
	return set, ""
}

func variableOf(name string, v engine.LValue) (value any, fault string) {
	if name == "" || len(name) > maxVariableName || strings.ContainsFunc(name, notInName) {
		return nil, fmt.Sprintf("has returned the variable %q; a name has 1 to %d letters, digits, _ and .", clip(name, 100), maxVariableName)
	}
	switch v := v.(type) {
	case engine.LBool:
		return bool(v), ""
	case engine.LString:
		return string(v), ""
	case engine.LNumber:
		f := float64(v)
		if f != math.Trunc(f) || math.Abs(f) >= 1<<63 {
			return nil, fmt.Sprintf("has returned %s = %g; HAProxy has whole numbers only: use math.floor, or thousandths", name, f)
		}
		return int64(f), ""
	}
	return nil, fmt.Sprintf("has returned %s for the variable %s; a value is a text, a whole number or a boolean", article(v.Type()), name)
}

// notInName is HAProxy's rule for names of variables.
func notInName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.')
}
