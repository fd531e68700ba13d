package balancer

import (
	"context"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

func TestReloadPutsWeightsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		time.Sleep(10 * time.Second)
		want := p.weights()
		for range 3 {
			p.do(p.reloadLocked)
			time.Sleep(2 * time.Second) // watch + 1 s
			synctest.Wait()
			if diff := cmp.Diff(want, p.weights()); diff != "" {
				t.Fatalf("weights (-before the reload +after):\n%s", diff)
			}
		}
		if table := r.table(0); table.Worker.PID != 103 || table.row("s1").AppliedWeight != want["s1"] {
			t.Errorf("table is of worker %d with weight %d", table.Worker.PID, table.row("s1").AppliedWeight)
		}
		r.wantLog(3, "HAProxy has a new worker")
		r.wantLog(0, "somebody else")
	})
}

func TestReloadInObserveModeWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ingest()
		b.Mode = config.Observe
		p := fourServers()
		r := newRig(t, b, newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		time.Sleep(time.Minute)
		p.do(func() { p.server("s1").Weight = 7 })
		time.Sleep(time.Minute)
		p.do(p.reloadLocked)
		time.Sleep(time.Minute)
		synctest.Wait()
		if p.writeCount() != 0 {
			t.Errorf("wrote %v in observe mode", p.writes)
		}
		table := r.table(0)
		if row := table.row("s1"); table.Mode != "observe" || row.Weight >= 100 || row.AppliedWeight != 100 {
			t.Errorf("mode %q, row %+v: want the computed weight beside the one in force", table.Mode, *row)
		}
		r.wantLog(0, "somebody else")
	})
}

func TestReloadWithOtherServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		time.Sleep(10 * time.Second)
		want := p.weights()
		p.do(func() {
			p.state.Servers = append(p.state.Servers[:3:3], haproxy.Server{Name: "s5", Op: haproxy.OpRunning, InitialWeight: 50})
			p.reloadLocked()
		})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		delete(want, "s4")
		want["s5"] = 50
		if diff := cmp.Diff(want, p.weights()); diff != "" {
			t.Errorf("weights (-want +got):\n%s", diff)
		}
		var names []string
		for _, row := range r.table(0).Rows {
			names = append(names, row.Server)
		}
		if diff := cmp.Diff([]string{"s1", "s2", "s3", "s5"}, names); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
	})
}

func TestReloadBetweenReadAndWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		p.before = p.reloadLocked
		r.start()
		defer r.stop()
		synctest.Wait()
		table := r.table(0)
		if table.Worker.PID != 101 {
			t.Errorf("table is of worker %d, want the new one, 101", table.Worker.PID)
		}
		for name, w := range p.weights() {
			if row := table.row(name); row.Weight != w || row.AppliedWeight != w {
				t.Errorf("%s: %d in force, row %+v", name, w, *row)
			}
		}
		r.wantLog(0, "somebody else")
	})
}

func TestRestartOfHAProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		time.Sleep(10 * time.Second)
		want := p.weights()
		p.do(func() { p.down = syscall.ECONNREFUSED })
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		table := r.table(0)
		if table.HoldCode != "haproxy" || table.row("s1").Load == nil || time.Since(table.Time) > 31*time.Second {
			t.Errorf("hold %q, load %v, %s old: want the newest loads though HAProxy is gone",
				table.HoldCode, table.row("s1").Load, time.Since(table.Time))
		}
		p.do(func() { p.down = nil; p.reloadLocked() })
		time.Sleep(2 * time.Second) // watch + 1 s
		synctest.Wait()
		if diff := cmp.Diff(want, p.weights()); diff != "" {
			t.Errorf("weights (-before the restart +after):\n%s", diff)
		}
		r.wantLog(1, "socket does not answer")
		r.wantLog(1, "socket answers again")
	})
}

func TestStartBeforeHAProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		p.down = syscall.ENOENT
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		time.Sleep(100 * time.Second)
		p.do(func() { p.down = nil })
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if p.writeCount() == 0 {
			t.Errorf("no weights 2 s after HAProxy came up; log:\n%s", r.log)
		}
		r.wantLog(1, "weights in force")
		r.wantLog(1, "HAProxy can't be read")
	})
}

func TestForeignWriteIsToldThenTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		time.Sleep(10 * time.Second)
		before := p.weights()["s2"]
		p.do(func() { p.server("s2").Weight = 13 })
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if now := p.weights()["s2"]; now == 13 {
			t.Errorf("s2 is still at 13, was %d", before)
		}
		reason := r.table(0).row("s2").reason("foreign-write")
		if reason == nil || reason.After != 13 || reason.Before != float64(before) {
			t.Errorf("reason %+v, want foreign-write from %d to 13", reason, before)
		}
		r.wantLog(1, "somebody else has set weights")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		r.wantLog(1, "nobody else sets weights any more")
		if r.table(0).row("s2").reason("foreign-write") != nil {
			t.Error("the reason stays though nobody writes any more")
		}
	})
}

// Taking back is no step of ours: max_step does not slow it down.
func TestForeignWriteIsTakenBackAtOnceWhateverMaxStep(t *testing.T) {
	for _, set := range []int{1, 256} {
		synctest.Test(t, func(t *testing.T) {
			p := fourServers()
			b := ingest()
			b.Weighting.MaxStep = 0.1
			r := newRig(t, b, newGraphite(map[string]float64{"s1": 100, "s2": 100, "s3": 100, "s4": 100}), p)
			r.start()
			defer r.stop()
			time.Sleep(5 * time.Minute)
			p.do(func() { p.server("s1").Weight = set })
			time.Sleep(31 * time.Second)
			synctest.Wait()
			if w := p.weights(); w["s1"] != w["s2"] || w["s1"] < 90 {
				t.Errorf("somebody has set %d, and a pass later weights are %v", set, w)
			}
			r.wantLog(1, "somebody else has set weights")
		})
	}
}

func TestForeignWriterThatNeverStopsIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		p.server("s2").Agent = "L7OK"
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		for range 20 {
			time.Sleep(30 * time.Second)
			p.do(func() { p.server("s2").Weight = 77 })
		}
		synctest.Wait()
		r.wantLog(1, "somebody else has set weights")
		r.wantLog(1, "agent-check")
	})
}

func TestForeignWriteDuringHoldIsTakenBackLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := fourServers(), newGraphite(uneven())
		r := newRig(t, ingest(), g, p)
		r.start()
		defer r.stop()
		time.Sleep(10 * time.Second)
		g.do(func() { g.err = syscall.ECONNREFUSED })
		p.do(func() { p.server("s2").Weight = 13 })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if table := r.table(0); table.Verdict == weighting.Hold && table.row("s2").reason("foreign-write") == nil {
			t.Error("the row does not tell the foreign write while the pass holds")
		}
		g.do(func() { g.err = nil })
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if now := p.weights()["s2"]; now == 13 {
			t.Error("s2 is still at 13")
		}
		r.wantLog(1, "somebody else has set weights")
	})
}

func TestForeignWriteInsideTheDeadbandIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		want := p.weights()
		p.do(func() { p.server("s2").Weight-- })
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff(want, p.weights()); diff != "" {
			t.Errorf("weights (-ours +a pass later):\n%s", diff)
		}
	})
}

func TestReloadOnASocketThatMayNotSetWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		r.balancer.planes[0].data = &readOnlySocket{p}
		r.start()
		defer r.stop()
		time.Sleep(time.Minute)
		p.do(func() { p.server("s2").InitialWeight = 50; p.reloadLocked() })
		time.Sleep(time.Minute)
		synctest.Wait()
		table := r.table(0)
		if table.Worker.PID != 101 || table.HoldCode == "haproxy" || table.row("s2").AppliedWeight != 50 {
			t.Errorf("table of worker %d, hold code %q, s2 at %d: want the new worker's, for it can be read",
				table.Worker.PID, table.HoldCode, table.row("s2").AppliedWeight)
		}
		r.wantLog(1, "weights are not all as they were set")
		r.wantLog(1, "HAProxy has a new worker")
	})
}

