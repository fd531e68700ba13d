package lua

import (
	"math"
	"strings"
	"sync"

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
	"assert", "error", "next", "pcall", "rawequal", "rawget", "rawset", "select",
	"tonumber", "tostring", "type", "xpcall",
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

// open fills the globals of a new state.
func (st *state) open() {
	l := st.l
	globals := l.Get(engine.GlobalsIndex).(*engine.LTable)
	l.SetFuncs(globals, baseFunctions())
	maths := l.NewTable()
	l.SetFuncs(maths, mathFunctions())
	maths.RawSetString("pi", engine.LNumber(math.Pi))
	maths.RawSetString("huge", engine.LNumber(math.Inf(1)))
	l.SetFuncs(maths, map[string]engine.LGFunction{"random": st.random})

	l.SetFuncs(globals, map[string]engine.LGFunction{
		concatName: st.concat, "getmetatable": getMetatable, "setmetatable": setMetatable, "ipairs": st.ipairs, "pairs": st.pairs,
		"print": st.print, "require": st.require, "unpack": st.unpack,
	})
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

// print keeps what a script prints for whoever called it, bounded.
func (st *state) print(l *engine.LState) int {
	var line strings.Builder
	for i := 1; i <= l.GetTop(); i++ {
		if i > 1 {
			line.WriteByte('\t')
		}
		line.WriteString(l.ToStringMeta(l.Get(i)).String())
		if line.Len() > maxString {
			break
		}
	}
	switch n := len(st.printed); {
	case n < maxPrinted:
		st.printed = append(st.printed, clip(strings.ToValidUTF8(line.String(), "?"), maxLine))
	case n == maxPrinted:
		st.printed = append(st.printed, "... (a call prints no more)")
	}
	return 0
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
