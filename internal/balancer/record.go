package balancer

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// input gathers what one pass gives to weighting.
func (p *plane) input(state *haproxy.State, picture *picture, foreign map[string]foreignWrite, now time.Time) weighting.Input {
	in := weighting.Input{
		Now: now, LastChange: p.memory.lastChange,
		Lifetime: p.lifetime.mean, Servers: make([]weighting.Server, len(state.Servers)),
	}
	capacities := capacitiesOf(p.backend.Capacity, state.Servers)
	waited := now.Sub(picture.received) // the data have aged since the answer
	for i := range state.Servers {
		s := &state.Servers[i]
		to := weighting.Server{
			Name: s.Name, Load: math.NaN(), Capacity: capacities[i],
			Weight: s.Weight, Left: foreign[s.Name].ours, InitialWeight: s.InitialWeight, Rotation: rotationOf(s),
			UpSince: p.memory.arrivals.up[s.Name], Awaited: p.memory.arrivals.awaited(s.Name, now), Sessions: s.Sessions, Pin: p.control.Pins[s.Name].Weight,
		}
		to.Metrics = picture.metricsOf(s.Name, waited, p.backend.MaxAge+p.backend.Interval)
		l := picture.of(s.Name)
		switch age := l.sample.Age + waited; {
		case l.err != nil:
			to.Reason = l.err.Error()
		case age > p.backend.MaxAge+p.backend.Interval:
			to.Reason = "its load has grown too old while HAProxy could not be read"
		default:
			to.Load, to.LoadTime = l.sample.Value, l.sample.Time
			to.DataAge = l.sample.MidAge + waited
		}
		in.Servers[i] = to
	}
	var texts []string
	for _, f := range sortedForeign(foreign) {
		texts = append(texts, f.text())
	}
	if len(texts) > 0 {
		in.Force = "somebody else has set weights: " + cut(texts)
	}
	return in
}

// record is what a table is made of.
type record struct {
	state    *haproxy.State
	in       weighting.Input
	picture  *picture
	decision *weighting.Decision
	foreign  map[string]foreignWrite
	written  int
}

// publish makes the table of a pass and puts it where everyone reads it.
func (p *plane) publish(r *record) {
	d := r.decision
	t := p.blank(r.state)
	t.Time = r.in.Now
	t.Verdict, t.Why, t.HoldCode = d.Verdict, d.Why, d.HoldCode
	t.Fault = p.faultText(r.picture)
	t.Function, t.Fresh, t.InService = d.Function, d.Fresh, d.InService
	t.Mean, t.Imbalance = d.Mean, d.MaxOverMean
	t.Lifetime, t.LifetimeFrom = d.Lifetime, p.lifetime.from
	t.Delay, t.Gain, t.LoopGain = d.Delay, d.Gain, d.LoopGain()
	t.Changes, t.Foreign = r.written, len(r.foreign)
	decided := make(map[string]*weighting.ServerDecision, len(d.Servers))
	for i := range d.Servers {
		decided[d.Servers[i].Name] = &d.Servers[i]
	}
	given := make(map[string]*weighting.Server, len(r.in.Servers))
	for i := range r.in.Servers {
		given[r.in.Servers[i].Name] = &r.in.Servers[i]
	}
	for i := range t.Rows {
		row := &t.Rows[i]
		if f, ok := r.foreign[row.Server]; ok {
			row.Reasons = append(row.Reasons, weighting.Reason{
				Step: StepForeign, Before: float64(f.ours), After: float64(f.found),
				Text: "somebody else has set the weight: " + f.who(),
			})
		}
		if s, ok := given[row.Server]; ok {
			row.Capacity, row.WeightBefore, row.Metrics = s.Capacity, s.Weight, s.Metrics
			row.fill(s.Load, r.picture, r.in.Now)
		}
		if sd, ok := decided[row.Server]; ok {
			row.Share, row.Weight = sd.Share, sd.Weight
			row.Reasons = append(row.Reasons, sd.Reasons...)
		}
	}
	p.keepLoads(t)
	p.setTable(t)
	if p.observer != nil {
		p.observer.Passed(t)
	}
}

// fill sets the load of a row with where it is from; load NaN means none.
func (r *Row) fill(load float64, picture *picture, now time.Time) {
	r.Load, r.AgeSeconds, r.Series, r.Timestamp, r.Points, r.Earlier = nil, nil, "", nil, 0, false
	if math.IsNaN(load) {
		return
	}
	from := picture.of(r.Server)
	age := from.sample.Age + now.Sub(picture.received)
	seconds, stamp := age.Seconds(), from.sample.Time.Unix()
	r.Load, r.AgeSeconds = &load, &seconds
	r.Series, r.Timestamp, r.Points = from.series, &stamp, from.sample.Points
}

// configured fills in what the configuration alone says.
func (p *plane) configured(t *Table) {
	b := p.backend
	t.Target, t.Aggregate, t.Window = cmp.Or(b.TargetWritten, b.Target), b.Aggregate, b.Window
	t.MaxAge, t.Quorum, t.Better = b.MaxAge, b.Weighting.Quorum, b.Weighting.Better
}

