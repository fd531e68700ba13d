package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

func newLoads(p *Program) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "loads BACKEND",
		Short: "Show what Graphite has for a backend, series by series",
		Long:  wordsLoads,
		Args:  arguments("BACKEND"),
		RunE: p.action(func(ctx context.Context, _ *cobra.Command, args []string) error {
			return p.loads(ctx, args[0], asJSON)
		}),
		ValidArgsFunction: p.completeBackend,
	}
	jsonFlag(c, &asJSON)
	return c
}

func (p *Program) loads(ctx context.Context, backend string, asJSON bool) error {
	c, err := p.read(ctx)
	if err != nil {
		return err
	}
	b, err := find(c, backend)
	if err != nil {
		return err
	}
	client, err := graphite.NewClient(c.Graphite)
	if err != nil {
		return failed(fmt.Errorf("graphite: %w", err))
	}
	defer client.Close()
	var servers []string
	if strings.Contains(b.Target, "{server}") {
		if servers, err = namesOf(ctx, c, b); err != nil {
			return p.noLoads(asJSON, failed(err, hintServerTarget))
		}
	}
	g := p.progress("asking Graphite")
	rows, err := balancer.Loads(ctx, client, *b, servers)
	g.end()
	if err != nil {
		return p.noLoads(asJSON, failed(err, hintSilentGraphite))
	}
	if asJSON {
		err = p.writeJSON(emptyNotNull(rows))
	} else {
		err = p.writeTable(loadsTable(rows))
	}
	if err != nil {
		return err
	}
	return loadsResult(b.Name, rows)
}

// noLoads prints the empty list, so that JSON comes out whatever happens.
func (p *Program) noLoads(asJSON bool, why error) error {
	if asJSON {
		if err := p.writeJSON([]balancer.LoadRow{}); err != nil {
			return err
		}
	}
	return why
}

// loadsResult fails when no row is usable: then the backend has no load at all.
func loadsResult(backend string, rows []balancer.LoadRow) error {
	for _, r := range rows {
		if r.Usable {
			return nil
		}
	}
	if len(rows) == 0 {
		return failed(fmt.Errorf("backend %s: the target matches no series", backend), hintTarget)
	}
	return failed(fmt.Errorf("backend %s: none of %d series is usable", backend, len(rows)), hintUnusable)
}

func loadsTable(rows []balancer.LoadRow) *table {
	t := newTable("series", "server", ">value", "timestamp", ">age", "usable", "reason")
	for _, r := range rows {
		stamp := "-"
		if r.Timestamp != nil {
			stamp = time.Unix(*r.Timestamp, 0).UTC().Format(time.RFC3339)
		}
		usable := cell{"yes", green}
		if !r.Usable {
			usable = cell{"no", red}
		}
		t.add(cell{text: orDash(r.Series)}, cell{text: orDash(r.Server)}, cell{text: maybe(r.Value, number)},
			cell{text: stamp}, cell{text: maybe(r.AgeSeconds, seconds)}, usable, cell{text: r.Reason})
	}
	return t
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// emptyNotNull makes JSON print [] for a list of nothing.
func emptyNotNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
