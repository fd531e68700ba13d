package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// policy is one way of spreading the clients.
type policy struct {
	id       string // as --policies takes it
	name     string // as it is shown
	balance  string // HAProxy's algorithm
	function weighting.Function
}

// The policies by which the others are judged, and what is judged.
const (
	equalID     = "equal"
	waterFillID = string(weighting.WaterFill)
)

// allPolicies are what can be played, in the order in which they are.
func allPolicies() []policy {
	weighted := func(f weighting.Function) policy { return policy{string(f), string(f), "roundrobin", f} }
	return []policy{
		{equalID, "equal weights", "roundrobin", ""},
		{"leastconn", "leastconn", "leastconn", ""},
		weighted(weighting.LimitedProportions),
		weighted(weighting.NormalisedExponential),
		weighted(weighting.WaterFill),
		{string(weighting.Feedback), "leastconn + feedback", "leastconn", weighting.Feedback},
	}
}

// speedup is how much faster than in production everything goes, and lifetime
// the mean time that a client stays: ten minutes, sped up.
const (
	speedup  = 30
	lifetime = 10 * time.Minute / speedup
)

// options are what the command line says.
type options struct {
	seeds    int
	first    uint64 // seed; the others follow it
	policies []policy
	servers  int
	clients  int           // connected at once for each server, on average
	warmUp   time.Duration // of each run, not measured
	duration time.Duration // of each run, measured
	parallel int
	dir      string
	plot     string
	asJSON   bool
	progress io.Writer
	terminal bool // progress is one
}

const usage = `Compares policies on a real HAProxy and a real Graphite: the same long-lived clients
under each policy in turn. Prints a table and draws a picture.

`

// parse reads the command line.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var ids []string
	for _, p := range allPolicies() {
		ids = append(ids, p.id)
	}
	var policies string
	f := flag.NewFlagSet("convergence", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.IntVar(&o.seeds, "seeds", 3, "how many populations of clients; the table has medians over them")
	f.Uint64Var(&o.first, "seed", 1, "the first seed: the same `number`, the same clients")
	f.StringVar(&policies, "policies", strings.Join(ids, ","), "which policies; "+equalID+" is always played")
	f.IntVar(&o.servers, "servers", 8, "2 to 50")
	f.IntVar(&o.clients, "clients", 200, "clients connected at once for each server, on average, 1 to 1000")
	f.DurationVar(&o.warmUp, "warm-up", 20*time.Second, "start of each run that is not measured")
	f.DurationVar(&o.duration, "duration", 45*time.Second, "measured part of each run")
	f.IntVar(&o.parallel, "parallel", min(runtime.NumCPU(), 6), "runs side by side, each with a HAProxy of its own; each takes about a quarter of a core")
	f.StringVar(&o.plot, "plot", "convergence.svg", "where the picture goes; empty: nowhere")
	f.StringVar(&o.dir, "dir", "", "keep configurations and logs in this `folder`")
	f.BoolVar(&o.asJSON, "json", false, "JSON instead of a table")
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stderr, usage)
		f.SetOutput(stderr)
		f.PrintDefaults()
		return o, err
	}
	if err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; see --help", f.Arg(0))
	}
	if o.policies, err = parsePolicies(policies); err != nil {
		return o, err
	}
	return o, o.check()
}

func parsePolicies(list string) ([]policy, error) {
	wanted := append(strings.Split(list, ","), equalID)
	all := allPolicies()
	for _, id := range wanted {
		if !slices.ContainsFunc(all, func(p policy) bool { return p.id == id }) {
			var known []string
			for _, p := range all {
				known = append(known, p.id)
			}
			return nil, fmt.Errorf("--policies: there is no policy %q; known: %s", id, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(all, func(p policy) bool { return !slices.Contains(wanted, p.id) }), nil
}

func (o *options) check() error {
	for _, n := range []struct {
		flag            string
		value, from, to int
	}{
		{"seeds", o.seeds, 1, 1000},
		{"servers", o.servers, 2, 50},
		{"clients", o.clients, 1, 1000},
		{"parallel", o.parallel, 1, 64},
	} {
		if n.value < n.from || n.value > n.to {
			return fmt.Errorf("--%s is %d, want %d to %d", n.flag, n.value, n.from, n.to)
		}
	}
	if o.warmUp < 0 || o.warmUp%time.Second != 0 || o.duration < time.Second || o.duration%time.Second != 0 {
		return errors.New("--warm-up and --duration are whole seconds, --duration at least 1s")
	}
	return nil
}

// seconds is the length of one run.
func (o *options) seconds() int { return int((o.warmUp + o.duration) / time.Second) }

// measuredFrom is how many seconds of a run don't count.
func (o *options) measuredFrom() int { return int(o.warmUp / time.Second) }
