package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// load reads the configuration that -f names.
func (p *Program) load() (*config.Config, error) {
	c, err := config.Load(p.file)
	if err != nil {
		return nil, badConfig(p.file, err)
	}
	return c, nil
}

// backend reads the configuration and finds one backend in it.
func (p *Program) backend(name string) (*config.Config, *config.Backend, error) {
	c, err := p.load()
	if err != nil {
		return nil, nil, err
	}
	names := make([]string, len(c.Backends))
	for i := range c.Backends {
		if c.Backends[i].Name == name {
			return c, &c.Backends[i], nil
		}
		names[i] = c.Backends[i].Name
	}
	return nil, nil, usage(fmt.Errorf("%s has no backend %q", p.file, name), hintBackends(names))
}

// completeBackend completes the names of the configured backends.
func (p *Program) completeBackend(_ *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := config.Load(p.file)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, b := range c.Backends {
		if strings.HasPrefix(b.Name, start) {
			names = append(names, b.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// backends are the named ones, or all when none is named.
func (p *Program) backends(names []string) (*config.Config, []config.Backend, error) {
	if len(names) > 0 {
		c, b, err := p.backend(names[0])
		if err != nil {
			return nil, nil, err
		}
		return c, []config.Backend{*b}, nil
	}
	c, err := p.load()
	if err != nil {
		return nil, nil, err
	}
	return c, c.Backends, nil
}
