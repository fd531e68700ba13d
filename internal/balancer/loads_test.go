package balancer

import (
	"context"
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// said is a Renderer that gives one answer.
type said struct{ answer graphite.Answer }

func (s said) Render(context.Context, graphite.Request) (*graphite.Answer, error) {
	return &s.answer, nil
}

// TestLongNamesStayOutOfMessages: a Graphite that makes up a name as long as
// its answer does not fill a log with it.
func TestLongNamesStayOutOfMessages(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	b := ingest()
	b.ServerRegexp, b.ServerName = regexp.MustCompile(`.`), "s1"
	series := []graphite.Series{{Name: "1" + long}, {Name: "2" + long}, {Name: "3" + long}}
	for _, l := range readLoads(&graphite.Answer{Series: series}, &b) {
		if l.err == nil || len(l.err.Error()) > 1000 || !strings.Contains(l.err.Error(), "(2097153 bytes)") {
			t.Errorf("%.2000v", l.err)
		}
	}
	for _, texts := range [][]string{{long}, slices.Repeat([]string{long}, 50)} {
		if text := cut(texts); len(text) > 10*(mostWords+50) || !utf8.ValidString(text) {
			t.Errorf("%d bytes for a log line: %.2000s", len(text), text)
		}
	}
	if text := cut([]string{"s1", "s2"}); text != "s1, s2" {
		t.Errorf("short names became %q", text)
	}
}

func TestLoadsTellsEachSeries(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	at := func(ago time.Duration, v float64) []graphite.Point {
		return []graphite.Point{{Unix: now.Add(-ago).Unix(), Value: v}}
	}
	r := said{graphite.Answer{Now: now, Series: []graphite.Series{
		{Name: "node-1.received", Points: at(10*time.Second, 5)},
		{Name: "node-2.received", Points: at(10*time.Minute, 6)},
		{Name: "node-9.received", Points: at(10*time.Second, 7)},
		{Name: "total", Points: at(10*time.Second, 8)},
		{Name: "node-4.received", Points: at(10*time.Second, 1)},
		{Name: "node-4.received.copy", Points: at(10*time.Second, 2)},
		{Name: "node-5.received", Fault: "its name comes twice", Points: at(10*time.Second, 2)},
	}}}
	b := ingest()
	b.ServerRegexp, b.ServerName = regexp.MustCompile(`^node-(\d+)\.`), "s$1"
	rows, err := Loads(t.Context(), r, b, []string{"s1", "s2", "s3", "s4", "s5"})
	if err != nil {
		t.Fatal(err)
	}
	type line struct {
		Series, Server string
		Usable         bool
		Reason         string // a part of it
	}
	want := []line{
		{"node-1.received", "s1", true, ""},
		{"node-2.received", "s2", false, "old"},
		{"node-9.received", "s9", false, "HAProxy has no server ingest/s9"},
		{"total", "", false, "server_regexp"},
		{"node-4.received", "s4", false, "two series"},
		{"node-4.received.copy", "s4", false, "two series"},
		{"node-5.received", "s5", false, "its name comes twice"},
		{"", "s3", false, "no series"},
	}
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d: %+v", len(rows), len(want), rows)
	}
	for i, row := range rows {
		got := line{row.Series, row.Server, row.Usable, want[i].Reason}
		if diff := cmp.Diff(want[i], got); diff != "" || !strings.Contains(row.Reason, want[i].Reason) || row.Usable != (row.Reason == "") {
			t.Errorf("row %d: reason %q, (-want +got):\n%s", i, row.Reason, diff)
		}
	}
	if row := rows[0]; *row.Value != 5 || *row.Timestamp != now.Unix()-10 || *row.AgeSeconds != 10 {
		t.Errorf("value %v, timestamp %v, age %v", *row.Value, *row.Timestamp, *row.AgeSeconds)
	}
	if row := rows[1]; row.Value == nil || *row.AgeSeconds != 600 {
		t.Errorf("the stale row does not show its newest point: %+v", row)
	}
	if row := rows[7]; row.Value != nil || row.Timestamp != nil || row.AgeSeconds != nil {
		t.Errorf("a server without series has a value: %+v", row)
	}
}

func TestLoadsWithoutHAProxy(t *testing.T) {
	g := newGraphite(map[string]float64{"s1": 1, "s2": 2})
	rows, err := Loads(t.Context(), g, ingest(), nil)
	if err != nil || len(rows) != 2 || !rows[0].Usable || !rows[1].Usable {
		t.Errorf("rows %+v, error %v", rows, err)
	}
	b := ingest()
	b.Target = "tcp-service.{server}.received"
	if _, err := Loads(t.Context(), g, b, nil); !errors.Is(err, errNoNames) {
		t.Errorf("error %v, want that the names of the servers are needed", err)
	}
}

func TestServerTargetsGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ingest()
		b.Target = `sumSeries(tcp-service.{server}.*.received)`
		one, two, g := newFake("s1", "s2"), newFake("s2", "s3"), newGraphite(map[string]float64{"s1": 400, "s2": 100, "s3": 100})
		r := newRig(t, b, g, one, two)
		r.start()
		defer r.stop()
		synctest.Wait()
		want := []string{
			`alias(sumSeries(tcp-service.s1.*.received),"s1")`,
			`alias(sumSeries(tcp-service.s2.*.received),"s2")`,
			`alias(sumSeries(tcp-service.s3.*.received),"s3")`,
		}
		if diff := cmp.Diff(want, g.requests[0].Targets); diff != "" {
			t.Errorf("targets (-want +got):\n%s", diff)
		}
		if w := one.weights(); w["s1"] >= w["s2"] {
			t.Errorf("weights %v though s1 has four times the load", w)
		}
	})
}

func TestServerTargetsWaitForNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ingest()
		b.Target = "tcp-service.{server}.received"
		hung, g := newFake("s1", "s2"), newGraphite(map[string]float64{"s1": 400, "s2": 100})
		hung.hung = true
		r := newRig(t, b, g, hung)
		r.start()
		defer r.stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := g.requestCount(); n != 0 {
			t.Errorf("%d renders without a server to ask for", n)
		}
		hung.do(func() { hung.hung = false })
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if g.requestCount() == 0 || hung.writeCount() == 0 {
			t.Errorf("%d renders, %d writes once HAProxy told its servers; log:\n%s", g.requestCount(), hung.writeCount(), r.log)
		}
	})
}

// TestLargestNumberIsNoLoad: what weighting would not believe is told as
// unusable, and not dropped without a word.
func TestLargestNumberIsNoLoad(t *testing.T) {
	rows, err := Loads(t.Context(), newGraphite(map[string]float64{"s1": math.MaxFloat64, "s2": weighting.LargestLoad}), ingest(), nil)
	if err != nil || len(rows) != 2 {
		t.Fatalf("%+v, %v", rows, err)
	}
	if rows[0].Usable || !strings.Contains(rows[0].Reason, "unknown") || !rows[1].Usable {
		t.Errorf("%+v", rows)
	}
}
