package luahaproxy

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// scene is one HAProxy and what it reads from.
type scene struct {
	version  string
	haproxy  *haproxyproc.Process
	weighter *listener
	get      func(path string, header map[string]string) string
}

const answersConfig = `
frontend in
  bind 127.0.0.1:%d thread 1
  http-request lua.weighter_pick ingest
  http-request lua.weighter_pick nosuch if { path /nosuch }
  http-request return status 200 content-type text/plain lf-string "fresh=%%[lua.weighter_fresh(ingest)] load=%%[lua.weighter_load(ingest,s1)] weight=%%[lua.weighter_weight(ingest,s1)] best=%%[lua.weighter_best(ingest)] picked=%%[var(txn.weighter.server)]"
`

// everywhere starts a scene for each version of HAProxy. They wait at the same
// time, so the caller takes each step with all of them. Threads that don't
// answer read the table too.
func everywhere(t *testing.T, mode, settings string, tables ...*balancer.Table) []*scene {
	t.Helper()
	binaries, err := haproxyproc.Binaries()
	if err != nil {
		t.Fatal(err)
	}
	var all []*scene
	for _, b := range binaries {
		port := freePorts(t, 1)[0]
		l := listen(t, tables...)
		config := strings.Replace(global(t, mode, l.address), "nbthread 2", "nbthread 2\n"+settings, 1) + defaults + fmt.Sprintf(answersConfig, port)
		p := start(t, haproxyproc.Options{Binary: b.Path, Config: config})
		all = append(all, &scene{version: b.Version, haproxy: p, weighter: l, get: client(t, port)})
	}
	return all
}

func (s *scene) answer() string { return s.get("/", nil) }

// await waits for an answer that has all of the texts.
func (s *scene) await(t *testing.T, texts ...string) {
	t.Helper()
	until(t, s.haproxy, func() (bool, string) {
		answer := s.answer()
		for _, text := range texts {
			if !strings.Contains(answer+" ", text+" ") {
				return false, fmt.Sprintf("%s: the answer is %q, want %q in it", s.version, answer, text)
			}
		}
		return true, ""
	})
}

// numbered is a table that is known by a load.
func numbered(n int) *balancer.Table { return table("ingest", row("s1", float64(n)), row("s2", 1e6)) }

func load(n int) string { return fmt.Sprintf("load=%d", n) }

// fault is something that the listener does, and what HAProxy's log says of it.
type fault struct {
	name  string
	serve http.HandlerFunc
	cause string
}

// group are scenes that go through the same faults.
type group struct {
	scenes []*scene
	faults []fault
}

// suffer goes through the faults of all groups, as many at once as there are groups: during each
// one the last table is kept, and after it the next one is read. Each is told once when it begins
// and once when it ends.
func suffer(t *testing.T, groups []group) {
	t.Helper()
	each := func(i int, do func(s *scene, f fault)) {
		for _, g := range groups {
			for _, s := range g.scenes {
				if i < len(g.faults) {
					do(s, g.faults[i])
				}
			}
		}
	}
	each(0, func(s *scene, _ fault) { s.await(t, load(100), "fresh=1", "best=s1") })
	for i := range slices.MaxFunc(groups, func(a, b group) int { return len(a.faults) - len(b.faults) }).faults {
		each(i, func(s *scene, f fault) { s.weighter.breakWith(f.serve) })
		each(i, func(s *scene, f fault) {
			s.kept(t, i, f)
			s.weighter.publish(numbered(101 + i))
		})
		each(i, func(s *scene, _ fault) {
			s.await(t, load(101+i), "fresh=1")
			untilLogged(t, s.haproxy, "weighter.lua: tables come again from", i+1)
		})
	}
	for _, g := range groups {
		for _, s := range g.scenes {
			if n := strings.Count(s.haproxy.Log(), "weighter.lua: no table from"); n != len(g.faults) {
				t.Errorf("%s: %d warnings of %d faults; log:\n%s", s.version, n, len(g.faults), s.haproxy.Log())
			}
		}
	}
}

// kept waits until the i-th fault is noticed, and holds that the table before it is still there.
func (s *scene) kept(t *testing.T, i int, f fault) {
	t.Helper()
	const warning = "weighter.lua: no table from"
	untilLogged(t, s.haproxy, warning, i+1)
	log := s.haproxy.Log()
	if last := log[strings.LastIndex(log, warning):]; !strings.Contains(last, f.cause) {
		t.Errorf("%s: %s: the log says %q, want %q in it", s.version, f.name, last, f.cause)
	}
	if answer := s.answer(); !strings.Contains(answer, load(100+i)+" ") || !strings.Contains(answer, "fresh=1 ") {
		t.Errorf("%s: %s: the answer is %q, want that of the last table, %s", s.version, f.name, answer, load(100+i))
	}
}

