package lua

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shelf is a View of fixed entries.
type shelf struct {
	names  []string
	values map[string]any
}

func (s shelf) Get(name string) any                        { return s.values[name] }
func (s shelf) Len() int                                   { return len(s.names) }
func (s shelf) At(i int) (string, any)                     { return s.names[i], s.values[s.names[i]] }
func newShelf(names []string, values map[string]any) shelf { return shelf{names, values} }

// library is tables of two backends.
var library = newShelf([]string{"in", "out"}, map[string]any{
	"in": newShelf([]string{"fresh", "load", "none", "servers"}, map[string]any{
		"fresh": true, "load": 1.5,
		"servers": newShelf([]string{"s1", "s2"}, map[string]any{
			"s1": newShelf([]string{"name", "weight"}, map[string]any{"name": "s1", "weight": 10}),
			"s2": newShelf([]string{"name", "weight"}, map[string]any{"name": "s2", "weight": 20}),
		}),
	}),
	"out": newShelf(nil, nil),
})

// answer calls a script's function of this body once.
func answer(t *testing.T, body string, args ...Arg) ([]Variable, error) {
	t.Helper()
	s, err := Load(write(t, map[string]string{"main.lua": "function answer(message, args, table)\n" + body + "\nend"}), Options{Now: patient()})
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := s.NewAnswerer().Answer("my-message", args, library)
	return set, err
}

func TestAnswers(t *testing.T) {
	args := []Arg{{"src", "10.0.0.1"}, {"", int64(7)}, {"secure", true}, {"big", float64(1 << 60)}, {"nothing", nil}}
	for body, want := range map[string][]Variable{
		`return nil`: nil,
		`return {}`:  nil,
		``:           nil,
		`return {m = message, a = args.src, b = args[2], c = args.secure, d = args[1], e = args.nothing == nil, f = args[4]}`: {
			{"a", "10.0.0.1"}, {"b", int64(7)}, {"c", true}, {"d", "10.0.0.1"}, {"e", true}, {"f", int64(1 << 60)}, {"m", "my-message"},
		},
		`return {a = 1e3, b = -5, c = 2^53, d = "", e = false}`: {{"a", int64(1000)}, {"b", int64(-5)}, {"c", int64(1 << 53)}, {"d", ""}, {"e", false}},
		`return {["x.y_Z9"] = "\0ÿ"}`:                           {{"x.y_Z9", "\x00ÿ"}},

		`return {n = #table, first = table[1].load * 2, fresh = table["in"].fresh, no = table.nobody == nil, out = #table.out}`: {
			{"first", int64(3)}, {"fresh", true}, {"n", int64(2)}, {"no", true}, {"out", int64(0)},
		},
		`local s = table["in"].servers return {n = #s, name = s[2].name, w = s.s1.weight, none = s[3] == nil and s[0] == nil and s[1.5] == nil and s[true] == nil}`: {
			{"n", int64(2)}, {"name", "s2"}, {"none", true}, {"w", int64(10)},
		},
		`local t = "" for k, v in pairs(table["in"].servers) do t = t .. k .. v.weight .. " " end return {t = t}`: {{"t", "s110 s220 "}},
		`local t = "" for i, v in ipairs(table["in"].servers) do t = t .. i .. v.name .. " " end return {t = t}`:  {{"t", "1s1 2s2 "}},
		`local t = "" for k in pairs(table["in"]) do t = t .. k .. " " end return {t = t}`:                        {{"t", "fresh load servers "}},
		`local n = 0 for _ in pairs(table) do for _ in pairs(table) do n = n + 1 end end return {n = n}`:          {{"n", int64(4)}},
		`return {t = type(table), meta = getmetatable(table) == nil, same = table == table}`:                      {{"meta", true}, {"same", true}, {"t", "userdata"}},
	} {
		set, err := answer(t, body, args...)
		if diff := cmp.Diff(want, set); err != nil || diff != "" {
			t.Errorf("%s: error %v, -want +got:\n%s", body, err, diff)
		}
	}
}

func TestAnswersThatAreWrong(t *testing.T) {
	for body, want := range map[string]string{
		`return 1`:                      "answer has returned a number; it returns a table of variable name = value, or nil",
		`return true`:                   "answer has returned a boolean",
		`return table`:                  "answer has returned a userdata",
		`return {1}`:                    "answer has returned a table with a number for a key",
		`return {x = 1.5}`:              "answer has returned x = 1.5; HAProxy has whole numbers only",
		`return {x = 0/0}`:              "answer has returned x = NaN; HAProxy has whole numbers only",
		`return {x = 1/0}`:              "answer has returned x = +Inf; HAProxy has whole numbers only",
		`return {x = 2^63}`:             "HAProxy has whole numbers only",
		`return {x = {}}`:               "answer has returned a table for the variable x; a value is a text, a whole number or a boolean",
		`return {x = print}`:            "answer has returned a function for the variable x",
		`return {x = table}`:            "answer has returned a userdata for the variable x",
		`return {[""] = 1}`:             `answer has returned the variable ""; a name has 1 to 64 letters`,
		`return {["a b"] = 1}`:          `answer has returned the variable "a b"`,
		`return {["ä"] = 1}`:            `answer has returned the variable "ä"`,
		`return {[("x"):rep(65)] = 1}`:  "answer has returned the variable",
		`return {x = ("x"):rep(10000)}`: "answer has returned 10001 bytes; names and texts together have at most 8192",
		`local t = {} for i = 1, 100 do t["v" .. i] = i end return t`: "answer has returned more than 64 variables",
		`while true do end`:                 "it ran longer than 5ms",
		`table.x = 1`:                       "the tables can't be changed from a script",
		`table["in"].servers.s1.weight = 1`: "the tables can't be changed from a script",
		`return next(table)`:                "table expected, got userdata",
		`rawset(table, "x", 1)`:             "table expected, got userdata",
		`setmetatable(table, {})`:           "table expected, got userdata",
		`for _ in pairs(1) do end`:          "table expected, got number",
		`for _ in ipairs(nil) do end`:       "table expected, got nil",
		`return {x = table.nobody.load}`:    "attempt to index a non-table object(nil) with key 'load'",
	} {
		set, err := answer(t, body)
		var e *Error
		if !errors.As(err, &e) || set != nil || !strings.Contains(e.Text, want) || e.Line == 0 {
			t.Errorf("%s: set %v, error %v, want %s", body, set, err, want)
		}
	}
}

