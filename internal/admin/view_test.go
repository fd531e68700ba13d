package admin

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// made makes the section of a table that is a second old.
func made(t *balancer.Table, change func(*maker)) section {
	b := quick()
	b.Interval = 30 * time.Second
	m := maker{now: begin.Add(time.Second), backend: &b, table: t, order: byWorst, mode: config.Live}
	if change != nil {
		change(&m)
	}
	return m.section(false)
}

// plan is a table of a good pass.
func plan(rows ...balancer.Row) *balancer.Table {
	t := &balancer.Table{
		Backend: "ingest", Socket: "unix:/a", Time: begin, Mode: "live", Verdict: weighting.Keep, Why: "near enough", Rows: rows,
		Fresh: len(rows), InService: len(rows), Mean: 100, Imbalance: 1.2, MaxAge: 90 * time.Second,
		Function: weighting.WaterFill, Better: weighting.Lower,
	}
	for i := range rows {
		if !rows[i].InRotation() {
			t.InService--
		}
		if rows[i].Load == nil || !rows[i].InRotation() {
			t.Fresh--
		}
	}
	return t
}

func silent(r balancer.Row) balancer.Row {
	r.Load, r.AgeSeconds = nil, nil
	return r
}

func TestVerdictInWords(t *testing.T) {
	for want, change := range map[string]func(*balancer.Table){
		"No weight had to change: near enough.":                   func(*balancer.Table) {},
		"The last pass set 3 weights: far off.":                   func(t *balancer.Table) { t.Verdict, t.Why, t.Changes = weighting.Write, "far off", 3 },
		"The last pass set 1 weight.":                             func(t *balancer.Table) { t.Verdict, t.Why, t.Changes = weighting.Write, "", 1 },
		"1 weight should change and could not be written.":        func(t *balancer.Table) { t.Verdict, t.Rows[0].Weight = weighting.Write, 50 },
		"Every weight is in force already: near enough.":          func(t *balancer.Table) { t.Verdict = weighting.Write },
		"Held: 1 of 3 have data.":                                 func(t *balancer.Table) { t.Verdict, t.HoldCode, t.Why = weighting.Hold, "quorum", "1 of 3 have data." },
		"No HAProxy has this backend, or none has been read yet.": nil,
		"The last pass would have set 1 weight; in observe mode nothing is written.": func(t *balancer.Table) {
			t.Mode, t.Verdict, t.Rows[0].Weight = "observe", weighting.Write, 50
		},
	} {
		table := plan(row("s1", 100, 64, 64))
		if change == nil {
			table = nil
		} else {
			change(table)
		}
		x := made(table, func(m *maker) {
			if table != nil && table.Mode == "observe" {
				m.mode = config.Observe
			}
		})
		if x.Verdict != want {
			t.Errorf("verdict %q, want %q", x.Verdict, want)
		}
	}
}

