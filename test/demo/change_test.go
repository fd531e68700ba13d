package demo

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

func row(server string, load float64, applied int, reasons ...weighting.Reason) balancer.Row {
	return balancer.Row{Server: server, Load: &load, Capacity: 1, AppliedWeight: applied, Reasons: reasons}
}

func TestChangesFollowTheTables(t *testing.T) {
	at := time.Unix(1_795_974_000, 0)
	var c changes
	step := func(name string, table balancer.Table, moved int, last, trouble string) {
		t.Helper()
		c.note([]*balancer.Table{&table})
		c.note([]*balancer.Table{&table}) // the same one again counts nothing
		if c.moved != moved || c.last != last || c.trouble != trouble {
			t.Errorf("%s: moved %d, last %q, trouble %q; want %d, %q, %q", name, c.moved, c.last, c.trouble, moved, last, trouble)
		}
	}
	first := "s2 100 to 40, because its load is 50 % above the average; weights changed: 2"
	step("first change", balancer.Table{
		Time: at, Verdict: weighting.Write, Mean: 100, Changes: 2,
		Rows: []balancer.Row{row("s1", 50, 180), row("s2", 150, 40), row("s3", 100, 100)},
	}, 2, first, "")
	step("hold", balancer.Table{
		Time: at.Add(1), Verdict: weighting.Hold, Why: "1 of 3 servers has fresh data",
		Rows: []balancer.Row{row("s1", 50, 180), row("s2", 150, 40), row("s3", 100, 100)},
	}, 2, first, "weights are held: 1 of 3 servers has fresh data")
	step("fault", balancer.Table{Time: at.Add(2), Fault: "HAProxy hangs"}, 2, first, "HAProxy hangs")
	step("change with a limit", balancer.Table{
		Time: at.Add(3), Verdict: weighting.Write, Mean: 100, Changes: 1,
		Rows: []balancer.Row{row("s3", 20, 256, weighting.Reason{Step: weighting.StepMaxShare, Text: "share cut to 4 times its fair share"},
			weighting.Reason{Step: weighting.StepWeight, Text: "not a limit"})},
	}, 3, "s3 100 to 256, because its load is 80 % below the average; share cut to 4 times its fair share", "")
}

func TestLoopWords(t *testing.T) {
	table := balancer.Table{Function: weighting.WaterFill, Delay: 1480 * time.Millisecond, Gain: 6.66}
	if diff := cmp.Diff("function water-fill, data 1.5 s old with the wait, gain 6.7", loopWords(&table)); diff != "" {
		t.Error(diff)
	}
	table.Lifetime = 19700 * time.Millisecond
	if diff := cmp.Diff("function water-fill, data 1.5 s old with the wait, mean connection lifetime 20 s, gain 6.7", loopWords(&table)); diff != "" {
		t.Error(diff)
	}
}

// The log goes on as it is; its last warning is kept with its cause, while it
// is recent.
func TestWarningsAreNoticed(t *testing.T) {
	var log strings.Builder
	var w warnings
	logger := slog.New(noticing{slog.NewTextHandler(&log, nil), &w}).With("backend", "ingest").WithGroup("g")
	logger.Info("all is well")
	if got := w.current(time.Now()); got != "" {
		t.Errorf("an info is shown as a warning: %q", got)
	}
	logger.Warn("no loads from Graphite", "cause", "refused", "do", "look at it")
	if diff := cmp.Diff("no loads from Graphite: refused", w.current(time.Now())); diff != "" {
		t.Error(diff)
	}
	if got := w.current(time.Now().Add(2 * shownFor)); got != "" {
		t.Errorf("an old warning is still shown: %q", got)
	}
	if lines := strings.Count(log.String(), "backend=ingest"); lines != 2 {
		t.Errorf("%d lines in the log, want 2:\n%s", lines, log.String())
	}
}