// body is a fault that is a whole answer of status 200.
func body(name, text, cause string) fault {
	return fault{name, func(w http.ResponseWriter, _ *http.Request) { send(w, text) }, cause}
}

// TestFaults breaks the listener in many ways.
func TestFaults(t *testing.T) {
	t.Parallel()
	spoiled := spoiledAnswers()
	half := len(spoiled) / 2
	suffer(t, []group{
		{everywhere(t, "lua-load", "  setenv WEIGHTER_LIMIT 65536", numbered(100)), brokenAnswers()},
		{everywhere(t, "lua-load", "", numbered(100)), spoiled[:half]},
		{everywhere(t, "lua-load-per-thread", "", numbered(100)), spoiled[half:]},
	})
}

// brokenAnswers are of HTTP.
func brokenAnswers() []fault {
	return []fault{
		{"error", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }, "status 500;"},
		{"other service", http.NotFound, "status 404;"},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5000")
			_, _ = io.WriteString(w, strings.Repeat(" ", 1000)) // and net/http breaks the connection
		}, "only 1000 of 5000 bytes came"},
		body("too long", strings.Repeat(" ", 70000), "the answer has 70000 bytes, and LIMIT is 65536"),
		body("empty", "", "neither a value nor a number at byte 1"),
		{"without a length", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `{"tables":[`)
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, strings.Repeat(" ", 70000))
		}, "LIMIT is 65536"},
	}
}

// spoiledAnswers are of JSON.
func spoiledAnswers() []fault {
	whole := func(server string) string {
		return `{"tables":[{"backend":"ingest","time":"2026-11-29T12:00:00Z","hold_code":"","max_age_seconds":90,"quorum":0.5,"better":"lower","servers":[` + server + `]}]}`
	}
	const good = `{"server":"s1","load":1,"age_seconds":1,"capacity":1,"applied_weight":1,"in_rotation":true,"measured":true}`
	return []fault{
		body("HTML", "<html>", "no JSON: neither a value nor a number at byte 1"),
		body("no object", "null", "no table of haproxy-weighter"),
		body("other object", `{"tables":1}`, `"tables" is missing or no table`),
		body("null for a list", `{"tables":null}`, `"tables" is missing or no table`),
		body("list of numbers", `{"tables":[1]}`, "a table is no object"),
		body("no server", whole("{}"), `"server" is missing or no string`),
		body("load is missing", whole(strings.Replace(good, `"load":1`, `"load":null`, 1)), `"load" is missing or no number`),
		body("no time", strings.Replace(whole(good), "2026-11-29T12", "yesterday", 1), `"time" is no time`),
		body("half", whole(good)[:100], "no JSON"),
		body("more", whole(good)+"{}", "no JSON: more after the end"),
		body("deep", strings.Repeat("[", 50000), "more than 32 levels"),
		body("number", strings.Replace(whole(good), `"load":1`, `"load":1e999`, 1), "a number beyond all bounds"),
		body("leading zero", strings.Replace(whole(good), `"load":1`, `"load":01`, 1), "neither , nor }"),
		body("control byte", strings.Replace(whole(good), "s1", "s\n1", 1), "a string without an end"),
		body("escape", strings.Replace(whole(good), "s1", `s\x1`, 1), "an unknown escape"),
	}
}

