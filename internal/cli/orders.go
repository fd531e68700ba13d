package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// The orders, as the daemon and the commands name them.
const (
	orderPin      = "pin"
	orderUnpin    = "unpin"
	orderFreeze   = "freeze"
	orderUnfreeze = "unfreeze"
	orderMode     = "mode"
)

// modeOfFile is the mode that ends an order of a mode.
const modeOfFile = "file"

// orderFlags are the flags of the commands that give orders.
type orderFlags struct {
	reason string
	lasts  spanValue
	asJSON bool
}

// order makes one of the commands that give orders. read takes the arguments.
func (p *Program) order(c *cobra.Command, f *orderFlags, read func(c *cobra.Command, args []string) (api.Order, error)) *cobra.Command {
	c.RunE = p.action(func(ctx context.Context, c *cobra.Command, args []string) error {
		o, err := read(c, args)
		if err != nil {
			return err
		}
		return p.give(ctx, c, o, f.asJSON)
	})
	jsonFlag(c, &f.asJSON)
	return p.daemonCommand(c)
}

func (f *orderFlags) add(c *cobra.Command, lasts string) {
	c.Flags().StringVar(&f.reason, "reason", "", "why: `TEXT` for whoever looks at it later")
	c.Flags().Var(&f.lasts, "for", lasts)
	_ = c.RegisterFlagCompletionFunc("reason", cobra.NoFileCompletions) // fails for unknown flags only
	_ = c.RegisterFlagCompletionFunc("for", completeWords("30m", "2h", "1d"))
}

// required refuses an order that says no reason, or not for how long.
func (f *orderFlags) required(c *cobra.Command) error {
	switch {
	case strings.TrimSpace(f.reason) == "":
		return usage(errors.New(wordsNoReason(c.Name())), hintExample(c))
	case f.lasts.duration == 0:
		return usage(errors.New(wordsNoEnd(c.Name())), hintExample(c))
	}
	return nil
}

func newPin(p *Program) *cobra.Command {
	var f orderFlags
	c := &cobra.Command{
		Use:     "pin BACKEND/SERVER WEIGHT",
		Short:   "Keep one server at a weight for a while",
		Long:    wordsPin,
		Example: `  haproxy-weighter pin ingest/s1 64 --reason "new kernel, watch it" --for 2h`,
		Args:    arguments("BACKEND/SERVER", "WEIGHT"),
		ValidArgsFunction: completeArgs(p.completeServerID, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}),
	}
	f.add(c, "how long, such as 30m, 2h, 1d")
	return p.order(c, &f, func(c *cobra.Command, args []string) (o api.Order, err error) {
		if o.Backend, o.Server, err = serverID(c, args[0]); err != nil {
			return o, err
		}
		o.Weight, err = strconv.Atoi(args[1])
		if err != nil || o.Weight < 1 || o.Weight > 256 {
			return o, usage(errors.New(wordsWeight(args[1])), hintExample(c))
		}
		o.Reason, o.ForSeconds = f.reason, f.lasts.duration.Seconds()
		return o, f.required(c)
	})
}

func newUnpin(p *Program) *cobra.Command {
	var f orderFlags
	c := &cobra.Command{
		Use:               "unpin BACKEND/SERVER",
		Short:             "Take a pin back",
		Example:           "  haproxy-weighter unpin ingest/s1",
		Args:              arguments("BACKEND/SERVER"),
		ValidArgsFunction: completeArgs(p.completePinned),
	}
	return p.order(c, &f, func(c *cobra.Command, args []string) (o api.Order, err error) {
		o.Backend, o.Server, err = serverID(c, args[0])
		return o, err
	})
}

func newFreeze(p *Program) *cobra.Command {
	var f orderFlags
	c := &cobra.Command{
		Use:               "freeze BACKEND",
		Short:             "Keep all weights of a backend as they are for a while",
		Long:              wordsFreeze,
		Example:           `  haproxy-weighter freeze ingest --reason "moving racks" --for 1h`,
		Args:              arguments("BACKEND"),
		ValidArgsFunction: completeArgs(p.completeRunningBackend),
	}
	f.add(c, "how long, such as 30m, 2h, 1d")
	return p.order(c, &f, func(c *cobra.Command, args []string) (api.Order, error) {
		return api.Order{Backend: args[0], Reason: f.reason, ForSeconds: f.lasts.duration.Seconds()}, f.required(c)
	})
}

