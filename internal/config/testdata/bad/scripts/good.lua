function weigh(servers)
	local shares = {}
	for _, s in ipairs(servers) do
		shares[s.name] = 1
	end
	return shares
end
