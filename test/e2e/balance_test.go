package e2e

import (
	"fmt"
	"math"
	"testing"

	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
)

// nodes are thirty servers whose loads differ by up to 2.5 times.
func nodes() (names []string, habits map[string]habit) {
	habits = map[string]habit{}
	for i := range 30 {
		name := fmt.Sprintf("node-%d", i)
		names = append(names, name)
		habits[name] = habit{load: 1000 + 50*float64(i)}
	}
	return names, habits
}

// backend is one [[backend]] table with passes every second.
func backend(name, target, more string) string {
	return fmt.Sprintf(`
[[backend]]
name           = %q
target         = %q
interval       = "1s"
window         = "20s"
max_age        = "8s"
function       = "limited-proportions"
%s
`, name, target, more)
}

const received = "aliasByNode(tcp-service.*.datapoints.received, 1)"

func TestThirtyServersOfRealLife(t *testing.T) {
	names, habits := nodes()
	late, gapped := habits["node-11"], habits["node-7"]
	late.late, gapped.gap = 3, 3
	habits["node-11"], habits["node-7"] = late, gapped
	r := newRig(t, haproxyConfig([]string{"ingest", "ingest-rate"}, names), habits)
	d := r.start(backend("ingest", received, "") +
		backend("ingest-rate", "aliasByNode(perSecond(tcp-service.*.datapoints.total), 1)", ""))

	want := proportions(r.feed.loads(), 5, 2)
	for _, name := range []string{"ingest", "ingest-rate"} {
		eventually(t, name+" gets its weights", func() string { return same(want, r.weights(name)) })
	}

	t.Run("a counter that starts again moves nothing", func(t *testing.T) {
		before := r.weights("ingest-rate")
		r.feed.change("node-19", func(h *habit) { h.restart = true })
		r.feed.change("node-29", func(h *habit) { h.load = 1500 })
		after := proportions(r.feed.loads(), 5, 2)
		low, high := min(before["node-19"], after["node-19"]), max(before["node-19"], after["node-19"])
		eventually(t, "the new load of node-29 arrives", func() string {
			now := r.weights("ingest-rate")
			if w := now["node-19"]; w < low || w > high {
				t.Fatalf("node-19 had weight %d on the way from %d to %d", w, before["node-19"], after["node-19"])
			}
			return same(after, now)
		})
	})

	t.Run("a server that dies keeps its weight", func(t *testing.T) {
		r.feed.change("node-13", func(h *habit) { h.silent = true })
		eventually(t, "the loss is told", func() string { return missing(d.log.lines("backend=ingest ", "without usable load", "node-13")) })
		before := r.weights("ingest")
		r.feed.change("node-2", func(h *habit) { h.load = 3000 })
		eventually(t, "node-2 moves", func() string {
			now := r.weights("ingest")
			// The others' weights may need another scale: what HAProxy sees of
			// node-13 is its share. Rounding moves it by half a unit.
			if was, is := share("node-13", before), share("node-13", now); math.Abs(is-was) > 0.5/float64(before["node-13"])*was*2 {
				t.Fatalf("node-13 has no data, and yet its share went from %.4f to %.4f", was, is)
			}
			if now["node-2"] >= before["node-2"] {
				return fmt.Sprintf("node-2 is still at %d", now["node-2"])
			}
			return ""
		})
	})

	t.Run("below quorum nothing changes", func(t *testing.T) {
		for _, name := range names[:16] {
			r.feed.change(name, func(h *habit) { h.silent = true })
		}
		eventually(t, "the hold is told", func() string { return missing(d.log.lines("backend=ingest ", "weights are held", "quorum")) })
		before := r.weights("ingest")
		r.feed.change("node-20", func(h *habit) { h.load = 9000 })
		r.unmoved("ingest", before, 5)
		for _, name := range names {
			r.feed.change(name, func(h *habit) { h.silent = false })
		}
		eventually(t, "node-20 is seen", func() string {
			if w := r.weights("ingest")["node-20"]; w >= before["node-20"] {
				return fmt.Sprintf("node-20 is still at %d", w)
			}
			return ""
		})
	})
}

