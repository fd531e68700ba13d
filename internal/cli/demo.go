package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/haproxy-weighter/haproxy-weighter/test/demo"
)

const wordsDemo = `Show what this program does, on this machine and touching nothing of it: a real
HAProxy in front of small ingest servers, and long-lived clients that send
anything from 5 to 5,000 datapoints a second. The same clients are played
twice: first under equal weights, then with the weights set by the same loop as
in "run". Time is compressed thirty times. At the end there is a table of
before and after.

Needs the program haproxy, nothing else: Graphite is played by a small one in
memory. With --graphite and --carbon a real one takes its place; it must keep
tcp-service.* at one value a second. Ctrl-C at any time ends it and leaves
nothing behind. -f is not used.`

// defaultSeed gave the median gain of the seeds 1 to 7: neither the prettiest
// run nor the plainest.
const defaultSeed = 7

// demoFlags are the flags of the command demo.
type demoFlags struct {
	seed             uint64
	servers          int
	duration         time.Duration
	graphite, carbon string
	plain, asJSON    bool
}

func newDemo(p *Program) *cobra.Command {
	var f demoFlags
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show a real HAProxy being balanced, before and after, in 90 seconds",
		Long:  wordsDemo,
		Example: `  haproxy-weighter demo
  haproxy-weighter demo --seed 2 --duration 3m
  haproxy-weighter demo --plain --json > result.json`,
		Args: arguments(),
		RunE: p.action(func(ctx context.Context, _ *cobra.Command, _ []string) error { return p.demo(ctx, f) }),
	}
	c.Flags().Uint64Var(&f.seed, "seed", defaultSeed, "which clients come: the same `N`, the same clients")
	c.Flags().IntVar(&f.servers, "servers", 8, "ingest servers, 2 to 50")
	c.Flags().DurationVar(&f.duration, "duration", 90*time.Second, "both phases together, 4s or more")
	c.Flags().StringVar(&f.graphite, "graphite", "", "`URL` of the render API of a real Graphite; goes with --carbon")
	c.Flags().StringVar(&f.carbon, "carbon", "", "`HOST:PORT` of that Graphite's plaintext listener")
	c.Flags().BoolVar(&f.plain, "plain", false, "lines instead of a live view")
	jsonFlag(c, &f.asJSON)
	return c
}

// demo runs both phases. What happens meanwhile is shown on stdout, or on
// stderr when stdout is for JSON.
func (p *Program) demo(ctx context.Context, f demoFlags) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP) // the terminal was closed
	defer stop()
	out := p.Stdout
	if f.asJSON {
		out = p.Stderr
	}
	o := demo.Options{
		Seed: f.seed, Servers: f.servers, Duration: f.duration,
		GraphiteURL: f.graphite, Carbon: f.carbon, Out: out,
	}
	if !f.plain && p.isTerminal(out) {
		o.Screen = p.screen(out)
	}
	result, err := demo.Run(ctx, o)
	var wrong *demo.OptionsError
	switch {
	case errors.As(err, &wrong):
		return usage(err, hintHelp("haproxy-weighter demo"))
	case ctx.Err() != nil:
		return failed(errors.New("demo interrupted: HAProxy, servers and clients are stopped, their files removed"))
	case err != nil:
		return failed(err)
	case f.asJSON:
		return p.writeJSON(result)
	}
	fmt.Fprintln(p.Stdout)
	return result.Print(p.Stdout)
}

// screen tells what a terminal can show, each time anew: its size may change.
func (p *Program) screen(w io.Writer) func() demo.Screen {
	s := demo.Screen{Width: 80, Height: 24, Colour: p.colours(w), ASCII: p.asciiOnly()}
	file, _ := w.(*os.File) // isTerminal has said that it is one
	return func() demo.Screen {
		if width, height, err := term.GetSize(int(file.Fd())); err == nil && width > 0 && height > 0 {
			s.Width, s.Height = width, height
		}
		return s
	}
}

// asciiOnly tells whether the locale rules block characters out. Without any
// locale, terminals of today show them.
func (p *Program) asciiOnly() bool {
	for _, key := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(p.getenv(key)); locale != "" {
			return !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")
		}
	}
	return false
}