// readOnlySocket has a level below admin.
type readOnlySocket struct{ *fakeHAProxy }

func (readOnlySocket) SetWeights(context.Context, string, []haproxy.Change, int) (*haproxy.Outcome, error) {
	return nil, haproxy.ErrPermission
}

func TestStaticAlgorithmIsToldOnceUntilTheNextWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		p.state.Algorithm = "source"
		p.refuse = map[string]error{"s1": haproxy.ErrStaticAlgorithm, "s2": haproxy.ErrStaticAlgorithm, "s3": haproxy.ErrStaticAlgorithm, "s4": haproxy.ErrStaticAlgorithm}
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := p.writeCount(); n != 1 {
			t.Errorf("%d batches sent to a backend that refuses weights", n)
		}
		r.wantLog(1, "HAProxy refuses weights")
		r.wantLog(1, "balance source is static here")
		r.wantLog(1, "hash-type consistent")
		r.wantLog(0, "somebody else")
		if r.table(0).Fault == "" {
			t.Error("the table tells no fault")
		}
		p.do(func() { p.refuse = nil; p.reloadLocked() })
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if w := p.weights(); w["s1"] >= w["s2"] {
			t.Errorf("weights %v after the reload with an algorithm that takes them", w)
		}
	})
}

func TestFunctionFollowsTheAlgorithm(t *testing.T) {
	for algorithm, want := range map[string]weighting.Function{
		"roundrobin": weighting.WaterFill, "leastconn": weighting.Feedback, "": weighting.WaterFill,
	} {
		p := fourServers()
		p.state.Algorithm = algorithm
		tables, err := newRig(t, ingest(), newGraphite(uneven()), p).balancer.Plan(t.Context())
		if err != nil || len(tables) != 1 {
			t.Fatalf("%d tables, error %v", len(tables), err)
		}
		if got := tables[0].Function; got != want {
			t.Errorf("balance %q: function %s, want %s", algorithm, got, want)
		}
	}
	named := ingest()
	named.FunctionSet, named.Weighting.Function = true, weighting.LimitedProportions
	p := fourServers()
	p.state.Algorithm = "leastconn"
	tables, err := newRig(t, named, newGraphite(uneven()), p).balancer.Plan(t.Context())
	if err != nil || tables[0].Function != weighting.LimitedProportions {
		t.Errorf("function %s, error %v: want the one that the file names", tables[0].Function, err)
	}
}

func TestBackendThatNoHAProxyHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := fourServers(), fourServers()
		one.missing, two.missing = true, true
		r := newRig(t, ingest(), newGraphite(uneven()), one, two)
		r.start()
		defer r.stop()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		r.wantLog(1, "backend not found")
		if n := len(r.balancer.Tables()); n != 0 {
			t.Errorf("%d tables", n)
		}
		two.do(func() { two.missing = false; two.reloadLocked() })
		time.Sleep(35 * time.Second)
		synctest.Wait()
		r.wantLog(1, "backend found")
		if n := len(r.balancer.Tables()); n != 1 || two.writeCount() == 0 {
			t.Errorf("%d tables, %d writes once a HAProxy has the backend", n, two.writeCount())
		}
	})
}

func TestBackendMissingOnANamedSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ingest()
		b.Sockets = []haproxy.Address{{Kind: "unix", Path: "/run/0.sock"}, {Kind: "unix", Path: "/run/1.sock"}}
		one, two := fourServers(), fourServers()
		two.missing = true
		r := newRig(t, b, newGraphite(uneven()), one, two)
		r.start()
		defer r.stop()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		r.wantLog(1, "backend not found on a socket")
		if reads := two.reads; reads > 15 {
			t.Errorf("%d reads in five minutes of a HAProxy without the backend", reads)
		}
	})
}
