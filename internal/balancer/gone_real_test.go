package balancer

import (
	"strings"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// A HAProxy that is gone is one fault of its socket, however many backends are
// on it; their tables say why they stand still.
func TestRealGoneHAProxyIsToldOnce(t *testing.T) {
	both := proxy(t, "roundrobin", "s1", "s2", "s3", "s4")
	_, servers, _ := strings.Cut(both, "\nbackend ingest\n")
	s := newSite(t, uneven(), both+"backend other\n"+servers)
	other := quick()
	other.Name = "other"
	fleet, _ := s.startAll(quick(), other)
	settled := func() bool { // no write is under way that the kill would cut
		for _, t := range fleet.Tables() {
			if t.Verdict != weighting.Keep {
				return false
			}
		}
		return s.weighted(0) && len(fleet.Tables()) == 2
	}
	s.until("both are weighted", settled)
	s.haproxy[0].Kill()
	// The cause is short; what to do about it stands beside it.
	const cause = "the file is there but nothing listens on it: connection refused"
	unread := func() bool {
		for _, t := range fleet.Tables() {
			if !t.Unread() || t.Why != "HAProxy could not be read: "+cause || !strings.Contains(t.Fault, "HAProxy can't be read: haproxy: read the servers at unix:") {
				return false
			}
		}
		return true
	}
	s.until("both tables say so, and the socket's fault is told", func() bool {
		return unread() && s.log.Count("HAProxy's socket does not answer") == 1
	})
	s.until("the cause is the newest one", func() bool { return fleet.Faults()[0].Cause == cause })
	if faults := fleet.Faults(); len(faults) != 1 || faults[0].Socket == "" || !strings.HasPrefix(faults[0].Do, "start HAProxy") || s.log.Count("level=WARN") != 1 {
		t.Errorf("faults %+v; log:\n%s", faults, s.log)
	}
	if err := s.haproxy[0].Restart(); err != nil {
		t.Fatal(err)
	}
	s.until("the weights are back", func() bool { return s.weighted(0) })
	s.until("the end is told", func() bool {
		return s.log.Count("HAProxy's socket answers again") == 1 && len(fleet.Faults()) == 0
	})
}

// What a pass could not do while HAProxy hung is done once it answers again, not
// an interval later.
func TestRealPassAfterAHang(t *testing.T) {
	s := newSite(t, uneven(), proxy(t, "roundrobin", "s1", "s2", "s3", "s4"))
	fleet, _ := s.start(func(b *config.Backend) { b.Interval = time.Hour })
	s.until("a first pass", func() bool { return s.weighted(0) })
	if err := s.haproxy[0].Pause(); err != nil {
		t.Fatal(err)
	}
	b := fleet.Balancers()[0]
	b.Wake()
	s.until("a pass has failed, and the socket's fault is told", func() bool {
		return b.Tables()[0].Unread() && s.log.Count("HAProxy's socket does not answer") == 1
	})
	if err := s.haproxy[0].Resume(); err != nil {
		t.Fatal(err)
	}
	s.until("a pass is made", func() bool { return !b.Tables()[0].Unread() && len(fleet.Faults()) == 0 })
}
