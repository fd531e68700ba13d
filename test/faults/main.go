// Command faults tries to make the daemon do harm: it brings about one fault
// after the other, on real HAProxys, with the program as it is shipped, while
// an observer of its own looks at every weight that HAProxy ever has. Each row
// of the matrix is a fault; a walk is a random sequence of faults that can be
// replayed by its seed; a soak is hours of heavy ordinary work.
//
//	faults                       the matrix, on every version of HAProxy
//	faults --rows carbon         only rows whose names match
//	faults --write FILE          and what was found put into a document, between its marks
//	faults --walk 30m --seed 7   a walk
//	faults --soak 2h             a soak
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	rows     string
	short    bool
	parallel int
	write    string
	walk     time.Duration
	seed     uint64
	soak     time.Duration
	servers  int
	messages int
}

func command(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	flags.StringVar(&o.rows, "rows", "", "only rows whose names match this regular `EXPRESSION`")
	flags.BoolVar(&o.short, "short", false, "each fault as short as in make test")
	flags.IntVar(&o.parallel, "parallel", 6, "rows at the same time")
	flags.StringVar(&o.write, "write", "", "put a whole matrix, a walk of at least 30m or a soak of at least 2h into this `FILE`, between its marks")
	flags.DurationVar(&o.walk, "walk", 0, "in place of the matrix: random faults for so long")
	flags.Uint64Var(&o.seed, "seed", 0, "of the walk; 0 takes one from the clock")
	flags.DurationVar(&o.soak, "soak", 0, "in place of the matrix: heavy ordinary work for so long")
	flags.IntVar(&o.servers, "servers", 2000, "of the soak's backend")
	flags.IntVar(&o.messages, "messages", 5000, "SPOE messages a second in the soak")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case flags.NArg() > 0:
		return fmt.Errorf("unknown argument %q; see --help", flags.Arg(0))
	case o.parallel < 1 || o.walk < 0 || o.soak < 0 || o.servers < 2 || o.messages < 1:
		return errors.New("a number is too small; see --help")
	}
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // for a daemon of another user
		return err
	}
	p, err := build(ctx, dir, false)
	if err != nil {
		return err
	}
	switch {
	case o.soak > 0:
		return soakCommand(ctx, p, &o)
	case o.walk > 0:
		return walkCommand(ctx, p, &o)
	}
	return matrixCommand(ctx, p, &o)
}

// rows are the whole matrix.
func rows() ([]row, error) {
	large, err := largeRows()
	return slices.Concat(graphiteRows(), haproxyRows(), carbonRows(), spoeRows(), stateRows(), daemonRows(), large), err
}

func matrixCommand(ctx context.Context, p *programs, o *options) error {
	all, err := rows()
	if err != nil {
		return err
	}
	wanted, err := regexp.Compile(o.rows)
	if err != nil {
		return fmt.Errorf("--rows: %w", err)
	}
	all = slices.DeleteFunc(all, func(r row) bool { return !wanted.MatchString(r.name) })
	if len(all) == 0 {
		return fmt.Errorf("--rows: no row's name matches %q", o.rows)
	}
	binaries, err := haproxyproc.Binaries()
	if err != nil {
		return err
	}
	if missing, err := haproxyproc.Missing(); err != nil {
		return err
	} else if len(missing) > 0 {
		fmt.Fprintf(os.Stderr, "faults: without the HAProxy of Debian's %s: test/deps/haproxy-versions gets them\n", strings.Join(missing, ", "))
	}
	how := full()
	if o.short {
		how = short(false)
	}
	m := runMatrix(ctx, all, binaries, p, how, o.parallel)
	text := m.markdown()
	fmt.Print(text)
	if o.write != "" && o.rows == "" && !o.short && ctx.Err() == nil {
		if err := replace(o.write, "matrix", text); err != nil {
			return err
		}
	}
	if n := m.failed(); n > 0 {
		return fmt.Errorf("%d of %d runs failed", n, len(m.cells))
	}
	return ctx.Err()
}
