package api

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

func TestStandings(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	order := balancer.Order{Author: "bob", Reason: "moving racks", Since: now, Until: now.Add(90*time.Minute - time.Millisecond)}
	c := balancer.Control{
		Freeze: &balancer.Freeze{Order: order},
		Mode:   &balancer.ModeOrder{Order: balancer.Order{Author: "eve", Reason: "r"}, Mode: "observe"},
		Pins:   map[string]balancer.Pin{"s2": {Order: order, Weight: 7}, "s1": {Order: order, Weight: 256}},
	}
	var got []string
	for _, s := range Standings("in", c, now) {
		got = append(got, s.What+"|"+s.How+"|"+strings.Join(s.Undo, " "))
	}
	const until = "until 2026-07-01 13:29:59 UTC (1h30m left), by bob: moving racks"
	want := []string{
		"in is frozen|" + until + "|unfreeze in",
		"in has mode observe|until it is taken back, by eve: r|mode in file",
		"in/s1 is pinned at 256|" + until + "|unpin in/s1",
		"in/s2 is pinned at 7|" + until + "|unpin in/s2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := strings.Join(OrdersBrief(c), ", "); got != "frozen, mode observe, 2 pins" {
		t.Errorf("in brief: %s", got)
	}
	delete(c.Pins, "s2")
	c.Freeze, c.Mode = nil, nil
	if got := strings.Join(OrdersBrief(c), ", "); got != "1 pin" {
		t.Errorf("in brief: %s", got)
	}
}