func TestWhatIsWrongComesFirst(t *testing.T) {
	drained := row("s4", 900, 64, 64)
	drained.AdminState = "drain"
	x := made(plan(row("s1", 100, 64, 64), silent(row("s2", 0, 64, 64)), row("s3", 300, 64, 64), drained), nil)
	var got []string
	for _, r := range x.Rows {
		got = append(got, r.Server+" "+r.Load+" "+r.Relative+" "+r.State+" "+string(r.Level))
	}
	want := []string{"s2   up bad", "s3 300 3.00 up good", "s1 100 1.00 up good", "s4 900 9.00 in drain note"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	marks := []mark{{"1 server without data: s2", bad}, {"1 server out of rotation, left alone: s4 (in drain)", note}}
	if diff := cmp.Diff(marks, x.Notes); diff != "" || x.Level != bad || x.complaint() != "1 server without data: s2" {
		t.Errorf("level %s, notes (-want +got):\n%s", x.Level, diff)
	}
}

// A load of an earlier pass is shown with its age, and as what it is.
func TestLoadOfAnEarlierPass(t *testing.T) {
	earlier := row("s1", 100, 64, 64)
	earlier.Earlier, earlier.Reasons = true, []weighting.Reason{{Step: weighting.StepMissing, Text: "timeout"}}
	*earlier.AgeSeconds = 40
	made := made(plan(earlier, silent(row("s2", 0, 64, 64))), func(m *maker) { m.table.Fresh, m.order = 0, byName })
	if r := made.Rows[0]; r.Load != "100" || r.Age != "41 s" || r.Level != bad || r.Why != "no new data" {
		t.Errorf("row %+v", r)
	}
	marks := []mark{{"1 server without data: s2", bad}, {"1 server without new data, shown with the load of an earlier pass: s1", bad}}
	if diff := cmp.Diff(marks, made.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	for _, want := range []fact{
		{Name: "data age", Value: "41 s", At: begin.Unix() - 40, Hint: "nothing older than 90 s counts", Level: good},
		{Name: "servers with data", Value: "0 of 2", Hint: "in rotation; 1 with the load of an earlier pass", Level: bad},
	} {
		if i := slices.IndexFunc(made.Facts, func(f fact) bool { return f.Name == want.Name }); !cmp.Equal(want, made.Facts[i]) {
			t.Errorf("-want +got:\n%s", cmp.Diff(want, made.Facts[i]))
		}
	}
}

func TestLevels(t *testing.T) {
	good := plan(row("s1", 100, 64, 64))
	old := plan(row("s1", 100, 64, 64))
	old.Time = begin.Add(-10 * time.Minute)
	none := plan(silent(row("s1", 100, 64, 64)))
	order := balancer.Order{Author: "ann", Reason: "x", Until: begin.Add(time.Hour)}
	for _, c := range []struct {
		name   string
		x      section
		level  level
		badges []string
	}{
		{"good", made(good, nil), "good", []string{"live"}},
		{"observe", made(good, func(m *maker) { m.mode = config.Observe }), note, []string{"observe"}},
		{"frozen", made(good, func(m *maker) { m.control.Freeze = &balancer.Freeze{Order: order} }), note, []string{"live", "frozen"}},
		{"ordered to observe", made(good, func(m *maker) {
			m.mode, m.control.Mode = config.Observe, &balancer.ModeOrder{Order: order, Mode: config.Observe}
		}), note, []string{"mode observe"}},
		{"pinned", made(good, func(m *maker) { m.control.Pins = map[string]balancer.Pin{"s1": {Order: order, Weight: 7}} }), note, []string{"live", "1 pin"}},
		{"faulty", made(good, func(m *maker) { m.faulty = true }), bad, []string{"live", "fault"}},
		{"no pass for long", made(old, nil), bad, []string{"live"}},
		{"no data", made(none, nil), bad, []string{"live"}},
		{"not read", made(nil, nil), bad, []string{"live", "not read"}},
	} {
		var badges []string
		for _, b := range c.x.Badges {
			badges = append(badges, b.Text)
		}
		if diff := cmp.Diff(c.badges, badges); diff != "" || c.x.Level != c.level {
			t.Errorf("%s: level %s, badges (-want +got):\n%s", c.name, c.x.Level, diff)
		}
	}
}

func TestRelativeLoad(t *testing.T) {
	lower, higher := plan(), plan()
	higher.Better = weighting.Higher
	big := row("s1", 300, 1, 1)
	big.Capacity = 2
	told := row("s2", 300, 1, 1)
	told.Reasons = []weighting.Reason{{Step: weighting.StepRelative, After: 0.4}}
	for _, c := range []struct {
		table *balancer.Table
		row   balancer.Row
		want  float64
	}{{lower, big, 1.5}, {lower, told, 0.4}, {higher, told, 0.4}, {higher, big, -1}, {lower, silent(big), -1}} {
		got, ok := relativeOf(c.table, &c.row)
		if !ok {
			got = -1
		}
		if got != c.want {
			t.Errorf("%+v: %v, want %v", c.row, got, c.want)
		}
	}
}

func TestSortOrders(t *testing.T) {
	a, b, c := row("s10", 5, 1, 30), silent(row("s9", 0, 1, 20)), row("s2", 7, 1, 10)
	a.Share, a.Sessions, b.Share, b.Sessions, c.Share, c.Sessions = .5, 1, .3, 3, .2, 2
	for order, want := range map[string]string{
		byName: "s2 s9 s10", byLoad: "s9 s2 s10", byShare: "s10 s9 s2", byWeight: "s10 s9 s2", bySessions: "s9 s2 s10", byAge: "s9 s10 s2", byWorst: "s9 s2 s10",
	} {
		x := made(plan(a, b, c), func(m *maker) { m.order = order })
		var names []string
		for _, r := range x.Rows {
			names = append(names, r.Server)
		}
		sorted := 0
		for _, h := range x.Heads {
			if h.Sorted {
				sorted++
			}
		}
		if got := strings.Join(names, " "); got != want || sorted != 1 {
			t.Errorf("by %s: %s, want %s; %d heads are marked", order, got, want, sorted)
		}
	}
}

func TestCommandsFitTheFile(t *testing.T) {
	x := made(plan(), func(m *maker) { m.file = "/etc/my file.toml" })
	want := []string{
		`haproxy-weighter freeze ingest --reason "..." --for 1h -f '/etc/my file.toml'`,
		`haproxy-weighter pin ingest/SERVER WEIGHT --reason "..." --for 1h -f '/etc/my file.toml'`,
		`haproxy-weighter mode ingest observe --reason "..." -f '/etc/my file.toml'`,
	}
	if diff := cmp.Diff(want, x.Commands); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := quoted(`it's`); got != `'it'\''s'` {
		t.Errorf("quoted %s", got)
	}
}

// TestWordsStayWords puts markup into every word that comes from outside.
func TestWordsStayWords(t *testing.T) {
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(1)>'`
	r := row(evil, 100, 64, 64)
	r.AdminState, r.OpState = "ready", "running"
	r.Reasons = []weighting.Reason{{Step: evil, Text: evil}}
	order := balancer.Order{Author: evil, Reason: evil, Until: begin}
	table := plan(r, silent(r))
	table.Why, table.Algorithm, table.Socket = evil, evil, evil
	x := made(table, func(m *maker) {
		m.control = balancer.Control{Freeze: &balancer.Freeze{Order: order}, Pins: map[string]balancer.Pin{evil: {Order: order}}}
		m.backend.Name, m.file = evil, evil
	})
	x.Socket, x.Chart, x.ChartSocket = evil, true, evil
	x.Events = []eventView{{Event: api.Event{Kind: evil, Text: evil}}}
	v := view{
		Host: evil, Now: begin, Only: evil, Others: []link{{evil, address(evil, byName)}}, Headline: evil, Unready: []lack{{evil, evil}},
		Faults:   []api.Trouble{{Fault: balancer.Fault{What: evil, Cause: evil, Meanwhile: evil, Do: evil, Socket: evil}, Backends: []string{evil}}},
		Sections: []section{x}, Left: []leftView{{Text: evil, Orders: x.Orders}},
		Status: api.Status{Version: evil, SPOA: []string{evil}, Config: api.Config{File: evil, ReloadFailed: &begin, ReloadError: evil, RestartKeys: []string{evil}}},
	}
	var page bytes.Buffer
	if err := pageTemplate.Execute(&page, v); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	if n := strings.Count(text, "<script"); n != 1 {
		t.Errorf("%d scripts in the page", n)
	}
	if strings.Contains(text, "<img") || strings.Contains(text, `"><`+"script>alert") {
		t.Error("a word has become a part of the page")
	}
	if n := strings.Count(text, "&lt;img src=x"); n < 30 {
		t.Errorf("only %d words are shown", n)
	}
}

func TestNumbersForPeople(t *testing.T) {
	for got, want := range map[string]string{
		span(-time.Second): "0 s", span(250 * time.Millisecond): "250 ms", span(119 * time.Second): "119 s", span(2 * time.Minute): "2 min",
		span(119 * time.Minute): "119 min", span(150 * time.Minute): "2 h 30 min", span(49 * time.Hour): "2 d 1 h",
		plain(time.Hour): "1h", plain(90 * time.Minute): "1h30m", plain(10 * time.Second): "10s", plain(30 * 24 * time.Hour): "30d", plain(70 * time.Second): "1m10s",
		amount(0): "0", amount(0.123456): "0.123", amount(99.95): "100", amount(1234.5): "1\u202f234", amount(-1234567): "-1\u202f234\u202f567", amount(1e300): "1e+300",
		amount(math.Pi): "3.14", digits(2.30912345): "2.3091",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	names := []string{"a", "a1", "a2b", "a10", "a010x", "b"}
	for i := range names {
		for j := range names {
			if c := natural(names[i], names[j]); (c < 0) != (i < j) || (c == 0) != (i == j) {
				t.Errorf("%s and %s: %d", names[i], names[j], c)
			}
		}
	}
}
