// Package lua has Lua on both sides: the scripts for HAProxy, embedded, and the
// host of the scripts that users write for the weighter.
//
// A user's script runs in a sandbox, with bounds of time and memory that hold
// for whatever it does: see docs/lua.md for what they are, meter for how they
// are kept, and rewriter, sandbox and the libraries for what had to be taken
// out of the engine's hands for that.
package lua

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	engine "github.com/yuin/gopher-lua"
)

// Limits of a script. What they hold against is in docs/lua.md.
const (
	WeighLimit  = 50 * time.Millisecond // of one call of weigh
	AnswerLimit = 5 * time.Millisecond  // of one call of answer, waiting for a free state included
	loadLimit   = 100 * time.Millisecond

	maxSource    = 128 << 10 // bytes of one file
	maxModules   = 32        // files beside the script
	maxDepth     = 500       // nesting of a source, because the compiler recurses
	maxString    = 64 << 10  // bytes of one string
	maxPattern   = 256       // bytes of a pattern, because the matcher recurses
	maxArray     = 1 << 14   // largest index that is kept as an array
	maxRegisters = 1 << 16   // values on the stack
	maxCalls     = 200       // calls inside calls
	maxPrinted   = 20        // lines of one call
	maxLine      = 200       // bytes of one line
	memoryLimit  = 32 << 20  // bytes that one state keeps
)

// Options are where a script's time and chance come from.
type Options struct {
	Now    func() time.Time // for the limits of time; nil means time.Now
	Random func() float64   // uniform in [0,1), for many goroutines at once; nil means math/rand/v2
	_      struct{}         // fields are named
}

// Script is a file that has been compiled, with the modules that it requires,
// and has run once without an error. It never changes and is safe for
// concurrent use.
type Script struct {
	name    string // path as given, for messages
	main    *source
	modules map[string]*source // by the name that require has
	options Options
	has     map[string]bool // functions that it defines
}

// Error is what is wrong with a script or went wrong in it.
type Error struct {
	File string // of the line: the script or one of its modules
	Line int    // 0: of no line in particular
	Text string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Text
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text)
}

// Load reads and compiles a script and runs it once, so that it is known to
// define its functions. It reads no file later. Modules come from the folder
// that the file is in; when path is a symbolic link, from where that leads. An
// error names the file, and the line where there is one.
func Load(path string, o Options) (*Script, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	s := &Script{name: path, modules: map[string]*source{}, options: o, has: map[string]bool{}}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, &Error{File: path, Text: "can't read the script: " + reason(err)}
	}
	folder, err := openFolder(filepath.Dir(real))
	if err != nil {
		return nil, &Error{File: path, Text: "can't read the script: " + reason(err)}
	}
	defer folder.Close()
	if s.main, err = folder.read(filepath.Base(real), path); err != nil {
		return nil, err
	}
	first, err := s.newState(folder)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"weigh", "answer"} {
		_, s.has[name] = first.global(name).(*engine.LFunction)
	}
	return s, nil
}

// Name is the path that Load was given.
func (s *Script) Name() string { return s.name }

// Need returns an error when the script does not define a function.
func (s *Script) Need(function string) error {
	if s.has[function] {
		return nil
	}
	text := "it defines no function " + function
	for _, other := range []string{"weigh", "answer"} {
		if s.has[other] {
			text += ", though it has " + other
		}
	}
	return &Error{File: s.name, Text: text}
}

// position is how the engine begins a message: "x.lua:12: ".
var position = regexp.MustCompile(`^(.*?):([0-9]+):\s*`)

// located makes an Error of what the engine says. A message without a position
// of ours gets that of the innermost call in trace that has one.
func (s *Script) located(message, trace string) *Error {
	if e := s.atLine(message); e != nil {
		return e
	}
	for line := range strings.Lines(trace) {
		if e := s.atLine(strings.TrimSpace(line)); e != nil {
			e.Text = message
			return e
		}
	}
	return &Error{File: s.name, Text: message}
}

func (s *Script) atLine(message string) *Error {
	m := position.FindStringSubmatch(message)
	if m == nil || !s.isSource(m[1]) {
		return nil
	}
	line, err := strconv.Atoi(m[2])
	if err != nil {
		return nil
	}
	return &Error{File: m[1], Line: line, Text: message[len(m[0]):]}
}

func (s *Script) isSource(name string) bool {
	if name == s.name {
		return true
	}
	for _, m := range s.modules {
		if m.name == name {
			return true
		}
	}
	return false
}

// failure makes an Error of what a protected call returned.
func (s *Script) failure(err error) *Error {
	var api *engine.ApiError
	if !errors.As(err, &api) {
		return s.located(err.Error(), "")
	}
	switch text, isText := api.Object.(engine.LString); {
	case api.Type == engine.ApiErrorPanic:
		return s.located("the Lua engine failed: "+string(text), api.StackTrace)
	case isText:
		return s.located(clip(string(text), 500), api.StackTrace)
	}
	return s.located(fmt.Sprintf("the error is a %s instead of a text", api.Object.Type()), api.StackTrace)
}

// clip cuts a text that a script made for a message.
func clip(s string, most int) string {
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + fmt.Sprintf("... (%d bytes)", len(s))
	}
	return s
}
