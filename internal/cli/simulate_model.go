package cli

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/simulate"
)

// modelFlags are the flags that change a preset's plant. Each changes its
// field only when it is given.
type modelFlags struct {
	sets []func(*simulate.Model, *cobra.Command) error
}

// register makes a flag of every parameter. The values shown as defaults are
// those of preset a.
func (f *modelFlags) register(flags *pflag.FlagSet) {
	d := simulate.ModelA()
	integer := func(name string, value int, help string, field func(*simulate.Model) *int) {
		v := flags.Int(name, value, help)
		f.when(name, func(m *simulate.Model) error { *field(m) = *v; return nil })
	}
	decimal := func(name string, value float64, help string, field func(*simulate.Model) *float64) {
		v := flags.Float64(name, value, help)
		f.when(name, func(m *simulate.Model) error { *field(m) = *v; return nil })
	}
	duration := func(name string, value time.Duration, help string, field func(*simulate.Model) *time.Duration) {
		v := flags.Duration(name, value, help)
		f.when(name, func(m *simulate.Model) error { *field(m) = *v; return nil })
	}
	integer("servers", d.Servers, "servers of the backend", func(m *simulate.Model) *int { return &m.Servers })
	capacities := flags.String("capacities", "", "`NUMBERS` with commas, one a server or a repeating pattern: 1,1,2 [all 1]")
	f.when("capacities", func(m *simulate.Model) error { return setCapacities(m, *capacities) })
	integer("connections", d.Connections, "connections open in steady state", func(m *simulate.Model) *int { return &m.Connections })

	kind := flags.String("rates", string(d.Rates.Kind), "how rates are spread: lognormal, pareto or file")
	f.when("rates", func(m *simulate.Model) error { setRates(m, *kind); return nil })
	decimal("median", d.Rates.Median, "lognormal: the median rate", func(m *simulate.Model) *float64 { return &m.Rates.Median })
	decimal("sigma", d.Rates.Sigma, "lognormal: spread of the rate's logarithm", func(m *simulate.Model) *float64 { return &m.Rates.Sigma })
	decimal("alpha", simulate.ModelB().Rates.Alpha, "pareto: the tail's exponent", func(m *simulate.Model) *float64 { return &m.Rates.Alpha })
	decimal("min-rate", d.Rates.Min, "least rate", func(m *simulate.Model) *float64 { return &m.Rates.Min })
	decimal("max-rate", d.Rates.Max, "largest rate", func(m *simulate.Model) *float64 { return &m.Rates.Max })
	file := flags.String("rates-file", "", "CSV `FILE` of rate,lifetime in seconds, one open-to-close connection a row; implies --rates file")
	f.when("rates-file", func(m *simulate.Model) error { return readRates(m, *file) })

	duration("lifetime", d.Lifetime.Mean, "mean lifetime of a connection", func(m *simulate.Model) *time.Duration { return &m.Lifetime.Mean })
	decimal("lifetime-sigma", d.Lifetime.Sigma, "0: exponential lifetimes; else lognormal with this spread of the logarithm",
		func(m *simulate.Model) *float64 { return &m.Lifetime.Sigma })
	decimal("short-per-long", 0, "short connections added for each long one", func(m *simulate.Model) *float64 { return &m.ShortPerLong })
	duration("short-lifetime", 5*time.Second, "their mean lifetime", func(m *simulate.Model) *time.Duration { return &m.ShortLifetime })

	integer("balancers", d.Balancers, "HAProxies with a daemon each", func(m *simulate.Model) *int { return &m.Balancers })
	version := flags.String("haproxy", "2.6", "`VERSION` whose roundrobin is modelled: it takes changes of weights differently since 3.2")
	f.when("haproxy", func(m *simulate.Model) error { return setHAProxy(m, *version) })
	duration("interval", d.Interval, "rebalance interval", func(m *simulate.Model) *time.Duration { return &m.Interval })
	decimal("jitter", d.Jitter, "how far waits differ from the interval, as a fraction", func(m *simulate.Model) *float64 { return &m.Jitter })
	duration("step", d.Step, "step of the series", func(m *simulate.Model) *time.Duration { return &m.Step })
	duration("lag", d.Lag, "time from a step's end until its point can be read", func(m *simulate.Model) *time.Duration { return &m.Lag })
	duration("window", d.Window, "render window", func(m *simulate.Model) *time.Duration { return &m.Window })
	aggregate := flags.String("aggregate", string(d.Aggregate), "last, average, median, max or sum over the window")
	f.when("aggregate", func(m *simulate.Model) error { m.Aggregate = graphite.Aggregate(*aggregate); return nil })
	duration("max-age", d.MaxAge, "a point older than this is no data", func(m *simulate.Model) *time.Duration { return &m.MaxAge })
	from := flags.String("lifetime-from", string(d.LifetimeFrom), "how a balancer learns the mean lifetime: sessions, little or exact")
	f.when("lifetime-from", func(m *simulate.Model) error { m.LifetimeFrom = simulate.LifetimeFrom(*from); return nil })
	f.registerWeighting(integer, decimal, d)

	duration("warmup", d.Warmup, "steered but not measured [2 lifetimes when --lifetime is given]", func(m *simulate.Model) *time.Duration { return &m.Warmup })
	duration("duration", d.Measured, "measured time [8 lifetimes when --lifetime is given]", func(m *simulate.Model) *time.Duration { return &m.Measured })
	restart := flags.Bool("recovery", d.Restart, "at the end restart a server empty and measure its recovery")
	f.when("recovery", func(m *simulate.Model) error { m.Restart = *restart; return nil })
	events := flags.StringArray("event", nil, "a disturbance, KIND@TIME[,key=value...]: restart, hot, missing, stuck, storm, swing; may be repeated")
	f.when("event", func(m *simulate.Model) error { return setEvents(m, *events) })
}

