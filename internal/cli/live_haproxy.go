package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
)

// socket checks that one HAProxy answers, is of a version that we know, and
// lets us set weights.
func (s *survey) socket(ctx context.Context, a haproxy.Address) {
	k := &socket{client: newClient(s.config, a), name: a.String()}
	twins := s.sockets
	s.sockets = append(s.sockets, k)
	info, err := k.client.Info(ctx)
	if err != nil {
		s.add("socket", k.name, fail, haproxy.Cause(err).Error(), doSocket)
		return
	}
	k.info = info
	if twin := slices.IndexFunc(twins, func(o *socket) bool { return o.info.SameProcess(info) }); twin >= 0 {
		s.add("socket", k.name, warn, wordsWorker(info)+", the same HAProxy as "+twins[twin].name, doTwin)
	} else {
		s.add("socket", k.name, ok, wordsWorker(info), "")
	}
	r, found, do := judgeVersion(info.Version)
	s.add("version", k.name, r, found, do)
	if err := k.client.Probe(ctx); err != nil {
		s.add("level", k.name, fail, haproxy.Cause(err).Error(), doLevel)
	} else {
		s.add("level", k.name, ok, "admin: weights may be set", "")
	}
	if k.backends, err = k.client.Backends(ctx); err != nil {
		s.add("backends", k.name, fail, haproxy.Cause(err).Error(), doSocket)
	}
}

// The versions that HAProxy's replies have been compared on, and the oldest
// that is not known to crash on a raised weight.
var (
	oldestVersion = [2]int{2, 4}
	triedVersions = [2][2]int{{2, 6}, {3, 4}}
)

// judgeVersion looks at "2.6.12-1+deb12u3" and the like.
func judgeVersion(version string) (result, string, string) {
	have, known := majorMinor(version)
	found := "HAProxy " + version
	switch {
	case !known:
		return warn, found + ": not a version number that we can read", doVersionUntried
	case slices.Compare(have[:], oldestVersion[:]) < 0:
		return fail, found + " is older than 2.4", doVersionOld
	case slices.Compare(have[:], triedVersions[0][:]) < 0, slices.Compare(have[:], triedVersions[1][:]) > 0:
		return warn, found + " has not been tried (2.6 to 3.4 have)", doVersionUntried
	}
	return ok, found, ""
}

func majorMinor(version string) (v [2]int, known bool) {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return v, false
	}
	for i := range v {
		digits := parts[i]
		if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
			digits = digits[:end] // "3.5-dev1"
		}
		n, err := strconv.Atoi(digits)
		if err != nil {
			return v, false
		}
		v[i] = n
	}
	return v, true
}

// backend checks one backend on every socket it belongs to, and returns the
// names of its servers: nil when no HAProxy could tell.
func (s *survey) backend(ctx context.Context, b *config.Backend) []string {
	var servers []string
	found, silent := false, false
	for _, k := range s.sockets {
		named := slices.ContainsFunc(b.Sockets, func(a haproxy.Address) bool { return a.String() == k.name })
		if len(b.Sockets) > 0 && !named {
			continue
		}
		if k.backends == nil {
			silent = true
			continue
		}
		if !slices.Contains(k.backends, b.Name) {
			if named {
				s.add("backend", b.Name, fail, k.name+" does not have it", doBackend(k.backends))
			}
			continue
		}
		found = true
		for _, name := range s.backendOn(ctx, b, k) {
			if !slices.Contains(servers, name) {
				servers = append(servers, name)
			}
		}
	}
	if !found && !silent && len(b.Sockets) == 0 {
		s.add("backend", b.Name, fail, "no HAProxy has it", doBackend(s.allBackends()))
	}
	if b.Capacity.Kind == "table" && servers != nil && !silent {
		r, found, do := judgeCapacity(b.Capacity.Table, servers)
		s.add("capacity", b.Name, r, found, do)
	}
	return servers
}

// judgeCapacity finds names in a table of capacities that no server has: a
// mistyped one leaves its server at 1, without a word from anybody else.
func judgeCapacity(capacities map[string]float64, servers []string) (result, string, string) {
	var nobodys, without []string
	for _, name := range slices.Sorted(maps.Keys(capacities)) {
		if !slices.Contains(servers, name) {
			nobodys = append(nobodys, name)
		}
	}
	for _, name := range servers {
		if _, ok := capacities[name]; !ok {
			without = append(without, name)
		}
	}
	switch {
	case len(nobodys) > 0:
		return warn, some(nobodys) + ": in the table, but no server of HAProxy's", doCapacity
	case len(without) > 0:
		return ok, some(without) + ": not in the table, so 1", ""
	}
	return ok, "given for every server", ""
}

