package balancer

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
)

// TestNeverPutsBackWhatIsTakenOutMeanwhile: the client leaves such a server
// alone, which is no fault of anybody's.
func TestNeverPutsBackWhatIsTakenOutMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		p.refuse = map[string]error{"s1": haproxy.ErrTakenOut}
		p.before = func() { p.server("s1").Weight = 0 }
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if w := p.weights(); w["s1"] != 0 || w["s2"] == 100 {
			t.Errorf("weights %v", w)
		}
		r.wantLog(1, "has been taken out while weights were written")
		r.wantLog(1, "servers at weight 0 are left alone")
		r.wantLog(0, "weights are not all as they were set")
	})
}

// TestNeverWritesToStaticRoundRobin: its name tells, so nothing has to be refused.
func TestNeverWritesToStaticRoundRobin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		p.state.Algorithm = "static-rr"
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		tables, err := r.balancer.Plan(t.Context())
		if err != nil || len(tables) != 1 || !strings.Contains(tables[0].Fault, "balance static-rr is static here") {
			t.Errorf("plan: %+v, %v", tables, err)
		}
		r.start()
		defer r.stop()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if p.writeCount() != 0 {
			t.Errorf("wrote %v", p.writes)
		}
		r.wantLog(2, "HAProxy refuses weights") // the plan's and the loop's
	})
}
