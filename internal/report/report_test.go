package report

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

func TestLines(t *testing.T) {
	d := newDesk(t)
	decided := table(begin.Add(20*time.Second), row("s1", 1000, 90), silent("s.2", 0), row("s3", 0, 256))
	decided.Mode = "observe"
	got := d.reportAt(begin.Add(45*time.Second), decided)
	want := []string{
		"hw.lb1.ingest.s1.load 1000 20", "hw.lb1.ingest.s1.weight 90 20",
		"hw.lb1.ingest.s_2.weight 0 20",
		"hw.lb1.ingest.s3.load 0 20", "hw.lb1.ingest.s3.weight 256 20",
		"hw.lb1.ingest.imbalance 1.5 20", "hw.lb1.ingest.age 10 20", "hw.lb1.ingest.changes 0 20",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestUnchangedIsSentAgain: once in each interval, or the series would have
// gaps; with the time of the report, and the age that the data have by then.
func TestUnchangedIsSentAgain(t *testing.T) {
	d := newDesk(t)
	only := table(begin.Add(20*time.Second), row("s1", 7, 90))
	d.reportAt(begin.Add(45*time.Second), only)
	for i := 1; i < 4; i++ {
		after := 60*i + 45
		got := d.reportAt(begin.Add(time.Duration(after)*time.Second), only)
		want := []string{
			fmt.Sprint("hw.lb1.ingest.s1.load 7 ", after), fmt.Sprint("hw.lb1.ingest.s1.weight 90 ", after),
			fmt.Sprint("hw.lb1.ingest.imbalance 1.5 ", after),
			fmt.Sprintf("hw.lb1.ingest.age %d %d", after-20+10, after), fmt.Sprint("hw.lb1.ingest.changes 0 ", after),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// TestUnknownIsLeftOut: no point is the only honest one.
func TestUnknownIsLeftOut(t *testing.T) {
	d := newDesk(t)
	check := func(what string, table *balancer.Table, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, d.reportAt(table.Time, table)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", what, diff)
		}
	}
	never := table(begin, silent("s1", 5))
	never.Fresh = 0
	check("no data ever", never, "hw.lb1.ingest.s1.weight 5 0", "hw.lb1.ingest.changes 0 0")

	check("data", table(begin.Add(time.Minute), row("s1", 3, 5)), "hw.lb1.ingest.s1.load 3 60", "hw.lb1.ingest.s1.weight 5 60",
		"hw.lb1.ingest.imbalance 1.5 60", "hw.lb1.ingest.age 10 60", "hw.lb1.ingest.changes 0 60")

	gone := table(begin.Add(10*time.Minute), silent("s1", 5))
	gone.Fresh = 0
	earlier := table(begin.Add(2*time.Minute), row("s1", 3, 5))
	earlier.Fresh, earlier.Rows[0].Earlier, *earlier.Rows[0].AgeSeconds = 0, true, 70
	check("a load of an earlier pass", earlier, "hw.lb1.ingest.s1.weight 5 120", "hw.lb1.ingest.age 70 120", "hw.lb1.ingest.changes 0 120")

	check("no data any more", gone, "hw.lb1.ingest.s1.weight 5 600", "hw.lb1.ingest.age 550 600", "hw.lb1.ingest.changes 0 600")

	unread := table(begin.Add(11*time.Minute), row("s1", 4, 5))
	unread.HoldCode = "haproxy"
	if !unread.Unread() {
		t.Fatal("the table is not one without HAProxy")
	}
	check("HAProxy can't be read", unread, "hw.lb1.ingest.s1.load 4 660", "hw.lb1.ingest.age 10 660", "hw.lb1.ingest.changes 0 660")

	odd := table(begin.Add(12*time.Minute), row("s1", math.Inf(1), 5), row("s2", math.NaN(), 6))
	odd.Imbalance = math.Inf(1)
	check("no numbers", odd, "hw.lb1.ingest.s1.weight 5 720", "hw.lb1.ingest.s2.weight 6 720", "hw.lb1.ingest.age 10 720", "hw.lb1.ingest.changes 0 720")
}

func changesIn(lines []string) []string {
	return slices.DeleteFunc(lines, func(l string) bool { return !strings.Contains(l, ".changes ") })
}

// TestChangesOfSeveralPasses: all passes since the last report count, each once.
func TestChangesOfSeveralPasses(t *testing.T) {
	d := newDesk(t)
	d.source.Sockets = append(d.source.Sockets, "unix:/run/haproxy/b.sock")
	first, second := table(begin), table(begin)
	second.Socket = "unix:/run/haproxy/b.sock"
	pass := func(t *balancer.Table, changes int) {
		passed := *t
		passed.Changes = changes
		d.Passed(&passed)
	}
	pass(first, 3)
	pass(first, 0)
	pass(first, 2)
	pass(second, 1)
	for i, want := range [][]string{
		{"hw.lb1.ingest.changes 5 0", "hw.lb1-run_haproxy_b.ingest.changes 1 0"},
		{"hw.lb1.ingest.changes 0 60", "hw.lb1-run_haproxy_b.ingest.changes 4 60"},
		{"hw.lb1.ingest.changes 0 120", "hw.lb1-run_haproxy_b.ingest.changes 0 120"},
	} {
		got := changesIn(d.reportAt(begin.Add(time.Duration(i)*time.Minute), first, second))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("report %d: -want +got:\n%s", i, diff)
		}
		if i == 0 {
			pass(second, 4)
		}
	}
}

// TestChangesAtTheEnd: what comes after the report of an interval is added to it.
func TestChangesAtTheEnd(t *testing.T) {
	d := newDesk(t)
	passed := table(begin.Add(20 * time.Second))
	passed.Changes = 3
	d.Passed(passed)
	d.reportAt(begin.Add(45*time.Second), passed)
	d.Passed(passed)
	d.Passed(&balancer.Table{Backend: "new", Changes: 1}) // has not been in a report
	want := []graphite.Metric{{Name: "hw.lb1.ingest.changes", Value: 6, Time: passed.Time}}
	if diff := cmp.Diff(want, d.corrections()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSockets(t *testing.T) {
	d := newDesk(t)
	d.source.Sockets = []string{"unix:/run/haproxy/a.sock", "unix:/run/haproxy/b.sock", "tcp:127.0.0.1:9999", "abns@weighter", "master:/run/m.sock"}
	var tables []*balancer.Table
	for _, socket := range d.source.Sockets {
		tb := table(begin, silent("s1", 5))
		tb.Socket = socket
		tables = append(tables, tb)
	}
	want := []string{"hw.lb1.ingest.s1", "hw.lb1-run_haproxy_b.ingest.s1", "hw.lb1-tcp_127_0_0_1_9999.ingest.s1",
		"hw.lb1-abns_weighter.ingest.s1", "hw.lb1-master__run_m.ingest.s1"}
	if diff := cmp.Diff(want, d.names(tables...)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// Only the second has the backend: its name is the same.
	if diff := cmp.Diff(want[1:2], d.names(tables[1])); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestCollisions: names don't depend on the order of things, and each collision
// is told once.
func TestCollisions(t *testing.T) {
	want := map[string]string{
		"web_1": "web_1", "web.1": "web_1-06bf5594", "web:1": "web_1-ee8d9300", // as it stands
		"x.y": "x_y", "x:y": "x_y-cf01eada", // the first in the alphabet
		"plain": "plain",
	}
	order := []string{"web_1", "web.1", "web:1", "x.y", "x:y", "plain"}
	for range 20 {
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		d := newDesk(t)
		var rows []balancer.Row
		var names []string
		for _, s := range order {
			rows = append(rows, silent(s, 5))
			names = append(names, "hw.lb1.ingest."+want[s])
		}
		for range 3 {
			if diff := cmp.Diff(names, d.names(table(begin, rows...))); diff != "" {
				t.Fatalf("%v: -want +got:\n%s", order, diff)
			}
		}
		lines := strings.Count(d.log.String(), "\n")
		if lines != 3 || strings.Count(d.log.String(), "two names would be one series in the report") != 3 {
			t.Fatalf("%d lines:\n%s", lines, d.log.String())
		}
	}
}

func TestCollisionsOfBackends(t *testing.T) {
	d := newDesk(t)
	d.source.Backends = []string{"in:tcp", "in_tcp", "in-tcp"}
	var tables []*balancer.Table
	for _, backend := range d.source.Backends {
		tb := table(begin, silent("s1", 5))
		tb.Backend = backend
		tables = append(tables, tb)
	}
	hashed := "hw.lb1." + graphite.CarbonHashed("in_tcp", "in:tcp") + ".s1"
	if diff := cmp.Diff([]string{hashed, "hw.lb1.in_tcp.s1", "hw.lb1.in-tcp.s1"}, d.names(tables...)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// Its rival may be absent at times: the name stays.
	if diff := cmp.Diff([]string{hashed}, d.names(tables[0])); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want := `level=WARN msg="two names would be one series in the report" names="in_tcp in:tcp" of=backend meanwhile="in:tcp is reported as ` +
		graphite.CarbonHashed("in_tcp", "in:tcp") + `" do="give one of them another name, different in more than the characters that a series can't have"` + "\n"
	if diff := cmp.Diff(want, d.log.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// Told again when it comes back.
	d.source.Backends = []string{"in:tcp"}
	d.names(tables[0])
	d.source.Backends = []string{"in:tcp", "in_tcp"}
	d.names(tables[0])
	if got := strings.Count(d.log.String(), "\n"); got != 2 {
		t.Errorf("told %d times", got)
	}
}

func TestPrefixes(t *testing.T) {
	for host, want := range map[string]string{"lb1": "hw.lb1", "lb1.example.com": "hw.lb1_example_com", "": "hw._", "LB-1": "hw.LB-1"} {
		if d := newDesk(t, func(o *Options) { o.Host = host }); d.prefix != want {
			t.Errorf("%q: %s, want %s", host, d.prefix, want)
		}
	}
	for _, c := range []config.Report{
		{Prefix: "hunter2 x", Interval: time.Minute}, {Prefix: "", Interval: time.Minute},
		{Prefix: "a", Interval: time.Millisecond}, {Prefix: "a", Interval: time.Minute, Carbon: []graphite.CarbonAddress{{}}},
	} {
		if _, err := New(Options{Config: c}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: error %v", c, err)
		}
	}
}

// TestOnePointAnInterval: at the phase of each interval, none twice, none left
// out, and none later for all that the reports take.
func TestOnePointAnInterval(t *testing.T) {
	for _, interval := range []time.Duration{time.Second, time.Minute, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			// The bubble begins at midnight.
			d := newDesk(t, func(o *Options) { o.Config.Interval = interval })
			start := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- d.Run(ctx) }()
			time.Sleep(3 * interval)
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			var got []float64
			for _, at := range d.asked {
				got = append(got, float64(at.Sub(start))/float64(interval))
			}
			// The last one at the end, in an interval that had none yet.
			if diff := cmp.Diff([]float64{0.75, 1.75, 2.75, 3}, got); diff != "" {
				t.Errorf("%s: in intervals: -want +got:\n%s", interval, diff)
			}
		})
	}
}

func TestNoSecondReportOfAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx) }()
		time.Sleep(50 * time.Second)
		cancel()
		if err := <-done; err != nil || len(d.asked) != 1 {
			t.Errorf("%d reports, error %v", len(d.asked), err)
		}
	})
}

// TestClockIsSet: neither a jump ahead nor one back stops the reports.
func TestClockIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var offset time.Duration
		d := newDesk(t, func(o *Options) { o.Now = func() time.Time { return time.Now().Add(offset) } })
		at := func(o time.Duration) time.Duration {
			offset = o
			return d.next(d.slot(time.Now())) // what was reported last is of before
		}
		for o, want := range map[time.Duration]time.Duration{
			0: 105 * time.Second, time.Hour: 45 * time.Second, -time.Hour: 45 * time.Second, 50 * time.Second: 55 * time.Second,
			80 * time.Second: 25 * time.Second, 110 * time.Second: 55 * time.Second,
		} {
			if got := at(o); got != want {
				t.Errorf("clock set by %s: next in %s, want %s", o, got, want)
			}
		}
	})
}

