package balancer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNeverDelaysAnotherHAProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ingest()
		b.Interval = 5 * time.Second
		hung, well := fourServers(), fourServers()
		hung.hung = true
		g := newGraphite(uneven())
		r := newRig(t, b, g, hung, well)
		r.start()
		defer r.stop()
		synctest.Wait()
		if well.writeCount() == 0 {
			t.Fatalf("the hung HAProxy kept the other one waiting; log:\n%s", r.log)
		}
		start := g.requestCount()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := g.requestCount() - start; n != 12 {
			t.Errorf("%d renders in a minute at an interval of 5 s", n)
		}
		if age := time.Since(r.table(1).Time); age > 5*time.Second {
			t.Errorf("the table of the good HAProxy is %s old", age)
		}
		r.wantLog(1, "HAProxy can't be read")
		hung.do(func() { hung.hung = false })
		time.Sleep(30 * time.Second)
		synctest.Wait()
		r.wantLog(1, "HAProxy can be read again")
		if hung.writeCount() == 0 {
			t.Error("nothing written once HAProxy answered")
		}
	})
}

func TestNeverKeepsAReloadWaitingForGraphite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := fourServers(), newGraphite(uneven())
		r := newRig(t, ingest(), g, p)
		r.start()
		defer r.stop()
		synctest.Wait()
		want := p.weights()
		g.do(func() { g.hung = true })
		time.Sleep(31 * time.Second) // the next render hangs now
		p.do(p.reloadLocked)
		time.Sleep(2 * time.Second) // watch + 1 s
		synctest.Wait()
		if diff := cmp.Diff(want, p.weights()); diff != "" {
			t.Errorf("weights (-before the reload +after):\n%s", diff)
		}
		if len(r.balancer.Tables()) != 1 {
			t.Error("no table to read while Graphite hangs")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		r.wantLog(1, "no loads from Graphite")
	})
}

func TestNeverCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := fourServers(), newGraphite(uneven())
		r := newRig(t, ingest(), g, p)
		r.start()
		defer r.stop()
		synctest.Wait()
		g.do(func() { g.panics = true })
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		r.wantLog(1, "stack of a panic")
		r.wantLog(1, "stopped a pass")
		if table := r.table(0); table.Fault == "" {
			t.Error("the table tells no fault")
		}
		g.do(func() { g.panics = false })
		time.Sleep(time.Minute)
		synctest.Wait()
		r.wantLog(1, "passes run again")
	})
}

func TestNeverOverlapsAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ingest()
		b.Interval = time.Second
		g := newGraphite(uneven())
		g.hung = true // each render takes its whole 30 s
		r := newRig(t, b, g, fourServers())
		r.start()
		defer r.stop()
		time.Sleep(100 * time.Second)
		synctest.Wait()
		if n := g.requestCount(); n != 4 {
			t.Errorf("%d renders in 100 s though each takes 30 s and the next turn comes within 1 s", n)
		}
	})
}
