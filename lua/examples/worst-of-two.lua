-- Several metrics in one: a server is as loaded as the more exhausted of its
-- two resources.
--
-- The load is the use of the processor in percent; the metric "disk" is that of
-- the disk. They come from one target, the second as SERVER/disk:
--
--   target = '''group(
--     aliasByNode(servers.*.cpu.percent, 1),
--     aliasSub(aliasByNode(servers.*.disk.percent, 1), "$", "/disk"))'''
--   function = "lua"
--   script   = "worst-of-two.lua"
--
-- A server whose disk is not known is taken by its processor alone.

local full = 100

function weigh(servers)
	local shares = {}
	for _, s in ipairs(servers) do
		local worst = math.max(s.load, s.metrics.disk or 0)
		-- What is left of it is what it can take; never nothing at all.
		shares[s.name] = s.capacity * math.max(full - worst, 1)
	end
	return shares
end