func TestIntegralOfTheOrigin(t *testing.T) {
	names, habits := nodes()
	r := newRig(t, haproxyConfig([]string{"ingest"}, names), habits)
	r.start(backend("ingest", "integral(tcp-service.*.datapoints.received)", `
server_regexp  = "integral\\(tcp-service\\.([^.]+)\\.datapoints\\.received\\)"
server_name    = "$1"`))
	want := proportions(r.feed.loads(), 5, 2)
	eventually(t, "the weights arrive", func() string { return same(want, r.weights("ingest")) })
}

func TestReloadAndRestart(t *testing.T) {
	names, habits := nodes()
	r := newRig(t, haproxyConfig([]string{"ingest"}, names), habits)
	// One pass an hour: whatever brings the weights back is not the next pass.
	d := r.start(`
[[backend]]
name     = "ingest"
target   = "` + received + `"
interval = "1h"
function = "limited-proportions"
`)
	want := proportions(r.feed.loads(), 5, 2)
	eventually(t, "the weights arrive", func() string { return same(want, r.weights("ingest")) })
	for _, event := range []struct {
		name string
		do   func() error
	}{
		{"reload", func() error { return r.haproxy.Reload("") }},
		{"restart", r.haproxy.Restart},
		{"kill", func() error { r.haproxy.Kill(); return r.haproxy.Restart() }},
	} {
		old := r.state("ingest").Info.Worker
		if err := event.do(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "weights are back after a "+event.name, func() string {
			state := r.state("ingest")
			if state.Info.Worker == old {
				return "the old worker answers"
			}
			return same(want, r.weights("ingest"))
		})
	}
	if got := d.log.lines("ingest", "level=ERROR"); len(got) > 0 {
		t.Errorf("a reload is no error: %s", got)
	}
}

func TestOperatorHasTheLastWord(t *testing.T) {
	names, habits := nodes()
	r := newRig(t, haproxyConfig([]string{"ingest"}, names), habits)
	d := r.start(backend("ingest", received, ""))
	want := proportions(r.feed.loads(), 5, 2)
	eventually(t, "the weights arrive", func() string { return same(want, r.weights("ingest")) })

	r.command("set server ingest/node-3 weight 7")
	eventually(t, "a weight set by hand is told and taken back", func() string {
		return missing(d.log.lines("level=WARN", "node-3", "7")) + same(want, r.weights("ingest"))
	})

	r.command("set server ingest/node-4 state drain")
	r.command("set server ingest/node-5 state maint")
	r.command("set server ingest/node-6 weight 0")
	before := r.weights("ingest")
	for _, name := range []string{"node-4", "node-5", "node-6"} {
		r.feed.change(name, func(h *habit) { h.load = 10 })
	}
	r.feed.change("node-8", func(h *habit) { h.load = 4000 })
	rest := r.feed.loads()
	for _, name := range []string{"node-4", "node-5", "node-6"} {
		delete(rest, name)
	}
	want = proportions(rest, 5, 2)
	eventually(t, "the others are balanced among themselves", func() string {
		state := r.state("ingest")
		got := map[string]int{}
		for _, s := range state.Servers {
			got[s.Name] = s.Weight
			switch s.Name {
			case "node-4", "node-5", "node-6":
				if s.Weight != before[s.Name] {
					t.Fatalf("%s was taken out by hand, and yet went from weight %d to %d", s.Name, before[s.Name], s.Weight)
				}
			}
			if s.Name == "node-4" && s.Admin&haproxy.ForcedDrain == 0 || s.Name == "node-5" && s.Admin&haproxy.ForcedMaint == 0 {
				t.Fatalf("%s lost its admin state: %v", s.Name, s.Admin)
			}
		}
		return same(want, got)
	})
}

// unmoved watches the weights until n more seconds of data have been fed, and
// fails when one moves.
func (r *rig) unmoved(backend string, before map[string]int, n int64) {
	r.t.Helper()
	until := r.feed.lastFed() + n
	eventually(r.t, "data flow on", func() string {
		if why := same(before, r.weights(backend)); why != "" {
			r.t.Fatal(why)
		}
		if at := r.feed.lastFed(); at < until {
			return fmt.Sprintf("fed up to %d of %d", at, until)
		}
		return ""
	})
}

// share is the fraction of new connections that goes to name.
func share(name string, weights map[string]int) float64 {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	return float64(weights[name]) / float64(sum)
}

func missing(lines []string) string {
	if len(lines) == 0 {
		return "no such line in the log; "
	}
	return ""
}
