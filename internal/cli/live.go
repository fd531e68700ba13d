package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
)

// survey is one run of "check --live". It reads only.
type survey struct {
	config   *config.Config
	sockets  []*socket
	findings []finding
}

// socket is one HAProxy as the survey found it.
type socket struct {
	client   *haproxy.Client
	name     string
	backends []string // nil when it did not answer
}

// lookAround asks every socket and Graphite. Its error is only for what keeps
// it from starting; what it finds is in the findings.
func lookAround(ctx context.Context, c *config.Config, g *progress) ([]finding, error) {
	client, err := graphite.NewClient(c.Graphite)
	if err != nil {
		return nil, failed(fmt.Errorf("graphite: %w", err))
	}
	s := &survey{config: c}
	s.add("config", c.File, ok, wordsConfigGood(len(c.Backends), len(c.HAProxy.Sockets)), "")
	for _, a := range c.HAProxy.Sockets {
		g.set("asking HAProxy at " + a.String())
		s.socket(ctx, a)
	}
	for i := range c.Backends {
		b := &c.Backends[i]
		g.set("looking at backend " + b.Name)
		servers := s.backend(ctx, b)
		s.series(ctx, client, b, servers)
	}
	return s.findings, nil
}

func (s *survey) add(check, subject string, r result, found, do string) {
	s.findings = append(s.findings, finding{Check: check, Subject: subject, Result: r, Found: found, Do: do})
}

// clients makes one client a socket of the configuration.
func newClient(c *config.Config, a haproxy.Address) *haproxy.Client {
	return haproxy.NewClient(a, haproxy.Options{Timeout: c.HAProxy.Timeout})
}

// planesOf are the HAProxys that a plan for b is made on: those that the file
// names for it, or else all that have it. One that does not answer stays in,
// so that its table tells the fault.
func planesOf(ctx context.Context, c *config.Config, b config.Backend) ([]balancer.Plane, error) {
	addresses := b.Sockets
	if len(addresses) == 0 {
		addresses = c.HAProxy.Sockets
	}
	var planes []balancer.Plane
	for _, a := range addresses {
		client := newClient(c, a)
		if len(b.Sockets) == 0 {
			names, err := client.Backends(ctx)
			if err == nil && !slices.Contains(names, b.Name) {
				continue
			}
		}
		planes = append(planes, balancer.Plane{Socket: a.String(), DataPlane: client})
	}
	if len(planes) == 0 {
		return nil, fmt.Errorf("no HAProxy has it (asked: %s)", list(addresses))
	}
	return planes, nil
}
