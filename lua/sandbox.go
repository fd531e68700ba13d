package lua

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"unicode/utf8"

	engine "github.com/yuin/gopher-lua"
)

func init() {
	// The engine fills an array up to any index below this one with nil, in a
	// single instruction: its own bound stands for a gigabyte. It is read by
	// all states of the process, of which this package makes all.
	engine.MaxArrayIndex = maxArray
	// The table "arg" of Lua 5.0 copies every argument at each call.
	engine.CompatVarArg = false
}

// safeBase are the engine's own functions that a script may have. All others
// reach files, code or the process, or are made here with a bound.
var safeBase = []string{
	"assert", "rawequal", "rawget", "rawset", "select", "tonumber", "type",
}

var safeMath = []string{
	"abs", "acos", "asin", "atan", "atan2", "ceil", "cos", "cosh", "deg", "exp", "floor", "fmod", "frexp", "ldexp",
	"log", "log10", "max", "min", "modf", "pow", "rad", "sin", "sinh", "sqrt", "tan", "tanh",
}

var (
	baseFunctions = sync.OnceValue(func() map[string]engine.LGFunction { return pick(engine.OpenBase, safeBase) })
	mathFunctions = sync.OnceValue(func() map[string]engine.LGFunction { return pick(engine.OpenMath, safeMath) })
)

// pick takes functions out of one of the engine's libraries.
func pick(library engine.LGFunction, names []string) map[string]engine.LGFunction {
	scratch := engine.NewState(engine.Options{SkipOpenLibs: true})
	defer scratch.Close()
	scratch.Push(scratch.NewFunction(library))
	scratch.Call(0, 1)
	from, picked := scratch.Get(-1).(*engine.LTable), make(map[string]engine.LGFunction)
	for _, name := range names {
		picked[name] = from.RawGetString(name).(*engine.LFunction).GFunction
	}
	return picked
}

// What Lua has and a script here has not, so that the error says so instead of
// naming a nil.
var (
	absentLibraries = []string{"coroutine", "debug", "io", "os", "package"}
	absentFunctions = []string{"collectgarbage", "dofile", "getfenv", "load", "loadfile", "loadstring", "module", "newproxy", "setfenv"}
)

// forbid puts an error in the place of what is absent.
func (st *state) forbid(globals *engine.LTable) {
	raise := func(name string) *engine.LFunction {
		return st.l.NewFunction(func(l *engine.LState) int {
			l.RaiseError("%s is not there: a script reaches no file, no program, no clock and no code but its own; docs/lua.md lists what there is", name)
			return 0
		})
	}
	for _, name := range absentFunctions {
		globals.RawSetString(name, raise(name))
	}
	for _, name := range absentLibraries {
		library, meta := st.l.CreateTable(0, 0), st.l.CreateTable(0, 1)
		meta.RawSetString("__index", raise(name))
		library.Metatable = meta
		globals.RawSetString(name, library)
	}
}

// open fills the globals of a new state.
func (st *state) open() {
	l := st.l
	globals := l.Get(engine.GlobalsIndex).(*engine.LTable)
	for name, f := range baseFunctions() {
		globals.RawSetString(name, l.NewFunction(st.counted(f)))
	}
	maths := l.NewTable()
	for name, f := range mathFunctions() {
		maths.RawSetString(name, l.NewFunction(st.numeric(f)))
	}
	maths.RawSetString("pi", engine.LNumber(math.Pi))
	maths.RawSetString("huge", engine.LNumber(math.Inf(1)))
	l.SetFuncs(maths, map[string]engine.LGFunction{"random": st.random})

	l.SetFuncs(globals, map[string]engine.LGFunction{
		concatName: st.concat, "error": raise, "getmetatable": getMetatable, "setmetatable": setMetatable, "ipairs": st.ipairs, "next": st.next, "pairs": st.pairs,
		"pcall": st.pcall, "rawset": st.rawSet(baseFunctions()["rawset"]), "xpcall": st.xpcall, "print": st.print, "require": st.require, "tostring": toString, "unpack": st.unpack,
	})
	st.forbid(globals)
	globals.RawSetString("_G", globals)
	globals.RawSetString("_VERSION", engine.LString("Lua 5.1"))
	globals.RawSetString("math", maths)
	globals.RawSetString("table", st.tables())
	globals.RawSetString("string", st.strings())
	// Methods of strings come from a table that no script can reach.
	hidden := l.NewTable()
	hidden.RawSetString("__index", st.strings())
	hidden.RawSetString("__metatable", engine.LFalse)
	l.SetMetatable(engine.LString(""), hidden)
	st.views.open(l)
}

// random is math.random, without a seed to set.
func (st *state) random(l *engine.LState) int {
	low, high := 1, 0
	switch l.GetTop() {
	case 0:
		l.Push(engine.LNumber(st.script.options.Random()))
		return 1
	case 1:
		high = l.CheckInt(1)
	default:
		low, high = l.CheckInt(1), l.CheckInt(2)
	}
	if high < low {
		l.ArgError(l.GetTop(), "the interval is empty")
	}
	l.Push(engine.LNumber(float64(low) + math.Floor(st.script.options.Random()*(float64(high)-float64(low)+1))))
	return 1
}

