package admin

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// level says how much something wants to be looked at. The page shows it as a
// word and a sign; colours only repeat it.
type level string

const (
	good level = "good"
	note level = "note" // as somebody wants it, or nothing to worry about yet
	bad  level = "bad"
)

func (l level) rank() int { return map[level]int{bad: 2, note: 1}[l] }

// Sign is what stands for a level where colours can't be told apart.
func (l level) Sign() string {
	switch l {
	case bad:
		return "✕"
	case note:
		return "!"
	}
	return "✓"
}

func worse(a, b level) level {
	if b.rank() > a.rank() {
		return b
	}
	return a
}

// view is all that the status page shows, in words, so that the template only
// lays it out.
type view struct {
	Host     string
	Now      time.Time
	Status   api.Status
	Headline string
	Level    level
	Unready  []lack // but for backends that a fault tells of
	Faults   []api.Trouble
	Sections []section // worst first
	Left     []leftView
	Only     string // the one backend that was asked for; empty: all
	Others   []link // the other backends then
	Order    string // how servers are sorted
}

// link is to a part of the page.
type link struct{ Text, URL string }

// leftView is a backend that is not in the configuration, and the orders for it.
type leftView struct {
	Text   string
	Orders []orderView
}

// section is one backend on one HAProxy.
type section struct {
	ID, Backend, Socket string
	Level               level
	Verdict             string
	Badges              []badge
	Notes               []mark
	Facts               []fact
	Orders              []orderView
	Commands            []string
	Heads               []head
	Rows                []rowView
	Tall                bool // so many that they scroll on their own
	Events              []eventView
	EventsLeft          int    // that are not shown
	Chart               bool   // there is a history
	ChartSocket         string // of which series
}

// badge is a word about a backend.
type badge struct {
	Text  string
	Level level
}

// mark is a sentence about a backend.
type mark struct {
	Text  string
	Level level
}

// fact is one number that tells how a backend is.
type fact struct {
	Name, Value, Hint string
	Level             level
	At                int64 // seconds since 1970: the value is an age that grows; 0: it is not
}

// orderView is an order in force.
type orderView struct {
	What, How string
	Undo      string // the command that takes it back
}

// head is the head of a column.
type head struct {
	Text, URL string
	Sorted    bool
	Number    bool
}

// eventView is an event of the history.
type eventView struct {
	api.Event
	Level level
}

// mostEventsShown is how many events a section shows.
const mostEventsShown = 15

// view gathers what the page shows. only is the backend asked for, which must
// exist; empty: all.
func (s *Server) view(only, order string) view {
	v := view{Host: s.hostname, Now: s.now().UTC(), Status: s.status(), Only: only, Order: order}
	v.Faults = api.Troubles(v.Status.Faults)
	for _, l := range s.unready() {
		if !slices.ContainsFunc(v.Faults, func(f api.Trouble) bool { return slices.Contains(f.Backends, l.backend) }) {
			v.Unready = append(v.Unready, l)
		}
	}
	for _, b := range s.fleet().Balancers() {
		name := b.Config().Name
		if only != "" && only != name {
			v.Others = append(v.Others, link{Text: name, URL: address(name, order)})
			continue
		}
		v.Sections = append(v.Sections, s.sections(&v, b)...)
	}
	for _, u := range v.Status.Unconfigured {
		m := maker{now: v.Now, file: v.file()}
		v.Left = append(v.Left, leftView{Text: api.WordsUnconfigured(u.Backend), Orders: m.orders(u.Backend, u.Control)})
	}
	slices.SortStableFunc(v.Sections, func(a, b section) int { return cmp.Compare(b.Level.rank(), a.Level.rank()) })
	v.summarise()
	return v
}

