package cli

import (
	"context"
	"fmt"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// read reads the configuration that -f names, until ctx ends: it may be a pipe.
func (p *Program) read(ctx context.Context) (*config.Config, error) {
	c, err := config.LoadContext(ctx, p.file)
	if err != nil {
		return nil, badConfig(p.file, err)
	}
	return c, nil
}

// find looks one backend up.
func find(c *config.Config, name string) (*config.Backend, error) {
	names := make([]string, len(c.Backends))
	for i := range c.Backends {
		if c.Backends[i].Name == name {
			return &c.Backends[i], nil
		}
		names[i] = c.Backends[i].Name
	}
	return nil, usage(fmt.Errorf("%s has no backend %q", c.File, name), api.NearNames(name, names, "backends"))
}
