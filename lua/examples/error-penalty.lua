-- Error-rate penalty: a server that fails answers fast and so looks idle. Each
-- percent of errors above the first counts like a tenth more load.
--
-- The load is requests per second; the metric "errors" is how many of them
-- failed, as SERVER/errors from the same target:
--
--   target = '''group(
--     aliasByNode(web.*.requests, 1),
--     aliasSub(aliasByNode(web.*.errors, 1), "$", "/errors"))'''

local tolerated = 0.01 -- part of the requests that may fail
local per_percent = 0.1 -- further load for each percent above it
local most = 10 -- times the load; a broken server must still be seen to recover

function weigh(servers, backend)
	local shares = {}
	for _, s in ipairs(servers) do
		local rate = 0
		if s.load > 0 then
			rate = (s.metrics.errors or 0) / s.load
		end
		local penalty = 1 + math.max(rate - tolerated, 0) * 100 * per_percent
		-- An idle server counts as having a fifth of the mean load, so that it
		-- does not get everything at once.
		local load = math.max(s.load / s.capacity, backend.mean / 5)
		shares[s.name] = s.capacity / (load * math.min(penalty, most))
		if penalty > 1 then
			print(string.format("%s: %.1f %% errors, counts %.1f times", s.name, rate * 100, math.min(penalty, most)))
		end
	end
	return shares
end
