package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestAction has the ways in which a command ends.
func TestAction(t *testing.T) {
	for _, c := range []struct {
		name      string
		interrupt bool
		err       error
		code      int
		words     string
	}{
		{"good", false, nil, exitGood, ""},
		{"an error without a code", false, errors.New("no luck"), exitFailed, "haproxy-weighter: no luck\n"},
		{"with a hint", false, failed(errors.New("no luck"), "try again"), exitFailed,
			"haproxy-weighter: no luck\nhaproxy-weighter: hint: try again\n"},
		{"usage", false, usage(errors.New("which?")), exitUsage, "haproxy-weighter: which?\n"},
		{"already told", false, silent(exitFailed), exitFailed, ""},
		{"wrapped", false, fmt.Errorf("later: %w", silent(exitUsage)), exitUsage, ""},
		{"interrupted", true, fmt.Errorf("reading: %w", context.Canceled), exitFailed, "haproxy-weighter: interrupted\n"},
		{"interrupted with a code", true, failed(fmt.Errorf("reading: %w", context.Canceled)), exitFailed, "haproxy-weighter: interrupted\n"},
		{"stopped in good order", true, nil, exitGood, ""},
		{"a failure while stopping", true, errors.New("no luck"), exitFailed, "haproxy-weighter: no luck\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var stdout, stderr strings.Builder
			p := &Program{Stdout: &stdout, Stderr: &stderr}
			command := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true}
			command.RunE = p.action(func(context.Context, *cobra.Command, []string) error {
				if c.interrupt {
					cancel()
				}
				return c.err
			})
			command.SetArgs([]string{})
			if code := p.execute(ctx, command); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if stderr.String() != c.words || stdout.String() != "" {
				t.Errorf("stderr %q, stdout %q, want %q and nothing", stderr.String(), stdout.String(), c.words)
			}
		})
	}
}

// TestNoColour holds that nothing but a terminal is written over or coloured.
func TestNoColour(t *testing.T) {
	var out strings.Builder
	p := &Program{Stdout: &out, Stderr: &out}
	if p.colours(p.Stdout) || p.isTerminal(p.Stderr) {
		t.Error("a strings.Builder is taken for a terminal")
	}
	g := p.progress("waiting")
	g.set("still waiting")
	g.end()
	if out.String() != "" {
		t.Errorf("progress wrote %q off a terminal", out.String())
	}
}
