package admin

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// begin is when the passes of most tests are made.
var begin = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// past24 is a History with a clock that a test turns.
type past24 struct {
	*History
	now time.Time
}

func newPast() *past24 {
	p := &past24{now: begin}
	p.History = NewHistory(func() time.Time { return p.now })
	return p
}

// row is a server in rotation.
func row(name string, load float64, before, weight int) balancer.Row {
	age := 10.0
	return balancer.Row{
		Server: name, Load: &load, AgeSeconds: &age, Capacity: 1, Weight: weight, AppliedWeight: weight, WeightBefore: before,
		AdminState: "ready", OpState: "running",
	}
}

// pass makes a pass now.
func (p *past24) pass(change func(*balancer.Table), rows ...balancer.Row) {
	t := &balancer.Table{
		Backend: "in", Socket: "unix:/a", Time: p.now, Mode: "live", Verdict: weighting.Keep, Rows: rows,
		Worker: haproxy.Worker{PID: 100, StartTime: 1000}, Imbalance: 1.5, Fresh: len(rows),
	}
	if change != nil {
		change(t)
	}
	p.Passed(t)
	p.now = p.now.Add(30 * time.Second)
}

// told lists events as kind and text.
func told(h api.History) []string {
	var all []string
	for _, e := range h.Events {
		all = append(all, e.Kind+": "+e.Text)
	}
	return all
}

