-- What scripts may use, held against the real Lua 5.1: this file runs there and
-- in the weighter, and each line must be true in both.

local function same(got, want, what)
	if got ~= want then
		error((what or "") .. ": got " .. tostring(got) .. ", want " .. tostring(want), 2)
	end
end

local function list(...)
	local t = {}
	for i = 1, select("#", ...) do
		t[i] = tostring((select(i, ...)))
	end
	return table.concat(t, ",")
end

local function fails(f, ...)
	same((pcall(f, ...)), false, "pcall")
end

-- The operator ..
same("a" .. "b" .. 1 .. 2.5, "ab12.5")
same(1 .. 2, "12")
same("a" .. ("b" .. "c"), "abc")
same(("a" .. "b") .. "c", "abc")
local function two()
	return "x", "y"
end
same("a" .. two(), "ax")
same(two() .. "a", "xa")
same(list("a" .. two(), 1), "ax,1")
local function varargs(...)
	return "a" .. ...
end
same(varargs("b", "c"), "ab")
same(("a" .. "b"):upper(), "AB")
same(#("a" .. "bc"), 3)
same("a" .. "b" == "ab", true)
same(not ("a" .. "b" ~= "ab"), true)
local long = ""
for i = 1, 300 do
	long = long .. i .. ","
end
same(#long, 9 * 2 + 90 * 3 + 201 * 4)
same("1" .. "2" .. "3" .. "4" .. "5" .. "6" .. "7" .. "8" .. "9" .. "10" .. "11" .. "12" .. "13" .. "14" .. "15" .. "16" .. "17" .. "18"
	.. "19" .. "20" .. "21" .. "22" .. "23" .. "24" .. "25" .. "26" .. "27" .. "28" .. "29" .. "30" .. "31" .. "32" .. "33" .. "34" .. "35"
	.. "36" .. "37" .. "38" .. "39" .. "40" .. "41" .. "42" .. "43" .. "44" .. "45" .. "46" .. "47" .. "48" .. "49" .. "50" .. "51" .. "52"
	.. "53" .. "54" .. "55",
	"12345678910111213141516171819202122232425262728293031323334353637383940414243444546474849505152535455")
fails(function()
	return "a" .. nil
end)
fails(function()
	return {} .. "a"
end)
local joined = setmetatable({}, {
	__concat = function(a, b)
		return (type(a) == "table" and "T" or a) .. "+" .. (type(b) == "table" and "T" or b)
	end,
})
same(joined .. "x", "T+x")
same("x" .. joined, "x+T")
same("a" .. "b" .. joined .. "c" .. "d", "abT+cd")
same(1 .. joined, "1+T")

-- string
same(("hello"):sub(2, 3), "el")
same(("hello"):sub(-3), "llo")
same(("hello"):sub(-100, 2), "he")
same(("hello"):sub(4, 100), "lo")
same(("hello"):sub(3, 2), "")
same(("hello"):sub(0), "hello")
same(("hello"):sub(6), "")
same(("hello"):len(), 5)
same(list(("hello"):byte()), "104")
same(list(("hello"):byte(-1)), "111")
same(list(("hello"):byte(1, 3)), "104,101,108")
same(list(("hello"):byte(10)), "")
same(string.char(72, 105), "Hi")
same(string.char(), "")
fails(string.char, 256)
same(("x"):rep(3), "xxx")
same(("x"):rep(0), "")
same(("x"):rep(-1), "")
same(("abc"):reverse(), "cba")
same(("ÄbC"):lower(), "Äbc")
same(("äbC"):upper(), "äBC")

same(string.format("%d %5d|%-5d|%05d", 1, 2, 3, 4), "1     2|3    |00004")
same(string.format("%s %10s|%-10s|%.2s", "a", "b", "c", "defg"), "a          b|c         |de")
same(string.format("%5.2f %e %g %g", 3.14159, 12345.678, 0.1 + 0.2, 1e20), " 3.14 1.234568e+04 0.3 1e+20")
same(string.format("%g %g %g", 100000, 1000000, 0.0001), "100000 1e+06 0.0001")
same(string.format("%x %X %o %c %%", 255, 255, 8, 65), "ff FF 10 A %")
same(string.format("%+d % d", 5, 5), "+5  5")
same(string.format("%q", 'a"b\\c\nd'), '"a\\"b\\\\c\\\nd"')
same(string.format("%i", 42), "42")
same(string.format("%s", 1), "1")
same(string.format("%x %X", -1, -1), "ffffffffffffffff FFFFFFFFFFFFFFFF")
same(string.format("%g", 1 / 0):lower():match("inf"), "inf")
same(string.format("no"), "no")
fails(string.format, "%d", "x")
fails(string.format, "%s")
fails(string.format, "%y", 1)
fails(string.format, "%")
fails(string.format, "%100d", 1)

same(list(("hello world"):find("wor")), "7,9")
same(list(("hello world"):find("o")), "5,5")
same(list(("hello world"):find("o", 6)), "8,8")
same(list(("hello"):find("xyz")), "nil")
same(list(("hello"):find("")), "1,0")
same(list(("hello"):find("", 10)), "6,5")
same(list(("a.b"):find(".", 2, true)), "2,2")
same(list(("a.b"):find("%.")), "2,2")
same(list(("hello"):find("l+")), "3,4")
same(list(("hello"):find("(l)(l)")), "3,4,l,l")
same(list(("hello"):find("()ll()")), "3,4,3,5")
same(list(("hello"):find("^h")), "1,1")
same(list(("hello"):find("^e")), "nil")
same(list(("hello"):find("o$")), "5,5")
same(list(("hello"):find("l$")), "nil")
same(list(("a$b"):find("$b")), "2,3")
same(("key = value"):match("^(%w+)%s*=%s*(%w+)$"), "key")
same(list(("key = value"):match("^(%w+)%s*=%s*(%w+)$")), "key,value")
same(("2026-11-29"):match("%d+-%d+-%d+"), "2026-11-29")
same(("  trim  "):match("^%s*(.-)%s*$"), "trim")
same(("[[x]]"):match("%[%[(.*)%]%]"), "x")
same(("f(a(b)c)d"):match("%b()"), "(a(b)c)")
same(("THE (quick) fox"):find("%((%a+)%)"), 5)
same(("abab"):match("^(ab)%1$"), "ab")
same(("abac"):match("^(ab)%1$"), nil)
same(("THE (quick) fox"):gsub("%f[%a]%a+", "W"), "W (W) W")
same(("aXb"):match("%u"), "X")
same(("a1b"):match("[^%a]"), "1")
same(("a-b"):match("[a-]+"), "a-")
same(("a]b"):match("[]]"), "]")
same(("a^b"):match("[b^]+"), "^b")
same(("x=1"):match("[%w=]+"), "x=1")
same(("aaa"):match("a-b"), nil)
same(("aaab"):match("a-b"), "aaab")
same(("aaab"):match("a?b"), "ab")
same(("abc"):match("((a)(b))"), "ab")
same(list(("abc"):match("((a)(b))")), "ab,a,b")
same(("\0a"):match("%z(.)"), "a")
same(("ÿ"):match("[\128-\255]+"), "ÿ")
same(("x"):match("x*$"), "x")
fails(string.find, "x", "(")
fails(string.find, "x", "[x")
fails(string.find, "x", "%")
fails(string.find, "x", "%1")
fails(string.find, "x", "%bx")

same(list(("hello world"):gsub("o", "0")), "hell0 w0rld,2")
same(list(("hello world"):gsub("o", "0", 1)), "hell0 world,1")
same(list(("abc"):gsub("c*", "-")), "-a-b--,4")
same(list(("hello"):gsub("", "-")), "-h-e-l-l-o-,6")
same(list(("abc"):gsub("%w", "%0%0")), "aabbcc,3")
same(list(("a b"):gsub("(%w) (%w)", "%2 %1")), "b a,1")
same(list(("abc"):gsub("b", "%%")), "a%c,1")
same(list(("$name is $age"):gsub("%$(%w+)", { name = "x", age = 3 })), "x is 3,2")
same(list(("abc"):gsub("%w", { a = "1", b = false })), "1bc,3")
same(list(("abc"):gsub("%w", function(c)
	return c == "b" and "B" or nil
end)), "aBc,3")
same(list(("abc"):gsub("^a", "x")), "xbc,1")
same(list(("aaa"):gsub("^a", "x")), "xaa,1")
same(list(("hello"):gsub("(l)(l)", function(a, b)
	return "<" .. a .. b .. ">"
end)), "he<ll>o,1")
same(list(("x"):gsub("x", 5)), "5,1")
fails(string.gsub, "x", "x", "%2")
fails(string.gsub, "x", "x", function()
	return {}
end)

local words = {}
for w in ("one two  three"):gmatch("%a+") do
	words[#words + 1] = w
end
same(table.concat(words, "|"), "one|two|three")
local pairs_found = {}
for k, v in ("a=1, b=2"):gmatch("(%w+)=(%w+)") do
	pairs_found[#pairs_found + 1] = k .. v
end
same(table.concat(pairs_found), "a1b2")
local n = 0
for _ in ("abc"):gmatch("") do
	n = n + 1
end
same(n, 4)

-- table
local t = { 1, 2, 3 }
table.insert(t, 4)
table.insert(t, 1, 0)
table.insert(t, 3, 1.5)
same(table.concat(t, " "), "0 1 1.5 2 3 4")
same(table.remove(t), 4)
same(table.remove(t, 1), 0)
same(table.remove(t, 2), 1.5)
same(table.concat(t, " "), "1 2 3")
same(table.remove({}), nil)
same(table.concat({}), "")
same(table.concat({ 1, 2, 3 }, ",", 2), "2,3")
same(table.concat({ 1, 2, 3 }, ",", 2, 2), "2")
same(table.concat({ 1, 2, 3 }, ",", 3, 2), "")
fails(table.concat, { {} })
same(table.maxn({ 1, 2, 3 }), 3)
local s = { 3, 1, 2 }
table.sort(s)
same(table.concat(s), "123")
table.sort(s, function(a, b)
	return a > b
end)
same(table.concat(s), "321")
s = { "b", "c", "a" }
table.sort(s)
same(table.concat(s), "abc")
fails(table.sort, { 1, "x" })
same(list(unpack({ 1, 2, 3 })), "1,2,3")
same(list(unpack({ 1, 2, 3 }, 2)), "2,3")
same(list(unpack({ 1, 2, 3 }, 2, 3)), "2,3")
same(list(unpack({}, 1, 2)), "nil,nil")
same(list(unpack({})), "")

-- Globals
same(list(pcall(error, "x")), "false,x")
same(list(pcall(function()
	return 1, 2
end)), "true,1,2")
same(list(xpcall(function()
	error("x", 0)
end, function(m)
	return m .. "!"
end)), "false,x!")
same(list(xpcall(function()
	return 1, 2
end, print)), "true,1,2")
same((pcall(nil)), false)
same(select("#", 1, nil, nil), 3)
same(list(select(2, "a", "b", "c")), "b,c")
same(list(select(-1, "a", "b", "c")), "c")
same(tonumber("10"), 10)
same(tonumber(" 10 "), 10)
same(tonumber("0x10"), 16)
same(tonumber("ff", 16), 255)
same(tonumber("x"), nil)
same(tonumber("1.5"), 1.5)
same(tostring(1.5), "1.5")
same(tostring(10), "10")
same(tostring(0.1 + 0.2), "0.3")
same(1 / 3 .. "", "0.33333333333333")
same(tostring(2 ^ 53), "9.007199254741e+15")
same(tostring(1e13), "10000000000000")
same(tostring(1e100), "1e+100")
same(tostring(-0.5), "-0.5")
same(tostring(123456.789), "123456.789")
same(tostring(1 / 0), "inf")
same(tostring(-1 / 0), "-inf")
same(table.concat({ 0.1, 1e-10 }, " "), "0.1 1e-10")
same(tostring(nil), "nil")
same(type(print), "function")
same(rawequal(t, t), true)
same(rawget(setmetatable({}, { __index = { a = 1 } }), "a"), nil)
same(setmetatable({}, { __index = { a = 1 } }).a, 1)
same(getmetatable(setmetatable({}, { __metatable = "mine" })), "mine")
local keys = {}
for k, v in pairs({ a = 1, b = 2, 10 }) do
	keys[#keys + 1] = tostring(k) .. tostring(v)
end
table.sort(keys)
same(table.concat(keys, ","), "110,a1,b2")
local sum = 0
for i, v in ipairs({ 1, 2, nil, 4 }) do
	sum = sum + i * v
end
same(sum, 5)
same(next({}), nil)
same(next({ 5 }), 1)
same(select("#", next({})), 1)
same(list(next({ x = 7 })), "x,7")
same(list(next({ 5, x = 7 }, 1)), "x,7")
same(list(next({ nil, nil, 5 }, 1)), "3,5")
same(next({ nil, nil, 5 }, 3), nil)
same(next({ [0] = 1 }, 0), nil)
same(next({ [-1] = 1 }), -1)
same(next({ [2 ^ 40] = 1 }), 2 ^ 40)
same(next({ [1.5] = 1 }), 1.5)
same(next({ [true] = 1 }), true)
fails(next, {}, "x")
fails(next, { x = 1 }, "y")
fails(next, { 1 }, 5)
fails(next, 1)
do -- entries may be taken out while a table is gone through
	local t, n = {}, 0
	for i = 1, 100 do
		t[i], t["k" .. i], t[-i] = i, i, i
	end
	for k in pairs(t) do
		t[k], n = nil, n + 1
	end
	same(n, 300)
	same(next(t), nil)
end
do -- and all of them are met once
	local t, seen, n = { 1, 2, 3, a = 1, b = 2, [-1] = 3, [1.5] = 4, [true] = 5 }, {}, 0
	for k in next, t do
		same(seen[k], nil)
		seen[k], n = true, n + 1
	end
	same(n, 8)
end
same(rawset({}, 5, 6)[5], 6)
same(rawset({}, -5, 6)[-5], 6)
fails(rawset, {}, nil, 1)
fails(rawset, {}, 0 / 0, 1)
same(math.max("10", 9), 10)
same(math.floor(" 2.7 "), 2)
fails(math.floor, "x")
fails(math.floor)
same(math.ldexp("1", "3"), 8)
same(("x1y2"):gsub("(%a)(%d)", "%2%1"), "1x2y")
same(("xy"):gsub("%a", "%1"), "xy")
same(("xy"):gsub("()", "%1"), "1x2y3")
fails(string.gsub, "x", "(x)", "%2")
same(select("#", select(2, 1, 2, 3)), 2)

-- math
same(math.floor(-1.5), -2)
same(math.ceil(1.2), 2)
same(math.max(1, 3, 2), 3)
same(math.min(3, 1, 2), 1)
same(math.abs(-2), 2)
same(math.sqrt(16), 4)
same(math.fmod(7, 3), 1)
same(-7 % 3, 2)
same(math.huge > 1e308, true)
same(1 / math.huge, 0)
same(math.floor(math.pi * 100), 314)
same(2 ^ 10, 1024)
for _ = 1, 100 do
	local r = math.random()
	same(r >= 0 and r < 1, true)
	r = math.random(6)
	same(r >= 1 and r <= 6 and r == math.floor(r), true)
	r = math.random(5, 6)
	same(r == 5 or r == 6, true)
end
fails(math.random, 0)
