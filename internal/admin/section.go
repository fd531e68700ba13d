package admin

import (
	"fmt"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// maker makes the section of one backend on one HAProxy.
type maker struct {
	now     time.Time
	backend *config.Backend
	table   *balancer.Table // nil: HAProxy has not been read
	control balancer.Control
	mode    config.Mode
	order   string
	only    string
	file    string // of the configuration, when it is not the usual one
	faulty  bool   // a fault is open that is about it
	unread  bool   // a fault tells why HAProxy could not be read
	pending bool   // the orders are newer than the pass
}

func (m *maker) section(several bool) section {
	x := section{ID: m.backend.Name, Backend: m.backend.Name, Level: good}
	if m.table != nil {
		x.ID += " on " + m.table.Socket
		if several {
			x.Socket = m.table.Socket
		}
	}
	x.Badges = m.badges()
	x.Verdict = m.verdict()
	x.Notes = m.notes()
	x.Orders = m.orders(m.backend.Name, m.control)
	x.Commands = m.commands()
	for _, b := range x.Badges {
		x.Level = worse(x.Level, b.Level)
	}
	for _, n := range x.Notes {
		x.Level = worse(x.Level, n.Level)
	}
	if m.table == nil {
		return x
	}
	x.Facts = m.facts()
	for _, f := range x.Facts {
		x.Level = worse(x.Level, f.Level)
	}
	x.Heads = m.heads()
	x.Rows = m.rows()
	x.Tall = len(x.Rows) > 25
	return x
}

// badges are the states that a backend can be in, in words.
func (m *maker) badges() []badge {
	var all []badge
	switch {
	case m.control.Mode != nil: // an order, see below
	case m.mode == config.Observe:
		all = append(all, badge{Text: "observe", Level: note})
	default:
		all = append(all, badge{Text: "live", Level: good})
	}
	for _, text := range api.OrdersBrief(m.control) {
		all = append(all, badge{Text: text, Level: note})
	}
	switch t := m.table; {
	case t == nil:
		all = append(all, badge{Text: "not read", Level: bad})
	case t.HoldCode == balancer.HoldStarting:
		all = append(all, badge{Text: "starting", Level: note})
	case t.Verdict == weighting.Hold && t.HoldCode != balancer.HoldFrozen:
		all = append(all, badge{Text: "hold", Level: bad})
	}
	if m.faulty {
		all = append(all, badge{Text: "fault", Level: bad})
	}
	return all
}

// verdict says what the last pass did.
func (m *maker) verdict() string {
	t := m.table
	if t == nil {
		return "No HAProxy has this backend, or none has been read yet."
	}
	differ := 0
	for i := range t.Rows {
		if t.Rows[i].InRotation() && t.Rows[i].Weight != t.Rows[i].AppliedWeight {
			differ++
		}
	}
	switch {
	case t.HoldCode == balancer.HoldFrozen && m.control.Freeze == nil:
		return "Held by a freeze in the last pass."
	case t.Verdict == weighting.Hold && m.unread:
		return "Held: HAProxy could not be read; the fault above tells why."
	case t.Verdict == weighting.Hold:
		return "Held: " + strings.TrimSuffix(t.Why, ".") + "."
	case t.Verdict == weighting.Write && t.Changes > 0:
		return "The last pass set " + plural(t.Changes, "weight", "weights") + andWhy(t.Why)
	case t.Verdict == weighting.Write && m.mode == config.Observe:
		return fmt.Sprintf("The last pass would have set %s; in observe mode nothing is written.", plural(differ, "weight", "weights"))
	case t.Verdict == weighting.Write && differ > 0:
		return fmt.Sprintf("%s should change and could not be written.", plural(differ, "weight", "weights"))
	case t.Verdict == weighting.Write:
		return "Every weight is in force already" + andWhy(t.Why)
	}
	return "No weight had to change" + andWhy(t.Why)
}

func andWhy(why string) string {
	if why == "" {
		return "."
	}
	return ": " + strings.TrimSuffix(why, ".") + "."
}

// notes are what an operator should know of single servers.
func (m *maker) notes() []mark {
	t := m.table
	if t == nil {
		return nil
	}
	var all []mark
	if m.pending {
		all = append(all, mark{Text: api.WordsPending, Level: note})
	}
	var silent, earlier, stuck, foreign, out []string
	for i := range t.Rows {
		r := &t.Rows[i]
		switch {
		case !r.InRotation():
			out = append(out, fmt.Sprintf("%s (%s)", r.Server, outWords(r)))
		case r.Load == nil:
			silent = append(silent, r.Server)
		case r.Earlier:
			earlier = append(earlier, r.Server)
		case !r.Measured():
			stuck = append(stuck, r.Server)
		}
		for _, reason := range r.Reasons {
			if reason.Step == balancer.StepForeign {
				foreign = append(foreign, r.Server)
			}
		}
	}
	tell := func(names []string, l level, one, many, rest string) {
		if len(names) > 0 {
			all = append(all, mark{Text: plural(len(names), one, many) + rest + ": " + listNames(names), Level: l})
		}
	}
	tell(silent, bad, "server", "servers", " without data")
	tell(earlier, bad, "server", "servers", " without new data, shown with the load of an earlier pass")
	tell(stuck, bad, "server", "servers", " whose load is zero and is not believed")
	tell(foreign, bad, "weight", "weights", " that somebody else has set")
	tell(out, note, "server", "servers", " out of rotation, left alone")
	if late := m.now.Sub(t.Time); late > 3*m.backend.Interval+time.Minute {
		all = append(all, mark{Text: "no pass for " + span(late), Level: bad})
	}
	return all
}

// facts are the numbers on top of a section.
func (m *maker) facts() []fact {
	t := m.table
	all := []fact{m.imbalance(), m.age(), m.fresh(), m.lastChange()}
	pass := fact{Name: "last pass", Value: span(m.now.Sub(t.Time)), At: t.Time.Unix(), Hint: "one every " + span(m.backend.Interval)}
	function := fact{Name: "function", Value: string(t.Function)}
	if t.Gain > 0 {
		function.Hint = "gain " + rough(t.Gain)
	}
	if t.LoopGain > 0 {
		function.Hint += ", of the loop " + rough(t.LoopGain)
	}
	if t.Algorithm != "" {
		function.Hint = strings.TrimPrefix(function.Hint+"; balance "+t.Algorithm, "; ")
	}
	all = append(all, pass, function)
	if t.Lifetime > 0 {
		lifetime := fact{Name: "connections live", Value: span(t.Lifetime), Hint: "mean, from their ages"}
		switch t.LifetimeFrom {
		case "":
			lifetime.Hint = "assumed: not known yet"
		case "little":
			lifetime.Hint = "mean, from sessions over arrivals"
		}
		all = append(all, lifetime)
	}
	return all
}

func (m *maker) imbalance() fact {
	t := m.table
	f := fact{Name: "max / mean load", Value: "unknown"}
	if t.Imbalance <= 0 {
		return f
	}
	f.Value = fmt.Sprintf("%.2f", t.Imbalance)
	most, busiest := 0.0, ""
	for i := range t.Rows {
		if relative, ok := relativeOf(t, &t.Rows[i]); ok && t.Rows[i].InRotation() && relative > most {
			most, busiest = relative, t.Rows[i].Server
		}
	}
	if busiest != "" {
		f.Hint = "highest: " + busiest
	}
	if t.Mean > 0 && t.Better != weighting.Higher {
		f.Hint = strings.TrimPrefix(f.Hint+"; mean "+amount(t.Mean), "; ")
	}
	return f
}

func (m *maker) age() fact {
	t := m.table
	f := fact{Name: "data age", Value: "no data", Level: bad, Hint: "nothing older than " + span(t.MaxAge) + " counts"}
	age, ok := t.DataAge()
	if !ok {
		return f
	}
	at := t.Time.Add(-age)
	f.Value, f.At, f.Level = span(m.now.Sub(at)), at.Unix(), good
	if m.now.Sub(at) > t.MaxAge+m.backend.Interval {
		f.Level = bad
		f.Hint = "too old: " + f.Hint
	}
	return f
}

func (m *maker) fresh() fact {
	t := m.table
	f := fact{Name: "servers with data", Value: fmt.Sprintf("%d of %d", t.Fresh, t.InService), Hint: "in rotation", Level: good}
	if rest := len(t.Rows) - t.InService; rest > 0 {
		f.Hint += fmt.Sprintf("; %d out of rotation", rest)
	}
	if n := t.Earlier(); n > 0 {
		f.Hint += fmt.Sprintf("; %d with the load of an earlier pass", n)
	}
	if t.Fresh < t.InService {
		f.Level = bad
	}
	return f
}

func (m *maker) lastChange() fact {
	f := fact{Name: "last change", Value: "none yet", Hint: "by this process"}
	if at := m.table.LastChange; !at.IsZero() {
		f.Value, f.At, f.Hint = span(m.now.Sub(at)), at.Unix(), at.UTC().Format("at 15:04:05 UTC")
	}
	return f
}

// orders are what operators have ordered for a backend, each with the way back.
func (m *maker) orders(backend string, c balancer.Control) []orderView {
	var all []orderView
	for _, o := range api.Standings(backend, c, m.now) {
		undo := make([]string, len(o.Undo))
		for i, word := range o.Undo {
			undo[i] = quoted(word)
		}
		all = append(all, orderView{What: o.What, How: o.How, Undo: m.command(strings.Join(undo, " "))})
	}
	return all
}

// commands are those that stop the balancing, or part of it.
func (m *maker) commands() []string {
	name := m.backend.Name
	var all []string
	if m.control.Freeze == nil {
		all = append(all, m.command("freeze "+name+` --reason "..." --for 1h`))
	}
	all = append(all, m.command("pin "+name+`/SERVER WEIGHT --reason "..." --for 1h`))
	if m.mode != config.Observe {
		all = append(all, m.command("mode "+name+` observe --reason "..."`))
	}
	return all
}

func (m *maker) command(words string) string {
	text := "haproxy-weighter " + words
	if m.file != "" {
		text += " -f " + quoted(m.file)
	}
	return text
}

// quoted makes a word for a shell.
func quoted(word string) string {
	if !strings.ContainsFunc(word, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:@,", r))
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
