package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// result is the outcome of one check.
type result string

const (
	ok   result = "ok"
	warn result = "warn"
	fail result = "fail"
)

// finding is one line of a check's report. Its JSON form is documented in
// docs/json.md and stable; the names in Check too, the words are not.
type finding struct {
	Check   string `json:"check"`   // fixed identifier: what was looked at
	Subject string `json:"subject"` // where: a socket, a backend, a URL
	Result  result `json:"result"`
	Found   string `json:"found"`
	Do      string `json:"do"` // what to do; empty when there is nothing to do
}

func newCheck(p *Program) *cobra.Command {
	var live, asJSON bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration; with --live Graphite and HAProxy as well",
		Long:  wordsCheck,
		Args:  arguments(),
		RunE: p.action(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			if live {
				return p.checkLive(ctx, asJSON)
			}
			return p.checkFile(ctx, asJSON)
		}),
	}
	c.Flags().BoolVar(&live, "live", false, "ask Graphite and HAProxy too; changes nothing")
	jsonFlag(c, &asJSON)
	return c
}

// checkFile reads the configuration and does nothing else.
func (p *Program) checkFile(ctx context.Context, asJSON bool) error {
	c, err := p.read(ctx)
	if err != nil {
		return err
	}
	findings := configFindings(c)
	for _, l := range c.SPOA.Listen {
		findings = append(findings, finding{Check: "spoa", Subject: l.String(), Result: ok, Found: "the SPOE agent listens here"})
	}
	if asJSON {
		return p.writeJSON(findings)
	}
	for _, m := range c.Warnings {
		fmt.Fprintf(p.Stdout, "%s:%d: warning: %s: %s\n", m.File, m.Line, m.Key, m.Text)
	}
	if len(c.SPOA.Listen) > 0 {
		fmt.Fprintf(p.Stdout, "%s: %s\n", p.file, wordsListen(c.SPOA.Listen))
	}
	_, err = fmt.Fprintf(p.Stdout, "%s: %s\n", p.file, findings[0].Found)
	return err
}

// configFindings are what "check" has to say of a file that can be run.
func configFindings(c *config.Config) []finding {
	findings := []finding{{
		Check: "config", Subject: c.File, Result: ok,
		Found: wordsConfigGood(len(c.Backends), len(c.HAProxy.Sockets)),
	}}
	for _, m := range c.Warnings {
		findings = append(findings, finding{
			Check: "config", Subject: fmt.Sprintf("%s:%d", m.File, m.Line), Result: warn,
			Found: m.Key + ": " + m.Text, Do: doConfigWarning,
		})
	}
	return findings
}

func (p *Program) checkLive(ctx context.Context, asJSON bool) error {
	c, err := p.read(ctx)
	if err != nil {
		return err
	}
	g := p.progress("checking")
	findings, err := lookAround(ctx, c, g)
	g.end()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return failed(ctx.Err())
	}
	if asJSON {
		err = p.writeJSON(findings)
	} else {
		err = p.writeFindings(findings)
	}
	if err != nil {
		return err
	}
	for _, f := range findings {
		if f.Result == fail {
			return silent(exitFailed)
		}
	}
	return nil
}

// writeFindings prints the table, then what to do about each thing that is
// not good: those are sentences, too long for a column.
func (p *Program) writeFindings(findings []finding) error {
	styles := map[result]style{ok: green, warn: yellow, fail: red}
	t := newTable("result", "check", "of", "found")
	count := map[result]int{}
	for _, f := range findings {
		t.add(cell{string(f.Result), styles[f.Result]}, cell{text: f.Check}, cell{text: f.Subject}, cell{text: f.Found})
		count[f.Result]++
	}
	if err := p.writeTable(t); err != nil {
		return err
	}
	if count[warn]+count[fail] > 0 {
		fmt.Fprintf(p.Stdout, "\nwhat to do\n")
	}
	for _, f := range findings {
		if f.Do != "" {
			fmt.Fprintf(p.Stdout, "  %s %s: %s\n", f.Check, f.Subject, printable(f.Do))
		}
	}
	_, err := fmt.Fprintf(p.Stdout, "\n%s\n", wordsCheckTotal(count[ok], count[warn], count[fail]))
	return err
}
