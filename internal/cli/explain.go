package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

func newExplain(p *Program) *cobra.Command {
	var others, asJSON bool
	c := &cobra.Command{
		Use:   "explain BACKEND/SERVER",
		Short: "Show every step from a server's data point to its weight",
		Long:  wordsExplain,
		Example: `  haproxy-weighter explain ingest/s1
  haproxy-weighter explain ingest/s1 --others     and the numbers of all other servers`,
		Args: arguments("BACKEND/SERVER"),
		RunE: p.action(func(ctx context.Context, c *cobra.Command, args []string) error {
			return p.explainServer(ctx, c, args[0], others, asJSON)
		}),
		ValidArgsFunction: completeArgs(p.completeServerID),
	}
	c.Flags().BoolVar(&others, "others", false, "also show the numbers of all servers, which the mean and the sums are made of")
	jsonFlag(c, &asJSON)
	return p.daemonCommand(c)
}

func (p *Program) explainServer(ctx context.Context, c *cobra.Command, id string, others, asJSON bool) error {
	backend, server, err := serverID(c, id)
	if err != nil {
		return err
	}
	var tables []api.Table
	err = p.asking(ctx, c, func(client *api.Client) (err error) {
		tables, err = client.Tables(ctx, backend)
		return err
	})
	if err != nil {
		return err
	}
	found, err := tablesWith(tables, backend, server)
	if err != nil {
		return err
	}
	if asJSON {
		if !others {
			for i := range found {
				row := rowOf(&found[i], server)
				found[i].Servers = []api.Server{*row}
			}
		}
		return p.writeJSON(found)
	}
	for i := range found {
		if i > 0 {
			fmt.Fprintln(p.Stdout)
		}
		if err := p.writeExplanation(&found[i], rowOf(&found[i], server), others); err != nil {
			return err
		}
	}
	return nil
}

