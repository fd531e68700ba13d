package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

func newStatus(p *Program) *cobra.Command {
	var check, asJSON bool
	c := &cobra.Command{
		Use:   "status [BACKEND]",
		Short: "Show what the running daemon does and what is wrong",
		Long:  wordsStatus,
		Example: `  haproxy-weighter status
  haproxy-weighter status ingest       the servers of one backend too
  haproxy-weighter status --check      for monitoring: exit code 1 when anything is wrong`,
		Args: arguments("[BACKEND]"),
		RunE: p.action(func(ctx context.Context, c *cobra.Command, args []string) error {
			return p.status(ctx, c, args, check, asJSON)
		}),
		ValidArgsFunction: completeArgs(p.completeRunningBackend),
	}
	c.Flags().BoolVar(&check, "check", false, "exit code 1 when anything is wrong")
	jsonFlag(c, &asJSON)
	return p.daemonCommand(c)
}

func (p *Program) status(ctx context.Context, c *cobra.Command, args []string, check, asJSON bool) error {
	var s *api.Status
	err := p.asking(ctx, c, func(client *api.Client) (err error) {
		s, err = client.Status(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if len(args) > 0 {
		if err := only(s, args[0]); err != nil {
			return err
		}
	}
	if asJSON {
		err = p.writeJSON(s)
	} else {
		err = p.writeStatus(c, s, len(args) > 0)
	}
	switch {
	case err != nil:
		return err
	case check && len(alarms(s)) > 0:
		return silent(exitFailed)
	}
	return nil
}

// only leaves one backend in the status, with the faults that concern it.
func only(s *api.Status, backend string) error {
	names := make([]string, len(s.Backends))
	for i := range s.Backends {
		names[i] = s.Backends[i].Backend
	}
	i := slices.Index(names, backend)
	if i < 0 {
		hints := []string{api.NearNames(backend, names, "backends")}
		if slices.ContainsFunc(s.Unconfigured, func(u api.Unconfigured) bool { return u.Backend == backend }) {
			hints = []string{api.WordsUnconfigured(backend) + "; status without BACKEND shows them"}
		}
		return failed(fmt.Errorf("there is no backend %q in the configuration in force", backend), hints...)
	}
	s.Backends = s.Backends[i : i+1]
	s.Unconfigured = []api.Unconfigured{}
	s.Faults = slices.DeleteFunc(s.Faults, func(f balancer.Fault) bool { return f.Backend != "" && f.Backend != backend })
	return nil
}

// alarmNotReady alone means that the daemon has just been started.
const alarmNotReady = "not ready"

// alarms are the things that are wrong, each in a few words. An operator's
// freeze is none.
func alarms(s *api.Status) []string {
	var all []string
	if n := len(api.Troubles(s.Faults)); n > 0 {
		all = append(all, count(n, "fault"))
	}
	if s.Config.ReloadFailed != nil {
		all = append(all, "reload failed")
	}
	var held []string
	for i := range s.Backends {
		b := &s.Backends[i]
		if slices.ContainsFunc(b.Tables, func(t api.Table) bool { return isHeld(&t) }) {
			held = append(held, b.Backend)
		}
		if len(b.Tables) == 0 {
			all = append(all, "no table of "+b.Backend)
		}
	}
	if len(held) > 0 {
		all = append(all, "weights held on "+some(held))
	}
	if !s.Ready {
		all = append(all, alarmNotReady)
	}
	return all
}

// isHeld tells whether weights stay as they are though nobody has ordered that,
// and a pass has been made.
func isHeld(t *api.Table) bool {
	return t.Verdict == weighting.Hold && t.HoldCode != balancer.HoldFrozen && t.HoldCode != balancer.HoldStarting
}

// writeStatus prints what matters most first: is all well, what is wrong and
// what to do, then the backends.
func (p *Program) writeStatus(c *cobra.Command, s *api.Status, servers bool) error {
	now := p.now()
	w := &statusWriter{p: p, c: c, s: s, troubles: api.Troubles(s.Faults), now: now, colours: p.colours(p.Stdout)}
	w.head()
	w.faults()
	w.line("")
	if err := p.writeTable(backendsTable(s, now)); err != nil {
		return err
	}
	w.holds()
	w.unmeasured()
	w.orders()
	for i := range s.Backends {
		if !servers {
			break
		}
		for j := range s.Backends[i].Tables {
			if err := w.servers(&s.Backends[i].Tables[j]); err != nil {
				return err
			}
		}
	}
	return w.err
}

// statusWriter prints lines and keeps the first error.
type statusWriter struct {
	p        *Program
	c        *cobra.Command
	s        *api.Status
	troubles []api.Trouble
	now      time.Time
	colours  bool
	err      error
}

func (w *statusWriter) line(format string, args ...any) { w.styled(plain, format, args...) }

func (w *statusWriter) styled(how style, format string, args ...any) {
	text := printable(fmt.Sprintf(format, args...))
	if w.colours && how != plain {
		text = "\x1b[" + string(how) + "m" + text + "\x1b[0m"
	}
	_, err := fmt.Fprintln(w.p.Stdout, text)
	w.err = errors.Join(w.err, err)
}

func (w *statusWriter) head() {
	switch wrong := alarms(w.s); {
	case len(wrong) == 0:
		w.styled(green, "%s", wordsAllWell(w.s))
	case len(wrong) == 1 && wrong[0] == alarmNotReady:
		w.styled(yellow, "%s", wordsStarting)
	default:
		w.styled(red, "%s", wordsNotWell(wrong))
	}
	w.line("%s", wordsDaemon(w.s, w.now))
	w.line("%s", wordsConfigInForce(&w.s.Config, w.now))
	if len(w.s.Config.RestartKeys) > 0 {
		w.styled(yellow, "%s", wordsRestartKeys(w.s.Config.RestartKeys))
	}
	if len(w.s.SPOA) > 0 {
		w.line("SPOE agent on %s", strings.Join(w.s.SPOA, ", "))
	}
}

// faults prints each with its cause, what the weights do meanwhile, and what
// to do about it.
func (w *statusWriter) faults() {
	all := slices.Clone(w.troubles)
	if f, ok := reloadFault(w.s); ok {
		all = append([]api.Trouble{{Fault: f}}, all...)
	}
	for i := range all {
		t := &all[i]
		w.line("")
		w.styled(red, "%s", wordsTrouble(t, w.now))
		for _, part := range []struct{ name, text string }{
			{"cause", t.Cause}, {"meanwhile", t.Meanwhile}, {"do", t.Do},
		} {
			if part.text != "" {
				w.line("  %-9s  %s", part.name, part.text)
			}
		}
	}
}

// reloadFault makes a fault of a reload that failed, unless the daemon's own
// list has it.
func reloadFault(s *api.Status) (balancer.Fault, bool) {
	if s.Config.ReloadFailed == nil {
		return balancer.Fault{}, false
	}
	told := func(f balancer.Fault) bool { return f.Cause == s.Config.ReloadError }
	return balancer.Fault{
		What: "the configuration could not be reloaded", Cause: s.Config.ReloadError,
		Meanwhile: "the one that was loaded " + api.At(s.Config.Loaded) + " stays in force",
		Do:        "haproxy-weighter check -f " + shellQuote(s.Config.File) + " tells all mistakes; correct them and reload again",
		Since:     *s.Config.ReloadFailed,
	}, !slices.ContainsFunc(s.Faults, told)
}

// holds says why weights are not being set, unless a fault has said it.
func (w *statusWriter) holds() {
	first := true
	for i := range w.s.Backends {
		for j := range w.s.Backends[i].Tables {
			t := &w.s.Backends[i].Tables[j]
			told := func(f api.Trouble) bool {
				return f.Cause == t.Why || t.HoldCode == balancer.HoldUnread && f.Unreads(t.Backend, t.Socket)
			}
			if !isHeld(t) || t.Why == "" || slices.ContainsFunc(w.troubles, told) {
				continue
			}
			if first {
				w.line("")
			}
			first = false
			w.styled(yellow, "%s held: %s", tableName(t, w.s), t.Why)
		}
	}
}

// unmeasured names the servers in rotation of which the last pass had no load:
// what they count as is in their explanation.
func (w *statusWriter) unmeasured() {
	first := true
	for i := range w.s.Backends {
		for j := range w.s.Backends[i].Tables {
			t := &w.s.Backends[i].Tables[j]
			var names []string
			for k := range t.Servers {
				if s := &t.Servers[k]; s.InRotation && (!s.Measured || s.Earlier) {
					names = append(names, s.Server)
				}
			}
			if len(names) == 0 || isHeld(t) || t.HoldCode == balancer.HoldStarting {
				continue
			}
			if first {
				w.line("")
			}
			first = false
			w.styled(yellow, "%s without usable load: %s", tableName(t, w.s), some(names))
			w.line("  why: %s", w.p.again(w.c, "explain", t.Backend+"/"+names[0]))
		}
	}
}

// orders prints what operators have ordered, each with the way back, and why it
// does not count yet, or at all.
func (w *statusWriter) orders() {
	for i := range w.s.Backends {
		b := &w.s.Backends[i]
		note := ""
		if slices.ContainsFunc(b.Tables, func(t api.Table) bool { return t.OrdersPending }) {
			note = b.Backend + ": " + api.WordsPending
		}
		w.ordersOf(b.Backend, b.Control, note)
	}
	for i := range w.s.Unconfigured {
		u := &w.s.Unconfigured[i]
		w.ordersOf(u.Backend, u.Control, api.WordsUnconfigured(u.Backend))
	}
}

// ordersOf prints the orders for one backend, and note above them.
func (w *statusWriter) ordersOf(backend string, c balancer.Control, note string) {
	all := api.Standings(backend, c, w.now)
	if len(all) > 0 || note != "" {
		w.line("")
	}
	if note != "" {
		w.styled(yellow, "%s", note)
	}
	for _, o := range all {
		w.styled(bold, "%s %s", o.What, o.How)
		w.line("  undo: %s", w.p.again(w.c, o.Undo...))
	}
}

// servers prints the rows of one table.
func (w *statusWriter) servers(t *api.Table) error {
	w.line("")
	w.styled(bold, "%s", wordsTableHead(t))
	if err := w.p.writeTable(serversTable(t, w.now)); err != nil {
		return err
	}
	if t.Why != "" && !isHeld(t) && !thawed(t) {
		w.line("last pass: %s", t.Why)
	}
	if loop := wordsLoopOf(t); loop != "" {
		w.line("%s", loop)
	}
	if len(t.Servers) > 0 {
		w.line("%s", wordsExplainHint(w.p.again(w.c, "explain", t.Backend+"/"+t.Servers[0].Server)))
	}
	return w.err
}
