package lua

import (
	"fmt"
	"math"

	engine "github.com/yuin/gopher-lua"
)

// View is something that a script may read and not change, handed over without
// being copied: entries in an order, each with a name. A script reads view.name
// and view[1], #view, and all with pairs or, by number, with ipairs. A value is
// nil, a bool, an int, a float64, a string or another View. It is asked in the
// goroutine of the call, and not after it.
type View interface {
	Get(name string) any
	Len() int
	At(i int) (name string, value any) // 0 <= i < Len()
}

// views are those that a state has handed to the script in the present call.
type views struct {
	meta  *engine.LTable
	given []*handle
}

// handle is one of them. After the call it is empty: a script that keeps it
// must not keep the table of an earlier pass in memory.
type handle struct{ view View }

// open makes the metatable that all views of a state have.
func (v *views) open(l *engine.LState) {
	v.meta = l.SetFuncs(l.NewTable(), map[string]engine.LGFunction{
		"__index": v.index, "__len": length, "__newindex": readOnly,
	})
	v.meta.RawSetString("__metatable", engine.LFalse)
}

// end takes back what was given in a call.
func (v *views) end() {
	for _, h := range v.given {
		h.view = nil
	}
	clear(v.given)
	v.given = v.given[:0]
}

// value makes a Lua value of what a View gives.
func (v *views) value(l *engine.LState, value any) engine.LValue {
	switch value := value.(type) {
	case nil:
		return engine.LNil
	case bool:
		return engine.LBool(value)
	case int:
		return engine.LNumber(value)
	case float64:
		if math.IsNaN(value) {
			return engine.LNil
		}
		return engine.LNumber(value)
	case string:
		return engine.LString(value)
	case View:
		h := &handle{view: value}
		v.given = append(v.given, h)
		return &engine.LUserData{Value: h, Metatable: v.meta, Env: l.Env}
	}
	panic(fmt.Sprintf("a view has a %T", value)) // a mistake of ours; the engine contains it
}

// viewOf gives the view behind a value; nil when it is something else.
func viewOf(l *engine.LState, value engine.LValue) View {
	data, ok := value.(*engine.LUserData)
	if !ok {
		return nil
	}
	h, ok := data.Value.(*handle)
	switch {
	case !ok:
		return nil
	case h.view == nil:
		l.RaiseError("this view of the tables was for an earlier call; read it from the argument of each call")
	}
	return h.view
}

func checkView(l *engine.LState, n int) View {
	view := viewOf(l, l.Get(n))
	if view == nil {
		l.ArgError(n, "is no view of the tables")
	}
	return view
}

func (v *views) index(l *engine.LState) int {
	view := checkView(l, 1)
	switch key := l.Get(2).(type) {
	case engine.LString:
		l.Push(v.value(l, view.Get(string(key))))
	case engine.LNumber:
		l.Push(v.at(l, view, float64(key)))
	default:
		l.Push(engine.LNil)
	}
	return 1
}

// at gives the entry of a number from 1 on, nil outside of the view.
func (v *views) at(l *engine.LState, view View, n float64) engine.LValue {
	if n != math.Trunc(n) || n < 1 || n > float64(view.Len()) {
		return engine.LNil
	}
	_, value := view.At(int(n) - 1)
	return v.value(l, value)
}

func length(l *engine.LState) int {
	l.Push(engine.LNumber(checkView(l, 1).Len()))
	return 1
}

func readOnly(l *engine.LState) int {
	l.RaiseError("the tables can't be changed from a script")
	return 0
}

// next steps through a view by its numbers, for pairs: the control variable is
// the name, so the step counts in an upvalue.
func (v *views) next(l *engine.LState) int {
	view := checkView(l, 1)
	i := int(l.Get(engine.UpvalueIndex(1)).(engine.LNumber))
	for ; i < view.Len(); i++ {
		name, value := view.At(i)
		if value == nil {
			continue
		}
		l.Replace(engine.UpvalueIndex(1), engine.LNumber(i+1))
		l.Push(engine.LString(name))
		l.Push(v.value(l, value))
		return 2
	}
	l.Push(engine.LNil)
	return 1
}