func newUnfreeze(p *Program) *cobra.Command {
	var f orderFlags
	c := &cobra.Command{
		Use:               "unfreeze BACKEND",
		Short:             "Take a freeze back",
		Example:           "  haproxy-weighter unfreeze ingest",
		Args:              arguments("BACKEND"),
		ValidArgsFunction: completeArgs(p.completeFrozen),
	}
	return p.order(c, &f, func(_ *cobra.Command, args []string) (api.Order, error) {
		return api.Order{Backend: args[0]}, nil
	})
}

func newMode(p *Program) *cobra.Command {
	var f orderFlags
	modes := []string{string(config.Observe), string(config.Live), modeOfFile}
	c := &cobra.Command{
		Use:   "mode BACKEND observe|live|file",
		Short: "Only observe a backend, or set its weights, whatever its file says",
		Long:  wordsMode,
		Example: `  haproxy-weighter mode ingest observe --reason "loads look wrong" --for 2h
  haproxy-weighter mode ingest file`,
		Args:              arguments("BACKEND", "observe|live|file"),
		ValidArgsFunction: completeArgs(p.completeRunningBackend, completeWords(modes...)),
	}
	f.add(c, "how long, such as 30m, 2h, 1d (default: until it is taken back)")
	return p.order(c, &f, func(c *cobra.Command, args []string) (api.Order, error) {
		o := api.Order{Backend: args[0], Mode: args[1], Reason: f.reason, ForSeconds: f.lasts.duration.Seconds()}
		switch {
		case !slices.Contains(modes, o.Mode):
			return o, usage(errors.New(wordsUnknownMode(o.Mode)), hintExample(c))
		case o.Mode == modeOfFile && o.ForSeconds != 0:
			return o, usage(errors.New(wordsModeFileEnds), hintExample(c))
		case strings.TrimSpace(o.Reason) != "":
		case o.Mode == modeOfFile:
			o.Reason = wordsBackToFile
		default:
			return o, usage(errors.New(wordsNoReason(c.Name())), hintExample(c))
		}
		return o, nil
	})
}

// give sends an order and shows what is in force then.
func (p *Program) give(ctx context.Context, c *cobra.Command, o api.Order, asJSON bool) error {
	var before balancer.Control
	var done *api.Done
	err := p.asking(ctx, c, func(client *api.Client) error {
		status, err := client.Status(ctx) // for the way back
		if err != nil {
			return err
		}
		before = controlOf(status, o.Backend)
		done, err = client.Order(ctx, c.Name(), o)
		return err
	})
	if err != nil {
		return orderUncertain(err)
	}
	if asJSON {
		return p.writeJSON(done)
	}
	now := p.now()
	for _, line := range wordsDone(c.Name(), o, done, now) {
		fmt.Fprintln(p.Stdout, printable(line))
	}
	if undo := undoOf(c.Name(), o, before, now); len(undo) > 0 && done.NothingToDo == "" {
		fmt.Fprintf(p.Stdout, "undo: %s\n", printable(p.again(c, undo...)))
	}
	if done.Warning != "" {
		p.errorf("warning: %s", printable(done.Warning))
	}
	return nil
}

// orderUncertain says so when nobody knows whether an order was taken.
func orderUncertain(err error) error {
	var unreachable *api.UnreachableError
	var f *failure
	if errors.As(err, &unreachable) && unreachable.Sent && errors.As(err, &f) {
		f.hints = append(f.hints, hintOrderUncertain)
	}
	return err
}

// controlOf is what was in force for a backend. For one that is not in the
// configuration there is no way back, so what was in force does not matter.
func controlOf(s *api.Status, backend string) balancer.Control {
	for i := range s.Backends {
		if s.Backends[i].Backend == backend {
			return s.Backends[i].Control
		}
	}
	return balancer.Control{}
}