func (f *modelFlags) registerWeighting(
	integer func(string, int, string, func(*simulate.Model) *int),
	decimal func(string, float64, string, func(*simulate.Model) *float64),
	d simulate.Model,
) {
	decimal("aggressiveness", d.Weighting.Aggressiveness, "key aggressiveness", func(m *simulate.Model) *float64 { return &m.Weighting.Aggressiveness })
	decimal("limiting-factor", d.Weighting.LimitingFactor, "key limiting_factor", func(m *simulate.Model) *float64 { return &m.Weighting.LimitingFactor })
	integer("min-weight", d.Weighting.MinWeight, "key min_weight", func(m *simulate.Model) *int { return &m.Weighting.MinWeight })
	integer("max-weight", d.Weighting.MaxWeight, "key max_weight", func(m *simulate.Model) *int { return &m.Weighting.MaxWeight })
	decimal("max-share", d.Weighting.MaxShare, "key max_share", func(m *simulate.Model) *float64 { return &m.Weighting.MaxShare })
	decimal("max-step", d.Weighting.MaxStep, "key max_step; 0 = off", func(m *simulate.Model) *float64 { return &m.Weighting.MaxStep })
	decimal("deadband", d.Weighting.Deadband, "key deadband", func(m *simulate.Model) *float64 { return &m.Weighting.Deadband })
}

// setRates chooses how rates are spread. What the preset does not say of it is
// as the help has it.
func setRates(m *simulate.Model, kind string) {
	m.Rates.Kind = simulate.RateKind(kind)
	a, b := simulate.ModelA().Rates, simulate.ModelB().Rates
	if m.Rates.Alpha == 0 {
		m.Rates.Alpha = b.Alpha
	}
	if m.Rates.Median == 0 {
		m.Rates.Median, m.Rates.Sigma = a.Median, a.Sigma
	}
}

func (f *modelFlags) when(flag string, set func(*simulate.Model) error) {
	f.sets = append(f.sets, func(m *simulate.Model, c *cobra.Command) error {
		if !c.Flags().Changed(flag) {
			return nil
		}
		if err := set(m); err != nil {
			return fmt.Errorf("--%s: %w", flag, err)
		}
		return nil
	})
}

// model is the preset with every flag that was given.
func (f *modelFlags) model(c *cobra.Command, preset string) (simulate.Model, error) {
	var m simulate.Model
	switch preset {
	case "a":
		m = simulate.ModelA()
	case "b":
		m = simulate.ModelB()
	default:
		return m, usage(fmt.Errorf("--model is %q, want a or b", preset))
	}
	m.ShortLifetime = 5 * time.Second
	var faults []error
	for _, set := range f.sets {
		faults = append(faults, set(&m, c))
	}
	changed := c.Flags().Changed
	if changed("lifetime") || changed("rates-file") {
		if !changed("warmup") {
			m.Warmup = 2 * m.Lifetime.Mean
		}
		if !changed("duration") {
			m.Measured = 8 * m.Lifetime.Mean
		}
	}
	if !changed("max-age") {
		m.MaxAge = max(m.MaxAge, m.Lag+3*m.Step)
	}
	if !changed("window") {
		m.Window = max(m.Window, 5*m.Step+m.Lag)
	}
	if err := errors.Join(faults...); err != nil {
		return m, usage(err)
	}
	return m, nil
}

func setHAProxy(m *simulate.Model, version string) error {
	var major, minor int
	if n, err := fmt.Sscanf(version, "%d.%d", &major, &minor); n != 2 || err != nil || major < 1 || minor < 0 {
		return fmt.Errorf("%q is no version, want for example 2.6 or 3.2", version)
	}
	m.HAProxy32 = major > 3 || major == 3 && minor >= 2
	return nil
}

func setCapacities(m *simulate.Model, text string) error {
	var pattern []float64
	for part := range strings.SplitSeq(text, ",") {
		c, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil {
			return fmt.Errorf("%q is no number", part)
		}
		pattern = append(pattern, c)
	}
	if len(pattern) > m.Servers {
		return fmt.Errorf("%d numbers for %d servers", len(pattern), m.Servers)
	}
	m.Capacities = make([]float64, m.Servers)
	for i := range m.Capacities {
		m.Capacities[i] = pattern[i%len(pattern)]
	}
	return nil
}

func readRates(m *simulate.Model, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	pairs, err := simulate.ReadPairs(file)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	m.Rates = simulate.Rates{Kind: simulate.Recorded, Pairs: pairs}
	m.Lifetime = simulate.Lifetimes{Mean: simulate.MeanLifetime(pairs)}
	return nil
}

func setEvents(m *simulate.Model, texts []string) error {
	for _, text := range texts {
		e, err := simulate.ParseEvent(text)
		if err != nil {
			return err
		}
		m.Events = append(m.Events, e)
	}
	return nil
}