// TestOddAnswers holds that all of JSON is read, and that unknown fields do no harm.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	odd := fmt.Sprintf(` {
	"new" : [ ] , "other": {"a":{},"b":[[1,-2.5e-3],true,false,null,"\ud83d\ude00\ud800\u00e9\"\\\/\b\f\n\r\t"]},
	"tables":[{"\u0062ackend":"ingest","time":%q,"why":"\"%s\"","hold_code":"","max_age_seconds":36E+2,"quorum":5e-1,
	"better":"lower","servers":[ {"server":"\u0073\u0031","load":4.2E1,"age_seconds":-0,"capacity":1.0e0,"applied_weight":1e2,"in_rotation":true,"measured":true}]}]}
	`, time.Now().UTC().Format(time.RFC3339Nano), strings.Repeat("ü", 100))
	for _, s := range everywhere(t, "lua-load", "", numbered(1)) {
		s.weighter.breakWith(func(w http.ResponseWriter, _ *http.Request) { send(w, odd) })
		s.await(t, "fresh=1", load(42), "weight=100", "best=s1", "picked=s1")
		if answer := s.get("/nosuch", nil); !strings.HasSuffix(answer, "picked=") {
			t.Errorf("%s: a pick of a backend that there is not leaves the one before it: %q", s.version, answer)
		}
	}
}

// hang answers nothing until it is released or the client gives up.
func (l *listener) hang(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-l.released():
	case <-r.Context().Done():
	}
}

// trickle sends a byte now and then, until it is released or the client gives up.
func (l *listener) trickle(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Length", "50000")
	free := l.released()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		_, _ = io.WriteString(w, " ")
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-free:
			return
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// TestSlowAnswers: a listener that sends for ever is not waited for, others read
// meanwhile; and one that hangs.
func TestSlowAnswers(t *testing.T) {
	t.Parallel()
	scenes := everywhere(t, "lua-load-per-thread", "", numbered(100))
	for _, s := range scenes {
		s.await(t, load(100))
		s.weighter.breakWith(s.weighter.trickle)
	}
	for _, s := range scenes {
		untilLogged(t, s.haproxy, "no whole answer within 5 s; meanwhile", 1)
		s.weighter.publish(numbered(101))
	}
	for _, s := range scenes {
		s.await(t, load(101), "fresh=1")
		untilLogged(t, s.haproxy, "weighter.lua: tables come again", 1)
		s.weighter.breakWith(s.weighter.hang)
	}
	for _, s := range scenes {
		untilLogged(t, s.haproxy, "weighter.lua: no table from", 2)
		if answer := s.answer(); !strings.Contains(answer, load(101)+" ") {
			t.Errorf("%s: the answer is %q, want that of the last table", s.version, answer)
		}
		s.weighter.publish(numbered(102))
	}
	for _, s := range scenes {
		s.await(t, load(102), "fresh=1")
	}
}

// TestLengthIsAskedFirst holds that an answer of somebody else, too long to be kept, is not
// taken into memory: until haproxy-weighter has answered, the length is asked for.
func TestLengthIsAskedFirst(t *testing.T) {
	t.Parallel()
	scenes := everywhere(t, "lua-load", "")
	for _, s := range scenes {
		s.weighter.stop(t)
		s.haproxy.Kill()
		s.weighter = listenOn(t, s.weighter.network, s.weighter.address)
		s.weighter.breakWith(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(1<<40))
		})
		if err := s.haproxy.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range scenes {
		untilLogged(t, s.haproxy, "the answer has 1099511627776 bytes, and LIMIT is 4194304", 1)
		until(t, s.haproxy, func() (bool, string) { return s.weighter.requests(http.MethodHead) >= 2, "not tried again" })
		if n := s.weighter.requests(http.MethodGet); n != 0 {
			t.Errorf("%s: %d answers were read all the same", s.version, n)
		}
		s.weighter.publish(numbered(1))
	}
	for _, s := range scenes {
		s.await(t, load(1), "fresh=1")
	}
}

// TestAway: without the weighter loads fade, servers are named no longer, weights stay; and all
// comes back with it.
func TestAway(t *testing.T) {
	t.Parallel()
	scenes := everywhere(t, "lua-load-per-thread", "")
	young := func() *balancer.Table {
		t := numbered(7)
		t.MaxAge = 5 * time.Second
		return t
	}
	for _, s := range scenes {
		until(t, s.haproxy, func() (bool, string) {
			s.weighter.publish(young())
			answer := s.answer()
			return strings.HasPrefix(answer, "fresh=1 load=7 weight=100 best=s1 picked=s"), answer
		})
		s.weighter.stop(t)
	}
	for _, s := range scenes {
		s.await(t, "fresh=0", "load=", "weight=100", "best=")
		untilLogged(t, s.haproxy, "nobody answers there", 1)
	}
	for _, s := range scenes {
		s.await(t, "fresh=0", "load=", "weight=100", "best=", "picked=")
		if n := strings.Count(s.haproxy.Log(), "weighter.lua: no table from"); n != 1 {
			t.Errorf("%s: %d warnings of one fault; log:\n%s", s.version, n, s.haproxy.Log())
		}
		s.weighter.start(t)
	}
	for _, s := range scenes {
		until(t, s.haproxy, func() (bool, string) {
			s.weighter.publish(young())
			answer := s.answer()
			return strings.HasPrefix(answer, "fresh=1 load=7 weight=100 best=s1 picked=s"), answer
		})
	}
}

// TestClock holds that ages are counted by the weighter's clock when HAProxy's is another.
func TestClock(t *testing.T) {
	t.Parallel()
	for _, s := range everywhere(t, "lua-load", "", numbered(1)) {
		s.await(t, "fresh=1")
		ahead := numbered(2)
		ahead.Time = ahead.Time.Add(-3 * time.Hour) // by our clock it is too old
		body := encode(ahead)
		for date, want := range map[time.Duration]string{0: "fresh=0", -3 * time.Hour: "fresh=1"} {
			s.weighter.breakWith(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", time.Now().Add(date).UTC().Format(http.TimeFormat))
				send(w, body)
			})
			s.await(t, want, "weight=100")
			if want == "fresh=1" {
				s.await(t, load(2))
			}
		}
	}
}