// getMetatable shows the metatables of tables only.
func getMetatable(l *engine.LState) int {
	l.CheckAny(1)
	result := engine.LNil
	if t, ok := l.Get(1).(*engine.LTable); ok {
		result = l.GetMetatable(t)
	}
	l.Push(result)
	return 1
}

// setMetatable sets those of tables only: the engine's would take a number or
// a nil, and set what all numbers have.
func setMetatable(l *engine.LState) int {
	t := l.CheckTable(1)
	l.CheckTypes(2, engine.LTNil, engine.LTTable)
	if l.GetMetaField(t, "__metatable") != engine.LNil {
		l.RaiseError("cannot change a protected metatable")
	}
	l.SetMetatable(t, l.Get(2))
	l.SetTop(1)
	return 1
}

// raise is Lua's error. The engine's takes level 2 for level 1.
func raise(l *engine.LState) int {
	value, level := l.Get(1), l.OptInt(2, 1)
	if message, ok := value.(engine.LString); ok && level > 0 && level <= maxCalls {
		if at := l.Where(level); at != "" && !strings.HasPrefix(at, "[G]") {
			value = engine.LString(at + " " + clip(string(message), maxString))
		}
	}
	l.Error(value, 0)
	return 0
}

// pcall is Lua's, but for what ends a script: no call inside of it catches that.
func (st *state) pcall(l *engine.LState) int {
	l.CheckAny(1)
	if err := l.PCall(l.GetTop()-1, engine.MultRet, nil); err != nil {
		return st.caught(l, err)
	}
	l.Insert(engine.LTrue, 1)
	return l.GetTop()
}

// xpcall is Lua's, with the same exception.
func (st *state) xpcall(l *engine.LState) int {
	l.CheckAny(1)
	handler := l.CheckFunction(2)
	l.SetTop(2)
	l.Push(l.Get(1))
	if err := l.PCall(0, engine.MultRet, handler); err != nil {
		return st.caught(l, err)
	}
	l.Insert(engine.LTrue, 3)
	return l.GetTop() - 2
}

// caught gives an error to the script. One that ends the script goes on as it
// is: the engine writes a trace for each new one, which takes long at depth.
func (st *state) caught(l *engine.LState, err error) int {
	var api *engine.ApiError
	if !errors.As(err, &api) || st.meter.stopped != nil || api.Type == engine.ApiErrorPanic {
		panic(err)
	}
	st.meter.spend(l, workPerLook) // the trace can be of very many calls
	l.Push(engine.LFalse)
	l.Push(api.Object)
	return 2
}

// print keeps what a script prints for whoever called it, bounded.
func (st *state) print(l *engine.LState) int {
	var line strings.Builder
	for i := 1; i <= l.GetTop(); i++ {
		if i > 1 {
			line.WriteByte('\t')
		}
		line.WriteString(display(l, l.Get(i)))
		if line.Len() > maxString {
			break
		}
	}
	st.meter.spend(l, line.Len()+1)
	switch n := len(st.printed); {
	case n < maxPrinted:
		st.printed = append(st.printed, printable(line.String()))
	case n == maxPrinted:
		st.printed = append(st.printed, "... (a call prints no more)")
	}
	return 0
}

// printable is a line of print for a log.
func printable(s string) string {
	if len(s) <= maxLine {
		return strings.ToValidUTF8(s, "?")
	}
	end := maxLine
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return fmt.Sprintf("%s... (%d bytes)", strings.ToValidUTF8(s[:end], "?"), len(s))
}

func toString(l *engine.LState) int {
	l.Push(engine.LString(display(l, l.CheckAny(1))))
	return 1
}

// require runs a module of the script's folder, once for each state.
func (st *state) require(l *engine.LState) int {
	name := l.CheckString(1)
	if v, ok := st.loaded[name]; ok {
		if v == nil {
			l.RaiseError("module %s requires itself, by way of others or not", name)
		}
		l.Push(v)
		return 1
	}
	module, ok := st.script.modules[name]
	switch {
	case ok && st.loading:
	case !st.loading:
		l.RaiseError("require works while the script is loaded only: call it at the top of the file, outside of functions")
	case st.folder == nil:
		l.RaiseError("module %s was not required when the script was loaded first", clip(name, 100))
	case len(st.script.modules) >= maxModules:
		l.RaiseError("require: a script has at most %d modules", maxModules)
	default:
		var err error
		if module, err = st.folder.module(name); err != nil {
			l.RaiseError("%s", err.Error())
		}
		st.script.modules[name] = module
	}
	st.loaded[name] = nil
	l.Push(l.NewFunctionFromProto(module.proto))
	l.Push(engine.LString(name))
	l.Call(1, 1)
	result := l.Get(-1)
	if result == engine.LNil {
		result = engine.LTrue
	}
	st.loaded[name] = result
	l.Push(result)
	return 1
}
