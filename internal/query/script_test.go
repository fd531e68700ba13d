package query

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/negasus/haproxy-spoe-go/action"
	"github.com/negasus/haproxy-spoe-go/message"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/lua"
	"github.com/haproxy-weighter/haproxy-weighter/spoa"
)

// answering is a desk whose foreign messages go to a script.
func answering(t testing.TB, tables map[string][]*balancer.Table, text string) *desk {
	path := filepath.Join(t.TempDir(), "answer.lua")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := lua.Load(path, lua.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, tables)
	d.answerer = s.NewAnswerer()
	return d
}

func TestScriptAnswersWhatIsNotOurs(t *testing.T) {
	tables := map[string][]*balancer.Table{"in": {table(row("a", 10, 100), row("b", 30, 300))}}
	d := answering(t, tables, `
		function answer(message, args, table)
			if message == "nothing" then return nil end
			return {who = message, client = args.src, port = args[2], secure = args.secure, first = table["in"].best}
		end`)
	got := d.ask(
		asked("route", "src", net.IP{10, 0, 0, 1}, "port", int32(443), "secure", true),
		asked("weighter-server", "backend", "in", "server", "a", "as", "x"),
		asked("nothing"),
		asked("bytes", "src", []byte("abc"), "", uint32(7)),
		asked("weighterish"),
	)
	want := `client="10.0.0.1" first="a" port=443 secure=true who="route" ` +
		`x_fresh=true x_weight=100 x_share=250 x_age_ms=10000 x_load=10 x_relative=500 ` +
		`client="abc" first="a" port=7 who="bytes" first="a" who="weighterish"`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	counts := d.Counts()
	if diff := cmp.Diff(MessageCounts{Answered: 3, NotFound: 1}, counts.ByMessage["script"]); diff != "" || counts.Unknown != 0 {
		t.Errorf("%d unknown, -want +got:\n%s", counts.Unknown, diff)
	}
	if d.log.Len() > 0 {
		t.Errorf("log:\n%s", d.log.String())
	}
}

// TestScriptSeesTheTables shows every field, fresh and stale.
func TestScriptSeesTheTables(t *testing.T) {
	down := func(r *balancer.Row) { r.OpState, r.Sessions = "stopped", -1 }
	tables := map[string][]*balancer.Table{
		"in":    {table(row("a", 10, 100), with(row("b", 30, 300), aged(20)), with(row("c", 50, 5), down), with(row("d", 0, 7), silent))},
		"empty": nil,
	}
	d := answering(t, tables, `
		local function show(v, depth)
			if type(v) ~= "userdata" then return tostring(v) end
			local all = {}
			for k, x in pairs(v) do all[#all + 1] = k .. "=" .. show(x) end
			return "{" .. table.concat(all, " ") .. "}"
		end
		function answer(message, args, tables)
			if message == "names" then
				local names = {}
				for name in pairs(tables) do names[#names + 1] = name end
				return {n = #tables, names = table.concat(names, ","), empty = tables.empty == nil}
			end
			local b = tables["in"]
			if message == "backend" then
				local all = {}
				for k, v in pairs(b) do if k ~= "servers" then all[#all + 1] = k .. "=" .. tostring(v) end end
				return {v = table.concat(all, " "), n = #b.servers}
			end
			return {v = show(b.servers[message])}
		end`)
	check := func(want map[string]string) {
		t.Helper()
		for message, w := range want {
			if diff := cmp.Diff(w, d.ask(asked(message))); diff != "" {
				t.Errorf("%s: -want +got:\n%s", message, diff)
			}
		}
	}
	check(map[string]string{
		"names":   `empty=true n=2 names="in"`,
		"backend": `n=4 v="name=in fresh=true age=10 load_mean=20 load_max=30 load_total=40 imbalance=1.5 best=a worst=b"`,
		"a": `v="{name=a fresh=true age=10 load=10 relative=0.5 weight=100 share=0.24570024570025 capacity=1 initial_weight=0 ` +
			`sessions=0 admin_state=ready op_state=running in_rotation=true}"`,
		"c": `v="{name=c fresh=true age=10 load=50 relative=2.5 weight=5 share=0 capacity=1 initial_weight=0 ` +
			`admin_state=ready op_state=stopped in_rotation=false}"`,
		"d": `v="{name=d fresh=false weight=7 share=0.017199017199017 capacity=1 initial_weight=0 ` +
			`sessions=0 admin_state=ready op_state=running in_rotation=true}"`,
	})
	d.now = begin.Add(2 * time.Minute)
	check(map[string]string{
		"backend": `n=4 v="name=in fresh=false age=130"`,
		"a": `v="{name=a fresh=false age=130 weight=100 share=0.24570024570025 capacity=1 initial_weight=0 ` +
			`sessions=0 admin_state=ready op_state=running in_rotation=true}"`,
	})
}