// blank is a table of what HAProxy says alone. The share of a row is that of
// the weights in force.
func (p *plane) blank(state *haproxy.State) *Table {
	t := &Table{
		Backend: p.backend.Name, Socket: p.socket, Time: p.now(),
		Worker: state.Info.Worker, Algorithm: state.Algorithm, Mode: string(p.mode()), Control: p.control, Sighting: p.sighting,
		Rows: make([]Row, len(state.Servers)), LastChange: p.memory.lastChange, Function: p.function,
	}
	p.configured(t)
	capacities := capacitiesOf(p.backend.Capacity, state.Servers)
	sum := 0
	for i := range state.Servers {
		if rotationOf(&state.Servers[i]) == weighting.InRotation {
			sum += state.Servers[i].Weight
			t.InService++
		}
	}
	for i := range state.Servers {
		s := &state.Servers[i]
		t.Rows[i] = Row{
			Server: s.Name, Capacity: capacities[i], Weight: s.Weight, Pin: p.control.PinOf(s.Name),
			AppliedWeight: s.Weight, WeightBefore: s.Weight, InitialWeight: s.InitialWeight,
			AdminState: s.Admin.Word(), OpState: s.Op.String(), Backup: s.Backup, Sessions: s.Sessions,
			Reasons: []weighting.Reason{},
		}
		if rotationOf(s) == weighting.InRotation {
			t.Rows[i].Share = float64(s.Weight) / float64(sum)
		}
	}
	return t
}

// publishState brings the newest table up to what HAProxy says outside of a
// pass. Before the first pass that is a table without loads.
func (p *plane) publishState(state *haproxy.State) {
	t := p.blank(state)
	old := p.table.Load()
	if old == nil || len(old.Rows) == 0 {
		t.Verdict, t.HoldCode = weighting.Hold, HoldStarting
		t.Why = "these are the weights in force; no pass has been made yet"
		t.Fault = p.faultText(p.last)
		for i := range t.Rows {
			p.lend(&t.Rows[i], t.Time)
		}
		p.setTable(t)
		return
	}
	merged := *old
	if old.Unread() {
		merged.Verdict, merged.HoldCode = weighting.Hold, HoldStarting
		merged.Why = "HAProxy can be read again: these are the weights in force, and the next pass decides"
	}
	merged.Worker, merged.Algorithm, merged.LastChange = t.Worker, t.Algorithm, t.LastChange
	merged.Sighting = t.Sighting
	merged.Mode, merged.Control = t.Mode, t.Control
	merged.InService, merged.Fault = t.InService, p.faultText(p.last)
	rows := make(map[string]*Row, len(old.Rows))
	for i := range old.Rows {
		rows[old.Rows[i].Server] = &old.Rows[i]
	}
	for i := range t.Rows {
		now := &t.Rows[i]
		before, ok := rows[now.Server]
		if !ok {
			p.lend(now, merged.Time)
			continue
		}
		row := *before
		row.AppliedWeight, row.InitialWeight, row.Sessions = now.AppliedWeight, now.InitialWeight, now.Sessions
		row.AdminState, row.OpState, row.Backup, row.Pin = now.AdminState, now.OpState, now.Backup, now.Pin
		*now = row
	}
	merged.Rows = t.Rows
	p.setTable(&merged)
}

// publishUnread makes the table of a pass that could not read HAProxy: the
// servers as they were last known, with the newest loads.
func (p *plane) publishUnread(picture *picture, err error) {
	t := &Table{
		Backend: p.backend.Name, Socket: p.socket, Mode: string(p.mode()), Function: p.function,
	}
	if old := p.table.Load(); old != nil {
		*t = *old
	}
	p.configured(t)
	t.Time = p.now()
	t.Verdict, t.HoldCode, t.Why = weighting.Hold, HoldUnread, "HAProxy could not be read: "+haproxy.Cause(err).Error()
	t.Fault = p.faultText(picture)
	t.Changes, t.Foreign = 0, 0
	t.Mode, t.Control = string(p.mode()), p.control
	t.Rows = slices.Clone(t.Rows)
	for i := range t.Rows {
		row := &t.Rows[i]
		row.Pin = p.control.PinOf(row.Server)
		row.fill(p.shown(picture, row.Server, t.Time), picture, t.Time)
	}
	p.keepLoads(t)
	p.setTable(t)
	if p.observer != nil {
		p.observer.Passed(t)
	}
}

// faultText puts all that is wrong now into one line.
func (p *plane) faultText(picture *picture) string {
	var texts []string
	if picture != nil && picture.err != nil {
		texts = append(texts, "no loads from Graphite: "+picture.err.Error())
	}
	if _, told := p.faults.open[FaultUnread]; p.unread != nil && !told {
		texts = append(texts, "HAProxy can't be read: "+p.unread.Error())
	}
	if own := p.faults.text(); own != "" {
		texts = append(texts, own)
	}
	return strings.Join(texts, "; ")
}