// summarise makes the one sentence that says how things are.
func (v *view) summarise() {
	v.Level = good
	ill, noted := 0, 0
	for i := range v.Sections {
		v.Level = worse(v.Level, v.Sections[i].Level)
		switch v.Sections[i].Level {
		case bad:
			ill++
		case note:
			noted++
		}
	}
	if len(v.Faults) > 0 || v.Status.Config.ReloadError != "" {
		v.Level = bad
	}
	switch {
	case len(v.Status.Backends) == 0:
		v.Headline, v.Level = "No backend is balanced yet", note
	case v.Status.Config.ReloadError != "":
		v.Headline = "The last reload of the configuration failed"
	case len(v.Faults) > 0:
		v.Headline = plural(len(v.Faults), "fault", "faults") + " now"
	case ill == 1:
		v.Headline = v.Sections[0].Backend + ": " + v.Sections[0].complaint()
	case ill > 1:
		v.Headline = fmt.Sprintf("%d backends need a look", ill)
	case noted > 0:
		v.Headline = "No fault; " + plural(noted, "backend is", "backends are") + " not balanced as usual"
	default:
		v.Headline = "No fault; weights follow the loads"
	}
	if len(v.Unready) > 0 && v.Level == good {
		v.Headline, v.Level = "Starting: not every backend has had a first pass", note
	}
}

// complaint is what is wrong with a section, in a few words.
func (x *section) complaint() string {
	for _, n := range x.Notes {
		if n.Level == bad {
			return n.Text
		}
	}
	for _, f := range x.Facts {
		if f.Level == bad {
			return f.Name + " " + f.Value
		}
	}
	return "needs a look"
}

// file is that of the configuration, when it is not the usual one.
func (v *view) file() string {
	if file := v.Status.Config.File; file != config.DefaultFile {
		return file
	}
	return ""
}

// sections are one for each HAProxy that has the backend, or one without
// servers when none has been read.
func (s *Server) sections(v *view, b *balancer.Balancer) []section {
	c, tables := b.Config(), b.Tables()
	if len(tables) == 0 {
		tables = []*balancer.Table{nil}
	}
	var events []api.Event
	if s.options.History != nil {
		h, _ := s.options.History.excerpt(c.Name, time.Time{})
		events = h.Events
	}
	var all []section
	control := s.options.Controls.Of(c.Name)
	for _, t := range tables {
		m := maker{
			now: v.Now, backend: c, table: t, order: v.Order, only: v.Only, file: v.file(), control: control, mode: modeWith(b, control),
			pending: t != nil && pending(t, control),
		}
		for i := range v.Faults {
			f := &v.Faults[i]
			socket := f.Socket
			if t != nil {
				socket = t.Socket
			}
			m.faulty = m.faulty || f.Of(c.Name, socket)
			m.unread = m.unread || t != nil && t.Unread() && f.Unreads(c.Name, t.Socket)
		}
		one := m.section(len(tables) > 1)
		one.addEvents(events, t)
		if t != nil {
			one.Chart, one.ChartSocket = s.options.History != nil, t.Socket
		}
		all = append(all, one)
	}
	return all
}

// addEvents shows the newest events that concern the section, newest first.
func (x *section) addEvents(events []api.Event, t *balancer.Table) {
	for _, e := range slices.Backward(events) {
		if e.Socket != "" && (t == nil || e.Socket != t.Socket) {
			continue
		}
		if len(x.Events) == mostEventsShown {
			x.EventsLeft++
			continue
		}
		x.Events = append(x.Events, eventView{Event: e, Level: levelOf(e.Kind)})
	}
}

func levelOf(kind string) level {
	switch kind {
	case api.EventHold, api.EventFault, api.EventForeign:
		return bad
	case api.EventOrder, api.EventReload:
		return note
	}
	return good
}

// address is of the page with one backend and one order of servers.
func address(backend, order string) string {
	q := url.Values{}
	if backend != "" {
		q.Set("backend", backend)
	}
	if order != "" && order != byWorst {
		q.Set("sort", order)
	}
	if len(q) == 0 {
		return "/"
	}
	return "/?" + q.Encode()
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// listNames lists names in a sentence; beyond ten it is cut.
func listNames(names []string) string {
	const most = 10
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}
