-- A sticky class of clients by their network, for the SPOE message
--
--   spoe-message client-class
--       args src=src backend=str(ingest)
--       event on-client-session
--
-- It sets
--   txn.weighter.class   "office", "partner" or "public", by the client's network
--   txn.weighter.server  for the public: always the same server for the same /24,
--                        as long as that server takes new connections
--
-- so that haproxy.cfg can say
--   use_backend partners if { var(txn.weighter.class) -m str partner }
--   use-server %[var(txn.weighter.server)] if { var(txn.weighter.server) -m found }

local networks = {
	{ "10.", "office" },
	{ "192.0.2.", "partner" },
	{ "198.51.100.", "partner" },
}

local function class_of(address)
	for _, n in ipairs(networks) do
		if address:sub(1, #n[1]) == n[1] then
			return n[2]
		end
	end
	return "public"
end

-- A number from 0 up to below 1 for a network and a server, always the same one.
-- The squares keep numbers of alike names apart; all stay exact, below 2^53.
local prime = 94906249

local function draw(network, name)
	local h = 5381
	for _, text in ipairs({ network, "/", name }) do
		for i = 1, #text do
			h = (h * h + text:byte(i)) % prime
		end
	end
	for _ = 1, 3 do
		h = (h * h + 12345) % prime
	end
	return h / prime
end

-- Each server draws for each network, the highest draw wins: when a server goes,
-- only its own networks move. The weight makes a heavier one win more often.
local function server_for(network, servers)
	local best, highest
	for _, s in ipairs(servers) do
		if s.in_rotation then
			local score = -s.weight / math.log(draw(network, s.name) + 1e-12)
			if not highest or score > highest then
				best, highest = s.name, score
			end
		end
	end
	return best
end

function answer(message, args, tables)
	if message ~= "client-class" or type(args.src) ~= "string" then
		return nil
	end
	local set = { class = class_of(args.src) }
	local backend = tables[args.backend]
	if set.class == "public" and backend then
		local network = args.src:match("^(%d+%.%d+%.%d+)%.%d+$") or args.src
		set.server = server_for(network, backend.servers)
	end
	return set
end
