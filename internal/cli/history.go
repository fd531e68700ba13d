package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
)

// historyFlags are the flags of the command history.
type historyFlags struct {
	since  spanValue
	server string
	asJSON bool
}

func newHistory(p *Program) *cobra.Command {
	f := historyFlags{}
	c := &cobra.Command{
		Use:   "history BACKEND",
		Short: "Show what has changed in the last 24 hours, and why",
		Long:  wordsHistory,
		Example: `  haproxy-weighter history ingest --since 2h
  haproxy-weighter history ingest --server s1`,
		Args: arguments("BACKEND"),
		RunE: p.action(func(ctx context.Context, c *cobra.Command, args []string) error {
			return p.history(ctx, c, args[0], &f)
		}),
		ValidArgsFunction: completeArgs(p.completeRunningBackend),
	}
	c.Flags().Var(&f.since, "since", "how far back, such as 30m, 2h, 1d (default: all that is kept)")
	c.Flags().StringVar(&f.server, "server", "", "only the weights of this `SERVER`, with the reasons")
	_ = c.RegisterFlagCompletionFunc("since", completeWords("30m", "2h", "1d")) // fails for unknown flags only
	_ = c.RegisterFlagCompletionFunc("server", p.completeServer)
	jsonFlag(c, &f.asJSON)
	return p.daemonCommand(c)
}

func (p *Program) history(ctx context.Context, c *cobra.Command, backend string, f *historyFlags) error {
	var h *api.History
	err := p.asking(ctx, c, func(client *api.Client) (err error) {
		h, err = client.History(ctx, backend)
		return err
	})
	if err != nil {
		return err
	}
	if f.server != "" {
		names := serversOf(h)
		if !slices.Contains(names, f.server) {
			return failed(fmt.Errorf("the history of backend %s has no server %q", backend, f.server), api.NearNames(f.server, names, "servers"))
		}
		keepServer(h, f.server)
	}
	now := p.now()
	if f.since.duration > 0 {
		keepSince(h, now.Add(-f.since.duration))
	}
	if f.asJSON {
		return p.writeJSON(h)
	}
	return p.writeHistory(h, f.server, now)
}

// serversOf are all servers that a history tells of, sorted.
func serversOf(h *api.History) []string {
	var names []string
	for i := range h.Series {
		for name := range h.Series[i].Weights {
			names = append(names, name)
		}
		for name := range h.Series[i].Loads {
			names = append(names, name)
		}
	}
	for i := range h.Events {
		for _, change := range h.Events[i].Changes {
			names = append(names, change.Server)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// keepServer leaves out what is of other servers. What concerns the backend as
// a whole stays.
func keepServer(h *api.History, server string) {
	events := make([]api.Event, 0, len(h.Events))
	for _, e := range h.Events {
		if e.Kind == api.EventWeights {
			change, changed := changeOf(h, &e, server)
			if !changed {
				continue
			}
			e.Changes = []api.WeightChange{change}
		}
		events = append(events, e)
	}
	h.Events = events
	for i := range h.Series {
		for _, all := range []map[string][]*float64{h.Series[i].Loads, h.Series[i].Weights} {
			for name := range all {
				if name != server {
					delete(all, name)
				}
			}
		}
	}
}

// changeOf finds a server's part of an event. An event lists the largest
// changes only; a smaller one shows in the weights before and after.
func changeOf(h *api.History, e *api.Event, server string) (api.WeightChange, bool) {
	for _, c := range e.Changes {
		if c.Server == server {
			return c, true
		}
	}
	for i := range h.Series {
		s := &h.Series[i]
		at, found := slices.BinarySearch(s.Times, e.Time.Unix())
		weights := s.Weights[server]
		if s.Socket != e.Socket || !found || at == 0 || at >= len(weights) || weights[at-1] == nil || weights[at] == nil {
			continue
		}
		before, after := int(*weights[at-1]), int(*weights[at])
		return api.WeightChange{Server: server, Before: before, After: after, Text: wordsNotListed}, before != after
	}
	return api.WeightChange{}, false
}

// keepSince leaves out what was before start.
func keepSince(h *api.History, start time.Time) {
	if start.After(h.Since) {
		h.Since = start.UTC()
	}
	h.Events = slices.DeleteFunc(h.Events, func(e api.Event) bool { return e.Time.Before(start) })
	for i := range h.Series {
		s := &h.Series[i]
		first := 0
		for first < len(s.Times) && s.Times[first] < start.Unix() {
			first++
		}
		s.Times, s.Imbalance = s.Times[first:], from(s.Imbalance, first)
		for _, all := range []map[string][]*float64{s.Loads, s.Weights} {
			for name := range all {
				all[name] = from(all[name], first)
			}
		}
	}
}

// from cuts the first values off; a daemon's series that is too short gives none.
func from(values []*float64, first int) []*float64 { return values[min(first, len(values)):] }

// writeHistory prints the lines of loads and weights, then the events.
func (p *Program) writeHistory(h *api.History, server string, now time.Time) error {
	w := &statusWriter{p: p, now: now, colours: p.colours(p.Stdout)}
	w.styled(bold, "%s", wordsHistoryHead(h, now))
	if lines := linesTable(h, server, now, p.unicode()); len(lines.rows) > 0 {
		if err := p.writeTable(lines); err != nil {
			return err
		}
	}
	w.line("")
	if len(h.Events) == 0 {
		w.line("%s", wordsNoEvents)
		return w.err
	}
	if err := p.writeTable(eventsTable(h, server != "")); err != nil {
		return err
	}
	return w.err
}

// linesTable has a line with a small picture for each series of numbers.
func linesTable(h *api.History, server string, now time.Time, unicode bool) *table {
	t := newTable("", ">least", "", ">most", ">now")
	several := len(h.Series) > 1
	for i := range h.Series {
		s := &h.Series[i]
		on := ""
		if several {
			on = " on " + s.Socket
		}
		add := func(name string, values []*float64, format func(float64) string) {
			l := lineOf(s.Times, values, h.Since, now)
			if l.known {
				t.add(cell{text: name + on}, cell{text: format(l.least)}, cell{text: l.draw(unicode)}, cell{text: format(l.most)}, cell{text: maybe(l.last, format)})
			}
		}
		add("load max/mean", s.Imbalance, func(v float64) string { return fmt.Sprintf("%.2f", v) })
		if server != "" {
			add("load of "+server, s.Loads[server], number)
			add("weight of "+server, s.Weights[server], number)
		}
	}
	return t
}

func eventsTable(h *api.History, reasons bool) *table {
	several := len(h.Series) > 1
	styles := map[string]style{
		api.EventForeign: red, api.EventFault: red, api.EventHold: yellow, api.EventReload: yellow,
		api.EventGood: green, api.EventOrder: bold,
	}
	t := newTable(without([]string{"time", "socket", "kind", "what"}, 1, !several)...)
	for i := range h.Events {
		e := &h.Events[i]
		t.add(without([]cell{
			{text: api.At(e.Time)}, {text: orDash(e.Socket)}, {e.Kind, styles[e.Kind]}, {text: wordsEvent(e, reasons)},
		}, 1, !several)...)
	}
	return t
}
