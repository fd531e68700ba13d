package trace

import (
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// start is when the traces of these tests begin.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at is so many seconds after the start.
func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

var rules = Rules{
	Min: 4, Max: 200, Quorum: 0.5, MaxAge: 5 * time.Second, Interval: time.Second, Grace: 200 * time.Millisecond,
	Largest: 1e300, SPOEGap: time.Second, Resident: 100 << 20, Descriptors: 50,
}

// Servers of the traces: two that carry traffic, and one each in drain, in
// maint, at weight 0 and down.
func servers(changes map[string]int) map[string]Server {
	all := map[string]Server{
		"a": {Weight: 100, Initial: 100, Op: 2}, "b": {Weight: 100, Initial: 100, Op: 2},
		"drain": {Weight: 100, Initial: 100, Op: 2, Admin: 8}, "maint": {Weight: 100, Initial: 100, Admin: 1},
		"zero": {Op: 2}, "down": {Weight: 100, Initial: 100},
	}
	for name, w := range changes {
		s := all[name]
		s.Weight = w
		all[name] = s
	}
	return all
}

// good answers for both servers in rotation, once a second from second 0 on.
func good(t *Trace, from, to int) {
	for i := from; i < to; i++ {
		sent := at(float64(i))
		t.Answered(Answer{Asked: sent.Add(-10 * time.Millisecond), Sent: sent, Whole: true, Points: points(sent.Add(-time.Second), 10, "a", "b")})
	}
}

func points(at time.Time, value float64, names ...string) map[string]Point {
	all := map[string]Point{}
	for _, name := range names {
		all[name] = Point{Value: value, At: at}
	}
	return all
}

// poll sees the same servers every 10 ms.
func poll(t *Trace, worker int, from, to float64, changes map[string]int) {
	for ; from < to; from += 0.01 {
		t.saw(Worker{PID: worker}, servers(changes), at(from), at(from+0.001))
	}
}

// broken are traces with one breach each, and sound ones with none.
var broken = []struct {
	name string
	make func(*Trace)
	want string // rule; empty: none
}{
	{"nothing happens", func(t *Trace) { good(t, 0, 5); poll(t, 1, 0, 5, nil) }, ""},
	{"a weight moves by fresh data", func(t *Trace) {
		good(t, 0, 5)
		poll(t, 1, 0, 2.1, nil)
		poll(t, 1, 2.11, 5, map[string]int{"a": 50})
	}, ""},
	{"below the least", func(t *Trace) {
		good(t, 0, 5)
		poll(t, 1, 0, 2.1, nil)
		poll(t, 1, 2.11, 5, map[string]int{"a": 3})
	}, RuleRange},
	{"above the most, for 10 ms only", func(t *Trace) {
		good(t, 0, 5)
		poll(t, 1, 0, 2.1, nil)
		t.saw(Worker{PID: 1}, servers(map[string]int{"a": 201}), at(2.11), at(2.115))
		poll(t, 1, 2.12, 5, map[string]int{"a": 200})
	}, RuleRange},
	{"0 is set", func(t *Trace) {
		good(t, 0, 5)
		poll(t, 1, 0, 2.1, nil)
		poll(t, 1, 2.11, 5, map[string]int{"a": 0})
	}, RuleZeroSet},
	{"0 is raised", func(t *Trace) {
		good(t, 0, 5)
		poll(t, 1, 0, 2.1, nil)
		poll(t, 1, 2.11, 5, map[string]int{"zero": 10})
	}, RuleZeroRaised},
	{"drain is touched", func(t *Trace) {
		good(t, 0, 5)
		poll(t, 1, 0, 2.1, nil)
		poll(t, 1, 2.11, 5, map[string]int{"drain": 50})
	}, RuleOut},
	{"maint is touched", func(t *Trace) {
		good(t, 0, 5)
		poll(t, 1, 0, 2.1, nil)
		poll(t, 1, 2.11, 5, map[string]int{"maint": 50})
	}, RuleOut},
	{"an operator does all that", func(t *Trace) {
		good(t, 0, 5)
		poll(t, 1, 0, 2.1, nil)
		t.Ordered(Order{From: at(2.1), To: at(2.2), Weight: -1})
		poll(t, 1, 2.11, 5, map[string]int{"maint": 50, "drain": 50, "zero": 1, "a": 0, "b": 256})
	}, ""},
	{"another weight than the operator's", func(t *Trace) {
		good(t, 0, 5)
		poll(t, 1, 0, 2.1, nil)
		t.Ordered(Order{From: at(2.1), To: at(2.2), Server: "a", Weight: 17})
		poll(t, 1, 2.11, 5, map[string]int{"a": 3})
	}, RuleRange},
	{"no data at all", func(t *Trace) {
		poll(t, 1, 0, 2.1, nil)
		poll(t, 1, 2.11, 5, map[string]int{"a": 50})
	}, RuleQuorum},
	{"the newest answer is an error", func(t *Trace) {
		good(t, 0, 2)
		t.Answered(Answer{Asked: at(2), Sent: at(2.05)})
		poll(t, 1, 0, 2.9, nil)
		poll(t, 1, 2.91, 5, map[string]int{"a": 50})
	}, RuleQuorum},
	{"the newest answer is not read yet", func(t *Trace) {
		good(t, 0, 3)
		t.Answered(Answer{Asked: at(2), Sent: at(2.05)})
		poll(t, 1, 0, 2.1, nil)
		poll(t, 1, 2.11, 5, map[string]int{"a": 50})
	}, ""},
	{"one of two is missing: just the quorum", func(t *Trace) {
		t.Answered(Answer{Sent: at(2), Whole: true, Points: points(at(1), 1, "a")})
		poll(t, 1, 0, 2.1, nil)
		poll(t, 1, 2.11, 5, map[string]int{"a": 50})
	}, ""},
	{"data of servers out of rotation are no quorum", func(t *Trace) {
		t.Answered(Answer{Sent: at(2), Whole: true, Points: points(at(1), 1, "drain", "maint", "zero", "down")})
		poll(t, 1, 0, 2.1, nil)
		poll(t, 1, 2.11, 5, map[string]int{"a": 50})
	}, RuleQuorum},
	{"null", func(t *Trace) { moved(t, points(at(1), math.NaN(), "a", "b")) }, RuleQuorum},
	{"negative", func(t *Trace) { moved(t, points(at(1), -1, "a", "b")) }, RuleQuorum},
	{"infinite", func(t *Trace) { moved(t, points(at(1), math.Inf(1), "a", "b")) }, RuleQuorum},
	{"vast", func(t *Trace) { moved(t, points(at(1), 1e308, "a", "b")) }, RuleQuorum},
	{"old", func(t *Trace) { moved(t, points(at(-10), 1, "a", "b")) }, RuleQuorum},
	{"data that were fresh long ago", func(t *Trace) {
		good(t, 0, 2)
		poll(t, 1, 0, 12, nil)
		poll(t, 1, 12, 13, map[string]int{"a": 50})
	}, RuleQuorum},
	{"moved while it had to stay", func(t *Trace) {
		good(t, 0, 5)
		t.HoldStill(Still{From: at(1), To: at(4)})
		poll(t, 1, 0, 2.1, nil)
		poll(t, 1, 2.11, 5, map[string]int{"a": 50})
	}, RuleStill},
	{"moved before it had to stay", func(t *Trace) {
		good(t, 0, 5)
		t.HoldStill(Still{From: at(3), To: at(4)})
		poll(t, 1, 0, 2.1, nil)
		poll(t, 1, 2.11, 5, map[string]int{"a": 50})
	}, ""},
	{"a new worker begins with its own weights", func(t *Trace) {
		poll(t, 1, 0, 2, map[string]int{"a": 50})
		poll(t, 2, 2, 4, nil)
	}, ""},
	{"put back without data, outside the limits of now", func(t *Trace) {
		poll(t, 1, 0, 2, map[string]int{"a": 3})
		poll(t, 2, 2, 4, nil)
		poll(t, 2, 4, 5, map[string]int{"a": 3})
	}, ""},
	{"put back to another weight without data", func(t *Trace) {
		poll(t, 1, 0, 2, map[string]int{"a": 50})
		poll(t, 2, 2, 4, nil)
		poll(t, 2, 4, 5, map[string]int{"a": 51})
	}, RuleQuorum},
	{"put back over a drain of the new configuration", func(t *Trace) {
		poll(t, 1, 0, 2, map[string]int{"zero": 50})
		poll(t, 2, 2, 4, nil)
		poll(t, 2, 4, 5, map[string]int{"zero": 50})
	}, RuleZeroRaised},
	{"right after one pass", func(t *Trace) {
		good(t, 0, 6)
		poll(t, 1, 0, 3.2, nil)
		poll(t, 1, 3.21, 6, map[string]int{"a": 50})
		t.Recover(Recovery{At: at(2.5), Want: map[string]int{"a": 50, "b": 100}})
	}, ""},
	{"right after two passes", func(t *Trace) {
		good(t, 0, 6)
		poll(t, 1, 0, 4.2, nil)
		poll(t, 1, 4.21, 6, map[string]int{"a": 50})
		t.Recover(Recovery{At: at(2.5), Want: map[string]int{"a": 50}})
	}, RuleLate},
	{"no pass after the fault", func(t *Trace) {
		good(t, 0, 3)
		poll(t, 1, 0, 5, map[string]int{"a": 50})
		t.Recover(Recovery{At: at(2.5), Want: map[string]int{"a": 50}})
	}, RuleLate},
	{"0 was sent and not taken", func(t *Trace) { t.Wrote(Write{From: at(1), To: at(1), Server: "a"}) }, RuleZeroSet},
	{"257 was sent and not taken", func(t *Trace) { t.Wrote(Write{From: at(1), To: at(1), Server: "a", Weight: 257}) }, RuleRange},
	{"no answer for two seconds", func(t *Trace) { t.Silent(Outage{From: at(1), To: at(3)}) }, RuleSPOE},
	{"no answer for half a second", func(t *Trace) { t.Silent(Outage{From: at(1), To: at(1.5)}) }, ""},
	{"no answer while stopped", func(t *Trace) {
		t.Excuse(Still{From: at(1), To: at(3)})
		t.Silent(Outage{From: at(0.9), To: at(3.2)})
	}, ""},
	{"no answer long after a stop", func(t *Trace) {
		t.Excuse(Still{From: at(1), To: at(3)})
		t.Silent(Outage{From: at(0.9), To: at(5)})
	}, RuleSPOE},
	{"too much memory", func(t *Trace) { t.Used(Usage{Peak: 101 << 20}) }, RuleResident},
	{"too many descriptors", func(t *Trace) { t.Used(Usage{Descriptors: 51}) }, RuleDescriptors},
}

// moved is a trace in which a weight moves by such data.
func moved(t *Trace, p map[string]Point) {
	t.Answered(Answer{Sent: at(2), Whole: true, Points: p})
	poll(t, 1, 0, 2.1, nil)
	poll(t, 1, 2.11, 5, map[string]int{"a": 50})
}

func TestJudge(t *testing.T) {
	found := map[string]bool{}
	for _, c := range broken {
		t.Run(c.name, func(t *testing.T) {
			var trace Trace
			c.make(&trace)
			got := map[string]bool{}
			for _, b := range trace.Judge(rules) {
				t.Log(b)
				got[b.Rule] = true
				found[b.Rule] = true
			}
			want := map[string]bool{}
			if c.want != "" {
				want[c.want] = true
			}
			// What is out of range may be without data as well.
			if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	for _, rule := range []string{
		RuleRange, RuleZeroSet, RuleZeroRaised, RuleOut, RuleQuorum, RuleStill, RuleLate, RuleSPOE, RuleResident, RuleDescriptors,
	} {
		if !found[rule] {
			t.Errorf("no trace breaks %q", rule)
		}
	}
}

// With the wire in view, what nobody sent is found.
func TestJudgeStranger(t *testing.T) {
	var trace Trace
	good(&trace, 0, 5)
	poll(&trace, 1, 0, 2.1, nil)
	poll(&trace, 1, 2.11, 3.1, map[string]int{"a": 50})
	trace.Wrote(Write{From: at(2.1), To: at(2.105), Server: "a", Weight: 50})
	strict := rules
	strict.Wire = true
	if b := trace.Judge(strict); len(b) > 0 {
		t.Errorf("a write that was seen: %v", b)
	}
	poll(&trace, 1, 3.11, 4, map[string]int{"a": 60})
	if b := trace.Judge(strict); len(b) != 1 || b[0].Rule != RuleStranger || b[0].Server != "a" {
		t.Errorf("a write that nobody saw: %v", b)
	}
}

func TestBreachString(t *testing.T) {
	for _, c := range []struct {
		breach Breach
		want   string
	}{
		{Breach{At: at(1.5), Rule: RuleRange, Server: "a", Text: "100 became 3"}, "12:00:01.500 " + RuleRange + ": a: 100 became 3"},
		{Breach{At: at(0), Rule: RuleSPOE, Text: "for 2s: EOF"}, "12:00:00.000 " + RuleSPOE + ": for 2s: EOF"},
	} {
		if got := c.breach.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// What is the same again is one state, however often it is seen.
func TestTraceIsSmall(t *testing.T) {
	var trace Trace
	poll(&trace, 1, 0, 10, nil)
	poll(&trace, 1, 10, 20, map[string]int{"a": 1})
	if size := trace.Size(); size.States != 2 || size.Polls < 1999 {
		t.Errorf("%+v", size)
	}
	if now, ok := trace.Now(); !ok || now.Servers["a"].Weight != 1 || now.Last.Before(at(19.9)) {
		t.Errorf("%+v", now)
	}
}
