package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/manual"
)

// newMan writes the manual pages. It is hidden: packages are made with it.
func newMan(p *Program) *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages into a folder",
		Hidden: true,
		Args:   arguments("DIR"),
		RunE: p.action(func(_ context.Context, c *cobra.Command, args []string) error {
			pages, err := p.manual(c.Root())
			if err != nil {
				return err
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			for _, page := range pages {
				if err := os.WriteFile(filepath.Join(args[0], page.File()), []byte(page.String()), 0o644); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

// manual makes the page of the program, one for each command, and that of the
// configuration. Their date is SOURCE_DATE_EPOCH when that is set.
func (p *Program) manual(root *cobra.Command) ([]*manual.Page, error) {
	date := time.Now()
	if p.Now != nil {
		date = p.Now()
	}
	if epoch := p.getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("SOURCE_DATE_EPOCH must be seconds since 1970, and is %q", epoch)
		}
		date = time.Unix(seconds, 0)
	}
	head := manual.Head{Section: 1, Date: date, Source: "haproxy-weighter " + p.version()}
	root.InitDefaultCompletionCmd()
	root.InitDefaultVersionFlag()
	pages := []*manual.Page{programPage(head, root)}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			pages = append(pages, commandPage(head, c))
		}
	}
	page, err := configPage(head)
	if err != nil {
		return nil, fmt.Errorf("weighter.toml(5): %w", err)
	}
	return append(pages, page), nil
}

func programPage(head manual.Head, root *cobra.Command) *manual.Page {
	head.Name, head.Summary = root.Name(), summary(root)
	page := manual.New(head)
	page.Section("SYNOPSIS")
	page.Bold(root.Name() + " COMMAND [flags]")
	page.Section("DESCRIPTION")
	page.Text(root.Long)
	page.Section("COMMANDS")
	also := []string{"weighter.toml(5)", "haproxy(1)"}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			page.Term([]string{strings.TrimPrefix(c.UseLine(), root.Name()+" ")}, c.Short)
			also = append(also, pageName(c)+"(1)")
		}
	}
	flags(page, "OPTIONS", root.Flags())
	exitStatus(page, true)
	page.Section("SIGNALS")
	page.Text(wordsSignals)
	page.Section("FILES")
	for _, f := range wordsFiles {
		words := f.words
		if f.mode != 0 {
			words = fmt.Sprintf("Mode %04o. %s", f.mode, words)
		}
		page.Term([]string{f.path}, words)
	}
	if root.Example != "" {
		page.Section("EXAMPLES")
		page.Literal(root.Example)
	}
	page.SeeAlso(also...)
	return page
}

func commandPage(head manual.Head, c *cobra.Command) *manual.Page {
	head.Name, head.Summary = pageName(c), summary(c)
	page := manual.New(head)
	page.Section("SYNOPSIS")
	page.Bold(c.UseLine())
	page.Section("DESCRIPTION")
	long := c.Long
	if long == "" {
		long = c.Short + "."
	}
	page.Text(long)
	for _, s := range c.Commands() { // of completion: a shell each
		if s.IsAvailableCommand() {
			page.Subsection(strings.TrimSuffix(s.CommandPath(), " "))
			page.Text(s.Long)
		}
	}
	flags(page, "OPTIONS", c.LocalFlags())
	flags(page, "OPTIONS OF ALL COMMANDS", c.InheritedFlags())
	exitStatus(page, c.Flags().Lookup("control") != nil)
	if c.Example != "" {
		page.Section("EXAMPLES")
		page.Literal(c.Example)
	}
	page.SeeAlso("haproxy-weighter(1)", "weighter.toml(5)")
	return page
}

func configPage(head manual.Head) (*manual.Page, error) {
	head.Name, head.Section, head.Summary = "weighter.toml", 5, "configuration of haproxy-weighter"
	page := manual.New(head)
	page.Section("DESCRIPTION")
	if err := page.Reference(config.Reference); err != nil {
		return nil, err
	}
	page.Section("EXAMPLES")
	page.Text("The smallest useful file:")
	page.Literal(config.Minimal)
	page.SeeAlso("haproxy-weighter(1)", "haproxy-weighter-check(1)")
	return page, nil
}

// exitStatus adds the section about exit codes; asks tells whether the daemon is
// asked.
func exitStatus(page *manual.Page, asks bool) {
	page.Section("EXIT STATUS")
	for _, s := range wordsExitCodes {
		if asks || s.code != exitUnreachable {
			page.Term([]string{strconv.Itoa(s.code)}, s.words)
		}
	}
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// summary is the line that apropos shows: no capital at its beginning.
func summary(c *cobra.Command) string {
	if c.Short == "" {
		return c.CommandPath()
	}
	return strings.ToLower(c.Short[:1]) + c.Short[1:]
}

// flags adds a section with all flags of a set.
func flags(page *manual.Page, title string, set *pflag.FlagSet) {
	begun := false
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		if !begun {
			page.Section(title)
			begun = true
		}
		name, text := pflag.UnquoteUsage(f)
		term := "--" + f.Name
		if f.Shorthand != "" {
			term = "-" + f.Shorthand + ", " + term
		}
		if name != "" {
			term += " " + name
		}
		switch f.DefValue {
		case "", "false", "0", "0s", "[]":
		default:
			text += " (default: " + f.DefValue + ")"
		}
		page.Term([]string{term}, text)
	})
}
