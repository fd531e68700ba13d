function weigh(servers)
	return servers[
end
