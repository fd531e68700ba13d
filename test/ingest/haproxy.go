package ingest

import (
	"fmt"
	"strings"
)

// HAProxyConfig is a haproxy.cfg with plain TCP balancing, as one would write
// it by hand: frontend is the address that clients connect to, all servers
// start with weight, and maxconn bounds the connections of the process.
func HAProxyConfig(frontend, backend, balance string, maxconn, weight int, servers []*Server) string {
	var out strings.Builder
	fmt.Fprintf(&out, `global
  maxconn %d

defaults
  mode tcp
  timeout connect 2s
  timeout client 1m
  timeout server 1m

frontend clients
  bind %s
  default_backend %s

backend %s
  balance %s
`, maxconn, frontend, backend, backend, balance)
	for _, s := range servers {
		fmt.Fprintf(&out, "  server %s %s weight %d\n", s.Name(), s.Address(), weight)
	}
	return out.String()
}
