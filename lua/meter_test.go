package lua

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

// manual is a clock that goes when it is told to.
type manual struct{ time time.Time }

func (m *manual) now() time.Time          { return m.time }
func (m *manual) forward(d time.Duration) { m.time = m.time.Add(d) }

// kept keeps what a test allocates.
var kept []byte

// TestMeasuringInACall: a call that allocates much is measured before it ends,
// and that time is not the script's.
func TestMeasuringInACall(t *testing.T) {
	clock, measured, size := &manual{time.Unix(1_700_000_000, 0)}, 0, 1<<20
	m := newMeter(clock.now, func(int, func()) int {
		measured++
		clock.forward(time.Second)
		return size
	})
	look := func(d time.Duration) {
		clock.forward(d)
		m.look()
	}
	m.begin(5 * time.Millisecond)
	look(time.Millisecond)
	kept = make([]byte, callAllowance/2)
	look(time.Millisecond)
	if measured != 0 {
		t.Error("measured before the allowance was used up")
	}
	kept = make([]byte, callAllowance/2)
	look(time.Millisecond)
	if measured != 1 {
		t.Errorf("measured %d times after %d MiB", measured, callAllowance>>20)
	}
	if look(time.Millisecond); m.Err() != nil {
		t.Errorf("after 4 ms: %v", m.Err())
	}
	if look(2 * time.Millisecond); m.Err() == nil || m.Err().Error() != "it ran longer than 5ms" {
		t.Errorf("after 6 ms: %v", m.Err())
	}

	m.begin(5 * time.Millisecond)
	look(time.Millisecond)
	size, kept = memoryLimit+1, make([]byte, callAllowance)
	if look(time.Millisecond); !errors.Is(m.Err(), errMemory) || measured != 2 {
		t.Errorf("over the limit: %v", m.Err())
	}
}

// hold takes the states of an answerer and has each of them measured by a
// function that waits; the values of measuring are the states' numbers.
func hold(a *Answerer) (measuring chan int, goOn chan int) {
	measuring, goOn = make(chan int, cap(a.seats)), make(chan int)
	for i := range cap(a.seats) {
		s := <-a.seats
		s.state.meter.measure = func(int, func()) int {
			measuring <- i
			return <-goOn
		}
		s.state.meter.due = true
		a.seats <- s
	}
	return measuring, goOn
}

