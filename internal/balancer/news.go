package balancer

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// roll is the names that something was true of in the last pass.
type roll map[string]bool

// turn takes the names of this pass and returns, sorted, those that are new
// and those that are gone.
func (r *roll) turn(names map[string]bool) (began, ended []string) {
	for name := range names {
		if !(*r)[name] {
			began = append(began, name)
		}
	}
	for name := range *r {
		if !names[name] {
			ended = append(ended, name)
		}
	}
	*r = names
	slices.Sort(began)
	slices.Sort(ended)
	return began, ended
}

// news is what has been told about single servers, so that each thing is told
// when it begins and when it ends, in one line for all servers of a pass.
type news struct {
	missing  roll           // servers in rotation without data
	zero     roll           // servers at weight 0
	nobodys  roll           // series that are for no server
	foreign  roll           // servers that somebody else writes
	pinned   roll           // servers with a pin
	idlePins roll           // servers with a pin that has no effect
	patience map[string]int // passes until a foreign writer counts as gone
}

// foreignPatience is how many passes without a foreign write end the matter: a
// writer that comes back every other pass is told once, not each time.
const foreignPatience = 3

func (n *news) foreignWrites(log *slog.Logger, foreign map[string]foreignWrite, state *haproxy.State) {
	if n.patience == nil {
		n.patience = make(map[string]int)
	}
	for name := range foreign {
		n.patience[name] = foreignPatience + 1
	}
	active := make(map[string]bool)
	for name := range n.patience {
		n.patience[name]--
		if n.patience[name] <= 0 {
			delete(n.patience, name)
			continue
		}
		active[name] = true
	}
	began, ended := n.foreign.turn(active)
	if len(began) > 0 {
		texts := make([]string, len(began))
		for i, name := range began {
			f := foreign[name]
			texts[i] = f.text()
		}
		log.Warn("somebody else has set weights", "cause", cut(texts), "worker", state.Info.Worker.PID,
			"meanwhile", "they are taken back as soon as a pass may write",
			"do", `end the other writer; to keep a server out, drain it; to leave all weights alone, set mode = "observe"`)
	}
	if len(ended) > 0 {
		log.Info("nobody else sets weights any more", "servers", cut(ended))
	}
}

// tell reports what this pass found about single servers, and why it holds.
func (p *plane) tell(state *haproxy.State, in weighting.Input, picture *picture, d *weighting.Decision) {
	p.log.Debug("pass", "verdict", string(d.Verdict), "why", d.Why, "fresh", d.Fresh, "in_service", d.InService,
		"lifetime", d.Lifetime.Round(time.Second).String(), "delay", d.Delay.Round(time.Second).String(), "gain", d.Gain)
	zero := make(map[string]bool)
	for i := range state.Servers {
		if state.Servers[i].Weight == 0 {
			zero[state.Servers[i].Name] = true
		}
	}
	began, ended := p.news.zero.turn(zero)
	if len(began) > 0 {
		p.log.Info("servers at weight 0 are left alone: that is a drain", "servers", cut(began))
	}
	if len(ended) > 0 {
		p.log.Info("servers are no longer at weight 0", "servers", cut(ended))
	}
	for _, line := range d.Printed {
		p.log.Info("the script prints", "text", line)
	}
	p.tellOrders(state)
	p.tellFrozen(d)
	if picture.err == nil {
		p.tellMissing(in)
		p.tellNobodys(state, picture)
		p.tellHold(d)
		p.tellLoopGain(d)
	}
}

func (p *plane) tellMissing(in weighting.Input) {
	missing, reasons := make(map[string]bool), make(map[string]string)
	for i := range in.Servers {
		s := &in.Servers[i]
		if s.Reason != "" && s.Rotation == weighting.InRotation {
			missing[s.Name], reasons[s.Name] = true, s.Reason
		}
	}
	began, ended := p.news.missing.turn(missing)
	if len(began) > 0 {
		texts := make([]string, len(began))
		for i, name := range began {
			texts[i] = name + ": " + reasons[name]
		}
		p.log.Warn("servers without usable load", "cause", cut(texts),
			"meanwhile", missingWords(p.backend.Weighting.OnMissing),
			"do", "see what the cause names; the command loads shows each series")
	}
	if len(ended) > 0 {
		p.log.Info("servers have usable load again, or are out of rotation", "servers", cut(ended))
	}
}

