package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/query"
	"github.com/haproxy-weighter/haproxy-weighter/internal/script"
	"github.com/haproxy-weighter/haproxy-weighter/lua"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// luaFlags are those of the command "lua".
type luaFlags struct {
	table   string // file of a recorded table; empty: a live one
	backend string
	message string // empty: the function weigh is run
	args    []string
	json    bool
	bench   int
	config  bool // -f is given
}

func newLua(p *Program) *cobra.Command {
	f := &luaFlags{}
	c := &cobra.Command{
		Use:     "lua FILE",
		Short:   "Run a Lua script of yours on a recorded or live table, and change nothing",
		Long:    wordsLua,
		Example: wordsLuaExample,
		Args:    arguments("FILE"),
		RunE: p.action(func(ctx context.Context, c *cobra.Command, args []string) error {
			f.config = c.Flags().Changed("config")
			return p.lua(ctx, args[0], f)
		}),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"lua"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.table, "table", "", "recorded table: a `FILE` with what plan --json or /api/v1/table gives")
	flags.StringVar(&f.backend, "backend", "", "the `BACKEND` to weigh; without --table the configuration's is read once, as plan does")
	flags.StringVar(&f.message, "message", "", "run the function answer for an SPOE message of this `NAME`")
	flags.StringArrayVar(&f.args, "arg", nil, "an argument of the message, `NAME=VALUE`; may be repeated")
	flags.IntVar(&f.bench, "bench", 0, "run it `N` times more and print how long it took")
	jsonFlag(c, &f.json)
	if err := c.RegisterFlagCompletionFunc("backend", func(c *cobra.Command, _ []string, start string) ([]string, cobra.ShellCompDirective) {
		return p.completeBackend(c, nil, start)
	}); err != nil {
		panic(err) // the flag is the one above
	}
	return c
}

// mostRuns keeps --bench within the patience of people.
const mostRuns = 1_000_000

func (p *Program) lua(ctx context.Context, file string, f *luaFlags) error {
	switch {
	case f.table == "" && f.backend == "":
		return usage(errors.New("lua: a table is missing"), "give a recorded one with --table FILE, or a backend of the configuration with --backend NAME")
	case f.message == "" && len(f.args) > 0:
		return usage(errors.New("lua: --arg goes with --message"))
	case f.bench < 0 || f.bench > mostRuns:
		return usage(fmt.Errorf("lua: --bench %d: want 1 to %d", f.bench, mostRuns))
	}
	s, err := lua.Load(file, lua.Options{})
	if err != nil {
		return usage(err)
	}
	function := "weigh"
	if f.message != "" {
		function = "answer"
	}
	if err := s.Need(function); err != nil {
		return usage(err, hintLuaFunction(function))
	}
	args, err := luaArgs(f.args)
	if err != nil {
		return err
	}
	tables, settings, err := p.luaTables(ctx, f, s)
	if err != nil {
		return err
	}
	if f.message != "" {
		return p.luaAnswer(f, s, args, tables)
	}
	table, err := pickTable(tables, f)
	if err != nil {
		return err
	}
	return p.luaWeigh(f, s, table, settings)
}

// luaArgs reads NAME=VALUE. A whole number and true and false are taken as
// such, everything else and what stands in double quotes as a text.
func luaArgs(given []string) ([]lua.Arg, error) {
	args := make([]lua.Arg, len(given))
	for i, text := range given {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, usage(fmt.Errorf("lua: --arg %q: want NAME=VALUE", text))
		}
		args[i] = lua.Arg{Name: name, Value: value}
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			args[i].Value = n
		} else if value == "true" || value == "false" {
			args[i].Value = value == "true"
		} else if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			args[i].Value = value[1 : len(value)-1]
		}
	}
	return args, nil
}

// luaTables gives the recorded tables, or the live ones of the backend, and the
// settings that its weights are limited by: the configuration's when one is
// read, else the defaults.
func (p *Program) luaTables(ctx context.Context, f *luaFlags, s *lua.Script) ([]api.Table, weighting.Settings, error) {
	settings := weighting.DefaultSettings()
	if f.table != "" && !f.config {
		tables, err := readTables(f.table)
		return tables, settings, err
	}
	c, err := p.read(ctx)
	if err != nil {
		return nil, settings, err
	}
	var tables []api.Table
	if f.table != "" {
		if tables, err = readTables(f.table); err != nil {
			return nil, settings, err
		}
		if f.backend == "" {
			f.backend = tables[0].Backend
		}
	}
	b, err := find(c, f.backend)
	if err != nil {
		return nil, settings, err
	}
	if f.table == "" {
		tables, err = p.liveTables(ctx, c, *b, s)
	}
	return tables, b.Weighting, err
}

