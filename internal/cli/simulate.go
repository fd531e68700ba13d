package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/haproxy-weighter/haproxy-weighter/internal/simulate"
)

// simulateFlags are the flags of "simulate" that are not the model's.
type simulateFlags struct {
	model    string
	policies []string
	seeds    int
	seed     uint64
	parallel int
	json     bool
	csv      bool
	plot     string
	plotted  string
	grid     bool
	series   string
	backend  string
}

func newSimulate(p *Program) *cobra.Command {
	var f simulateFlags
	var m modelFlags
	c := &cobra.Command{
		Use:     "simulate",
		Short:   "Try weighting functions on a model of a backend, or on a recording",
		Long:    wordsSimulate,
		Example: wordsSimulateExample,
		Args:    arguments(),
		RunE: p.action(func(ctx context.Context, c *cobra.Command, _ []string) error {
			if err := f.check(c); err != nil {
				return err
			}
			if f.series != "" {
				return p.replay(ctx, c, &f)
			}
			model, err := m.model(c, f.model)
			if err != nil {
				return err
			}
			if f.grid {
				return p.grid(ctx, c, &f, model)
			}
			return p.simulate(ctx, &f, model)
		}),
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.model, "model", "a", "the plant to begin from: `a` (30 servers, lognormal rates) or b (10 servers, Pareto rates)")
	flags.StringArrayVar(&f.policies, "policy", nil, "a `POLICY` to run; may be repeated [those of the published table]")
	flags.IntVar(&f.seeds, "seeds", 5, "how many runs, each with its own luck; the table has medians")
	flags.Uint64Var(&f.seed, "seed", 1, "the first run's `NUMBER`; the same number gives the same connections")
	flags.IntVar(&f.parallel, "parallel", 0, "runs at once [one a core]")
	m.register(flags)
	flags.BoolVar(&f.grid, "grid", false, "run each function over many lifetimes, delays, servers and balancers, and show its worst cell; takes a quarter of an hour")
	flags.StringVar(&f.series, "series", "", "replay this `FILE`, a render answer with format=json, through the function that --config configures")
	flags.StringVar(&f.backend, "backend", "", "which `BACKEND` of the configuration, with --series [the only one]")
	flags.StringVar(&f.plot, "plot", "", "draw the first seed into `FILE`, an SVG picture")
	flags.StringVar(&f.plotted, "plot-policy", "water-fill", "whose servers the plot shows beside those of equal weights")
	flags.BoolVar(&f.csv, "csv", false, "print CSV, one line a policy and seed (with --series: a step and server)")
	jsonFlag(c, &f.json)
	return c
}

func (f *simulateFlags) check(c *cobra.Command) error {
	hint := hintHelp(c.CommandPath())
	switch {
	case f.json && f.csv:
		return usage(errors.New("--json and --csv exclude each other"), hint)
	case f.grid && f.series != "":
		return usage(errors.New("--grid and --series exclude each other"), hint)
	case f.plot != "" && (f.grid || f.series != ""):
		return usage(errors.New("--plot goes with neither --grid nor --series"), hint)
	case f.backend != "" && f.series == "":
		return usage(errors.New("--backend goes with --series only"), hint)
	case f.seeds < 1 || f.seeds > 1000:
		return usage(fmt.Errorf("--seeds is %d, want 1..1000", f.seeds), hint)
	case f.parallel < 0:
		return usage(fmt.Errorf("--parallel is %d, want 0 or more", f.parallel), hint)
	}
	return nil
}

func (f *simulateFlags) seedList() []uint64 {
	list := make([]uint64, f.seeds)
	for i := range list {
		list[i] = f.seed + uint64(i)
	}
	return list
}

// parsePolicies reads the named policies, or the default ones. The plot needs
// the one that it shows.
func (f *simulateFlags) parsePolicies(standard []string) ([]simulate.Policy, error) {
	names := f.policies
	if len(names) == 0 {
		names = standard
	}
	seen := make(map[string]bool)
	var list []simulate.Policy
	for _, name := range names {
		policy, err := simulate.ParsePolicy(name)
		if err != nil {
			return nil, usage(err, hintPolicies)
		}
		if seen[policy.Name] {
			return nil, usage(fmt.Errorf("policy %q is named twice", name))
		}
		seen[policy.Name] = true
		list = append(list, policy)
	}
	if f.plot != "" && !seen[f.plotted] {
		return nil, usage(fmt.Errorf("--plot-policy is %q, which is not among the policies that run", f.plotted), hintPolicies)
	}
	return list, nil
}

func (p *Program) simulate(ctx context.Context, f *simulateFlags, m simulate.Model) error {
	policies, err := f.parsePolicies(simulate.DefaultPolicies())
	if err != nil {
		return err
	}
	if err := m.Check(); err != nil {
		return usage(err)
	}
	line := p.progress("simulating")
	study := simulate.Study{
		Model: m, Policies: policies, Seeds: f.seedList(), Trace: f.plot != "", Parallel: f.parallel,
		Progress: func(g simulate.Progress) { line.set(fmt.Sprintf("simulating, %d of %d runs done", g.Done, g.All)) },
	}
	outcome, err := study.Run(ctx)
	line.end()
	if err != nil {
		return err
	}
	if f.plot != "" {
		picture, err := outcome.Plot(f.plotted)
		if err != nil {
			return err
		}
		if err := os.WriteFile(f.plot, []byte(picture), 0o644); err != nil {
			return fmt.Errorf("--plot: %w", err)
		}
	}
	switch {
	case f.csv:
		return outcome.WriteCSV(p.Stdout, study.Seeds)
	case f.json:
		return p.writeJSON(struct {
			Model    modelJSON          `json:"model"`
			Seeds    []uint64           `json:"seeds"`
			Policies []simulate.Summary `json:"policies"`
		}{newModelJSON(&m), study.Seeds, outcome.Summaries()})
	}
	return p.writeSummaries(&m, f.seeds, outcome.Summaries())
}

