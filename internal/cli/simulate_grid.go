package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/haproxy-weighter/haproxy-weighter/internal/simulate"
)

// grid runs simulate --grid.
func (p *Program) grid(ctx context.Context, c *cobra.Command, f *simulateFlags, m simulate.Model) error {
	policies, err := f.parsePolicies(simulate.GridPolicies())
	if err != nil {
		return err
	}
	for _, fixedFlag := range []string{"lifetime", "step", "lag", "balancers", "capacities", "warmup", "duration", "recovery", "event"} {
		if c.Flags().Changed(fixedFlag) {
			return usage(fmt.Errorf("--%s: the grid sets that itself", fixedFlag), hintHelp(c.CommandPath()))
		}
	}
	g := simulate.DefaultGrid(m)
	g.Policies, g.Parallel = policies, f.parallel
	seeds := *f
	if !c.Flags().Changed("seeds") {
		seeds.seeds = 2
	}
	g.Seeds = seeds.seedList()
	line := p.progress("simulating the grid")
	started := time.Now()
	g.Progress = func(s simulate.Progress) {
		left := time.Since(started) / time.Duration(s.Done) * time.Duration(s.All-s.Done)
		line.set(fmt.Sprintf("simulating the grid, %d of %d cells done, at most about %s left", s.Done, s.All, left.Round(time.Second)))
	}
	cells, err := g.Run(ctx)
	line.end()
	if err != nil {
		return err
	}
	worst := simulate.Worsts(cells)
	switch {
	case f.csv:
		return simulate.WriteCells(p.Stdout, cells)
	case f.json:
		return p.writeJSON(struct {
			Worst []simulate.Worst `json:"worst"`
			Cells []simulate.Cell  `json:"cells"`
		}{worst, cells})
	}
	return p.writeGrid(&g, worst)
}

func (p *Program) writeGrid(g *simulate.Grid, worst []simulate.Worst) error {
	t := newTable("policy", ">worst ratio", ">range", "in the cell", ">median", ">best", ">cells worse than equal weights")
	for _, w := range worst {
		t.add(cell{text: w.Policy},
			cell{text: fixed(w.Ratio.Median, 2), style: bold},
			cell{text: fixed(w.Ratio.Least, 2) + ".." + fixed(w.Ratio.Most, 2)},
			cell{text: cellWords(&w.Cell)},
			cell{text: fixed(w.Median, 2)},
			cell{text: fixed(w.Best, 2)},
			cell{text: fmt.Sprintf("%d of %d", w.Above, w.Cells)})
	}
	if err := p.writeTable(t); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.Stdout, "\nratio: excess over that of equal weights, median of %s; lifetimes %s, delays %s, servers %s, balancers %s\n",
		count(len(g.Seeds), "seed"), durations(g.Lifetimes), durations(g.Delays), list(g.Servers), list(g.Balancers))
	return err
}

func cellWords(c *simulate.Cell) string {
	return fmt.Sprintf("lifetime %s, delay %s, %s, %s",
		roundDuration(time.Duration(c.Lifetime*float64(time.Second))), roundDuration(time.Duration(c.Delay*float64(time.Second))),
		count(c.Servers, "server"), count(c.Balancers, "balancer"))
}

func durations(all []time.Duration) string {
	parts := make([]string, len(all))
	for i, d := range all {
		parts[i] = roundDuration(d)
	}
	return strings.Join(parts, " ")
}

func list(all []int) string { return strings.Trim(fmt.Sprint(all), "[]") }
