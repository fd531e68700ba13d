package lua

import (
	"fmt"
	"math"
	"strings"
	"time"

	engine "github.com/yuin/gopher-lua"
)

// Server is what a script is told of one server. A number that is NaN, and a
// negative one of those that can't be, is nil in the script.
type Server struct {
	Name          string
	Load          float64            // as Graphite has it
	Metrics       map[string]float64 // further values by their names
	Relative      float64            // load for its capacity over the mean of that
	Age           float64            // of the load's data, seconds
	Capacity      float64
	Weight        int     // in force
	InitialWeight int     // in haproxy.cfg
	Share         float64 // of new connections, which the weight in force gives
	Sessions      int     // open now; -1: unknown
	State         string  // "ready", "down", "maint", "drain" or "backup"
}

// Backend is what a script is told of the backend.
type Backend struct {
	Name     string
	Now      time.Time
	Interval time.Duration // between two passes
	Lifetime time.Duration // mean, of connections; 0: unknown
	Mean     float64       // load for a unit of capacity
	Others   []Server      // those that are not weighed
}

// Weigher calls the function weigh of a script. It keeps the script's globals
// from call to call and is not safe for concurrent use.
type Weigher struct {
	script *Script
	state  *state // nil: a new one is made by the next call
}

// NewWeigher returns a weigher with globals of its own.
func (s *Script) NewWeigher() *Weigher { return &Weigher{script: s} }

// Weigh returns a share for each server, on any scale: finite, not negative,
// and one at least above zero. printed is what the script has printed,
// bounded. The error is an *Error; after it nothing of the answer counts.
func (w *Weigher) Weigh(servers []Server, b Backend) (shares []float64, printed []string, err error) {
	if w.state == nil {
		if w.state, err = w.script.newState(nil); err != nil {
			return nil, nil, err
		}
	}
	st := w.state
	weigh, ok := st.global("weigh").(*engine.LFunction)
	if !ok {
		return nil, nil, &Error{File: w.script.name, Text: "it defines no function weigh any more"}
	}
	result, fault := st.call(weigh, WeighLimit, st.servers(servers), st.backend(b))
	printed = st.printed
	if !st.spent() && st.meter.due {
		if err := st.tend(nil); err != nil && fault == nil {
			fault = err
		}
	}
	if st.spent() {
		w.state = nil
	}
	if fault != nil {
		return nil, printed, fault
	}
	shares, text := sharesOf(result, servers)
	if text != "" {
		line := 0
		if weigh.Proto != nil {
			line = weigh.Proto.LineDefined
		}
		return nil, printed, &Error{File: w.script.name, Line: line, Text: "weigh " + text}
	}
	return shares, printed, nil
}

func (st *state) servers(servers []Server) *engine.LTable {
	list := st.l.CreateTable(len(servers), 0)
	for i := range servers {
		list.Append(st.server(&servers[i]))
	}
	return list
}

func (st *state) server(s *Server) *engine.LTable {
	t := st.l.CreateTable(0, 12)
	number := func(key string, v float64) {
		if !math.IsNaN(v) {
			t.RawSetString(key, engine.LNumber(v))
		}
	}
	t.RawSetString("name", engine.LString(s.Name))
	number("load", s.Load)
	number("relative", s.Relative)
	number("age", s.Age)
	number("capacity", s.Capacity)
	number("weight", float64(s.Weight))
	number("initial_weight", float64(s.InitialWeight))
	number("share", s.Share)
	if s.Sessions >= 0 {
		number("sessions", float64(s.Sessions))
	}
	t.RawSetString("state", engine.LString(s.State))
	metrics := st.l.CreateTable(0, len(s.Metrics))
	for name, v := range s.Metrics {
		metrics.RawSetString(name, engine.LNumber(v))
	}
	t.RawSetString("metrics", metrics)
	return t
}

func (st *state) backend(b Backend) *engine.LTable {
	t := st.l.CreateTable(0, 8)
	t.RawSetString("name", engine.LString(b.Name))
	t.RawSetString("now", engine.LNumber(float64(b.Now.UnixMilli())/1000))
	t.RawSetString("time", st.clock(b.Now))
	t.RawSetString("interval", engine.LNumber(b.Interval.Seconds()))
	if b.Lifetime > 0 {
		t.RawSetString("lifetime", engine.LNumber(b.Lifetime.Seconds()))
	}
	t.RawSetString("mean", engine.LNumber(b.Mean))
	t.RawSetString("others", st.servers(b.Others))
	return t
}

// clock is a time as os.date("*t") of Lua has it.
func (st *state) clock(now time.Time) *engine.LTable {
	t := st.l.CreateTable(0, 8)
	for key, v := range map[string]int{
		"year": now.Year(), "month": int(now.Month()), "day": now.Day(), "hour": now.Hour(), "min": now.Minute(),
		"sec": now.Second(), "wday": int(now.Weekday()) + 1, "yday": now.YearDay(),
	} {
		t.RawSetString(key, engine.LNumber(v))
	}
	return t
}

// sharesOf reads what weigh has returned; text says what is wrong with it.
// Metatables have no say in it.
func sharesOf(result engine.LValue, servers []Server) (shares []float64, text string) {
	t, ok := result.(*engine.LTable)
	if !ok {
		return nil, fmt.Sprintf("has returned %s; it returns a table of server name = share", article(result.Type()))
	}
	if stray := strays(t, servers); stray != "" {
		return nil, stray
	}
	shares = make([]float64, len(servers))
	largest := 0.0
	for i := range servers {
		name := servers[i].Name
		v := t.RawGetString(name)
		number, ok := v.(engine.LNumber)
		share := float64(number)
		switch {
		case v == engine.LNil:
			return nil, fmt.Sprintf("has returned no share for server %s; each of the list needs one", name)
		case !ok:
			return nil, fmt.Sprintf("has returned %s for server %s; a share is a number", article(v.Type()), name)
		case math.IsNaN(share):
			return nil, fmt.Sprintf("has returned a share for server %s that is not a number (0/0, for one)", name)
		case math.IsInf(share, 0):
			return nil, fmt.Sprintf("has returned an infinite share for server %s (a division by 0, for one)", name)
		case share < 0:
			return nil, fmt.Sprintf("has returned the negative share %g for server %s", share, name)
		}
		shares[i] = share
		largest = max(largest, share)
	}
	if largest == 0 {
		return nil, "has returned 0 for every server, which says nothing"
	}
	return shares, ""
}

// strays finds keys that are no server's, the first by the alphabet.
func strays(t *engine.LTable, servers []Server) string {
	known := make(map[string]bool, len(servers))
	for i := range servers {
		known[servers[i].Name] = true
	}
	stray, none := "", true
	other := engine.LTNil
	t.ForEach(func(key, _ engine.LValue) {
		name, isName := key.(engine.LString)
		switch {
		case !isName:
			other = max(other, key.Type())
		case !known[string(name)] && (none || string(name) < stray):
			stray, none = string(name), false
		}
	})
	switch {
	case other != engine.LTNil:
		return fmt.Sprintf("has returned a table with %s for a key; its keys are the servers' names", article(other))
	case !none:
		return fmt.Sprintf("has returned a share for %q, which is not in the list of servers", clip(stray, 100))
	}
	return ""
}

func article(t engine.LValueType) string {
	switch t {
	case engine.LTNil:
		return "nil"
	default:
		return "a " + strings.ToLower(t.String())
	}
}