func missingWords(o weighting.OnMissing) string {
	switch o {
	case weighting.MissingHold:
		return "they keep their weights"
	case weighting.MissingInitial:
		return "they keep their weights for a while, then get their initial ones"
	}
	return "they keep their weights for a while, then count as average"
}

func (p *plane) tellNobodys(state *haproxy.State, picture *picture) {
	have := weightsOf(state.Servers)
	nobodys := make(map[string]bool)
	for name, l := range picture.loads {
		if _, ok := have[name]; !ok {
			nobodys[l.series] = true
		}
	}
	for _, series := range picture.nameless {
		nobodys[series] = true
	}
	began, ended := p.news.nobodys.turn(nobodys)
	if len(began)+len(ended) > 0 {
		p.log.Info("series that are for no server of HAProxy", "count", len(nobodys)+picture.left, "new", cut(began), "gone", cut(ended),
			"do", "if one of them should be a server's, see server_regexp and the names in haproxy.cfg")
	}
}

// tellHold reports a pass that holds for a reason of its own.
func (p *plane) tellHold(d *weighting.Decision) {
	const prefix = "hold:"
	if d.Verdict != weighting.Hold || d.HoldCode == HoldFrozen {
		p.faults.endOthers(prefix, "")
		return
	}
	key := prefix + d.HoldCode
	p.faults.endOthers(prefix, key)
	do := "see the cause; the command plan shows every server with its load and reasons"
	if d.HoldCode == weighting.HoldScript {
		do = "correct backend.script and reload; haproxy-weighter lua FILE tries it beforehand"
	}
	p.faults.begin(key, d.Why, wording{
		what:      "weights are held",
		over:      "weights are no longer held for that reason (" + d.HoldCode + ")",
		meanwhile: "weights stay as they are" + staleWords(p.backend),
		do:        do,
	})
}

// tellFrozen reports a freeze when it begins and when it ends.
func (p *plane) tellFrozen(d *weighting.Decision) {
	if d.HoldCode != HoldFrozen {
		p.faults.end(FaultFrozen)
		return
	}
	p.faults.begin(FaultFrozen, d.Why, wording{
		what:      "weights are frozen by an operator",
		over:      "weights are no longer frozen",
		meanwhile: "weights stay as they are, whoever sets them; after a reload of HAProxy they are put back",
		do:        "nothing, or: haproxy-weighter unfreeze " + p.backend.Name,
	})
}

// cut joins texts for a log line; beyond 10 it is cut.
func cut(texts []string) string {
	const most = 10
	shown := make([]string, 0, most)
	for _, text := range texts[:min(len(texts), most)] {
		shown = append(shown, clipTo(text, mostWords))
	}
	if len(texts) > most {
		return strings.Join(shown, ", ") + fmt.Sprintf(", and %d more", len(texts)-most)
	}
	return strings.Join(shown, ", ")
}

// What a log line or a reason has of one name, and of one server's words, in
// bytes: Graphite chooses the names of series, and they can be as long as an
// answer is.
const (
	mostName  = 200
	mostWords = 1000
)

// clip cuts the name of a series for a message.
func clip(name string) string { return clipTo(name, mostName) }

func clipTo(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + fmt.Sprintf("... (%d bytes)", len(text))
}

// sortedForeign gives foreign writes in the order of their servers' names.
func sortedForeign(foreign map[string]foreignWrite) []foreignWrite {
	list := make([]foreignWrite, 0, len(foreign))
	for _, name := range slices.Sorted(maps.Keys(foreign)) {
		list = append(list, foreign[name])
	}
	return list
}