// TestScriptThatFails sets nothing, spoils no other message, and is told when
// it begins to fail and once it has been good for a while.
func TestScriptThatFails(t *testing.T) {
	d := answering(t, map[string][]*balancer.Table{"in": {table(row("a", 10, 100))}}, `
		function answer(message, args)
			if args.bad then error("no") end
			return {x = 1}
		end`)
	told := func(text string) int { return strings.Count(d.log.String(), text) }
	const begins, ends = "the script fails on an SPOE message", "the script answers SPOE messages again"
	for range 5 {
		got := d.ask(asked("m", "bad", true), asked("weighter-pick", "backend", "in"), asked("m"))
		if want := `server="a" x=1`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		d.now = d.now.Add(time.Second)
	}
	if told(begins) != 1 || told(ends) != 0 || told("answer.lua:3: no") != 1 {
		t.Errorf("log:\n%s", d.log.String())
	}
	d.now = d.now.Add(quiet)
	d.ask(asked("m"), asked("m"))
	d.ask(asked("m", "bad", true))
	if told(begins) != 2 || told(ends) != 1 {
		t.Errorf("log:\n%s", d.log.String())
	}
	if diff := cmp.Diff(MessageCounts{Answered: 7, Refused: 6}, d.Counts().ByMessage["script"]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestAnotherScriptThatFails: what the script of a reload fails on is told too.
func TestAnotherScriptThatFails(t *testing.T) {
	first := answering(t, nil, `function answer() error("one") end`)
	second := answering(t, nil, `function answer(message) if message == "bad" then error("two") end return {x = 1} end`)
	second.tally = first.tally // as New does
	told := func(text string) int { return strings.Count(first.log.String(), text) }
	first.ask(asked("m"), asked("m"))
	second.ask(asked("bad"), asked("bad"))
	if told("answer.lua:1: one") != 1 || told("answer.lua:1: two") != 1 {
		t.Errorf("log:\n%s", first.log.String())
	}
	second.now = second.now.Add(quiet)
	if second.ask(asked("m"), asked("m")); told("the script answers SPOE messages again") != 1 {
		t.Errorf("log:\n%s", first.log.String())
	}
}

func TestWhatAScriptPrintsIsBounded(t *testing.T) {
	d := answering(t, nil, `function answer() print("hello") end`)
	for range 100 {
		d.ask(asked("m"))
	}
	lines := func() int { return strings.Count(d.log.String(), "text=hello") }
	if lines() != printsPerMinute || strings.Count(d.log.String(), "prints more than is logged") != 1 {
		t.Errorf("log:\n%s", d.log.String())
	}
	d.now = d.now.Add(time.Minute)
	d.ask(asked("m"))
	if lines() != printsPerMinute+1 {
		t.Errorf("log:\n%s", d.log.String())
	}
}

// TestScriptAnswersAtOnce runs while tables are published.
func TestScriptAnswersAtOnce(t *testing.T) {
	d := answering(t, map[string][]*balancer.Table{"in": {table(row("a", 10, 100))}}, `
		function answer(message, args, table)
			local sum = 0
			for _, s in ipairs(table["in"].servers) do sum = sum + s.weight end
			return {sum = sum}
		end`)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				if got := d.ask(asked("m")); got != "sum=100" && got != "" { // late on a busy machine
					t.Errorf("%s", got)
				}
			}
		})
	}
	for range 100 {
		d.publish("in", table(row("a", 10, 60), row("b", 10, 40)))
	}
	wg.Wait()
}

// TestAgesGoOn over a reload: data that the table has no more keep their age.
func TestAgesGoOn(t *testing.T) {
	d := newDesk(t, map[string][]*balancer.Table{"in": {table(row("a", 10, 100))}})
	gone := table(with(row("a", 10, 100), silent))
	d.publish("in", gone)
	var now []*balancer.Table // none before those of the old configuration are taken over
	source := Source{Backend: "in", MaxAge: time.Minute, Tables: func() []*balancer.Table { return now }}
	after := &desk{t: t, Handler: New(Options{Before: d.Handler, Now: func() time.Time { return begin }, Sources: []Source{source}})}
	if got := after.ask(asked("weighter-backend", "backend", "in")); got != "fresh=false" {
		t.Errorf("before there is a table: %s", got)
	}
	now = []*balancer.Table{gone}
	after.Refresh("in")
	if got := after.ask(asked("weighter-server", "backend", "in", "server", "a")); got != "fresh=false weight=100 share=1000 age_ms=10000" {
		t.Errorf("%s", got)
	}
}

// TestCountsOfAScriptGoOn over a reload that takes the script away.
func TestCountsOfAScriptGoOn(t *testing.T) {
	d := answering(t, nil, `function answer() return {x = 1} end`)
	d.ask(asked("m"))
	after := New(Options{Before: d.Handler, Logger: slog.New(slog.DiscardHandler)})
	if got := after.Counts().ByMessage["script"]; got != (MessageCounts{Answered: 1}) {
		t.Errorf("%+v", got)
	}
	if _, there := New(Options{}).Counts().ByMessage["script"]; there {
		t.Error("counts of a script that never was")
	}
}

func BenchmarkScript(b *testing.B) {
	rows := make([]balancer.Row, 100)
	for i := range rows {
		rows[i] = row(fmt.Sprint("s", i), float64(i), 100)
	}
	d := answering(b, map[string][]*balancer.Table{"in": {table(rows...)}}, `
		function answer(message, args, table)
			local s = table["in"].servers[args.server]
			if s == nil then return nil end
			return {weight = s.weight, fresh = s.fresh}
		end`)
	for name, m := range map[string]string{"built-in": "weighter-server", "script": "my-server"} {
		b.Run(name, func(b *testing.B) {
			request := &spoa.Request{Messages: []*message.Message{asked(m, "backend", "in", "server", "s50")}}
			b.ReportAllocs()
			for range b.N {
				answer := action.Actions(nil)
				if err := d.ServeSPOE(&answer, request); err != nil || len(answer) < 2 {
					b.Fatal(answer, err)
				}
			}
		})
	}
}