// TestViewsEndWithTheirCall: a script that keeps one must not keep a table of
// long ago in memory, nor answer from it.
func TestViewsEndWithTheirCall(t *testing.T) {
	s := load(t, `
		function answer(message, args, table)
			if message == "keep" then kept = table["in"] iterator, view = pairs(table) return {ok = true} end
			if message == "iterate" then iterator(view) end
			return {load = kept.load}
		end`)
	a := s.NewAnswerer()
	a.seats = make(chan seat, 1) // the same state for all calls
	a.seats <- a.newSeat()
	if _, _, err := a.Answer("keep", nil, library); err != nil {
		t.Fatal(err)
	}
	for _, message := range []string{"use", "iterate"} {
		_, _, err := a.Answer(message, nil, library)
		if want := "this view of the tables was for an earlier call"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", message, err, want)
		}
	}
}

// TestAnswersDoNotQueue has an answer that takes all its time in every state
// but one: the others go on in that one.
func TestAnswersDoNotQueue(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	blocked, release := make(chan struct{}), make(chan struct{})
	a := load(t, `function answer(message, args, table) return {x = table.x} end`).NewAnswerer()
	<-a.seats // the one more
	if len(a.seats) != 2 {
		t.Fatalf("%d states", len(a.seats))
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _, _ = a.Answer("m", nil, gate{blocked, release}) // it may be late by then
	})
	<-blocked
	for range 100 {
		if set, _, err := a.Answer("m", nil, newShelf(nil, map[string]any{"x": 5})); err != nil || set[0].Value != int64(5) {
			t.Fatalf("set %v, error %v", set, err)
		}
	}
	close(release)
	wg.Wait()
}

// gate is a View whose reader waits.
type gate struct{ blocked, release chan struct{} }

func (g gate) Get(string) any {
	close(g.blocked)
	<-g.release
	return 1
}
func (g gate) Len() int             { return 0 }
func (g gate) At(int) (string, any) { return "", nil }

// TestAnswersWaitNoLongerThanTheirLimit has all states taken.
func TestAnswersWaitNoLongerThanTheirLimit(t *testing.T) {
	a := load(t, `function answer() return {x = 1} end`).NewAnswerer()
	for range cap(a.seats) {
		<-a.seats
	}
	want := fmt.Sprintf("all %d states were busy for 5ms", cap(a.seats))
	if _, _, err := a.Answer("m", nil, nil); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	a.seats <- a.newSeat()
	if _, _, err := a.Answer("m", nil, nil); err != nil {
		t.Error(err)
	}
}

// TestAnswersAtOnce has many goroutines and more failures than states.
func TestAnswersAtOnce(t *testing.T) {
	s := load(t, `
		n = 0
		function answer(message, args)
			n = n + 1
			if args.n % 3 == 0 then error("third") end
			if args.n % 50 == 1 then while true do end end
			return {n = args.n}
		end`)
	a := s.NewAnswerer()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				n := int64(50*g + i)
				set, _, err := a.Answer("m", []Arg{{"n", n}}, nil)
				switch {
				case err == nil && (n%3 == 0 || n%50 == 1 || set[0].Value != n):
					t.Errorf("%d: set %v", n, set)
				case err != nil && n%3 != 0 && n%50 != 1 && !strings.Contains(err.Error(), "busy") && !strings.Contains(err.Error(), "longer"):
					t.Errorf("%d: %v", n, err)
				}
			}
		})
	}
	wg.Wait()
	a.Wait()
	if len(a.seats) != cap(a.seats) {
		t.Errorf("%d of %d states have come back", len(a.seats), cap(a.seats))
	}
}

// TestStateThatFailsToBegin: the script ran when it was loaded and does not now.
func TestStateThatFailsToBegin(t *testing.T) {
	luck := 0.1
	s, err := Load(write(t, map[string]string{"main.lua": `if math.random() > 0.5 then error("unlucky") end function answer() end`}),
		Options{Random: func() float64 { return luck }})
	if err != nil {
		t.Fatal(err)
	}
	luck = 0.9
	a := s.NewAnswerer()
	for range cap(a.seats) {
		if _, _, err := a.Answer("m", nil, nil); err == nil || !strings.HasSuffix(err.Error(), "main.lua:1: unlucky") {
			t.Errorf("error %v", err)
		}
		a.Wait()
	}
	if len(a.seats) != cap(a.seats) {
		t.Errorf("%d of %d states have come back", len(a.seats), cap(a.seats))
	}
	luck = 0.1
	failed := 0
	for range 2 * cap(a.seats) { // the first in each of them still tells
		if _, _, err := a.Answer("m", nil, nil); err != nil {
			failed++
		}
		a.Wait()
	}
	if failed != cap(a.seats) {
		t.Errorf("%d answers have failed of the first %d", failed, cap(a.seats))
	}
}
