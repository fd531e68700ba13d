package lua

import (
	"errors"
	"fmt"
	"time"

	engine "github.com/yuin/gopher-lua"
)

// state is one run of a script, with its globals. It belongs to one goroutine
// at a time.
type state struct {
	script  *Script
	l       *engine.LState
	meter   *meter
	folder  *folder                  // while the script is loaded for the first time
	loaded  map[string]engine.LValue // modules, by name; nil while one is being loaded
	loading bool
	broken  bool
	printed []string // of the present call
	views   views
}

// newState runs the script's top level. folder is where modules come from that
// have not been compiled yet; nil means that all have been.
func (s *Script) newState(folder *folder) (*state, error) {
	st := &state{
		script: s, folder: folder, loaded: make(map[string]engine.LValue), loading: true,
		l: engine.NewState(engine.Options{
			SkipOpenLibs: true, CallStackSize: maxCalls,
			RegistrySize: 1024, RegistryGrowStep: 1024, RegistryMaxSize: maxRegisters,
		}),
	}
	st.meter = newMeter(s.options.Now, func(limit int, rest func()) int { return sizeOf(st.l, limit, rest) })
	st.l.SetContext(st.meter)
	st.open()
	_, err := st.call(st.l.NewFunctionFromProto(s.main.proto), loadLimit)
	st.folder, st.loading = nil, false
	if err != nil {
		return nil, err
	}
	return st, nil
}

// global reads a global without running anything.
func (st *state) global(name string) engine.LValue {
	return st.l.Get(engine.GlobalsIndex).(*engine.LTable).RawGetString(name)
}

// call calls a function within a limit and returns its first result. After an
// error st.spent tells whether the state can be used again.
func (st *state) call(f *engine.LFunction, limit time.Duration, args ...engine.LValue) (engine.LValue, *Error) {
	st.printed = nil
	st.meter.begin(limit)
	err := st.protected(f, args)
	st.meter.end()
	st.views.end()
	if err != nil {
		var api *engine.ApiError
		st.broken = st.broken || errors.As(err, &api) && api.Type == engine.ApiErrorPanic
		return nil, st.script.failure(err)
	}
	result := st.l.Get(-1)
	st.l.SetTop(0)
	return result, nil
}

func (st *state) protected(f *engine.LFunction, args []engine.LValue) (err error) {
	defer func() { // the engine contains panics, and can panic while it words one
		if r := recover(); r != nil {
			st.broken = true
			err = fmt.Errorf("the Lua engine failed: %v", r)
		}
	}()
	st.l.SetTop(0)
	st.l.Push(f)
	for _, a := range args {
		st.l.Push(a)
	}
	return st.l.PCall(len(args), 1, nil)
}

// tend measures what the state keeps, between two calls. After an error it is
// spent. rest is called now and then meanwhile; nil means nothing.
func (st *state) tend(rest func()) *Error {
	if err := st.meter.tend(rest); err != nil {
		st.broken = true
		return &Error{File: st.script.name, Text: err.Error()}
	}
	return nil
}

// spent tells whether the state must not be used again: what ended it could
// have been anywhere, half way through a change of its globals.
func (st *state) spent() bool { return st.broken || st.meter.stopped != nil }
