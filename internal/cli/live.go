package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
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
	info     haproxy.Info
	backends []string // nil when it did not answer
}

// lookAround asks every socket and Graphite. Its error is only for what keeps
// it from starting; what it finds is in the findings.
func lookAround(ctx context.Context, c *config.Config, g *progress) ([]finding, error) {
	client, err := graphite.NewClient(c.Graphite)
	if err != nil {
		return nil, failed(fmt.Errorf("graphite: %w", err))
	}
	defer client.Close()
	s := &survey{config: c}
	s.findings = configFindings(c)
	for _, a := range c.HAProxy.Sockets {
		g.set("asking HAProxy at " + a.String())
		s.socket(ctx, a)
	}
	for _, l := range c.SPOA.Listen {
		g.set("looking at " + l.String())
		s.agent(ctx, l)
	}
	g.set("looking at this machine")
	s.admin(ctx)
	s.control(ctx)
	s.stateFile()
	s.report(ctx)
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

func newClient(c *config.Config, a haproxy.Address) *haproxy.Client {
	return haproxy.NewClient(a, haproxy.Options{Timeout: c.HAProxy.Timeout})
}

// namesOf asks the HAProxys of a backend for its servers, one after the other
// until one has it.
func namesOf(ctx context.Context, c *config.Config, b *config.Backend) ([]string, error) {
	addresses := b.Sockets
	if len(addresses) == 0 {
		addresses = c.HAProxy.Sockets
	}
	var errs []error
	for _, a := range addresses {
		state, err := newClient(c, a).State(ctx, b.Name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		names := make([]string, len(state.Servers))
		for i, v := range state.Servers {
			names[i] = v.Name
		}
		return names, nil
	}
	return nil, errors.Join(errs...)
}