func TestHistoryTellsTurnsOnce(t *testing.T) {
	p := newPast()
	hold := func(code, why string) func(*balancer.Table) {
		return func(t *balancer.Table) { t.Verdict, t.HoldCode, t.Why = weighting.Hold, code, why }
	}
	fault := func(t *balancer.Table) { t.Fault = "weights are not all as they were set" }
	foreign := func(t *balancer.Table) {
		t.Foreign = 1
		t.Rows[0].Reasons = []weighting.Reason{{Step: balancer.StepForeign, Before: 64, After: 13}}
	}
	other := func(t *balancer.Table) { t.Worker.PID = 101 }
	p.pass(nil, row("s1", 1, 64, 64))
	p.pass(func(t *balancer.Table) { t.Verdict, t.Changes = weighting.Write, 2 }, row("s1", 1, 64, 80), row("s2", 2, 100, 90), row("s3", 3, 7, 7))
	p.pass(hold("quorum", "1 of 3 have data"))
	p.pass(hold("quorum", "still 1 of 3 have data"))
	p.pass(hold("stale", "none has data"))
	p.pass(hold("haproxy", "HAProxy could not be read: gone"))
	p.pass(nil)
	p.pass(fault)
	p.pass(fault)
	p.pass(nil)
	for range 3 {
		p.pass(foreign, row("s1", 1, 13, 64))
		p.pass(nil, row("s1", 1, 64, 64))
	}
	for range 4 {
		p.pass(nil)
	}
	p.pass(foreign, row("s1", 1, 13, 64))
	p.pass(other)
	p.pass(other)
	p.Order("in", "frozen by root for 1h: moving racks")
	want := []string{
		"weights: s1 64 -> 80, s2 100 -> 90",
		"hold: 1 of 3 have data", "hold: none has data", "hold: HAProxy could not be read: gone", "good: weights are no longer held (haproxy)",
		"fault: weights are not all as they were set", "good: no fault is left",
		"foreign: somebody else has set weights: s1: 13 found, 64 left by us", "foreign: somebody else has set weights: s1: 13 found, 64 left by us",
		"reload: HAProxy has a new worker, 101 instead of 100: reload or restart", "reload: HAProxy has a new worker, 100 instead of 101: reload or restart",
		"order: frozen by root for 1h: moving racks",
	}
	p.pass(nil)
	// The last pass is the old worker's again, after the order was given.
	want[10], want[11] = want[11], want[10]
	if diff := cmp.Diff(want, told(p.Of("in"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHistoryOfAWrite(t *testing.T) {
	p := newPast()
	var rows []balancer.Row
	for i := range 20 {
		rows = append(rows, row(fmt.Sprintf("s%d", i), float64(i), 100, 101+i))
	}
	rows[3].Reasons = []weighting.Reason{
		{Step: weighting.StepShare, Text: "raw"}, {Step: weighting.StepMaxShare, Text: "cut to four times its fair share"},
		{Step: balancer.StepPin, Text: strings.Repeat("é", 200)},
	}
	rows[3].AppliedWeight = 256
	p.pass(func(t *balancer.Table) { t.Verdict, t.Changes = weighting.Write, 20 }, rows...)
	e := p.Of("in").Events[0]
	if len(e.Changes) != mostChanges || !strings.HasPrefix(e.Text, "s3 100 -> 256, s19 100 -> 120, ") || !strings.HasSuffix(e.Text, ", and 8 more") {
		t.Errorf("event %+v", e)
	}
	first := e.Changes[0]
	if first.Before != 100 || first.After != 256 || *first.Load != 3 || len(first.Text) > mostStep || !strings.HasPrefix(first.Text, "cut to four times its fair share; é") || !strings.HasSuffix(first.Text, "é...") {
		t.Errorf("change %+v", first)
	}
}

func TestHistoryTellsTheEndOfOrders(t *testing.T) {
	p := newPast()
	until := begin.Add(time.Minute)
	order := balancer.Order{Reason: "x", Author: "ann", Since: begin, Until: until}
	control := balancer.Control{
		Pins:   map[string]balancer.Pin{"s1": {Order: order, Weight: 5}, "s2": {Order: balancer.Order{Author: "bob", Until: until.Add(time.Hour)}, Weight: 6}},
		Freeze: &balancer.Freeze{Order: order}, Mode: &balancer.ModeOrder{Order: order, Mode: "observe"},
	}
	with := func(socket string, c balancer.Control) func(*balancer.Table) {
		return func(t *balancer.Table) { t.Socket, t.Control = socket, c }
	}
	p.pass(with("unix:/a", control))
	p.pass(with("unix:/b", control))
	p.now = until
	p.pass(with("unix:/a", balancer.Control{}))
	p.pass(with("unix:/b", control)) // a table that was made a moment earlier
	p.pass(with("unix:/a", balancer.Control{}))
	want := []string{
		"order: the time of the pin of s1 by ann has passed: x", "order: the time of the freeze by ann has passed: x",
		"order: the time of mode observe by ann has passed: x",
	}
	if diff := cmp.Diff(want, told(p.Of("in"))); diff != "" { // s2 was taken back
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHistorySamples(t *testing.T) {
	p := newPast()
	for i := range 4 * 120 { // four hours
		p.pass(nil, row("s1", 100+float64(i%10), 0, 10+i/120), row("s2", float64(i), 0, 20))
	}
	p.pass(func(t *balancer.Table) { t.Imbalance = 0; t.Rows[1].Load = nil; t.Rows[2].Earlier = true },
		row("s1", 1, 0, 1), row("s2", 2, 0, 2), row("s3", 3, 0, 3))
	s := p.Of("in").Series[0]
	n := len(s.Times)
	if n < 121+35 || n > 122+37 || len(s.Imbalance) != n || len(s.Loads["s1"]) != n || len(s.Weights["s2"]) != n {
		t.Fatalf("%d points", n)
	}
	for i := 1; i < n; i++ {
		if s.Times[i] <= s.Times[i-1] {
			t.Errorf("time %d after %d", s.Times[i], s.Times[i-1])
		}
	}
	if s.Loads["s2"][n-1] != nil || s.Loads["s3"][n-1] != nil || *s.Weights["s3"][n-1] != 3 || s.Imbalance[n-1] != nil || *s.Weights["s2"][n-1] != 2 || *s.Loads["s1"][n-1] != 1 {
		t.Error("the last pass is not as it was")
	}
	// A coarse point is the mean of ten passes, and the newest weight.
	if got := *s.Loads["s1"][0]; got != 104.5 {
		t.Errorf("mean load %v", got)
	}
	if at := time.Unix(s.Times[0], 0).UTC(); at != begin.Add(135*time.Second) || *s.Weights["s1"][0] != 10 || *s.Imbalance[0] != 1.5 {
		t.Errorf("first point at %s", at)
	}
	later := p.Since("in", time.Unix(s.Times[n-3], 0)).Series[0]
	if diff := cmp.Diff(s.Times[n-2:], later.Times); diff != "" || len(later.Loads["s1"]) != 2 {
		t.Errorf("since (-want +got):\n%s", diff)
	}
}

func TestHistoryOfServersThatComeAndGo(t *testing.T) {
	p := newPast()
	for hour := range 30 {
		for range 20 {
			p.pass(nil, row("stays", 1, 0, 10), row(fmt.Sprintf("guest%d", hour), 2, 0, 20))
			p.now = p.now.Add(150 * time.Second) // three minutes a pass
		}
	}
	s := p.Of("in").Series[0]
	if len(s.Loads) != 25 || s.Loads["guest5"] != nil || s.Loads["guest6"] == nil {
		t.Errorf("%d servers are remembered", len(s.Loads))
	}
	present := 0
	for _, w := range s.Weights["guest20"] {
		if w != nil {
			present++
		}
	}
	if present < 12 || present > 14 {
		t.Errorf("guest20 was there for %d points of 5 minutes", present)
	}
	if names := len(p.backends["in"].planes["unix:/a"].samples.names); names > 40 {
		t.Errorf("%d names are kept", names)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	p := newPast()
	rows := make([]balancer.Row, 1500)
	for i := range rows {
		rows[i] = row(fmt.Sprintf("s%d", i), float64(i), 100, 101)
	}
	most := 0
	pass := func(after time.Duration) {
		p.pass(func(t *balancer.Table) { t.Changes = len(rows) }, rows...)
		p.now = p.now.Add(after - 30*time.Second)
		s := &p.backends["in"].planes["unix:/a"].samples
		most = max(most, cells(s.fine)+cells(s.coarse))
	}
	for range 25 * 12 { // 25 hours
		pass(5 * time.Minute)
	}
	for range 130 { // more than the finest points have room for
		pass(15 * time.Second)
	}
	if most > mostCells || most < mostCells/2 {
		t.Errorf("%d cells, allowed are %d", most, mostCells)
	}
	s := p.Of("in").Series[0]
	if oldest := p.now.Sub(time.Unix(s.Times[0], 0)); oldest < 22*time.Hour || oldest > historySpan {
		t.Errorf("the oldest of %d points is %s old", len(s.Times), oldest)
	}
	for i := range mostEvents + 10 {
		p.Order("in", fmt.Sprint(i))
	}
	if events := p.Of("in").Events; len(events) != mostEvents || events[len(events)-1].Text != fmt.Sprint(mostEvents+9) {
		t.Errorf("%d events, the last is %+v", len(events), events[len(events)-1])
	}
	for i := range 20_000 {
		p.Order(fmt.Sprintf("b%d", i%40), "x")
	}
	total := 0
	for _, b := range p.backends {
		total += len(b.events)
	}
	if total > mostAllEvents || total < mostAllEvents/2 {
		t.Errorf("%d events of all backends", total)
	}
	for i := range 2 * mostVanished {
		p.Order(fmt.Sprintf("c%d", i), "x")
	}
	p.now = p.now.Add(3 * time.Hour)
	p.Order("new", "x")
	if n := len(p.backends); n != mostVanished+1 {
		t.Errorf("%d backends are remembered", n)
	}
	p.now = p.now.Add(24 * time.Hour)
	p.Order("new", "x")
	if n := len(p.backends); n != 1 {
		t.Errorf("%d backends are remembered after a day", n)
	}
}

func TestHistoryWhenTheClockIsSetBack(t *testing.T) {
	p := newPast()
	for range 200 {
		p.pass(nil, row("s1", 1, 0, 1))
	}
	p.now = p.now.Add(-time.Hour)
	for range 20 {
		p.pass(nil, row("s1", 2, 0, 2))
	}
	s := p.Of("in").Series[0]
	for i := 1; i < len(s.Times); i++ {
		if s.Times[i] <= s.Times[i-1] {
			t.Fatalf("time %d after %d", s.Times[i], s.Times[i-1])
		}
	}
	if n := len(s.Times); *s.Loads["s1"][n-1] != 2 || s.Times[n-1] != p.now.Unix()-30 {
		t.Error("what came after the clock was set is not there")
	}
}

func TestHistoryOfAnUnknownBackend(t *testing.T) {
	p := newPast()
	got := p.Of("nope")
	want := api.History{Backend: "nope", Since: begin, Events: []api.Event{}, Series: []api.Series{}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestHistoryIsReadWhilePassesGoOn is for the race detector.
func TestHistoryIsReadWhilePassesGoOn(t *testing.T) {
	h := NewHistory(nil)
	var wg sync.WaitGroup
	for plane := range 4 {
		wg.Go(func() {
			for i := range 100 {
				at := begin.Add(time.Duration(i) * time.Minute)
				h.Passed(&balancer.Table{
					Backend: "in", Socket: fmt.Sprint(plane), Time: at, Changes: 1, Verdict: weighting.Write,
					Rows: []balancer.Row{row("s1", 1, i, i+1), row(fmt.Sprint("s", i), 1, 0, 1)},
				})
			}
		})
		wg.Go(func() {
			for range 20 {
				h.Of("in")
			}
		})
	}
	wg.Wait()
}

func TestNumber(t *testing.T) {
	for v, want := range map[float32]float64{0.1: 0.1, 12345678: 12345678, 1e-7: 1e-7, 31234.5: 31234.5, 0: 0} {
		if got := number(v); got == nil || *got != want {
			t.Errorf("%v: %v", v, got)
		}
	}
	if number(float32(math.NaN())) != nil || number(float32(math.Inf(1))) != nil {
		t.Error("NaN and infinity are no numbers")
	}
}

func BenchmarkHistoryOf300Servers(b *testing.B) {
	p := newPast()
	rows := make([]balancer.Row, 300)
	for i := range rows {
		rows[i] = row(fmt.Sprintf("s%d", i), 1e4+float64(i)/7, 100, 101)
	}
	for range 24 * 120 {
		p.pass(nil, rows...)
	}
	b.Run("passed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p.pass(nil, rows...)
		}
	})
	b.Run("of", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p.Of("in")
		}
	})
}