// tablesWith picks the tables that have the server.
func tablesWith(tables []api.Table, backend, server string) ([]api.Table, error) {
	var found []api.Table
	var names []string
	for i := range tables {
		if rowOf(&tables[i], server) != nil {
			found = append(found, tables[i])
		}
		for j := range tables[i].Servers {
			names = append(names, tables[i].Servers[j].Server)
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case len(names) == 0:
		return nil, failed(fmt.Errorf("the servers of backend %s are not known: no HAProxy has told them yet", backend), hintStatus)
	}
	slices.Sort(names)
	return nil, failed(fmt.Errorf("backend %s has no server %q", backend, server), api.NearNames(server, slices.Compact(names), "servers"))
}

func rowOf(t *api.Table, server string) *api.Server {
	i := slices.IndexFunc(t.Servers, func(s api.Server) bool { return s.Server == server })
	if i < 0 {
		return nil
	}
	return &t.Servers[i]
}

// writeExplanation prints what is known of one server on one HAProxy, in the
// order in which it came about.
func (p *Program) writeExplanation(t *api.Table, r *api.Server, others bool) error {
	now := p.now()
	w := &statusWriter{p: p, now: now, colours: p.colours(p.Stdout)}
	w.styled(bold, "%s", wordsExplainHead(t, r))
	for _, part := range []struct {
		title string
		facts []fact
	}{
		{"data", dataFacts(t, r, now)},
		{"server", serverFacts(r)},
		{"backend", backendFacts(t, now)},
	} {
		w.line("")
		w.styled(bold, "%s", part.title)
		w.facts(part.facts)
	}
	w.line("")
	w.styled(bold, "steps")
	if note := wordsOldSteps(t); note != "" {
		w.styled(yellow, "  %s", note)
	}
	if err := p.writeTable(stepsTable(r)); err != nil {
		return err
	}
	w.line("")
	w.styled(bold, "result")
	w.facts(resultFacts(t, r, now))
	if others {
		w.line("")
		w.styled(bold, "all servers")
		if err := p.writeTable(othersTable(t)); err != nil {
			return err
		}
	}
	return w.err
}

// fact is a name with what is known of it.
type fact struct{ name, text string }

func (w *statusWriter) facts(facts []fact) {
	width := 0
	for _, f := range facts {
		width = max(width, len(f.name))
	}
	for _, f := range facts {
		if f.text != "" {
			w.line("  %-*s  %s", width, f.name, f.text)
		}
	}
}

func dataFacts(t *api.Table, r *api.Server, now time.Time) []fact {
	facts := []fact{{"target", t.Target}}
	if r.Load == nil {
		return append(facts, fact{"value", wordsNoLoad(r)})
	}
	facts = append(facts,
		fact{"series", r.Series},
		fact{"value", exact(*r.Load)},
		fact{"from", wordsEarlier(t, r)},
		fact{"aggregate", wordsAggregate(t, r)})
	if r.Timestamp != nil {
		facts = append(facts, fact{"stamp", wordsTimestamp(*r.Timestamp)})
	}
	if r.AgeSeconds != nil {
		facts = append(facts, fact{"age", wordsAge(*r.AgeSeconds, t, now)})
	}
	return facts
}

func serverFacts(r *api.Server) []fact {
	return []fact{
		{"state", wordsServerState(r)},
		{"capacity", exact(r.Capacity)},
		{"initial weight", strconv.Itoa(r.InitialWeight)},
	}
}

func backendFacts(t *api.Table, now time.Time) []fact {
	return []fact{
		{"pass", wordsPass(t, now)},
		{"verdict", wordsVerdictOf(t)},
		{"fault", t.Fault},
		{"function", string(t.Function)},
		{"mean", wordsMean(t)},
		{"largest share", wordsLargest(t)},
		{"loop", wordsLoopOf(t)},
		{"freeze", wordsFreezeOf(t, now)},
		{"mode", wordsModeOf(t, now)},
	}
}

func resultFacts(t *api.Table, r *api.Server, now time.Time) []fact {
	return []fact{
		{"weight", strconv.Itoa(r.Weight)},
		{"in force", wordsInForce(t, r)},
		{"share", wordsShare(r)},
		{"last change", wordsLastChange(t, now)},
		{"pin", wordsPinOf(r, now)},
	}
}

// stepsTable numbers the steps, with the digits that their texts have.
func stepsTable(r *api.Server) *table {
	out := newTable(">#", "step", ">before", ">after", "how")
	for i, s := range r.Reasons {
		out.add(cell{text: strconv.Itoa(i + 1)}, cell{text: s.Step}, cell{text: digits(s.Before)}, cell{text: digits(s.After)}, cell{text: s.Text})
	}
	return out
}

// othersTable has the numbers of each server at each step, so that the mean,
// the level of water-fill and all sums can be worked out.
func othersTable(t *api.Table) *table {
	steps := []string{
		weighting.StepLoad, weighting.StepRelative, weighting.StepFunction, weighting.StepShare,
		weighting.StepMaxShare, weighting.StepCold, weighting.StepRamp, weighting.StepRest, weighting.StepWeight,
	}
	header := []string{"server", ">value", ">load", ">capacity"}
	for _, s := range steps {
		switch s {
		case weighting.StepLoad:
			s = "load/capacity"
		case weighting.StepWeight:
			s = "rounded"
		}
		header = append(header, ">"+s)
	}
	out := newTable(append(header, ">weight", ">in force")...)
	out.keys = 1
	for i := range t.Servers {
		r := &t.Servers[i]
		row := []cell{{text: r.Server}, {text: maybe(r.Load, exact)}, {text: before(r, weighting.StepLoad)}, {text: exact(r.Capacity)}}
		for _, s := range steps {
			row = append(row, cell{text: after(r, s)})
		}
		out.add(append(row, cell{text: strconv.Itoa(r.Weight)}, cell{text: strconv.Itoa(r.AppliedWeight)})...)
	}
	return out
}

// step finds one of a server's steps; nil when it has none of that name.
func step(r *api.Server, name string) *weighting.Reason {
	i := slices.IndexFunc(r.Reasons, func(s weighting.Reason) bool { return s.Step == name })
	if i < 0 {
		return nil
	}
	return &r.Reasons[i]
}

func before(r *api.Server, name string) string {
	if s := step(r, name); s != nil {
		return digits(s.Before)
	}
	return "-"
}

func after(r *api.Server, name string) string {
	if s := step(r, name); s != nil {
		return digits(s.After)
	}
	return "-"
}

// digits prints a number with as many digits as the texts of steps do.
func digits(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// exact prints a number so that it reads back the same.
func exact(v float64) string {
	if a := max(v, -v); a == 0 || a >= 1e-4 && a < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
