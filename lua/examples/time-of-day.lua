-- Time-of-day capacity: servers whose name begins with "batch" do other work at
-- night, from 22:00 to 06:00, and have a third of their capacity left for us
-- then. The hour is that of the weighter's own time zone (TZ).

local night_from, night_to = 22, 6
local left_at_night = 1 / 3

local function is_night(hour)
	return hour >= night_from or hour < night_to
end

function weigh(servers, backend)
	local shares = {}
	for _, s in ipairs(servers) do
		local capacity = s.capacity
		if is_night(backend.time.hour) and s.name:match("^batch") then
			capacity = capacity * left_at_night
		end
		-- In inverse proportion to the load for the capacity that is left; an
		-- idle server counts as having a fifth of the mean.
		shares[s.name] = capacity / math.max(s.load / capacity, backend.mean / 5)
	end
	return shares
end
