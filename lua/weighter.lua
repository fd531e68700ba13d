-- weighter.lua: loads and weights inside HAProxy, without a question asked for
-- each connection. A task reads the table of haproxy-weighter every few seconds;
-- fetches, converters and an action answer from it. It never sets a weight.
--
--   global
--     lua-load /etc/haproxy/weighter.lua [ADDRESS [PERIOD [LIMIT]]]
--
-- ADDRESS  admin.listen of weighter.toml: 127.0.0.1:9101 (default), [::1]:9101,
--          unix@/path (inside HAProxy's chroot)
-- PERIOD   between two reads: 2s (default), 100ms to 60s
-- LIMIT    longest answer that is read, in bytes: 4194304 (default)
--
-- HAProxy 2.6 passes no arguments: there, and wherever you like, write
-- "setenv WEIGHTER_ADDRESS 127.0.0.1:9101" (WEIGHTER_PERIOD, WEIGHTER_LIMIT) above
-- the line lua-load. Also for lua-load-per-thread; each thread reads a table then.
--
-- What is registered, and what is answered when: docs/lua.md of haproxy-weighter.

local name = "weighter.lua"

-- An exchange that takes longer than deadline counts as failed, and the next one
-- begins; silence of the other side ends it sooner.
local deadline = 5
local patience = 60 -- more, for what has come: reading a long answer takes a while
local silence = 1000 -- milliseconds; HAProxy tries four times

-- Tasks that read in turn, so that one that hangs does not end the reading.
local readers = 3

local first_retry, longest_retry = 1, 30

-- Servers are named for this long after the last answer, or for three periods: one
-- that is put into drain later would still be used by HAProxy.
local naming = 10

-- Values or rows between two pauses of a millisecond, in which HAProxy's thread does
-- other things. After core.yield HAProxy may go on with us before it looks at its
-- connections; 2.6 does.
local slice = 200

local deepest = 32 -- levels of lists and objects in an answer

---------------------------------------------------------------------- settings

local arguments = table.pack(...)

local function refuse(what, value, allowed)
  error(string.format("%s: %s %q can't be used; allowed: %s", name, what, value, allowed), 0)
end

-- setting gives an argument, or else the environment's, or else the default.
local function setting(position, variable, default)
  local value = arguments[position] or os.getenv(variable)
  if value == nil or value == "" then
    return default
  end
  return value
end

-- destination gives what HAProxy's client needs for an address.
local function destination(address)
  local path = address:match("^unix@(/.+)$") or address:match("^unix:(/.+)$") or address:match("^(/.+)$")
  if path then
    return "http://localhost", "unix@" .. path
  end
  local port = tonumber(address:match("^[%w.-]+:(%d+)$") or address:match("^%[[%x:.]+%]:(%d+)$"))
  if port == nil or port < 1 or port > 65535 then
    refuse("ADDRESS", address, "IP:PORT, [IPv6]:PORT, unix@/PATH")
  end
  return "http://" .. address, nil
end

local function seconds(text)
  local number, unit = text:match("^(%d+)(m?s?)$")
  local value = number and unit ~= "m" and tonumber(number) / (unit == "ms" and 1000 or 1)
  if not value or value < 0.1 or value > 60 then
    refuse("PERIOD", text, "100ms to 60s")
  end
  return value
end

local function bytes(text)
  local value = text:match("^%d+$") and math.tointeger(tonumber(text))
  if not value or value < 65536 or value > 1073741824 then
    refuse("LIMIT", text, "65536 to 1073741824 (bytes)")
  end
  return value
end

local address = setting(1, "WEIGHTER_ADDRESS", "127.0.0.1:9101")
local base, dst = destination(address)
local url = base .. "/api/v1/table?reasons=no"
local period = seconds(setting(2, "WEIGHTER_PERIOD", "2s"))
local limit = bytes(setting(3, "WEIGHTER_LIMIT", "4194304"))
if arguments.n > 3 then
  refuse("argument", arguments[4], "ADDRESS PERIOD LIMIT, no more")
end
naming = math.max(naming, 3 * period)

-------------------------------------------------------------------------- time

-- now is HAProxy's clock in seconds.
local function now()
  local t = core.now()
  return t.sec + t.usec / 1000000
end

-- since_1970 counts the seconds to a moment of UTC.
local function since_1970(year, month, day, hour, minute, second)
  if month < 3 then -- the year begins in March, so that a leap day is its last one
    year, month = year - 1, month + 12
  end
  local days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 719469
  return ((days * 24 + hour) * 60 + minute) * 60 + second
end

-- table_time reads the time of a table; nil when it is none.
local function table_time(text)
  local y, mo, d, h, mi, s = text:match("^(%d%d%d%d)%-(%d%d)%-(%d%d)T(%d%d):(%d%d):(%d%d%.?%d*)Z$")
  if not y then
    return nil
  end
  return since_1970(tonumber(y), tonumber(mo), tonumber(d), tonumber(h), tonumber(mi), tonumber(s))
end

local months = {
  Jan = 1, Feb = 2, Mar = 3, Apr = 4, May = 5, Jun = 6, Jul = 7, Aug = 8, Sep = 9, Oct = 10, Nov = 11, Dec = 12,
}

-- clock_of is how far the clock that table times are of is ahead of HAProxy's. It is
-- told in whole seconds: what is less than two may be none at all.
local function clock_of(date, at)
  local d, mo, y, h, mi, s = date:match("^%a+, (%d+) (%a+) (%d+) (%d+):(%d+):(%d+) GMT$")
  if not months[mo] then
    return 0
  end
  local ahead = since_1970(tonumber(y), months[mo], tonumber(d), tonumber(h), tonumber(mi), tonumber(s)) - at
  if math.abs(ahead) < 2 then
    return 0
  end
  return ahead
end

-------------------------------------------------------------------------- JSON

local null = setmetatable({}, { __name = "null" })

-- pauses returns a function that pauses at every n-th call.
local function pauses(n)
  local left = n
  return function()
    left = left - 1
    if left == 0 then
      left = n
      core.msleep(1)
    end
  end
end

local find, sub, byte = string.find, string.sub, string.byte

local function spoiled(what, at)
  error(string.format("the answer is no JSON: %s at byte %d", what, at), 0)
end

-- skip gives the position of the next byte that is no space.
local function skip(text, at)
  local b = byte(text, at)
  if b == 32 or b == 10 or b == 13 or b == 9 then
    return find(text, "[^ \n\r\t]", at) or #text + 1
  end
  return at
end

local plain = { ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

-- escape reads what follows a backslash: its meaning, and the position after it.
local function escape(text, at)
  local meaning = plain[sub(text, at, at)]
  if meaning then
    return meaning, at + 1
  end
  local digits = text:match("^u(%x%x%x%x)", at)
  if not digits then
    spoiled("an unknown escape", at)
  end
  local code = tonumber(digits, 16)
  if code < 0xD800 or code > 0xDFFF then
    return utf8.char(code), at + 5
  end
  local low = text:match("^\\u(%x%x%x%x)", at + 5)
  low = low and tonumber(low, 16)
  if code < 0xDC00 and low and low >= 0xDC00 and low <= 0xDFFF then
    return utf8.char(0x10000 + (code - 0xD800) * 0x400 + low - 0xDC00), at + 11
  end
  return utf8.char(0xFFFD), at + 5
end

-- text_at reads a string whose quote is before the position.
local function text_at(text, at)
  local stop = find(text, '["\\%c]', at)
  if stop and byte(text, stop) == 34 then
    return sub(text, at, stop - 1), stop + 1
  end
  local parts = {}
  while stop and byte(text, stop) == 92 do
    parts[#parts + 1] = sub(text, at, stop - 1)
    parts[#parts + 1], at = escape(text, stop + 1)
    stop = find(text, '["\\%c]', at)
  end
  if not stop or byte(text, stop) ~= 34 then
    spoiled("a string without an end", at)
  end
  parts[#parts + 1] = sub(text, at, stop - 1)
  return table.concat(parts), stop + 1
end

-- number_at reads a number, always as a float: sums of whole ones would wrap.
local function number_at(text, at)
  local _, stop = find(text, "^%-?[1-9]%d*", at)
  if not stop then
    _, stop = find(text, "^%-?0", at)
  end
  if not stop then
    spoiled("neither a value nor a number", at)
  end
  local _, fraction = find(text, "^%.%d+", stop + 1)
  stop = fraction or stop
  local _, exponent = find(text, "^[eE][+-]?%d+", stop + 1)
  stop = exponent or stop
  local value = tonumber(sub(text, at, stop)) + 0.0
  if value == math.huge or value == -math.huge then
    spoiled("a number beyond all bounds", at)
  end
  return value, stop + 1
end

local words = { t = { "true", true }, f = { "false", false }, n = { "null", null } }

-- decode reads an answer. It calls pause at every value.
local function decode(text, pause)
  local value_at

  local function list_at(at, depth)
    local list, n = {}, 0
    at = skip(text, at)
    if byte(text, at) == 93 then
      return list, at + 1
    end
    while true do
      n = n + 1
      list[n], at = value_at(at, depth)
      at = skip(text, at)
      local b = byte(text, at)
      if b == 93 then
        return list, at + 1
      elseif b ~= 44 then
        spoiled("neither , nor ]", at)
      end
      at = at + 1
    end
  end

  local function object_at(at, depth)
    local object = {}
    at = skip(text, at)
    if byte(text, at) == 125 then
      return object, at + 1
    end
    while true do
      at = skip(text, at)
      if byte(text, at) ~= 34 then
        spoiled("no name of a field", at)
      end
      local key
      key, at = text_at(text, at + 1)
      at = skip(text, at)
      if byte(text, at) ~= 58 then
        spoiled("no :", at)
      end
      object[key], at = value_at(at + 1, depth)
      at = skip(text, at)
      local b = byte(text, at)
      if b == 125 then
        return object, at + 1
      elseif b ~= 44 then
        spoiled("neither , nor }", at)
      end
      at = at + 1
    end
  end

  function value_at(at, depth)
    pause()
    at = skip(text, at)
    local b = byte(text, at)
    if b == 34 then
      return text_at(text, at + 1)
    elseif b == 123 or b == 91 then
      if depth == 0 then
        spoiled("more than " .. deepest .. " levels", at)
      end
      if b == 123 then
        return object_at(at + 1, depth - 1)
      end
      return list_at(at + 1, depth - 1)
    end
    local word = words[sub(text, at, at)]
    if word and sub(text, at, at + #word[1] - 1) == word[1] then
      return word[2], at + #word[1]
    end
    return number_at(text, at)
  end

  local value, at = value_at(1, deepest)
  at = skip(text, at)
  if at <= #text then
    spoiled("more after the end", at)
  end
  return value
end

------------------------------------------------------------------------- table

-- whole rounds a load to what HAProxy can hold.
local function whole(value)
  local down = math.floor(value)
  if value - down >= 0.5 then
    down = down + 1
  end
  return math.tointeger(math.max(down, 0)) or math.maxinteger
end

-- field gives a field of a type that it must have.
local function field(object, key, kind)
  local value = object[key]
  if type(value) ~= kind or value == null then
    error(string.format("the answer is no table of haproxy-weighter: %q is missing or no %s", key, kind), 0)
  end
  return value
end

-- row_of takes from a server of the answer what is needed, checked.
local function row_of(server)
  if type(server) ~= "table" then
    error("the answer is no table of haproxy-weighter: a server is no object", 0)
  end
  local row = {
    name = field(server, "server", "string"),
    weight = whole(field(server, "applied_weight", "number")),
    in_rotation = field(server, "in_rotation", "boolean"),
    measured = field(server, "measured", "boolean"),
    capacity = field(server, "capacity", "number"),
  }
  if row.capacity <= 0 then
    row.capacity = 1.0
  end
  if row.measured then
    row.load, row.age = field(server, "load", "number"), field(server, "age_seconds", "number")
  end
  return row
end

-- sums are what the measured servers in rotation have together.
local function sums_of(rows, higher, pause)
  local sum = { in_rotation = 0, measured = {}, total = 0.0, capacity = 0.0, turn = 0.0, mean = 0.0 }
  local most, least = 0.0, math.huge
  for _, row in ipairs(rows) do
    pause()
    if row.in_rotation then
      sum.in_rotation = sum.in_rotation + 1
      if row.measured then
        sum.measured[#sum.measured + 1] = row
        sum.total, sum.capacity = sum.total + row.load, sum.capacity + row.capacity
        most, least = math.max(most, row.load), math.min(least, row.load)
      end
    end
  end
  if #sum.measured > 0 then
    sum.mean = sum.total / sum.capacity
    if higher then
      sum.turn = most + least
      sum.mean = (sum.turn * #sum.measured - sum.total) / sum.capacity
    end
  end
  return sum
end

-- load_for_capacity of a measured row; what is bad is high also when higher is better.
local function load_for_capacity(row, sum, higher)
  if higher then
    return math.max(0.0, sum.turn - row.load) / row.capacity
  end
  return row.load / row.capacity
end

-- quorate is until when at least quorum of the servers in rotation, and one, have
-- data that count; nil when too few have.
local function quorate(expiries, in_rotation, quorum)
  local need = math.max(1, math.ceil(quorum * in_rotation))
  table.sort(expiries) -- without a function of ours: it can't pause meanwhile
  return expiries[#expiries - need + 1]
end

-- out_of_rotation are the servers that other HAProxies with this backend give no new
-- connections by their weights. Nothing tells which table is of this HAProxy, and it
-- would use such a server when use-server names it.
local function out_of_rotation(others, pause)
  local out = {}
  for _, source in ipairs(others) do
    for _, server in ipairs(source.servers) do
      pause()
      local row = row_of(server)
      out[row.name] = out[row.name] or not row.in_rotation
    end
  end
  return out
end

-- backend_of makes the form that answers are read from. out are servers that are not to
-- be named. until_clock turns a time of the table into one of HAProxy's clock.
local function backend_of(source, rows, out, until_clock, pause)
  local higher = field(source, "better", "string") == "higher"
  local max_age = field(source, "max_age_seconds", "number")
  local sum = sums_of(rows, higher, pause)
  local backend = { servers = {}, names = {}, bounds = {}, total = 0 }
  local expiries, lowest, highest = {}, math.huge, 0.0
  for _, row in ipairs(rows) do
    pause()
    local server = { weight = row.weight }
    backend.servers[row.name] = server
    if row.in_rotation and not out[row.name] then
      backend.total = backend.total + row.weight
      backend.names[#backend.names + 1] = row.name
      backend.bounds[#backend.bounds + 1] = backend.total
    end
    if row.measured then
      local load = load_for_capacity(row, sum, higher)
      server.expires = until_clock(max_age - row.age)
      server.load = whole(row.load)
      if sum.mean > 0 then
        server.relative = whole(1000 * (load / sum.mean))
      end
      if row.in_rotation then
        expiries[#expiries + 1] = server.expires
        highest = math.max(highest, load)
        if load < lowest and not out[row.name] then -- of equals the first one in HAProxy's order
          lowest, backend.best = load, row.name
        end
      end
    end
  end
  if #sum.measured > 0 then
    backend.expires = quorate(expiries, sum.in_rotation, field(source, "quorum", "number"))
    backend.load = whole(sum.total / #sum.measured)
    if sum.mean > 0 then
      backend.relative = whole(1000 * (highest / sum.mean))
    end
  end
  return backend
end

-- backends_of makes all of them from a decoded answer: of each backend the first
-- table that has servers, of a HAProxy that answers if there is one. The others of
-- that kind say which servers are not to be named.
local function backends_of(answer, ahead, pause)
  if type(answer) ~= "table" then
    error("the answer is no table of haproxy-weighter: no object", 0)
  end
  local chosen, order = {}, {} -- chosen: lists of tables by backend
  for _, source in ipairs(field(answer, "tables", "table")) do
    local backend = type(source) == "table" and field(source, "backend", "string")
    if not backend then
      error("the answer is no table of haproxy-weighter: a table is no object", 0)
    end
    local before = chosen[backend]
    local silent = source.hold_code == "haproxy"
    if #field(source, "servers", "table") > 0 then
      if not before or before.silent and not silent then
        chosen[backend] = { silent = silent, source }
        order[#order + 1] = before == nil and backend or nil
      elseif before.silent == silent then
        before[#before + 1] = source
      end
    end
  end
  local backends = {}
  for _, backend in ipairs(order) do
    local source, rows = table.remove(chosen[backend], 1), {}
    local at = table_time(field(source, "time", "string"))
    if not at then
      error("the answer is no table of haproxy-weighter: \"time\" is no time", 0)
    end
    for i, server in ipairs(source.servers) do
      pause()
      rows[i] = row_of(server)
    end
    local out = out_of_rotation(chosen[backend], pause)
    backends[backend] = backend_of(source, rows, out, function(left) return at + left - ahead end, pause)
  end
  return backends
end

----------------------------------------------------------------------- reading

-- What answers are read from. A reader replaces it at once.
local backends = {}
local answered -- when the last good answer came
local last_body, last_ahead

local function header(response, key)
  local values = response.headers and response.headers[key]
  return values and values[0]
end

local function ask(method)
  local client = core.httpclient()
  local response = client[method](client, { url = url, dst = dst, timeout = silence })
  if type(response) ~= "table" or type(response.status) ~= "number" then
    error("no answer", 0)
  end
  if response.status ~= 200 and not (method == "head" and response.status == 405) then
    local hint = (response.status == 503 or response.status == 504) and " (nobody answers there)" or ""
    error(string.format("status %d%s", response.status, hint), 0)
  end
  return response
end

local function check_length(length)
  if length and length > limit then
    error(string.format("the answer has %d bytes, and LIMIT is %d", length, limit), 0)
  end
end

-- fetch gets the table's text, or fails. known tells that haproxy-weighter has
-- answered before; else the length is asked for first, since HAProxy's client takes an
-- answer of any length.
local function fetch(known)
  if not known then
    check_length(tonumber(header(ask("head"), "content-length")))
  end
  local response = ask("get")
  local body, length = response.body or "", tonumber(header(response, "content-length"))
  check_length(#body)
  if length and length ~= #body then
    error(string.format("only %d of %d bytes came", #body, length), 0)
  end
  return body, clock_of(header(response, "date") or "", now())
end

-- take_up makes what answers are read from, or fails.
local function take_up(body, ahead)
  if body == last_body and math.abs(ahead - last_ahead) < 2 then
    return -- as it was
  end
  local pause = pauses(slice)
  backends = backends_of(decode(body, pause), ahead, pause)
  last_body, last_ahead = body, ahead
end

-- The exchange in hand: turn counts them, so that a late one is known.
local turn, busy, started, next_read, retry = 0, false, 0, 0, nil
local failing, told = false, false

-- With lua-load-per-thread one thread speaks for all.
local speaks = core.thread <= 1

local function say(level, text, ...)
  if speaks then
    core.log(level, string.format(name .. ": " .. text, ...))
  end
end

local function failed(cause)
  retry = retry and math.min(2 * retry, longest_retry) or first_retry
  next_read = now() + retry
  if not failing then
    failing = true
    say(core.warning, "no table from %s: %s; meanwhile answers come from the last one: loads until they are older than "
      .. "max_age, names of servers for %d s; traffic goes on. See whether haproxy-weighter runs and admin.listen is "
      .. "this address", address, cause, math.floor(naming))
  end
end

local function succeeded()
  retry, next_read, answered = nil, now() + period, now()
  if failing then
    say(core.notice, "tables come again from %s", address)
  elseif not told then
    say(core.notice, "tables come from %s", address)
  end
  failing, told = false, true
end

-- exchange does one, unless it has been given up meanwhile.
local function exchange()
  turn, busy, started = turn + 1, true, now()
  local mine = turn
  local ok, body, ahead = pcall(fetch, told and not failing)
  if mine ~= turn then
    return
  end
  local cause = body
  if ok then
    started = now() + patience -- nobody is waited for any more
    ok, cause = pcall(take_up, body, ahead)
    if mine ~= turn then
      return
    end
  end
  busy = false
  if ok then
    succeeded()
  else
    failed(tostring(cause))
  end
end

local function reader()
  while true do
    if busy and now() > started + deadline then
      turn, busy = turn + 1, false
      failed(string.format("no whole answer within %d s", deadline))
    end
    if not busy and now() >= next_read then
      exchange()
    end
    core.msleep(math.floor(1000 * math.max(0.01, math.min(0.25, next_read - now()))))
  end
end

----------------------------------------------------------------------- answers

local function is_fresh(thing)
  return thing ~= nil and thing.expires ~= nil and now() <= thing.expires
end

local function may_name()
  return answered ~= nil and now() <= answered + naming
end

-- find_thing gives a server, or a backend when no server is asked for; nil when it
-- is not in the table.
local function find_thing(backend, server)
  local b = backends[backend]
  if b and server then
    return b.servers[server]
  end
  return b
end

-- Each returns nothing at all where there is no answer: nil would be a zero in HAProxy.
local answers = {
  fresh = function(backend, server)
    return is_fresh(find_thing(backend, server))
  end,
  load = function(backend, server)
    local thing = find_thing(backend, server)
    if is_fresh(thing) then
      return thing.load
    end
  end,
  relative = function(backend, server)
    local thing = find_thing(backend, server)
    if is_fresh(thing) and thing.relative then
      return thing.relative
    end
  end,
  weight = function(backend, server)
    local thing = find_thing(backend, server)
    if thing and thing.weight then
      return thing.weight
    end
  end,
  best = function(backend)
    local b = backends[backend]
    if is_fresh(b) and b.best and may_name() then
      return b.best
    end
  end,
}

-- draw gives the name of a server by the weights in force; nil when there is none.
local function draw(b, random)
  if not b or b.total == 0 or not may_name() then
    return nil
  end
  local n = random(b.total)
  local low, high = 1, #b.bounds
  while low < high do
    local middle = (low + high) // 2
    if n < b.bounds[middle] then
      high = middle
    else
      low = middle + 1
    end
  end
  return b.names[low]
end

-- A rule with this action decides: what an earlier one has set is gone.
local function pick(txn, backend)
  local server = draw(backends[backend], function(n) return txn.f:rand(n) end)
  if server then
    txn:set_var("txn.weighter.server", server)
  else
    txn:unset_var("txn.weighter.server")
  end
end

------------------------------------------------------------------ registration

for _, key in ipairs({ "best", "fresh", "load", "relative", "weight" }) do
  local answer = answers[key]
  core.register_fetches("weighter_" .. key, function(_, backend, server)
    return answer(backend, server)
  end)
  -- The input is BACKEND/SERVER or BACKEND; with an argument it is a server of that backend.
  core.register_converters("weighter_" .. key, function(input, backend)
    if backend then
      return answer(backend, input)
    end
    local before, after = input:match("^([^/]*)/(.*)$")
    return answer(before or input, after)
  end)
end
core.register_action("weighter_pick", { "tcp-req", "http-req" }, pick, 1)
for _ = 1, readers do
  core.register_task(reader)
end