// still loads a script for which time stands still.
func still(t *testing.T, text string) *Script {
	t.Helper()
	s, err := Load(write(t, map[string]string{"main.lua": text}), Options{Now: (&manual{time.Unix(1_700_000_000, 0)}).now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const counting = `n = 0 function answer() n = n + 1 return {n = n} end`

// TestNoAnswerWaitsForAMeasurement: all states are due, one is measured at a
// time, after its answer is out, and the others answer meanwhile.
func TestNoAnswerWaitsForAMeasurement(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	a := still(t, counting).NewAnswerer()
	measuring, goOn := hold(a)
	seen := make(map[int]bool)
	for range cap(a.seats) {
		answered := func() {
			if _, _, err := a.Answer("m", nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		answered()
		seen[<-measuring] = true
		for range 20 {
			answered()
		}
		if len(measuring) > 0 {
			t.Error("two states are measured at once")
		}
		goOn <- 1 << 20
		a.Wait()
	}
	if len(seen) != cap(a.seats) || len(a.seats) != cap(a.seats) {
		t.Errorf("%d of %d states were measured, %d have come back", len(seen), cap(a.seats), len(a.seats))
	}
}

// TestOverdueStatesAreNotUsed: those that have run for too long since they were
// due wait for their turn to be measured.
func TestOverdueStatesAreNotUsed(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	a := still(t, counting).NewAnswerer()
	measuring, goOn := hold(a)
	for range cap(a.seats) {
		s := <-a.seats
		s.state.meter.wait = AnswerLimit
		a.seats <- s
	}
	for range cap(a.seats) {
		if _, _, err := a.Answer("m", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	<-measuring
	if len(a.seats) != 0 {
		t.Errorf("%d states are still used", len(a.seats))
	}
	if _, _, err := a.Answer("m", nil, nil); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("error %v", err)
	}
	goOn <- 1 << 20
	for range cap(a.seats) - 1 {
		<-measuring
		goOn <- 1 << 20
	}
	a.Wait()
	if len(a.seats) != cap(a.seats) {
		t.Errorf("%d of %d states have come back", len(a.seats), cap(a.seats))
	}
}

// TestAStateThatKeepsTooMuchIsBegunAnew, once an answer has told why.
func TestAStateThatKeepsTooMuchIsBegunAnew(t *testing.T) {
	s := load(t, counting)
	a := s.NewAnswerer()
	one := <-a.seats
	a.seats = make(chan seat, 1) // the same state for all calls
	one.state.meter.measure, one.state.meter.due = func(int, func()) int { return memoryLimit + 1 }, true
	a.seats <- one
	answers := func() string {
		defer a.Wait()
		set, _, err := a.Answer("m", nil, nil)
		return fmt.Sprint(set, err)
	}
	for i, want := range []string{"[{n 1}] <nil>", "[] " + s.Name() + ": " + errMemory.Error(), "[{n 1}] <nil>", "[{n 2}] <nil>"} {
		if got := answers(); got != want {
			t.Errorf("answer %d: %s, want %s", i, got, want)
		}
	}
}

// TestWeighTellsThatAStateKeepsTooMuch, even when the script fails each time.
func TestWeighTellsThatAStateKeepsTooMuch(t *testing.T) {
	s := load(t, `n = 0 function weigh(servers) n = n + 1 if n > 1 then error("again") end return {s1 = n, s2 = 1} end`)
	w := s.NewWeigher()
	weigh := func() string {
		shares, _, err := w.Weigh(twoServers, Backend{})
		return fmt.Sprint(shares, err)
	}
	due := func() {
		w.state.meter.measure, w.state.meter.due = func(int, func()) int { return memoryLimit + 1 }, true
	}
	_ = weigh()
	w.state = nil
	if got := weigh(); got != "[1 1] <nil>" {
		t.Errorf("first: %s", got)
	}
	due()
	if got := weigh(); got != "[] "+s.Name()+":1: again" || w.state != nil {
		t.Errorf("a failure of its own: %s", got)
	}
	_ = weigh()
	w.state = nil
	st, err := s.newState(nil)
	if err != nil {
		t.Fatal(err)
	}
	w.state = st
	due()
	if got := weigh(); got != "[] "+s.Name()+": "+errMemory.Error() || w.state != nil {
		t.Errorf("too much: %s", got)
	}
}

func bytesOf(name string) int {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	return int(s[0].Value.Uint64())
}

// inUse is what is in use after all garbage has gone.
func inUse() int {
	runtime.GC()
	runtime.GC()
	return bytesOf("/memory/classes/heap/objects:bytes")
}

// TestSizeIsWhatAStateTakes holds the size that is counted against the memory
// of the process.
func TestSizeIsWhatAStateTakes(t *testing.T) {
	for _, body := range []string{
		`local x = {} x.a = kept kept = x`,
		`local x = {a = 1} x.a = kept kept = x`,
		`local x = {} x[1] = kept kept = x`,
		`local x = {} x[true] = kept kept = x`,
		`local x = {` + strings.Repeat("a = nil, ", 250) + `} x.a = kept kept = x`,
		`local x = {a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8, i = 9, j = kept} kept = x`,
		`kept = kept or {} kept[n] = {a = n, b = "x" .. n}`,
		`kept = kept or {} kept["k" .. n] = n`,
		`kept = kept or {} kept["k" .. n] = n kept["k" .. n] = nil`,
		`kept = kept or {} kept["k" .. n] = ("x"):rep(100) .. n`,
		`kept = kept or {} kept[n % 8000 + 1] = n + 0.5`,
		`kept = kept or {} for i = 1, 31 do local _ = i + 0.5 end kept[n % 8000 + 1] = n + 0.5`,
		`local x, f = n, kept kept = function() return x, f end`,
		`local a, b, c, f = n, n, n, kept kept = {function() return a, b, c, f end}`,
		`kept = setmetatable({}, {__index = kept})`,
		`kept = {("x"):gmatch("(x)"), kept}`,
	} {
		w := still(t, "n = 0 function weigh(servers) for i = 1, servers[1].load do n = n + 1 "+body+" end return {s1 = 1, s2 = 1} end").NewWeigher()
		run := func(n float64) {
			t.Helper()
			if _, _, err := w.Weigh([]Server{{Name: "s1", Load: n}, {Name: "s2"}}, Backend{}); err != nil {
				t.Fatalf("%s: %v", body, err)
			}
		}
		run(1)
		const none = 1 << 40
		taken, counted := inUse(), sizeOf(w.state.l, none, nil)
		run(8000)
		taken, counted = inUse()-taken, sizeOf(w.state.l, none, nil)-counted
		runtime.KeepAlive(w)
		if ratio := float64(taken) / float64(counted); ratio < 0.4 || ratio > 1.6 {
			t.Errorf("%s: takes %d KiB, counted are %d", body, taken>>10, counted>>10)
		}
	}
}

// TestWorkIsCounted has functions that work for long in one call: the clock is
// looked at in proportion.
func TestWorkIsCounted(t *testing.T) {
	twelve := func(call string) string { return strings.Repeat(call+" ", 12) }
	const zeros, nils = `a = ("0"):rep(60000)`, `t = {} t[16383] = 1 t[16383] = nil`
	for name, c := range map[string]struct {
		setup, body string
		looks       int
	}{
		"next over removed keys":           {`t = {} for i = 1, 20000 do t["k" .. i] = 1 t["k" .. i] = nil end t.x = 1`, `next(t)`, 15},
		"next over removed numbers":        {`t = {} for i = 1, 20000 do t[-i] = 1 t[-i] = nil end`, `next(t)`, 15},
		"next over nils":                   {nils, twelve(`next(t)`), 10},
		"pairs over removed keys":          {`t = {} for i = 1, 20000 do t["k" .. i] = 1 t["k" .. i] = nil end t.x = 1`, `for k in pairs(t) do end`, 15},
		"table.maxn":                       {nils, twelve(`table.maxn(t)`), 10},
		"table.remove":                     {nils, twelve(`table.remove(t)`), 10},
		"table.insert":                     {nils, twelve(`table.insert(t, nil)`), 10},
		"table.concat":                     {nils, twelve(`table.concat(t)`), 10},
		"table.sort":                       {nils, twelve(`table.sort(t)`), 10},
		"unpack":                           {nils, twelve(`unpack(t)`), 10},
		"rawset of a far index":            {``, twelve(`rawset({}, 16383, 1)`), 10},
		"math.max of texts":                {zeros + ` t = {} for i = 1, 100 do t[i] = a end`, `math.max(unpack(t))`, 90},
		"math.max of many":                 {`t = {} for i = 1, 8000 do t[i] = i end`, `local function f(...) ` + strings.Repeat(`math.max(...) `, 48) + ` end f(unpack(t))`, 30},
		"select of many":                   {`t = {} for i = 1, 8000 do t[i] = i end`, `local function f(...) ` + strings.Repeat(`select("#", ...) `, 48) + ` end f(unpack(t))`, 30},
		"string.char of many":              {`t = {} for i = 1, 8000 do t[i] = 65 end`, `local function f(...) ` + strings.Repeat(`string.char(...) `, 48) + ` end f(unpack(t))`, 30},
		"string.format of texts, %d":       {zeros + ` t = {} for i = 1, 100 do t[i] = a end`, `string.format(("%d"):rep(100), unpack(t))`, 90},
		"string.format of texts, %g":       {zeros + ` t = {} for i = 1, 100 do t[i] = a end`, `string.format(("%g"):rep(100), unpack(t))`, 90},
		"string.format, %q":                {`a = ("\0"):rep(60000)`, twelve(`pcall(string.format, "%q", a)`), 20},
		"string.format, %.1s":              {zeros, twelve(`string.format("%5.1s", a)`), 10},
		"tonumber":                         {zeros, twelve(`tonumber(a)`), 10},
		"parts of strings":                 {zeros, twelve(`a:sub(2)`), 10},
		"string.find of a long text":       {zeros, twelve(`string.find("x", a)`), 10},
		"parsing a pattern":                {`p = ("%a"):rep(128)`, twelve(`string.find("x", p)`), 10},
		"captures":                         {zeros + ` p = ("("):rep(31) .. ".*" .. (")"):rep(31)`, `a:find(p)`, 30},
		"print":                            {zeros, twelve(`print(a)`), 10},
		"errors, whose traces can be long": {``, twelve(`pcall(error, {})`), 10},
	} {
		looks, clock := 0, time.Unix(1_700_000_000, 0)
		s, err := Load(write(t, map[string]string{"main.lua": c.setup + "\nlocal n = 0\nfunction weigh()\nn = n + 1 if n == 3 then " + c.body + " end return {s1 = 1, s2 = 1} end"}),
			Options{Now: func() time.Time { looks++; return clock }})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		w := s.NewWeigher()
		idle := 0
		for range 3 {
			idle, looks = looks, 0
			if _, _, err := w.Weigh(twoServers, Backend{}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if looks -= idle; looks < c.looks {
			t.Errorf("%s: the clock was looked at %d times, want %d and more", name, looks, c.looks)
		}
	}
}

// TestOneCaptureOfMany: what a replacement does not name is not made.
func TestOneCaptureOfMany(t *testing.T) {
	w := still(t, `
		a, p, r = ("x"):rep(60000), "()" .. ("("):rep(31) .. ".*" .. (")"):rep(31), ("%1"):rep(50)
		function weigh() return {s1 = #(a:gsub(p, r)), s2 = 1} end`).NewWeigher()
	before := bytesOf("/gc/heap/allocs:bytes")
	shares, _, err := w.Weigh(twoServers, Backend{})
	if made := bytesOf("/gc/heap/allocs:bytes") - before; err != nil || shares[0] != 300 || made > 16<<20 {
		t.Errorf("%v, error %v, %d MiB made", shares, err, made>>20)
	}
}

// TestLargeResultsAreRefusedAtOnce, however many faults are in them.
func TestLargeResultsAreRefusedAtOnce(t *testing.T) {
	for body, want := range map[string]string{
		`for i = 1, 16000 do t[i] = i end`:         "has returned a table with a number for a key",
		`for i = 1, 16000 do t["k" .. i] = {} end`: "has returned more than 64 variables",
	} {
		a := still(t, "t = {} "+body+" function answer() return t end").NewAnswerer()
		before := bytesOf("/gc/heap/allocs:bytes")
		_, _, err := a.Answer("m", nil, nil)
		if made := bytesOf("/gc/heap/allocs:bytes") - before; err == nil || !strings.Contains(err.Error(), want) || made > 512<<10 {
			t.Errorf("%s: error %v, %d KiB made", body, err, made>>10)
		}
		a.Wait()
	}
}