// TestPhase: many load balancers don't report at once, nor near the edge of an interval.
func TestPhase(t *testing.T) {
	seen := map[float64]bool{}
	for range 100 {
		d := newDesk(t, func(o *Options) { o.Phase = 0 })
		if p := d.options.Phase; p < 0.5 || p > 0.9 {
			t.Errorf("phase %v", p)
		}
		seen[d.options.Phase] = true
	}
	if len(seen) < 90 {
		t.Errorf("only %d phases of 100", len(seen))
	}
}

func TestReloadChangesTheSource(t *testing.T) {
	d := newDesk(t)
	d.names(table(begin, silent("s1", 5)))
	other := table(begin, silent("s1", 5))
	other.Backend, other.Socket = "udp", "unix:/run/haproxy/c.sock"
	d.source.Backends, d.source.Sockets = []string{"udp"}, []string{other.Socket}
	if diff := cmp.Diff([]string{"hw.lb1.udp.s1"}, d.names(other)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(d.newest) != 1 {
		t.Errorf("what is gone is remembered: %v", d.newest)
	}
}

func TestWords(t *testing.T) {
	var b book
	log, carbon := b.logger(), graphite.CarbonAddress{HostPort: "carbon:2003"}
	tellLost(log, carbon, errors.New("connecting to carbon: connection refused"), 15*time.Minute)
	tellBack(log, carbon, graphite.Outage{Lasted: 90*time.Second + time.Microsecond, Dropped: 7})
	tellLeft(log, carbon, graphite.SenderStats{Dropped: 8})
	want := `level=WARN msg="the report does not reach carbon" carbon=carbon:2003 cause="connecting to carbon: connection refused" ` +
		`meanwhile="weights and SPOE answers go on as ever; the newest 15m0s of the report are kept, with their times, and sent when carbon is back" ` +
		`do="check that carbon or a relay runs at report.carbon, and takes plaintext lines there"
level=INFO msg="the report reaches carbon again" carbon=carbon:2003 after=1m30s lines_dropped=7
level=WARN msg="this program ends while the report does not reach carbon: its last lines are lost" carbon=carbon:2003 lines_dropped=8
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
