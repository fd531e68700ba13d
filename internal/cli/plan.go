package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

func newPlan(p *Program) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "plan [BACKEND]",
		Short: "Show the weights that one pass would set, and change nothing",
		Long:  wordsPlan,
		Args:  arguments("[BACKEND]"),
		RunE: p.action(func(ctx context.Context, _ *cobra.Command, args []string) error {
			return p.plan(ctx, args, asJSON)
		}),
		ValidArgsFunction: p.completeBackend,
	}
	jsonFlag(c, &asJSON)
	return c
}

func (p *Program) plan(ctx context.Context, names []string, asJSON bool) error {
	c, err := p.read(ctx)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		b, err := find(c, names[0])
		if err != nil {
			return err
		}
		c.Backends = []config.Backend{*b}
	}
	tables, planErr := p.planTables(ctx, c)
	if asJSON {
		err = p.writeJSON(planEnvelopes(tables))
	} else {
		err = p.writePlans(tables)
	}
	switch {
	case err != nil:
		return err
	case planErr != nil:
		return failed(planErr, hintCheckLive)
	}
	return p.planResult(tables)
}

// planResult tells of backends without enough loads, and fails when there is
// no load of any: then nothing has been planned.
func (p *Program) planResult(tables []*balancer.Table) error {
	hint, none := "", len(tables) > 0
	for _, t := range tables {
		if t.HoldCode != weighting.HoldStale && t.HoldCode != weighting.HoldQuorum {
			none = false
			continue
		}
		none = none && t.Fresh == 0
		if hint == "" {
			hint = hintLoads(t.Backend)
		}
	}
	if none {
		return failed(errors.New(wordsNothingPlanned), hint)
	}
	if hint != "" {
		p.hintf("%s", hint)
	}
	return nil
}

// planTables gives the tables that could be made, and what went wrong.
func (p *Program) planTables(ctx context.Context, c *config.Config) ([]*balancer.Table, error) {
	fleet, err := balancer.NewFleet(c, balancer.FleetOptions{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	g := p.progress("planning")
	defer g.end()
	var all []*balancer.Table
	var errs []error
	for i, b := range fleet.Balancers() {
		g.set("planning backend " + c.Backends[i].Name)
		tables, err := b.Plan(ctx)
		all = append(all, tables...)
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

func planEnvelopes(tables []*balancer.Table) []api.Table {
	out := make([]api.Table, len(tables))
	for i, t := range tables {
		out[i] = api.TableOf(t)
	}
	return out
}

func (p *Program) writePlans(tables []*balancer.Table) error {
	for i, t := range tables {
		if i > 0 {
			fmt.Fprintln(p.Stdout)
		}
		fmt.Fprintln(p.Stdout, printable(wordsPlanHead(t)))
		if len(t.Rows) > 0 {
			if err := p.writeTable(planTable(t)); err != nil {
				return err
			}
		}
		if loop := wordsLoop(t); loop != "" {
			fmt.Fprintln(p.Stdout, loop)
		}
		fmt.Fprintln(p.Stdout, printable(wordsVerdict(t)))
	}
	return nil
}

func planTable(t *balancer.Table) *table {
	out := newTable("server", ">load", ">age", ">share", ">weight", "admin", "state", ">sessions", "reasons")
	out.keys = 1
	for _, r := range t.Rows {
		weight := cell{text: fmt.Sprint(r.AppliedWeight)}
		if wouldChange(r) {
			weight = cell{fmt.Sprintf("%d -> %d", r.AppliedWeight, r.Weight), bold}
		}
		sessions := "-"
		if r.Sessions >= 0 {
			sessions = fmt.Sprint(r.Sessions)
		}
		out.add(cell{text: r.Server}, cell{text: maybe(r.Load, number)}, cell{text: maybe(r.AgeSeconds, seconds)},
			cell{text: percent(r.Share)}, weight, stateCell(r.AdminState, "ready"), stateCell(r.OpState, "running"),
			cell{text: sessions}, cell{text: shortReasons(r.Reasons)})
	}
	return out
}

func wouldChange(r balancer.Row) bool { return r.Weight != r.AppliedWeight }

func stateCell(text, good string) cell {
	if text == good {
		return cell{text: text}
	}
	return cell{text, yellow}
}

// shortReasons names the steps that bent a weight, with their numbers. The
// steps that every server goes through are in the other columns, under the
// table and in --json.
func shortReasons(reasons []weighting.Reason) string {
	var short []string
	for _, r := range reasons {
		switch r.Step {
		case weighting.StepLoad, weighting.StepRelative, weighting.StepFunction, weighting.StepShare, weighting.StepWeight,
			weighting.StepLifetime:
			continue
		}
		text := r.Step
		if r.Before != r.After {
			text += fmt.Sprintf(" %.3g -> %.3g", r.Before, r.After)
		}
		short = append(short, text)
	}
	return strings.Join(short, ", ")
}