// modelJSON tells which plant the numbers are of. Durations are in seconds.
type modelJSON struct {
	Servers     int     `json:"servers"`
	Connections int     `json:"connections"`
	Lifetime    float64 `json:"lifetime_seconds"`
	Balancers   int     `json:"balancers"`
	HAProxy     string  `json:"haproxy"`
	Interval    float64 `json:"interval_seconds"`
	Delay       float64 `json:"delay_seconds"`
	RateCV      float64 `json:"rate_cv"`
	EqualCV     float64 `json:"predicted_cv_of_equal_weights"`
	Warmup      float64 `json:"warmup_seconds"`
	Measured    float64 `json:"measured_seconds"`
}

func newModelJSON(m *simulate.Model) modelJSON {
	return modelJSON{
		HAProxy: roundrobinOf(m),
		Servers: m.Servers, Connections: m.Connections, Lifetime: m.Lifetime.Mean.Seconds(),
		Balancers: m.Balancers, Interval: m.Interval.Seconds(), Delay: m.Delay().Seconds(),
		RateCV: m.Rates.CV(), EqualCV: m.PredictedCV(0), Warmup: m.Warmup.Seconds(), Measured: m.Measured.Seconds(),
	}
}

// roundrobinOf says which versions of HAProxy spread as the model does.
func roundrobinOf(m *simulate.Model) string {
	if m.HAProxy32 {
		return "3.2 and later"
	}
	return "2.6 to 3.1"
}

func (p *Program) writeSummaries(m *simulate.Model, seeds int, list []simulate.Summary) error {
	t := newTable("policy", ">max/mean", ">range", ">p99", ">excess", ">CV", ">gain", ">recovery", ">overshoot", ">churn/min", ">writes/min")
	t.keys = 1
	for _, s := range list {
		t.add(cell{text: s.Policy},
			cell{text: fixed(s.Imbalance.Median, 3), style: bold},
			cell{text: fixed(s.Imbalance.Least, 3) + ".." + fixed(s.Imbalance.Most, 3)},
			cell{text: fixed(s.P99.Median, 3)},
			cell{text: fixed(s.Excess.Median, 3)},
			cell{text: fixed(s.CV.Median, 3)},
			cell{text: percentOrNone(s.Gain.Median)},
			cell{text: recoveryWords(s.Recovery.Median)},
			cell{text: fixed(s.Overshoot.Median, 2)},
			cell{text: fixed(s.Churn.Median, 1)},
			cell{text: fixed(s.Writes.Median, 2)})
	}
	if err := p.writeTable(t); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.Stdout, "\n%s\n", wordsSimulated(m, seeds))
	return err
}

func fixed(x float64, decimals int) string {
	if math.IsNaN(x) {
		return "-"
	}
	return fmt.Sprintf("%.*f", decimals, x)
}

func percentOrNone(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*x)
}

func recoveryWords(s float64) string {
	switch {
	case math.IsNaN(s):
		return "-"
	case math.IsInf(s, 1):
		return "never"
	}
	return seconds(math.Round(s))
}

const hintPolicies = "a function may name its algorithm and constants: water-fill@random(1), limited-proportions:aggressiveness=1"

const (
	wordsSimulate = `Run a model of a backend with long-lived connections of unequal rates: servers,
balancers whose passes are out of step, HAProxy's own ways to place connections,
loads that come late and in steps, and the very code that sets the weights. It
needs no configuration, no HAProxy and no Graphite, and it changes nothing.

The table has, for each policy: the mean over time of the most loaded server's
load over the mean (max/mean), its range over the seeds, its 99th percentile, the
excess (max/mean - 1), the coefficient of variation, the share of the possible
gain (0% as equal weights, 100% as placing each connection on the server that is
least loaded at that moment), how long a server restarted empty takes to 80% of
the mean, how far it goes beyond, the sum of all changes of weights a minute, and
the passes a minute that write.

With --series, --config and --backend a recorded answer of Graphite is replayed
through the configured function instead: the weights that it would have set. Ask
Graphite for the configured target with a long window, format=json.`
	wordsSimulateExample = `  haproxy-weighter simulate                                        the published table
  haproxy-weighter simulate --model b --plot b.svg                 the other model, with a picture
  haproxy-weighter simulate --lifetime 10m --policy equal --policy water-fill
  haproxy-weighter simulate --rates file --rates-file connections.csv
  haproxy-weighter simulate --event restart@1h,server=3 --plot restart.svg
  haproxy-weighter simulate --grid                                 each function's worst cell
  haproxy-weighter simulate -f weighter.toml --series recorded.json`
)

func wordsSimulated(m *simulate.Model, seeds int) string {
	parts := []string{
		fmt.Sprintf("medians of %s of %s after %s of warm-up", count(seeds, "seed"), roundDuration(m.Measured), roundDuration(m.Warmup)),
		fmt.Sprintf("%s, %s, %s with the roundrobin of HAProxy %s",
			count(m.Servers, "server"), count(m.Connections, "connection"), count(m.Balancers, "balancer"), roundrobinOf(m)),
		fmt.Sprintf("mean lifetime %s, total delay %s", roundDuration(m.Lifetime.Mean), roundDuration(m.Delay())),
		fmt.Sprintf("CV %.3f predicted for equal weights", m.PredictedCV(0)),
	}
	return strings.Join(parts, "; ")
}

func roundDuration(d time.Duration) string {
	s := d.Round(time.Second).String()
	s = strings.Replace(s, "m0s", "m", 1)
	return strings.Replace(s, "h0m", "h", 1)
}
