package balancer

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// forEachVersion is for what hangs on how HAProxy reloads, refuses and keeps
// states. Most of it is waiting, which the versions may do together.
func forEachVersion(t *testing.T, body func(t *testing.T, b haproxyproc.Binary)) {
	t.Helper()
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		t.Parallel()
		body(t, b)
	})
}

func TestRealReloadsAndRestarts(t *testing.T) {
	forEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		s := newSiteOf(t, b, uneven(), proxy(t, "roundrobin", "s1", "s2", "s3", "s4"))
		s.start()
		s.until("s1 is weighted down", func() bool { return s.weighted(0) })
		want := s.weights(0)
		for n := range 3 {
			if err := s.haproxy[0].Reload(""); err != nil {
				t.Fatal(err)
			}
			s.until("weights are back", func() bool { return cmp.Equal(want, s.weights(0)) })
			s.until("the reload is told", func() bool { return s.log.Count("HAProxy has a new worker") > n })
		}
		s.haproxy[0].Kill()
		s.until("the dead socket is told", func() bool { return s.log.Count("socket does not answer") == 1 })
		if err := s.haproxy[0].Restart(); err != nil {
			t.Fatal(err)
		}
		s.until("weights are back", func() bool { return cmp.Equal(want, s.weights(0)) })
		s.until("its end is told", func() bool { return s.log.Count("socket answers again") == 1 })
		s.wantLog(1, "socket does not answer")
		s.wantLog(0, "somebody else")
	})
}

func TestRealHandsOfOperators(t *testing.T) {
	forEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		s := newSiteOf(t, b, uneven(), proxy(t, "roundrobin", "s1", "s2", "s3", "s4", "s5", "s6"))
		s.loads["s5"], s.loads["s6"] = 100, 100
		fleet, _ := s.start()
		s.until("s1 is weighted down", func() bool { return s.weighted(0) })

		s.command(0, "set server ingest/s2 weight 13")
		s.until("the foreign write is told", func() bool { return s.log.Count("somebody else has set weights") == 1 })
		s.until("the foreign write is taken back", func() bool { return s.weights(0)["s2"] != 13 })

		s.command(0, "set server ingest/s3 weight 0")
		s.command(0, "set server ingest/s4 state drain")
		s.command(0, "set server ingest/s5 state maint")
		admin := func(server string) string {
			for _, table := range fleet.Balancers()[0].Tables() {
				return table.row(server).AdminState
			}
			return ""
		}
		s.until("drain and maint are seen", func() bool { return admin("s4") == "drain" && admin("s5") == "maint" })
		s.mu.Lock()
		s.silent = true // so that no pass weighs anew what is put back: three servers will have just come
		s.mu.Unlock()
		s.until("weights are held", func() bool { return fleet.Balancers()[0].Tables()[0].HoldCode == weighting.HoldStale })
		want := s.weights(0)
		want["s3"] = 100                                // the reload's; 0 is not put back
		if err := s.haproxy[0].Reload(""); err != nil { // config says ready: all that is put back are weights
			t.Fatal(err)
		}
		s.until("weights are back", func() bool { return cmp.Equal(want, s.weights(0)) })
		s.until("the reload is told", func() bool { return s.log.Count("weights_put_back=5") == 1 })
		s.wantLog(1, "that is a drain")
		for _, line := range strings.Split(s.log.String(), "\n") {
			if strings.Contains(line, "weights written") && strings.Contains(line, "s3=0->") {
				t.Errorf("a weight of 0 was raised: %s", line)
			}
		}
	})
}

func TestRealDrainStaysAcrossPasses(t *testing.T) {
	forEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		s := newSiteOf(t, b, uneven(), proxy(t, "roundrobin", "s1", "s2", "s3", "s4"))
		s.command(0, "set server ingest/s3 weight 0")
		s.command(0, "set server ingest/s4 state drain")
		fleet, _ := s.start()
		s.until("s1 is weighted down", func() bool { return s.weighted(0) })
		passes := make(map[time.Time]bool)
		s.until("ten passes are made", func() bool {
			passes[fleet.Balancers()[0].Tables()[0].Time] = true
			return len(passes) > 10
		})
		if w := s.weights(0); w["s3"] != 0 || w["s4"] != 100 {
			t.Errorf("weights %v: want s3 at 0 and s4 at 100, as the operator left them", w)
		}
	})
}

func TestRealStaticAlgorithm(t *testing.T) {
	forEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		static := proxy(t, "source", "s1", "s2", "s3", "s4")
		s := newSiteOf(t, b, uneven(), static)
		s.start()
		s.until("the refusal is told", func() bool { return s.log.Count("HAProxy refuses weights") == 1 })
		consistent := strings.Replace(static, "balance source", "balance source\n  hash-type consistent", 1)
		if err := s.haproxy[0].Reload(consistent); err != nil {
			t.Fatal(err)
		}
		s.until("weights are set with hash-type consistent", func() bool { return s.weighted(0) })
		s.wantLog(1, "HAProxy refuses weights")
		s.wantLog(1, "balance source is static here")
	})
}
