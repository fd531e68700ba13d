package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
)

// newHelp takes the place of cobra's own, which calls an unknown command good.
func newHelp(p *Program) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show what a command does",
		RunE: p.action(func(_ context.Context, c *cobra.Command, args []string) error {
			command, rest, err := c.Root().Find(args)
			if err != nil {
				return usage(err, hintHelp(c.Root().Name()))
			}
			if len(rest) > 0 {
				return p.noCommand(command, rest[0])
			}
			command.InitDefaultHelpFlag()
			return command.Help()
		}),
		ValidArgsFunction: func(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
			command, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, s := range command.Commands() {
				if s.IsAvailableCommand() {
					names = append(names, s.Name())
				}
			}
			return startingWith(start, names), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// noCommand refuses the name of a command that c does not have.
func (p *Program) noCommand(c *cobra.Command, name string) error {
	c.SuggestionsMinimumDistance = c.Root().SuggestionsMinimumDistance
	hints := []string{hintHelp(c.CommandPath())}
	if near := c.SuggestionsFor(name); len(near) > 0 {
		slices.Sort(near)
		for i := range near {
			near[i] = c.CommandPath() + " " + near[i]
		}
		hints = append([]string{hintDidYouMean(near)}, hints...)
	}
	return usage(fmt.Errorf("there is no command %q", name), hints...)
}
