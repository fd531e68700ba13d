package query

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/negasus/haproxy-spoe-go/message"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// mixed has a server of each kind.
func mixed() *balancer.Table {
	return table(
		row("s1", 300.4, 50), row("s2", 100.2, 150),
		with(row("big", 400, 200), func(r *balancer.Row) { r.Capacity = 2; aged(20.5)(r) }),
		with(row("new", 0, 100), silent),
		with(row("drained", 1, 0), func(*balancer.Row) {}),
		with(row("maint", 1, 100), func(r *balancer.Row) { r.AdminState = "maint" }),
		with(row("drain", 1, 100), func(r *balancer.Row) { r.AdminState = "drain" }),
		with(row("down", 1, 100), func(r *balancer.Row) { r.OpState = "stopped" }),
		with(row("backup", 1, 100), func(r *balancer.Row) { r.Backup = true }),
		with(row("stuck", 0, 100), func(r *balancer.Row) { r.Reasons = []weighting.Reason{{Step: weighting.StepStuck}} }),
		with(row("cold", 200, 100), func(r *balancer.Row) { r.OpState = "starting" }),
	)
}

// TestAnswers: in rotation are s1, s2, big, new, stuck and cold, with weight
// 700; of them new has no data and stuck none that are believed. The mean for
// the capacity of 5 of the others is 1000.6 / 5 = 200.12.
func TestAnswers(t *testing.T) {
	d := newDesk(t, map[string][]*balancer.Table{
		"in": {mixed()}, "none": nil,
		"idle": {table(row("a", 0, 1), row("b", 0, 1))},
		"out":  {table(with(row("a", 1, 1), func(r *balancer.Row) { r.AdminState = "maint" }))},
		"few":  {table(row("a", 1, 1), with(row("b", 1, 1), silent), with(row("c", 1, 1), silent))},
	})
	d.drawn = 0
	for _, tt := range []struct {
		name string
		m    *message.Message
		want string
	}{
		{"backend", asked("weighter-backend", "backend", "in"),
			`fresh=true servers=11 age_ms=10000 load_mean=250 load_max=400 load_total=1001 best="s2" worst="s1" imbalance=1501`},
		{"idle backend", asked("weighter-backend", "backend", "idle"),
			`fresh=true servers=2 age_ms=10000 load_mean=0 load_max=0 load_total=0 best="a" worst="a"`},
		{"nothing in rotation", asked("weighter-backend", "backend", "out"), `fresh=false servers=1`},
		{"below quorum", asked("weighter-backend", "backend", "few"), `fresh=false servers=3 age_ms=10000`},
		{"no table yet", asked("weighter-backend", "backend", "none"), `fresh=false`},
		{"unknown backend", asked("weighter-backend", "backend", "nosuch"), `fresh=false`},
		{"empty name", asked("weighter-backend", "backend", ""), `fresh=false`},

		{"server", asked("weighter-server", "backend", "in", "server", "s1"), `fresh=true weight=50 share=71 age_ms=10000 load=300 relative=1501`},
		{"args in another order, and one more", asked("weighter-server", "x", int32(1), "server", "s2", "backend", "in"), `fresh=true weight=150 share=214 age_ms=10000 load=100 relative=501`},
		{"a larger server", asked("weighter-server", "backend", "in", "server", "big"), `fresh=true weight=200 share=286 age_ms=20500 load=400 relative=999`},
		{"a server without data", asked("weighter-server", "backend", "in", "server", "new"), `fresh=false weight=100 share=143`},
		{"a load that is not believed", asked("weighter-server", "backend", "in", "server", "stuck"), `fresh=false weight=100 share=143 age_ms=10000`},
		{"weight 0", asked("weighter-server", "backend", "in", "server", "drained"), `fresh=true weight=0 share=0 age_ms=10000 load=1 relative=5`},
		{"maint", asked("weighter-server", "backend", "in", "server", "maint"), `fresh=true weight=100 share=0 age_ms=10000 load=1 relative=5`},
		{"idle server", asked("weighter-server", "backend", "idle", "server", "a"), `fresh=true weight=1 share=500 age_ms=10000 load=0`},
		{"unknown server", asked("weighter-server", "backend", "in", "server", "s9"), `fresh=false`},
		{"server of an unknown backend", asked("weighter-server", "backend", "nosuch", "server", "s1"), `fresh=false`},

		{"pick", asked("weighter-pick", "backend", "in"), `server="s1"`},
		{"pick of none", asked("weighter-pick", "backend", "out"), ``},
		{"pick before a table", asked("weighter-pick", "backend", "none"), `fresh=false`},
		{"pick of an unknown backend", asked("weighter-pick", "backend", "nosuch"), `fresh=false`},

		{"choose", asked("weighter-choose", "backends", "in,idle"), `backend="idle"`},
		{"choose with spaces", asked("weighter-choose", "backends", " in , ,out,few\t,"), `backend="in"`},
		{"choose of none fresh", asked("weighter-choose", "backends", " out,few,nosuch"), `backend="out"`},
		{"choose of unknown ones", asked("weighter-choose", "backends", "nosuch,none"), `backend="nosuch"`},
		{"choose of one", asked("weighter-choose", "backends", "in"), `backend="in"`},

		{"prefix", asked("weighter-pick", "as", "x.1", "backend", "in"), `x.1_server="s1"`},
		{"prefix of what is not there", asked("weighter-server", "as", "x", "backend", "in", "server", "s9"), `x_fresh=false`},
		{"prefix of many", asked("weighter-server", "backend", "in", "server", "s1", "as", "a"), `a_fresh=true a_weight=50 a_share=71 a_age_ms=10000 a_load=300 a_relative=1501`},
		{"a message of several", asked("weighter-pick.second:one", "backend", "in"), `server="s1"`},
	} {
		if got := d.ask(tt.m); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// TestSeveralMessages: a frame may hold what can't be answered beside the rest.
func TestSeveralMessages(t *testing.T) {
	d := newDesk(t, map[string][]*balancer.Table{"in": {mixed()}})
	got := d.ask(
		asked("weighter-pick", "backend", "in", "as", "a"), asked("weighter-server", "backend", "in"), asked("check-ip", "src", "10.0.0.1"),
		asked("weighter-choose", "backends", "in", "as", "b"), asked("weighter-backend", "backend", "nosuch"),
	)
	if want := `a_server="s1" b_backend="in" fresh=false`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := d.ask(); got != "" {
		t.Errorf("a frame without messages: %s", got)
	}
	want := Counts{Unknown: 1, ByMessage: map[string]MessageCounts{
		"weighter-backend": {NotFound: 1}, "weighter-server": {Refused: 1}, "weighter-pick": {Answered: 1}, "weighter-choose": {Answered: 1},
	}}
	if diff := cmp.Diff(want, d.Counts()); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestWrongArgsSetNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		m     *message.Message
		cause string
	}{
		"backend missing":      {asked("weighter-backend"), "arg backend is missing"},
		"backend is a number":  {asked("weighter-backend", "backend", int64(5)), "not a string"},
		"backend has no value": {asked("weighter-pick", "backend", nil), "no value"},
		"backend is binary":    {asked("weighter-pick", "backend", []byte("in")), "not a string"},
		"server missing":       {asked("weighter-server", "backend", "in"), "arg server is missing"},
		"server is true":       {asked("weighter-server", "backend", "in", "server", true), "not a string"},
		"backends missing":     {asked("weighter-choose", "backend", "in"), "arg backends is missing"},
		"backends empty":       {asked("weighter-choose", "backends", " , ,"), "names none"},
		"as is a number":       {asked("weighter-pick", "backend", "in", "as", int32(1)), "not a string"},
		"as is empty":          {asked("weighter-pick", "backend", "in", "as", ""), "can't begin"},
		"as is no name":        {asked("weighter-pick", "backend", "in", "as", "a b"), "can't begin"},
		"as is long":           {asked("weighter-pick", "backend", "in", "as", strings.Repeat("a", 65)), "can't begin"},
		"not ours":             {asked("weighter-backends", "backend", "in"), "not known"},
		"no name":              {asked("", "backend", "in"), "not known"},
		"only a beginning":     {asked("weighter-pic", "backend", "in"), "not known"},
	} {
		d := newDesk(t, map[string][]*balancer.Table{"in": {mixed()}})
		for range 3 {
			if got := d.ask(tt.m); got != "" {
				t.Errorf("%s: %s", name, got)
			}
		}
		log := d.log.String()
		if strings.Count(log, "\n") != 1 || !strings.Contains(log, tt.cause) || !strings.Contains(log, "do=") {
			t.Errorf("%s: log, which should be one line with %q:\n%s", name, tt.cause, log)
		}
		counts, total := d.Counts(), uint64(0)
		for _, c := range counts.ByMessage {
			total += c.Refused
		}
		if total+counts.Unknown != 3 {
			t.Errorf("%s: counts %+v", name, counts)
		}
	}
}

func TestUnknownBackendIsToldOnce(t *testing.T) {
	d := newDesk(t, map[string][]*balancer.Table{"in": {mixed()}})
	for _, name := range []string{"nosuch", "another", strings.Repeat("x", 5000)} {
		d.ask(asked("weighter-pick", "backend", name))
		d.ask(asked("weighter-choose", "backends", "in,"+name))
	}
	if log := d.log.String(); strings.Count(log, "\n") != 2 || strings.Count(log, "nosuch") != 2 {
		t.Errorf("log:\n%s", log)
	}
	d = newDesk(t, map[string][]*balancer.Table{"in": {mixed()}})
	d.ask(asked("weighter-pick", "backend", strings.Repeat("x", 5000)))
	if log := d.log.String(); len(log) > 1000 {
		t.Errorf("%d bytes of log", len(log))
	}
}

// TestAgeGrows: the clock goes on while Graphite is silent, over the tables of
// passes that have no data any more.
func TestAgeGrows(t *testing.T) {
	half := table(row("a", 10, 1), with(row("b", 30, 1), aged(40)))
	d := newDesk(t, map[string][]*balancer.Table{"in": {half}})
	backend, b := asked("weighter-backend", "backend", "in"), asked("weighter-server", "backend", "in", "server", "b")
	choose := asked("weighter-choose", "backends", "x,in")
	step := func(after time.Duration, want ...string) {
		t.Helper()
		d.mu.Lock()
		d.now = begin.Add(after)
		d.mu.Unlock()
		if diff := cmp.Diff(want, []string{d.ask(backend), d.ask(b), d.ask(choose)}); diff != "" {
			t.Errorf("after %v (-want +got):\n%s", after, diff)
		}
	}
	const loads = ` load_mean=20 load_max=30 load_total=40 best="a" worst="b" imbalance=1500`
	step(0, "fresh=true servers=2 age_ms=10000"+loads, "fresh=true weight=1 share=500 age_ms=40000 load=30 relative=1500", `backend="in"`)
	step(-time.Hour, "fresh=true servers=2 age_ms=0"+loads, "fresh=true weight=1 share=500 age_ms=0 load=30 relative=1500", `backend="in"`) // a clock that was set back
	step(20*time.Second, "fresh=true servers=2 age_ms=30000"+loads, "fresh=true weight=1 share=500 age_ms=60000 load=30 relative=1500", `backend="in"`)
	step(20*time.Second+time.Millisecond, "fresh=true servers=2 age_ms=30001"+loads, "fresh=false weight=1 share=500 age_ms=60001", `backend="in"`)
	step(50*time.Second, "fresh=true servers=2 age_ms=60000"+loads, "fresh=false weight=1 share=500 age_ms=90000", `backend="in"`)
	step(51*time.Second, "fresh=false servers=2 age_ms=61000", "fresh=false weight=1 share=500 age_ms=91000", `backend="x"`)
	for pass := range 3 {
		quiet := table(with(row("a", 0, 1), silent), with(row("b", 0, 3), silent))
		quiet.Time = begin.Add(time.Duration(60+30*pass) * time.Second)
		d.publish("in", quiet)
	}
	step(150*time.Second, "fresh=false servers=2 age_ms=160000", "fresh=false weight=3 share=750 age_ms=190000", `backend="x"`)
	back := table(row("a", 10, 1), row("b", 30, 3))
	back.Time = begin.Add(150 * time.Second)
	d.publish("in", back)
	step(151*time.Second, "fresh=true servers=2 age_ms=11000"+loads, "fresh=true weight=3 share=750 age_ms=11000 load=30 relative=1500", `backend="in"`)
	d.publish("in")
	step(151*time.Second, "fresh=false", "fresh=false", `backend="x"`)
}

func TestQuorum(t *testing.T) {
	rows := []balancer.Row{row("a", 1, 1), with(row("b", 1, 1), aged(20)), with(row("c", 1, 1), aged(30)), with(row("d", 1, 1), silent)}
	for quorum, want := range map[float64]time.Duration{0: 50, 0.25: 50, 0.26: 40, 0.5: 40, 0.75: 30, 0.76: -1, 1: -1} {
		x := newIndex(&backend{source: Source{MaxAge: time.Minute, Quorum: quorum}}, table(rows...), nil, nil)
		switch {
		case want < 0 && !x.freshUntil.IsZero(), want >= 0 && !x.freshUntil.Equal(begin.Add(want*time.Second)):
			t.Errorf("quorum %g: fresh until %v, want %d s", quorum, x.freshUntil.Sub(begin), want)
		}
	}
}

// TestHigherIsBetter: of free memory the most is best.
func TestHigherIsBetter(t *testing.T) {
	higher := func(s *Source) { s.HigherIsBetter = true }
	d := newDesk(t, map[string][]*balancer.Table{
		"in": {table(row("a", 10, 1), row("b", 30, 1), row("c", 50, 1), with(row("far", 500, 1), func(r *balancer.Row) { r.Backup = true }))},
		"ok": {table(row("a", 31, 1), row("b", 31, 1))},
	}, higher)
	for message, want := range map[*message.Message]string{
		asked("weighter-backend", "backend", "in"):                 `fresh=true servers=4 age_ms=10000 load_mean=30 load_max=50 load_total=90 best="c" worst="a" imbalance=1667`,
		asked("weighter-server", "backend", "in", "server", "c"):   `fresh=true weight=1 share=333 age_ms=10000 load=50 relative=333`,
		asked("weighter-server", "backend", "in", "server", "far"): `fresh=true weight=1 share=0 age_ms=10000 load=500 relative=0`,
		asked("weighter-choose", "backends", "in,ok"):              `backend="ok"`,
	} {
		if got := d.ask(message); got != want {
			t.Errorf("%s:\n got %s\nwant %s", message.Name, got, want)
		}
	}
}

// TestSeveralHAProxys: the first one that answers and has servers.
func TestSeveralHAProxys(t *testing.T) {
	empty, first, second, dead := table(), table(row("a", 1, 1)), table(row("a", 2, 1)), table(row("a", 3, 1))
	dead.HoldCode = "haproxy"
	d := newDesk(t, map[string][]*balancer.Table{"in": nil})
	for i, tt := range []struct {
		tables []*balancer.Table
		want   string
	}{
		{nil, "fresh=false"}, {[]*balancer.Table{empty}, "fresh=false"},
		{[]*balancer.Table{first, second}, "fresh=true weight=1 share=1000 age_ms=10000 load=1 relative=1000"},
		{[]*balancer.Table{empty, second, first}, "fresh=true weight=1 share=1000 age_ms=10000 load=2 relative=1000"},
		{[]*balancer.Table{dead, second}, "fresh=true weight=1 share=1000 age_ms=10000 load=2 relative=1000"},
		{[]*balancer.Table{empty, dead}, "fresh=true weight=1 share=1000 age_ms=10000 load=3 relative=1000"},
	} {
		d.publish("in", tt.tables...)
		if got := d.ask(asked("weighter-server", "backend", "in", "server", "a")); got != tt.want {
			t.Errorf("%d: got %s, want %s", i, got, tt.want)
		}
	}
	d.Refresh("nosuch")
}
