package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// latePasses is how many intervals without a pass are worth a colour.
const latePasses = 3

// severalSockets tells whether a table without sockets would be ambiguous.
func severalSockets(s *api.Status) bool {
	first := ""
	for i := range s.Backends {
		for j := range s.Backends[i].Tables {
			socket := s.Backends[i].Tables[j].Socket
			if first != "" && socket != first {
				return true
			}
			first = socket
		}
	}
	return false
}

// tableName is the backend, with the socket where there are several.
func tableName(t *api.Table, s *api.Status) string {
	if severalSockets(s) {
		return t.Backend + " on " + t.Socket
	}
	return t.Backend
}

// backendsTable has a line for each backend on each HAProxy.
func backendsTable(s *api.Status, now time.Time) *table {
	several := severalSockets(s)
	columns := []string{"backend", "socket", "mode", "last pass", "verdict", ">max/mean", ">fresh", ">data age", "function", ">gain", "last change", "orders"}
	t := newTable(without(columns, 1, !several)...)
	if t.keys = 1; several {
		t.keys = 2
	}
	for i := range s.Backends {
		b := &s.Backends[i]
		if len(b.Tables) == 0 {
			row := []cell{{text: b.Backend}, {text: "-"}, modeCell(b.Mode), {text: "-"}, {"no HAProxy has it", yellow}}
			for len(row) < len(columns)-1 {
				row = append(row, cell{text: "-"})
			}
			row = append(row, cell{text: wordsOrdersBrief(b.Control)})
			t.add(without(row, 1, !several)...)
		}
		for j := range b.Tables {
			t.add(without(backendRow(b, &b.Tables[j], now), 1, !several)...)
		}
	}
	return t
}

func without[T any](list []T, i int, drop bool) []T {
	if !drop {
		return list
	}
	return append(list[:i:i], list[i+1:]...)
}

func backendRow(b *api.BackendStatus, t *api.Table, now time.Time) []cell {
	pass := cell{text: ago(t.Time, now)}
	if now.Sub(t.Time).Seconds() > latePasses*b.IntervalSeconds {
		pass.style = red
	}
	imbalance := "-"
	if t.Imbalance > 0 {
		imbalance = fmt.Sprintf("%.2f", t.Imbalance)
	}
	fresh := cell{text: fmt.Sprintf("%d/%d", t.Fresh, t.InService)}
	if t.Earlier > 0 {
		fresh.text += fmt.Sprintf(", %d earlier", t.Earlier)
	}
	if t.Fresh < t.InService || t.InService == 0 {
		fresh.style = yellow
	}
	gain := "-"
	if t.Gain > 0 {
		gain = fmt.Sprintf("%.3g", t.Gain)
	}
	change := "-"
	if t.LastChange != nil {
		change = ago(*t.LastChange, now)
	}
	return []cell{
		{text: t.Backend}, {text: t.Socket}, modeCell(b.Mode), pass, verdictCell(t), {text: imbalance}, fresh,
		ageCell(t.AgeSeconds, t, now), {text: string(t.Function)}, {text: gain}, {text: change}, {text: wordsOrdersBrief(b.Control)},
	}
}

func modeCell(mode string) cell {
	if mode == string(config.Observe) {
		return cell{mode, yellow}
	}
	return cell{text: mode}
}

func verdictCell(t *api.Table) cell {
	switch {
	case thawed(t):
		return cell{"was frozen", yellow}
	case t.HoldCode == balancer.HoldFrozen:
		return cell{"frozen", yellow}
	case t.Verdict == weighting.Hold && t.HoldCode != "":
		return cell{"held: " + t.HoldCode, red}
	case t.Verdict == weighting.Hold:
		return cell{"held", red}
	case t.Verdict == weighting.Keep:
		return cell{"weights are good", green}
	case t.Changes > 0:
		return cell{"set " + count(t.Changes, "weight"), green}
	case t.Mode == string(config.Observe):
		return cell{text: "would set weights"}
	case len(unset(t)) > 0:
		return cell{"not set: " + count(len(unset(t)), "weight"), red}
	}
	return cell{"weights are good", green} // but for pins
}

// thawed tells whether a freeze has ended since the last pass.
func thawed(t *api.Table) bool { return t.HoldCode == balancer.HoldFrozen && t.Freeze == nil }

// unset are the servers whose weight in force is not the one decided.
func unset(t *api.Table) []string {
	var names []string
	for i := range t.Servers {
		if r := &t.Servers[i]; r.InRotation && wouldChange(r.Row) {
			names = append(names, r.Server)
		}
	}
	return names
}

// ageCell is an age as of now; what the table has is as of its pass.
func ageCell(age *float64, t *api.Table, now time.Time) cell {
	if age == nil {
		return cell{text: "-"}
	}
	old := *age + now.Sub(t.Time).Seconds()
	c := cell{text: spanOf(old)}
	if t.MaxAgeSeconds > 0 && *age > t.MaxAgeSeconds {
		c.style = red
	}
	return c
}

func serversTable(t *api.Table, now time.Time) *table {
	out := newTable("server", ">load", ">data age", ">load/mean", ">share", ">weight", ">initial", "admin", "state", ">sessions", "pin")
	out.keys = 1
	for i := range t.Servers {
		r := &t.Servers[i]
		weight := cell{text: fmt.Sprint(r.AppliedWeight)}
		if wouldChange(r.Row) {
			weight = cell{fmt.Sprintf("%d, wanted %d", r.AppliedWeight, r.Weight), bold}
		}
		pin := cell{text: "-"}
		if r.Pin != nil {
			pin = cell{fmt.Sprintf("%d (%s)", r.Pin.Weight, r.Pin.Author), yellow}
		}
		sessions := "-"
		if r.Sessions >= 0 {
			sessions = fmt.Sprint(r.Sessions)
		}
		load := cell{text: maybe(r.Load, number)}
		if r.Earlier {
			load.style = yellow
		}
		out.add(cell{text: r.Server}, load, ageCell(r.AgeSeconds, t, now), cell{text: relativeLoad(r, t)},
			cell{text: percent(r.Share)}, weight, cell{text: fmt.Sprint(r.InitialWeight)},
			stateCell(r.AdminState, "ready"), stateCell(r.OpState, "running"), cell{text: sessions}, pin)
	}
	return out
}

// relativeLoad is a server's load for its capacity over the mean. With "better"
// turned round the mean is of other numbers than the loads.
func relativeLoad(r *api.Server, t *api.Table) string {
	if r.Load == nil || t.Mean <= 0 || r.Capacity <= 0 || t.Better == weighting.Higher {
		return "-"
	}
	return fmt.Sprintf("%.2f", *r.Load/r.Capacity/t.Mean)
}

func wordsOrdersBrief(c balancer.Control) string {
	if c.Empty() {
		return "-"
	}
	return strings.Join(api.OrdersBrief(c), ", ")
}
