package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// completer completes one argument. Whatever fails, a shell gets no names and
// no words.
type completer = func(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective)

// completeArgs completes each argument by the completer of its place.
func completeArgs(places ...completer) completer {
	return func(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(places) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return places[len(args)](c, args, start)
	}
}

// completeWords completes one of a few words.
func completeWords(words ...string) completer {
	return func(_ *cobra.Command, _ []string, start string) ([]string, cobra.ShellCompDirective) {
		return startingWith(start, words), cobra.ShellCompDirectiveNoFileComp
	}
}

func startingWith(start string, words []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, start) })
}

// known is what the daemon, or else the configuration, tells of names.
type known struct {
	backends []string
	servers  map[string][]string // by backend
	pinned   map[string][]string // by backend, those that are not in the configuration too
	frozen   []string            // backends, as above
}

// known asks the daemon, and reads the configuration when there is none.
func (p *Program) known(c *cobra.Command) known {
	ctx := c.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	if client, _, err := p.reach(ctx, c); err == nil {
		if status, err := client.Status(ctx); err == nil {
			return knownFrom(status)
		}
	}
	loaded, err := config.LoadContext(ctx, p.file)
	if err != nil {
		return known{}
	}
	var k known
	for i := range loaded.Backends {
		k.backends = append(k.backends, loaded.Backends[i].Name)
	}
	return k
}

func knownFrom(s *api.Status) known {
	k := known{servers: map[string][]string{}, pinned: map[string][]string{}}
	for i := range s.Backends {
		b := &s.Backends[i]
		k.backends = append(k.backends, b.Backend)
		k.ordered(b.Backend, b.Control)
		for j := range b.Tables {
			for _, row := range b.Tables[j].Servers {
				if !slices.Contains(k.servers[b.Backend], row.Server) {
					k.servers[b.Backend] = append(k.servers[b.Backend], row.Server)
				}
			}
		}
	}
	for i := range s.Unconfigured {
		k.ordered(s.Unconfigured[i].Backend, s.Unconfigured[i].Control)
	}
	return k
}

// ordered notes the orders for a backend.
func (k *known) ordered(backend string, c balancer.Control) {
	if c.Freeze != nil {
		k.frozen = append(k.frozen, backend)
	}
	if len(c.Pins) > 0 {
		k.pinned[backend] = slices.Sorted(maps.Keys(c.Pins))
	}
}

// completeRunningBackend completes the backends of the daemon.
func (p *Program) completeRunningBackend(c *cobra.Command, _ []string, start string) ([]string, cobra.ShellCompDirective) {
	return startingWith(start, p.known(c).backends), cobra.ShellCompDirectiveNoFileComp
}

// completeFrozen completes the backends that are frozen.
func (p *Program) completeFrozen(c *cobra.Command, _ []string, start string) ([]string, cobra.ShellCompDirective) {
	return startingWith(start, p.known(c).frozen), cobra.ShellCompDirectiveNoFileComp
}

// completeServerID completes BACKEND/SERVER.
func (p *Program) completeServerID(c *cobra.Command, _ []string, start string) ([]string, cobra.ShellCompDirective) {
	k := p.known(c)
	return serverIDs(k.backends, k.servers, start)
}

// completePinned completes the BACKEND/SERVER that are pinned.
func (p *Program) completePinned(c *cobra.Command, _ []string, start string) ([]string, cobra.ShellCompDirective) {
	k := p.known(c)
	return serverIDs(slices.Sorted(maps.Keys(k.pinned)), k.pinned, start)
}

// serverIDs gives the backends first, each with its slash and no blank behind
// it, and the servers of one only once that is chosen: there may be thousands.
func serverIDs(backends []string, servers map[string][]string, start string) ([]string, cobra.ShellCompDirective) {
	backend, _, chosen := strings.Cut(start, "/")
	backends = startingWith(start, backends)
	if !chosen && len(backends) == 1 && len(servers[backends[0]]) > 0 {
		backend, chosen = backends[0], true
	}
	if !chosen {
		for i := range backends {
			backends[i] += "/"
		}
		return backends, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	ids := make([]string, len(servers[backend]))
	for i, server := range servers[backend] {
		ids[i] = backend + "/" + server
	}
	return startingWith(start, ids), cobra.ShellCompDirectiveNoFileComp
}

// completeServer completes the servers of the backend that is the first argument.
func (p *Program) completeServer(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return startingWith(start, p.known(c).servers[args[0]]), cobra.ShellCompDirectiveNoFileComp
}

// completeBackend completes the names of the configured backends.
func (p *Program) completeBackend(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	loaded, err := config.LoadContext(ctx, p.file)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := make([]string, len(loaded.Backends))
	for i := range loaded.Backends {
		names[i] = loaded.Backends[i].Name
	}
	return startingWith(start, names), cobra.ShellCompDirectiveNoFileComp
}
