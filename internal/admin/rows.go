package admin

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// The orders of servers.
const (
	byWorst    = "worst" // without data, then by relative load, then those out of rotation
	byName     = "name"
	byLoad     = "load"
	byShare    = "share"
	byWeight   = "weight"
	bySessions = "sessions"
	byAge      = "age"
)

// rowView is one server.
type rowView struct {
	Server, State string
	Level         level
	Load          string // empty: no data
	Relative      string // times the mean; empty: unknown
	Bar           int    // length of the relative load, 0 to barLength
	Busy          bool   // far above the mean
	Share         string
	Weight        int    // in force
	WeightNote    string // what it was, or should be
	Pinned        bool
	Initial       int
	Sessions      string
	Age           string
	At            int64  // of the data, seconds since 1970; 0: none
	Why           string // in a few words
	Reasons       []reasonView

	relative float64 // NaN: unknown
	row      *balancer.Row
}

type reasonView struct{ Step, Before, After, Text string }

// The bar of a relative load: its whole length stands for barFull times the
// mean, and a line marks the mean itself.
const (
	barLength = 96
	barFull   = 3
	barBusy   = 1.25
)

// heads are of the columns, each sorts by its own.
func (m *maker) heads() []head {
	columns := []struct {
		text, order string
		number      bool
	}{
		{"Server", byName, false}, {"Weight", byWeight, true}, {"Load", byLoad, true}, {"Load / mean", byWorst, false}, {"Share", byShare, true},
		{"State", "", false}, {"Sessions", bySessions, true}, {"Data age", byAge, true}, {"Why", "", false},
	}
	heads := make([]head, len(columns))
	for i, c := range columns {
		heads[i] = head{Text: c.text, Number: c.number, Sorted: c.order != "" && c.order == m.order}
		if c.order != "" {
			heads[i].URL = address(m.only, c.order)
		}
	}
	return heads
}

func (m *maker) rows() []rowView {
	rows := make([]rowView, len(m.table.Rows))
	for i := range m.table.Rows {
		rows[i] = m.rowView(&m.table.Rows[i])
	}
	slices.SortStableFunc(rows, func(a, b rowView) int { return compareRows(m.order, &a, &b) })
	return rows
}

func (m *maker) rowView(r *balancer.Row) rowView {
	v := rowView{
		Server: r.Server, State: "up", Level: good, Weight: r.AppliedWeight, Initial: r.InitialWeight,
		Share: "-", Sessions: "-", Pinned: m.control.PinOf(r.Server) != nil, relative: math.NaN(), row: r,
	}
	if out := outWords(r); out != "" {
		v.State, v.Level = out, note
	}
	if r.OpState == "stopped" && r.AdminState == "ready" {
		v.State = "down"
	}
	if r.Share > 0 {
		places := 1
		if r.Share < 0.01 {
			places = 2
		}
		v.Share = strconv.FormatFloat(100*r.Share, 'f', places, 64) + " %"
	}
	if r.Sessions >= 0 {
		v.Sessions = grouped(strconv.Itoa(r.Sessions))
	}
	if r.Load != nil {
		v.Load = amount(*r.Load)
	}
	if r.InRotation() && (r.Load == nil || r.Earlier) {
		v.Level = bad
	}
	if r.AgeSeconds != nil {
		at := m.table.Time.Add(-time.Duration(*r.AgeSeconds * float64(time.Second)))
		v.Age, v.At = span(m.now.Sub(at)), at.Unix()
	}
	if relative, ok := relativeOf(m.table, r); ok {
		v.relative, v.Relative = relative, fmt.Sprintf("%.2f", relative)
		v.Bar = int(math.Round(barLength * min(1, relative/barFull)))
		v.Busy = relative >= barBusy && r.InRotation()
	}
	switch {
	case r.InRotation() && r.Weight != r.AppliedWeight:
		v.WeightNote = fmt.Sprintf("should be %d", r.Weight)
	case m.table.Changes > 0 && r.WeightBefore != r.AppliedWeight:
		v.WeightNote = fmt.Sprintf("was %d", r.WeightBefore)
	}
	v.Why = whyOf(r)
	for _, w := range r.Reasons {
		v.Reasons = append(v.Reasons, reasonView{Step: w.Step, Before: digits(w.Before), After: digits(w.After), Text: w.Text})
	}
	return v
}

