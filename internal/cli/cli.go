// Package cli holds the commands: their flags, their words to the operator
// and their exit codes.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// The exit codes of every command.
const (
	exitGood   = 0
	exitFailed = 1 // the command ran and could not do, or did not find right, what was asked
	exitUsage  = 2 // wrong arguments, or a configuration with mistakes
	// exitUnreachable: there was no answer of the daemon's, neither yes nor no.
	exitUnreachable = 3
)

// Program is what the commands need of the process they run in.
type Program struct {
	Version string // empty: taken from the build information
	Stdout  io.Writer
	Stderr  io.Writer
	Getenv  func(string) string // nil means an empty environment
	Now     func() time.Time    // nil means time.Now

	file    string // -f
	control string // --control
}

// commands makes every subcommand, in the order in which the help shows them.
// A new command is a file here with a constructor, and one line in this list.
func (p *Program) commands() []*cobra.Command {
	return []*cobra.Command{
		newRun(p),
		newInit(p),
		newCheck(p),
		newLoads(p),
		newPlan(p),
		newStatus(p),
		newExplain(p),
		newHistory(p),
		newPin(p),
		newUnpin(p),
		newFreeze(p),
		newUnfreeze(p),
		newMode(p),
		newLua(p),
		newSimulate(p),
		newHAProxyConf(p),
		newDemo(p),
		newVersion(p),
		newMan(p),
	}
}

// Main runs the program of this process and returns its exit code. The first
// SIGINT or SIGTERM ends the command in good order, the second kills it.
func Main(version string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	p := &Program{Version: version, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}
	return p.Run(ctx, os.Args[1:])
}

// Run runs one command line and returns its exit code.
func (p *Program) Run(ctx context.Context, args []string) int {
	root := p.root()
	root.SetArgs(args)
	return p.execute(ctx, root)
}

func (p *Program) execute(ctx context.Context, root *cobra.Command) int {
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitGood
	}
	var f *failure
	if !errors.As(err, &f) {
		// Only what cobra itself refuses has no code of ours.
		f = &failure{code: exitUsage, err: err, hints: []string{hintHelp(root.CommandPath())}}
	}
	p.explain(f)
	return f.code
}

func (p *Program) root() *cobra.Command {
	var checkOnly bool
	root := &cobra.Command{
		Use:           "haproxy-weighter",
		Short:         wordsShort,
		Long:          wordsLong,
		Example:       wordsExample,
		Version:       p.version(), // gives -v and --version
		SilenceErrors: true,
		SilenceUsage:  true,
		// Distance of a mistyped command from the one that is proposed.
		SuggestionsMinimumDistance: 2,
	}
	root.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return p.noCommand(c, args[0])
	}
	root.RunE = p.action(func(ctx context.Context, c *cobra.Command, _ []string) error {
		if checkOnly {
			return p.checkFile(ctx, false)
		}
		return usage(errors.New("no command given"), hintHelp(c.CommandPath()))
	})
	root.SetVersionTemplate(p.versionLine())
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage(flagError(err), hintHelp(c.CommandPath()))
	})
	root.PersistentFlags().StringVarP(&p.file, "config", "f", config.DefaultFile, "configuration `FILE`")
	root.Flags().BoolVarP(&checkOnly, "check", "c", false, "check the configuration and exit, as haproxy -c does")
	root.AddCommand(p.commands()...)
	root.SetHelpCommand(newHelp(p))
	p.refuseShells(root)
	return root
}

// refuseShells makes cobra's command "completion" refuse what is no shell.
func (p *Program) refuseShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	c, _, err := root.Find([]string{"completion"})
	if err != nil {
		return
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage(errors.New("completion: the shell is missing"), hintHelp(c.CommandPath()))
		}
		return p.noCommand(c, args[0])
	}
	c.RunE = func(*cobra.Command, []string) error { return nil } // never called: see Args
}

// action fits f to cobra: an error without an exit code means "failed", and
// one that comes of our own interrupt says just that.
func (p *Program) action(f func(ctx context.Context, c *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		err := f(c.Context(), c, args)
		var coded *failure
		switch {
		case c.Context().Err() != nil && errors.Is(err, context.Canceled):
			return failed(errors.New("interrupted"))
		case err == nil, errors.As(err, &coded):
			return err
		}
		return failed(err)
	}
}

// arguments refuses any number of arguments but those named, e.g. "BACKEND",
// or "[BACKEND]" for one that may be left out.
func arguments(names ...string) cobra.PositionalArgs {
	least := 0
	for _, n := range names {
		if n[0] != '[' {
			least++
		}
	}
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usage(fmt.Errorf("%s: %s is missing", c.Name(), names[len(args)]), hintUsage(c.UseLine()))
		case len(args) > len(names):
			return usage(fmt.Errorf("%s: %q is one argument too many", c.Name(), args[len(names)]), hintUsage(c.UseLine()))
		}
		return nil
	}
}

// jsonFlag adds --json, which every command with a table has.
func jsonFlag(c *cobra.Command, set *bool) {
	c.Flags().BoolVar(set, "json", false, "print JSON with stable fields instead of a table")
}

func (p *Program) getenv(key string) string {
	if p.Getenv == nil {
		return ""
	}
	return p.Getenv(key)
}

// isTerminal tells whether w is a terminal that can be written over.
func (p *Program) isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && p.getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// width is how many characters a line of the terminal w has; 0: it is none.
func (p *Program) width(w io.Writer) int {
	if !p.isTerminal(w) {
		return 0
	}
	columns, _, err := term.GetSize(int(w.(*os.File).Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// colours tells whether what goes to w may be coloured.
func (p *Program) colours(w io.Writer) bool { return p.getenv("NO_COLOR") == "" && p.isTerminal(w) }
