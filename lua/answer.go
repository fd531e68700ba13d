package lua

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
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
// answers do not wait for one another.
type Answerer struct {
	script *Script
	states chan *state // holds those that are free; nil stands for one to be made when it is taken
}

// NewAnswerer returns an answerer with its states made, so that no answer has
// to wait for the script's top level.
func (s *Script) NewAnswerer() *Answerer {
	a := &Answerer{script: s, states: make(chan *state, runtime.GOMAXPROCS(0))}
	for range cap(a.states) {
		st, err := s.newState(nil)
		if err != nil { // it ran when it was loaded: the first answer tries again, and tells
			st = nil
		}
		a.states <- st
	}
	return a
}

// Answer returns what the script sets for a message, sorted by name; none when
// it returns nil. It takes AnswerLimit at most, waiting for a state included.
// The error is an *Error; nothing is set then.
func (a *Answerer) Answer(message string, args []Arg, tables View) (set []Variable, printed []string, err error) {
	st, limit, err := a.take()
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if st.spent() {
			st = nil
		}
		a.states <- st
	}()
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
	var st *state
	left := AnswerLimit
	select {
	case st = <-a.states:
	default:
		began := a.script.options.Now()
		timer := time.NewTimer(AnswerLimit)
		defer timer.Stop()
		select {
		case st = <-a.states:
			left -= a.script.options.Now().Sub(began)
		case <-timer.C:
			return nil, 0, a.busy()
		}
	}
	if left <= 0 {
		a.states <- st
		return nil, 0, a.busy()
	}
	if st != nil {
		return st, left, nil
	}
	st, err := a.script.newState(nil)
	if err != nil {
		a.states <- nil
		return nil, 0, err
	}
	return st, left, nil
}

func (a *Answerer) busy() error {
	return &Error{File: a.script.name, Text: fmt.Sprintf("all %d states were busy for %s", cap(a.states), AnswerLimit)}
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
	var faults []string
	size := 0
	t.ForEach(func(key, v engine.LValue) {
		if len(set) > maxVariables {
			return
		}
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
	case len(set) > maxVariables:
		return nil, fmt.Sprintf("has returned more than %d variables", maxVariables)
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