func (s *survey) allBackends() []string {
	var all []string
	for _, k := range s.sockets {
		all = append(all, k.backends...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// backendOn checks what one HAProxy says of one backend.
func (s *survey) backendOn(ctx context.Context, b *config.Backend, k *socket) []string {
	subject := b.Name
	if len(s.sockets) > 1 {
		subject += " on " + k.name
	}
	state, err := k.client.State(ctx, b.Name)
	if err != nil {
		s.add("backend", subject, fail, haproxy.Cause(err).Error(), doSocket)
		return nil
	}
	var servers []string
	for _, v := range state.Servers {
		servers = append(servers, v.Name)
	}
	if len(servers) == 0 {
		s.add("backend", subject, fail, "it has no servers", doNoServers)
		return nil
	}
	if slices.ContainsFunc(state.Servers, func(v haproxy.Server) bool { return v.InService() && !v.Backup }) {
		s.add("backend", subject, ok, wordsServers(state), "")
	} else {
		s.add("backend", subject, warn, wordsServers(state)+", and none is up, ready and above weight 0", doNoneInService)
	}
	r, found, do := judgeAlgorithm(state.Algorithm, b)
	s.add("algorithm", subject, r, found, do)
	r, found, do = judgeInitialWeights(state.Servers)
	s.add("initial-weight", subject, r, found, do)
	s.others("slowstart", subject, state.Servers, func(v haproxy.Server) bool { return v.Throttled }, "is ramping up", doSlowstart)
	s.others("agent-check", subject, state.Servers, func(v haproxy.Server) bool { return v.Agent != "" }, "has an agent-check", doAgentCheck)
	for _, path := range []string{b.Maps.Load, b.Maps.Weight} {
		if path != "" {
			s.mapFile(ctx, k, path)
		}
	}
	s.others("srv", subject, state.Servers, func(v haproxy.Server) bool { return v.SRV != "" }, "made from SRV records", doSRV)
	return servers
}

// others looks for servers on which something else moves the weight too.
func (s *survey) others(check, subject string, servers []haproxy.Server, has func(haproxy.Server) bool, words, do string) {
	var names []string
	for _, v := range servers {
		if has(v) {
			names = append(names, v.Name)
		}
	}
	if len(names) == 0 {
		s.add(check, subject, ok, "none seen", "")
		return
	}
	s.add(check, subject, warn, some(names)+" "+words, do)
}

// judgeInitialWeights looks at the weights of haproxy.cfg. Ours are absolute,
// so they matter only before the first pass, after a reload, and for a server
// that is added later.
func judgeInitialWeights(servers []haproxy.Server) (result, string, string) {
	var zero, low []string
	for _, v := range servers {
		switch {
		case v.InitialWeight == 0:
			zero = append(zero, v.Name)
		case v.InitialWeight < 10:
			low = append(low, v.Name)
		}
	}
	switch {
	case len(zero) > 0:
		return warn, some(zero) + ": weight 0 in haproxy.cfg", doInitialZero
	case len(low) > 0:
		return warn, some(low) + ": weight below 10 in haproxy.cfg", doInitialLow
	}
	return ok, fmt.Sprintf("%d or more in haproxy.cfg", lowestInitial(servers)), ""
}

func lowestInitial(servers []haproxy.Server) int {
	low := servers[0].InitialWeight
	for _, v := range servers {
		low = min(low, v.InitialWeight)
	}
	return low
}

// mapFile checks that HAProxy has a map of backend.maps loaded.
func (s *survey) mapFile(ctx context.Context, k *socket, path string) {
	subject := path
	if len(s.sockets) > 1 {
		subject += " on " + k.name
	}
	m, err := k.client.Map(ctx, path)
	if err != nil {
		s.add("map", subject, fail, haproxy.Cause(err).Error(), doMap)
		return
	}
	s.add("map", subject, ok, fmt.Sprintf("loaded by HAProxy, %d entries now", len(m.Entries)), "")
}
