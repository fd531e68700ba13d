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

// find looks one backend up.
func find(c *config.Config, name string) (*config.Backend, error) {
	names := make([]string, len(c.Backends))
	for i := range c.Backends {
		if c.Backends[i].Name == name {
			return &c.Backends[i], nil
		}
		names[i] = c.Backends[i].Name
	}
	return nil, usage(fmt.Errorf("%s has no backend %q", c.File, name), hintBackends(names))
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