// whyOf names what shaped a weight, the strongest cause first.
func whyOf(r *balancer.Row) string {
	has := func(step string) bool {
		return slices.ContainsFunc(r.Reasons, func(w weighting.Reason) bool { return w.Step == step })
	}
	var words []string
	for _, w := range []struct{ step, text string }{
		{balancer.StepForeign, "set by somebody else"}, {balancer.StepPin, "pinned"}, {weighting.StepRotation, "left alone"},
		{weighting.StepHold, "held"}, {weighting.StepStale, "all data too old"}, {weighting.StepMissing, "no data"}, {weighting.StepStuck, "zero not believed"},
		{weighting.StepCold, "just came up"}, {weighting.StepRamp, "its ramp gave way"}, {weighting.StepMaxShare, "at max_share"}, {weighting.StepMinWeight, "at min_weight"},
		{weighting.StepMaxWeight, "at max_weight"}, {weighting.StepMaxStep, "at max_step"}, {weighting.StepDeadband, "change too small"},
	} {
		if has(w.step) && w.step == weighting.StepMissing && r.Earlier {
			words = append(words, "no new data")
		} else if has(w.step) {
			words = append(words, w.text)
		}
	}
	switch {
	case len(words) > 0:
		return strings.Join(words[:min(2, len(words))], ", ")
	case len(r.Reasons) > 0:
		return "by load"
	}
	return ""
}

// relativeOf is a server's load for its capacity over the mean: above 1 is
// the busy side, also where higher values are the better ones.
func relativeOf(t *balancer.Table, r *balancer.Row) (float64, bool) {
	if !r.Measured() {
		return 0, false
	}
	for _, w := range r.Reasons {
		if w.Step == weighting.StepRelative {
			return w.After, true
		}
	}
	if t.Better == weighting.Higher || t.Mean <= 0 || r.Capacity <= 0 {
		return 0, false
	}
	return *r.Load / r.Capacity / t.Mean, true
}

// compareRows puts first what is to be seen first.
func compareRows(order string, a, b *rowView) int {
	load := func(v *float64) float64 {
		if v == nil {
			return math.Inf(1) // no data: first
		}
		return *v
	}
	switch order {
	case byName:
		return natural(a.Server, b.Server)
	case byLoad:
		return cmp.Compare(load(b.row.Load), load(a.row.Load))
	case byShare:
		return cmp.Compare(b.row.Share, a.row.Share)
	case byWeight:
		return cmp.Compare(b.Weight, a.Weight)
	case bySessions:
		return cmp.Compare(b.row.Sessions, a.row.Sessions)
	case byAge:
		return cmp.Compare(load(b.row.AgeSeconds), load(a.row.AgeSeconds))
	}
	return cmp.Or(cmp.Compare(a.group(), b.group()), cmp.Compare(b.relative, a.relative))
}

// group is the place of a row when the worst comes first.
func (v *rowView) group() int {
	switch {
	case !v.row.InRotation():
		return 2
	case math.IsNaN(v.relative):
		return 0
	}
	return 1
}

// natural compares names so that s2 comes before s10.
func natural(a, b string) int {
	for a != "" && b != "" {
		x, y := leadingNumber(a), leadingNumber(b)
		if x == "" || y == "" {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		m, n := strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		if c := cmp.Or(cmp.Compare(len(m), len(n)), cmp.Compare(m, n)); c != 0 {
			return c
		}
		a, b = a[len(x):], b[len(y):]
	}
	return cmp.Compare(len(a), len(b))
}

func leadingNumber(s string) string {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return s[:n]
}
