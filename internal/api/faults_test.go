package api

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

// What is wrong is told once, however many backends have it.
func TestTroubles(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 7, 1, 12, minute, 0, 0, time.UTC) }
	faults := []balancer.Fault{
		{Key: "state", What: "the state file can't be written", Since: at(1)},
		{Key: balancer.FaultSocket, Socket: "unix:/a", What: "HAProxy's socket does not answer", Since: at(2)},
		{Key: balancer.FaultUnread, Backend: "in", Socket: "unix:/a", What: "HAProxy can't be read", Cause: "x", Since: at(3)},
		{Key: balancer.FaultUnread, Backend: "in", Socket: "unix:/b", What: "HAProxy can't be read", Cause: "x", Since: at(3)},
		{Key: "graphite", Backend: "in", What: "no loads from Graphite", Cause: "503", Since: at(5)},
		{Key: balancer.FaultFrozen, Backend: "in", What: "weights are frozen by an operator", Since: at(5)},
		{Key: "graphite", Backend: "out", What: "no loads from Graphite", Cause: "503", Since: at(4)},
		{Key: "graphite", Backend: "far", What: "no loads from Graphite", Cause: "timeout", Since: at(4)},
	}
	var got []string
	all := Troubles(faults)
	for i := range all {
		got = append(got, all[i].Since.Format("04 ")+all[i].What+" ("+all[i].Where()+")")
	}
	want := []string{
		"01 the state file can't be written ()",
		"02 HAProxy's socket does not answer (socket unix:/a)",
		"03 HAProxy can't be read (backend in, socket unix:/b)",
		"04 no loads from Graphite (backends in, out)",
		"04 no loads from Graphite (backend far)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, c := range []struct {
		trouble             int
		backend, socket     string
		isOf, isWhyItUnread bool
	}{
		{0, "in", "unix:/a", false, false},
		{1, "in", "unix:/a", true, true},
		{1, "in", "unix:/b", false, false},
		{2, "in", "unix:/b", true, true},
		{2, "in", "unix:/a", false, false},
		{2, "out", "unix:/b", false, false},
		{3, "out", "unix:/a", true, false},
		{3, "far", "unix:/a", false, false},
	} {
		f := &all[c.trouble]
		if f.Of(c.backend, c.socket) != c.isOf || f.Unreads(c.backend, c.socket) != c.isWhyItUnread {
			t.Errorf("%s, of %s on %s: %v, %v", got[c.trouble], c.backend, c.socket, f.Of(c.backend, c.socket), f.Unreads(c.backend, c.socket))
		}
	}
}
