-- A canary: the server named "canary" has the next version and gets one percent
-- of the new connections, whatever its load; the others share the rest in
-- inverse proportion to theirs.
--
-- For so small a share set min_weight = 1 in the backend: with the default of 4,
-- four 256ths of the largest weight is the least that a server can have.

local canary, part = "canary", 0.01

function weigh(servers, backend)
	local shares, rest, there = {}, 0, false
	for _, s in ipairs(servers) do
		if s.name == canary then
			there = true
		else
			shares[s.name] = s.capacity / math.max(s.load / s.capacity, backend.mean / 5)
			rest = rest + shares[s.name]
		end
	end
	if there then
		-- part of all is part / (1 - part) of the rest; alone it gets everything
		shares[canary] = rest > 0 and rest * part / (1 - part) or 1
	end
	return shares
end
