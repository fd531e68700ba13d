package lua

import (
	"math"
	"os"
	"os/exec"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

// hostile are bodies of functions that try to break out, to take all memory or
// never to return, and a part of the error that each must give.
var hostile = []struct{ name, body, want string }{
	{"endless loop", `while true do end`, "it ran longer than 50ms"},
	{"endless goto", `::again:: goto again`, "it ran longer than 50ms"},
	{"endless repeat in pcall", `while true do pcall(function() while true do end end) end`, "it ran longer than 50ms"},
	{"endless loop in an error handler", `xpcall(error, function() while true do end end) while true do end`, "it ran longer than 50ms"},
	{"endless tail calls", `local function f() return f() end return f()`, "it ran longer than 50ms"},
	{"error under a million tail calls", `local function f(n) if n == 0 then error("deep") end return f(n - 1) end return f(1e6)`, ""},
	{"endless numeric loop of a builtin", `for i = 1, math.huge do string.len("x") end`, "it ran longer than 50ms"},
	{"endless generic loop", `for _ in function() return 1 end do end`, "it ran longer than 50ms"},

	{"deep recursion", `local function f() return 1 + f() end return f()`, "stack overflow"},
	{"deep recursion by pcall", `local function f() return pcall(f), f() end f()`, ends},
	{"recursion by __index", `local t = setmetatable({}, {__index = function(t, k) return t[k] end}) return t.x`, "stack overflow"},
	{"chain of __index", `local t = {} setmetatable(t, {__index = t}) return t.x`, "too many recursions"},
	{"chain of __newindex", `local t = {} setmetatable(t, {__newindex = t}) t.x = 1`, "too many recursions"},
	{"recursion by __call", `local t = {} setmetatable(t, {__call = function(self) return 1 + self() end}) return t()`, "stack overflow"},
	{"recursion by __tostring", `local t = setmetatable({}, {__tostring = function(t) return tostring(t) end}) return tostring(t)`, "stack overflow"},
	{"recursion by __concat", `local t = {} setmetatable(t, {__concat = function(a, b) return a .. b end}) return t .. "x"`, "stack overflow"},
	{"recursion by __eq", `local mt = {} mt.__eq = function(a, b) return a == b and 1 end return setmetatable({}, mt) == setmetatable({}, mt)`, "stack overflow"},
	{"recursion by __lt", `local mt = {} mt.__lt = function(a, b) return not (a < b) end return setmetatable({}, mt) < setmetatable({}, mt)`, "stack overflow"},
	{"recursion by __add", `local mt = {} mt.__add = function(a, b) return 1 + (a + b) end return setmetatable({}, mt) + 1`, "stack overflow"},
	{"recursion by __unm", `local mt = {} mt.__unm = function(a) return 1 + -a end return -setmetatable({}, mt)`, "stack overflow"},
	{"recursion by __len", `local mt = {} mt.__len = function(a) return 1 + #a end return #setmetatable({}, mt)`, "stack overflow"},
	{"recursion by table.sort", `local function f() table.sort({3, 2, 1}, function(a, b) f() return a < b end) end f()`, "stack overflow"},
	{"recursion by string.gsub", `local function f() return (string.gsub("x", "x", f)) end f()`, "stack overflow"},
	{"recursion by print", `local t = setmetatable({}, {__tostring = function(t) print(t) return "" end}) print(t)`, "stack overflow"},

	{"string.rep bomb", `return string.rep("x", 1e9)`, "string.rep: the result would be longer than 64 KiB"},
	{"string.rep of a lot", `return string.rep("x", 2^62)`, "string.rep: the result would be longer than 64 KiB"},
	{"string.rep of a method", `return ("x"):rep(1e9)`, "string.rep: the result would be longer than 64 KiB"},
	{"doubling", `local s = "x" while true do s = s .. s end`, "..: the result would be longer than 64 KiB"},
	{"doubling in a table", `local t, s = {}, ("x"):rep(60000) while true do t[#t + 1] = s .. #t end`, ends},
	{"doubling by table.concat", `local t = {("x"):rep(60000), "y"} while true do t[1] = table.concat(t) t[2] = t[1] end`, "table.concat: the result would be longer"},
	{"doubling by gsub", `local s = "x" while true do s = s:gsub(".", "%0%0%0%0") end`, "string.gsub: the result would be longer"},
	{"gsub of a function with large results", `return ("x"):rep(60000):gsub(".", function() return ("y"):rep(60000) end)`, "string.gsub: the result would be longer"},
	{"format with a huge width", `return string.format("%999999999d", 1)`, "two digits"},
	{"format with many widths", `return string.format(("%99d"):rep(5000), unpack({}))`, "number expected"},
	{"format of many texts", `local s = ("x"):rep(60000) return string.format("%s%s%s%s", s, s, s, s)`, "string.format: the result would be longer"},
	{"string.byte of a lot", `local s = ("x"):rep(60000) return s:byte(1, -1)`, "more than 8192 values"},
	{"string.char of a lot", `return string.char(unpack({}, 1, 1e7))`, "unpack: more than 8192 values"},
	{"unpack of a lot", `return unpack({}, 1, 1e9)`, "unpack: more than 8192 values"},
	{"unpack of extremes", `return unpack({}, -2^63, 2^63)`, "unpack"},
	{"many results, many times", `local function f(...) return ..., ... end local t = {} for i = 1, 8000 do t[i] = i end local r = {} while true do r[#r + 1] = {unpack(t)} end`, ends},
	{"arguments that double", `local function f(...) return f(1, ...) end return f()`, ends},
	{"a huge index", `local t = {} for i = 1, 1e6 do t = {[16383] = t} end`, ends},
	{"a huge index each time", `while true do local t = {} t[16383] = 1 end`, ends},
	{"rawset of a huge index", `while true do rawset({}, 16383, 1) end`, ends},
	{"names one by one", `local t = {} while true do local x = {} x.a = t t = x end`, ends},
	{"numbers of a block each", `local t = {} while true do for i = 1, 31 do local _ = i + 0.5 end t[#t + 1] = #t + 0.5 if #t > 16000 then t = {t} end end`, ends},
	{"next over removed keys", `local t = {} for i = 1, 3e4 do t["k" .. i] = 1 t["k" .. i] = nil end while true do next(t) end`, ends},
	{"texts for numbers", `local t, s = {}, ("0"):rep(65536) for i = 1, 8000 do t[i] = s end math.max(unpack(t))`, ends},
	{"texts for formats", `local t, s = {}, ("0"):rep(65536) for i = 1, 8000 do t[i] = s end string.format(("%d"):rep(8000), unpack(t))`, ends},
	{"captures of a replacement", `local s = ("x"):rep(65536) while true do s:gsub("()" .. ("("):rep(31) .. ".*" .. (")"):rep(31), ("%1"):rep(30000)) end`, "string.gsub: the result would be longer"},
	{"errors under many tail calls", `local function f(n) if n > 0 then return f(n - 1) end while true do pcall(error, {}) end end f(15000)`, ends},
	{"an absurd index", `local t = {} t[2^26 - 1] = 1 t[2^53] = 1 return t`, "has returned a table with a number for a key"},
	{"table.insert at an absurd index", `table.insert({}, 2^40, 1)`, "outside of the list"},
	{"table.insert at the front for ever", `local t = {} while true do table.insert(t, 1, t) end`, ends},
	{"table.insert without end", `local t = {} while true do table.insert(t, 1) end`, ""},
	{"tables without end", `local t = {} while true do t = {t} end`, ends},
	{"tables with names without end", `local t = {} while true do t = {a = t} end`, ends},
	{"keys without end", `local t = {} local i = 0 while true do i = i + 1 t["k" .. i] = i end`, ends},
	{"keys come and go without end", `local t = {} local i = 0 while true do i = i + 1 t["k" .. i] = i t["k" .. i] = nil end`, ends},
	{"closures without end", `local t = {} while true do local x = #t t[x + 1] = function() return x end end`, ends},
	{"parts of large strings", `local t = {} while true do t[#t + 1] = (("x"):rep(60000) .. #t):sub(1, 1) end`, ends},
	{"captures of large strings", `local t = {} while true do t[#t + 1] = (("x"):rep(60000) .. #t):match("^(x)") end`, ends},
	{"iterators of large strings", `local t = {} while true do t[#t + 1] = (("x"):rep(60000) .. #t):gmatch("x") end`, ends},
	{"large error messages", `local t = {} while true do local _, m = pcall(error, ("x"):rep(60000) .. #t) t[#t + 1] = m end`, ends},
	{"errors with large keys", `local t = {} while true do local _, m = pcall(function() return (nil)[("x"):rep(60000) .. #t] end) t[#t + 1] = m end`, ends},
	{"garbage without end", `while true do local _ = ("x"):rep(60000) .. "y" end`, ends},
	{"sort of long strings", `local t, s = {}, ("x"):rep(60000) for i = 1, 20000 do t[i] = s end table.sort(t) table.sort(t, function(a, b) return a < b end)`, ends},
	{"sort with a lying order", `local t = {} for i = 1, 60000 do t[i] = i end while true do table.sort(t, function() return true end) end`, ends},
	{"sort that changes its table", `local t = {} for i = 1, 100 do t[i] = 100 - i end table.sort(t, function(a, b) t[1] = nil table.remove(t) return a < b end) return t`, "has returned"},
	{"sort of nils", `local t = {1, nil, 3} table.sort(t, function(a, b) return a < b end)`, ""},

	{"pattern that backtracks", `return (("a"):rep(60000)):find(("a-"):rep(60) .. "b")`, "it ran longer than 50ms"},
	{"pattern that backtracks more", `return (("a"):rep(30)):match(("a*"):rep(100) .. "b")`, "it ran longer than 50ms"},
	{"pattern that balances", `return (("("):rep(60000)):find("%b()")`, "it ran longer than 50ms"},
	{"pattern too long", `return ("x"):find(("(x)"):rep(1000))`, "a pattern has at most 256 bytes"},
	{"pattern with too many captures", `return ("x"):find(("()"):rep(50))`, "a pattern has at most 32 captures"},
	{"gmatch of nothing for ever", `for _ in ("x"):rep(60000):gmatch("") do for _ in ("x"):rep(60000):gmatch("") do end end`, "it ran longer than 50ms"},

	{"os", `return os.exit(0)`, "os is not there"},
	{"io", `return io.open("/etc/passwd")`, "io is not there"},
	{"debug", `return debug.getregistry()`, "debug is not there"},
	{"package", `return package.loadlib("x", "y")`, "package is not there"},
	{"channel", `return channel.make()`, "attempt to index a non-table object(nil)"},
	{"coroutine", `return coroutine.create(function() end)`, "coroutine is not there"},
	{"load", `return load(function() return "x = 1" end)`, "load is not there"},
	{"loadstring", `return loadstring("while true do end")()`, "loadstring is not there"},
	{"loadfile", `return loadfile("/etc/passwd")`, "loadfile is not there"},
	{"dofile", `return dofile("/etc/passwd")`, "dofile is not there"},
	{"collectgarbage", `collectgarbage()`, "collectgarbage is not there"},
	{"setfenv", `setfenv(1, {})`, "setfenv is not there"},
	{"module", `module("x")`, "module is not there"},
	{"newproxy", `newproxy(true)`, "newproxy is not there"},
	{"_printregs", `_printregs()`, "attempt to call a non-function object"},
	{"string.dump", `string.dump(weigh)`, "attempt to call a non-function object"},
	{"math.randomseed", `math.randomseed(1)`, "attempt to call a non-function object"},
	{"require of a file elsewhere", `return require("../../etc/passwd")`, "require works while the script is loaded only"},
	{"metatable of strings", `getmetatable("").__index = nil`, "attempt to index a non-table object(nil) with key '__index'"},
	{"metatable for all numbers", `setmetatable(1, {__index = {}})`, "table expected, got number"},
	{"metatable for nil", `setmetatable(nil, {__index = {}})`, "table expected, got nil"},
	{"protected metatable", `local t = setmetatable({}, {__metatable = 1}) setmetatable(t, {})`, "cannot change a protected metatable"},

	{"nothing", ``, "weigh has returned nil; it returns a table of server name = share"},
	{"a number", `return 1`, "weigh has returned a number"},
	{"a text", `return "s1"`, "weigh has returned a string"},
	{"a function", `return weigh`, "weigh has returned a function"},
	{"a list", `return {1, 2}`, "weigh has returned a table with a number for a key"},
	{"a missing server", `return {s1 = 1}`, "weigh has returned no share for server s2"},
	{"an extra server", `return {s1 = 1, s2 = 1, s9 = 1}`, `weigh has returned a share for "s9", which is not in the list of servers`},
	{"a text for a share", `return {s1 = 1, s2 = "1"}`, "weigh has returned a string for server s2; a share is a number"},
	{"NaN", `return {s1 = 0/0, s2 = 1}`, "weigh has returned a share for server s1 that is not a number"},
	{"infinity", `return {s1 = 1/0, s2 = 1}`, "weigh has returned an infinite share for server s1"},
	{"negative infinity", `return {s1 = -math.huge, s2 = 1}`, "weigh has returned an infinite share for server s1"},
	{"a negative share", `return {s1 = 1, s2 = -0.5}`, "weigh has returned the negative share -0.5 for server s2"},
	{"all zero", `return {s1 = 0, s2 = 0}`, "weigh has returned 0 for every server"},
	{"a table that lies", `return setmetatable({}, {__index = function() return 1 end})`, "weigh has returned no share for server s1"},
	{"a boolean key", `return {s1 = 1, s2 = 1, [true] = 1}`, "weigh has returned a table with a boolean for a key"},
	{"an error", `error("I give up")`, "I give up"},
	{"an error without a position", `error("I give up", 0)`, "I give up"},
	{"an error that is a table", `error({})`, "the error is a table instead of a text"},
	{"an error that is nil", `error(nil)`, "the error is a nil instead of a text"},
	{"an error with a bad __tostring", `error(setmetatable({}, {__tostring = function() error("again") end}))`, "the error is a table instead of a text"},
	{"arithmetic on nil", `return {s1 = servers[1].nothing + 1}`, "cannot perform add operation between nil and number"},
	{"no operator", `_G["\0.."] = nil return "a" .. "b"`, "attempt to call a non-function object"},
	{"no globals", `for k in pairs(_G) do _G[k] = nil end return ipairs(servers)`, ""},
}

// twoServers is what the hostile functions are given.
var twoServers = []Server{
	{Name: "s1", Load: 10, Relative: math.NaN(), Capacity: 1, Weight: 100, State: "ready"},
	{Name: "s2", Load: 20, Relative: math.NaN(), Capacity: 1, Weight: 100, State: "ready"},
}

// memoryCap is what a script may add to the memory of the process, measured: a
// state has 32 MiB, and there is what it makes in the millisecond between two
// looks, and the garbage that Go lets pile up to once as much again.
const memoryCap = 128 << 20

// mapped is how much memory the process has ever had at once: the runtime
// gives address space back to nobody.
func mapped() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// ends stands for an error by a limit: of time or of memory, whichever of them
// the machine comes to first.
const ends = "it "

// TestHostileScripts runs each on a clock that counts looks at it, so that what
// it gives does not depend on the machine; but for those that take memory, of
// which a clock that is too slow would let them have more.
func TestHostileScripts(t *testing.T) {
	for _, h := range hostile {
		t.Run(h.name, func(t *testing.T) {
			o := Options{Now: patient()}
			if h.want == ends {
				o.Now = time.Now
			}
			s, err := Load(write(t, map[string]string{"main.lua": "function weigh(servers, backend)\n" + h.body + "\nend"}), o)
			if err != nil {
				t.Fatal(err)
			}
			w := s.NewWeigher()
			for range 2 { // it goes on after an error
				shares, _, err := w.Weigh(twoServers, Backend{})
				if err == nil || shares != nil {
					t.Fatalf("shares %v, error %v", shares, err)
				}
				if !strings.Contains(err.Error(), h.want) {
					t.Errorf("error %q, want %q in it", err, h.want)
				}
				if !strings.HasPrefix(err.Error(), s.Name()+":") {
					t.Errorf("error %q does not name the file", err)
				}
			}
		})
	}
}

// TestHostileScriptsStayWithinMemory runs them all by the real clock, in a
// process of its own: what other tests have taken would hide what these take.
func TestHostileScriptsStayWithinMemory(t *testing.T) {
	const alone = "LUA_TEST_ALONE"
	if os.Getenv(alone) == "" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), alone+"=1")
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err != nil || !strings.Contains(string(out), "PASS: "+t.Name()) {
			t.Error(err)
		}
		return
	}
	weighers := make([]*Weigher, len(hostile))
	for i, h := range hostile {
		weighers[i] = load(t, "function weigh(servers, backend)\n"+h.body+"\nend").NewWeigher()
	}
	before := mapped()
	for i, w := range weighers {
		for range 2 {
			if _, _, err := w.Weigh(twoServers, Backend{}); err == nil {
				t.Errorf("%s: no error", hostile[i].name)
			}
		}
		weighers[i] = nil
	}
	grown := mapped() - before
	t.Logf("memory grew by %d MiB", grown>>20)
	if grown > memoryCap {
		t.Errorf("memory grew by %d MiB, more than %d", grown>>20, memoryCap>>20)
	}
	if _, _, err := load(t, `function weigh() return {s1 = 1, s2 = 3} end`).NewWeigher().Weigh(twoServers, Backend{}); err != nil {
		t.Errorf("a good script after all that: %v", err)
	}
}

// TestLeaksEnd has short calls, each far from any limit, that keep a little.
func TestLeaksEnd(t *testing.T) {
	for name, body := range map[string]string{
		"values": `kept = {kept, ("x"):rep(10000) .. #tostring(kept)}`,
		"keys":   `n = (n or 0) + 1 kept = kept or {} for i = 1, 100 do local k = n .. "," .. i kept[k] = 1 kept[k] = nil end`,
	} {
		t.Run(name, func(t *testing.T) {
			w := load(t, "function weigh(servers, backend)\n"+body+"\nreturn {s1 = 1, s2 = 1}\nend").NewWeigher()
			const most = 100_000
			calls := 0
			for ; calls < most; calls++ {
				if _, _, err := w.Weigh(twoServers, Backend{}); err != nil {
					if !strings.Contains(err.Error(), ends) {
						t.Fatal(err)
					}
					break
				}
			}
			if calls == most {
				t.Errorf("%d calls without an end", calls)
			}
			if _, _, err := w.Weigh(twoServers, Backend{}); err != nil {
				t.Errorf("with new globals: %v", err)
			}
		})
	}
}