// liveTables makes one pass that changes nothing, by the script if it weighs:
// then Graphite's further values are read too.
func (p *Program) liveTables(ctx context.Context, c *config.Config, b config.Backend, s *lua.Script) ([]api.Table, error) {
	if s.Need("weigh") == nil {
		if err := script.Weighing(&b.Weighting, s, b.Name); err != nil {
			return nil, err
		}
		b.FunctionSet = true
	}
	c.Backends = []config.Backend{b}
	tables, err := p.planTables(ctx, c)
	if err != nil {
		return nil, failed(err, hintCheckLive)
	}
	return planEnvelopes(tables), nil
}

// luaWeigh has the script weigh one table, and shows what became of its shares.
func (p *Program) luaWeigh(f *luaFlags, s *lua.Script, table *api.Table, settings weighting.Settings) error {
	if err := script.Weighing(&settings, s, table.Backend); err != nil {
		return usage(err)
	}
	eye := &witness{}
	eye.Weigher = settings.NewWeigher()
	settings.NewWeigher = func() weighting.Weigher { return eye }
	d := weighting.NewController(settings).Decide(inputOf(table))
	result := weighResultOf(table, d, eye)
	if f.bench > 0 && eye.asked && eye.err == nil {
		result.Bench = bench(f.bench, lua.WeighLimit, func() error {
			_, _, err := eye.Weigher.Weigh(eye.in)
			return err
		})
	}
	err := p.writeJSONor(f.json, result, func() error { return p.writeWeighed(result) })
	switch {
	case err != nil:
		return err
	case eye.err != nil:
		return failed(fmt.Errorf("weigh has failed, so the weights would stay as they are: %w", eye.err))
	case d.Verdict == weighting.Hold || !eye.asked:
		return failed(fmt.Errorf("the script was not asked: %s", d.Why))
	}
	return nil
}

// luaAnswer has the script answer one message, and shows the variables.
func (p *Program) luaAnswer(f *luaFlags, s *lua.Script, args []lua.Arg, tables []api.Table) error {
	h := query.New(query.Options{
		Script: s, Now: func() time.Time { return tables[0].Time }, Sources: sourcesOf(tables),
	})
	set, printed, askErr := h.Try(f.message, args)
	result := answerResultOf(f.message, set, printed)
	if f.bench > 0 && askErr == nil {
		result.Bench = bench(f.bench, lua.AnswerLimit, func() error {
			_, _, err := h.Try(f.message, args)
			return err
		})
	}
	err := p.writeJSONor(f.json, result, func() error { return p.writeAnswered(result) })
	switch {
	case err != nil:
		return err
	case askErr != nil:
		return failed(fmt.Errorf("answer has failed, so nothing would be set: %w", askErr))
	}
	return nil
}

// writeJSONor prints v as JSON, or by its words.
func (p *Program) writeJSONor(asJSON bool, v any, words func() error) error {
	if asJSON {
		return p.writeJSON(v)
	}
	return words()
}

// witness notes what a script is asked and says.
type witness struct {
	weighting.Weigher
	asked  bool
	in     weighting.WeighInput
	shares []float64
	err    error
}

// Weigh asks the script.
func (w *witness) Weigh(in weighting.WeighInput) (shares []float64, printed []string, err error) {
	shares, printed, err = w.Weigher.Weigh(in)
	w.asked, w.in, w.shares, w.err = true, in, shares, err
	return shares, printed, err
}

// timings are those of --bench. Their JSON form is documented and stable.
type timings struct {
	Calls  int     `json:"calls"`
	Failed int     `json:"failed"`
	Median float64 `json:"median_seconds"`
	P99    float64 `json:"p99_seconds"`
	Max    float64 `json:"max_seconds"`
	Limit  float64 `json:"limit_seconds"`
}

// bench times n calls.
func bench(n int, limit time.Duration, call func() error) *timings {
	t := &timings{Calls: n, Limit: limit.Seconds()}
	took := make([]time.Duration, n)
	for i := range took {
		began := time.Now()
		if call() != nil {
			t.Failed++
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	t.Median, t.P99, t.Max = took[n/2].Seconds(), took[n*99/100].Seconds(), took[n-1].Seconds()
	return t
}

// sourcesOf has the handler answer from recorded tables.
func sourcesOf(tables []api.Table) []query.Source {
	var sources []query.Source
	for i := range tables {
		t := &tables[i]
		if slices.ContainsFunc(sources, func(s query.Source) bool { return s.Backend == t.Backend }) {
			continue // of several sockets the first answers
		}
		made := []*balancer.Table{tableOf(t)}
		sources = append(sources, query.Source{
			Backend: t.Backend, Tables: func() []*balancer.Table { return made }, MaxAge: secondsOf(t.MaxAgeSeconds),
			Quorum: t.Quorum, HigherIsBetter: t.Better == weighting.Higher,
		})
	}
	return sources
}
