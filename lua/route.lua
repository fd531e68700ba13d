-- route.lua: an example of a decision that Lua makes from what haproxy-weighter has
-- answered over SPOE. Copy it and put your own rule in.
--
--   use_backend %[lua.route_backend(ingest,spare,5000)]
--
-- keeps the mean load of a server of "ingest" at the limit, 5000: above it, the part
-- of the new connections that is too much goes to "spare", and no more. An ACL could
-- only send all of them or none, and the load would swing.
--
-- The SPOE message weighter-backend must have set fresh and load_mean before. Without
-- fresh data everything goes to the first backend.

local function route_backend(txn, normal, spare, limit)
  local fresh = txn:get_var("txn.weighter.fresh")
  local load = txn:get_var("txn.weighter.load_mean")
  limit = tonumber(limit)
  -- A boolean is a number here unless tune.lua.bool-sample-conversion is "normal";
  -- both are nil when the agent has not answered.
  if (fresh ~= true and fresh ~= 1) or not load or not limit or load <= limit then
    return normal
  end
  local too_much = (load - limit) / load
  if txn.f:rand(1000) < 1000 * too_much then
    return spare
  end
  return normal
end

core.register_fetches("route_backend", route_backend)
