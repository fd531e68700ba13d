package balancer

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/test/logbook"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// fleetOf makes a fleet of rigs with one HAProxy each.
func fleetOf(rigs ...*rig) *Fleet {
	f := &Fleet{}
	for _, r := range rigs {
		f.balancers = append(f.balancers, r.balancer)
		log := slog.New(slog.NewTextHandler(r.log, nil))
		for i, p := range r.planes {
			socket := fmt.Sprintf("unix:/run/%d.sock", i)
			f.watchers = append(f.watchers, &watcher{
				info: p.Info, every: time.Second, log: log, faults: newFaults(log, time.Now).at("", socket),
				seen: func(w haproxy.Worker) { r.balancer.workerSeen(socket, w) },
			})
		}
	}
	return f
}

// run runs a fleet and returns what stops it.
func run(t *testing.T, f *Fleet) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// What a reload of the configuration hands over: the weights that we left are
// known as ours, tables are there at once, nothing is told twice.
func TestInheritGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := fourServers(), newGraphite(uneven())
		before := newRig(t, ingest(), g, p)
		stop := run(t, fleetOf(before))
		time.Sleep(5 * time.Second)
		weights := p.weights()
		g.do(func() { g.err = errRefused })
		time.Sleep(time.Minute)
		before.wantLog(1, "no loads from Graphite")

		next := newRig(t, ingest(), g, p)
		next.log = before.log
		next.balancer = New(Options{
			Backend: ingest(), Renderer: g, Jitter: func() float64 { return 0.5 },
			Logger: slog.New(slog.NewTextHandler(next.log, nil)),
			Planes: []Plane{{Socket: "unix:/run/0.sock", DataPlane: p}},
		})
		old, f := fleetOf(before), fleetOf(next)
		stop()
		if dropped := f.Inherit(old); len(dropped) != 0 {
			t.Errorf("dropped %v", dropped)
		}
		table := next.table(0)
		if table.row("s1").AppliedWeight != weights["s1"] || len(next.balancer.Faults()) != 1 {
			t.Errorf("inherited table %+v, faults %+v", table, next.balancer.Faults())
		}
		// Somebody writes while neither runs: that is found, since what we left
		// is known.
		p.do(func() { p.server("s1").Weight = 55 })
		stop = run(t, f)
		time.Sleep(time.Minute)
		next.wantLog(1, "no loads from Graphite")
		next.wantLog(1, "somebody else has set weights")
		g.do(func() { g.err = nil })
		time.Sleep(time.Minute)
		synctest.Wait()
		next.wantLog(1, "loads from Graphite are back")
		next.wantLog(1, "weights in force") // told once, at the very first start
		if w := p.weights()["s1"]; w == 55 {
			t.Error("the foreign weight stays")
		}
		stop()
	})
}

func TestInheritNamesWhatIsDropped(t *testing.T) {
	other := ingest()
	other.Name = "other"
	old := fleetOf(newRig(t, ingest(), newGraphite(nil)), newRig(t, other, newGraphite(nil)))
	f := fleetOf(newRig(t, ingest(), newGraphite(nil)))
	if dropped := f.Inherit(old); !slices.Equal(dropped, []string{"other"}) {
		t.Errorf("dropped %v", dropped)
	}
}

// The same settings keep the controller; with others a new one knows what the
// old one knew of the loads, unless they mean something else now.
func TestInheritKeepsWhatIsKnownOfTheLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		before := newRig(t, ingest(), newGraphite(uneven()), p)
		stop := run(t, fleetOf(before))
		time.Sleep(5 * time.Second)
		stop()
		known := before.balancer.planes[0].controller
		for _, change := range []struct {
			name       string
			change     func(*config.Backend)
			same, none bool
		}{
			{"nothing", func(*config.Backend) {}, true, false},
			{"deadband", func(b *config.Backend) { b.Weighting.Deadband = 0.06 }, false, false},
			{"function", func(b *config.Backend) { b.FunctionSet, b.Weighting.Function = true, weighting.Feedback }, false, false},
			{"target", func(b *config.Backend) { b.Target = "other.*" }, false, true},
			{"aggregate", func(b *config.Backend) { b.Aggregate = graphite.Max }, false, true},
			{"server_regexp", func(b *config.Backend) { b.ServerRegexp = regexp.MustCompile("(.*)") }, false, true},
		} {
			b := ingest()
			change.change(&b)
			next := newRig(t, b, newGraphite(uneven()), p)
			fleetOf(next).Inherit(fleetOf(before))
			got := next.balancer.planes[0].controller
			if (got == known) != change.same || (got == nil) != change.none {
				t.Errorf("%s has changed: controller %p, that of before is %p", change.name, got, known)
			}
		}
	})
}

// A zero that was not believed is not believed after a reload that changes how
// weights are made, nor after a change of the function, nor by a process that
// has just begun.
func TestADisbelievedZeroOutlivesReloadsAndRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := fourServers(), newGraphite(map[string]float64{"s1": 100, "s2": 100, "s3": 100, "s4": 100})
		p.do(func() {
			for _, s := range []string{"s1", "s2", "s3", "s4"} {
				p.server(s).Sessions = 10
			}
		})
		before := newRig(t, ingest(), g, p)
		stop := run(t, fleetOf(before))
		time.Sleep(time.Minute)
		g.do(func() { g.loads["s1"] = 0 })
		time.Sleep(5 * time.Minute)
		stop()
		fair := func(r *rig) {
			t.Helper()
			row := r.table(0).row("s1")
			if !slices.ContainsFunc(row.Reasons, func(r weighting.Reason) bool { return r.Step == weighting.StepStuck }) || row.Share > 0.26 {
				t.Errorf("share %v: %+v", row.Share, row.Reasons)
			}
		}
		fair(before)
		for _, change := range []func(*config.Backend){
			func(b *config.Backend) { b.Weighting.Deadband = 0.06 },
			func(b *config.Backend) { b.FunctionSet, b.Weighting.Function = true, weighting.LimitedProportions },
			nil, // a restart
		} {
			b := ingest()
			if change != nil {
				change(&b)
			}
			next := newRig(t, b, g, p)
			f := fleetOf(next)
			if change != nil {
				f.Inherit(fleetOf(before))
			}
			stop := run(t, f)
			for range 4 {
				time.Sleep(31 * time.Second)
				synctest.Wait()
				fair(next)
			}
			stop()
			before = next
		}
	})
}

// What was usual of one target says nothing of the next one.
func TestInheritWithAnotherTargetBalancesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		before := newRig(t, ingest(), newGraphite(map[string]float64{"s1": 5e6, "s2": 5e6, "s3": 5e6, "s4": 5e6}), p)
		stop := run(t, fleetOf(before))
		time.Sleep(10 * time.Minute)
		stop()
		b := ingest()
		b.Target = "sessions.*"
		next := newRig(t, b, newGraphite(uneven()), p)
		f := fleetOf(next)
		f.Inherit(fleetOf(before))
		stop = run(t, f)
		time.Sleep(time.Minute)
		stop()
		if table, w := next.table(0), p.weights(); table.Verdict == weighting.Hold || w["s1"] >= w["s2"] {
			t.Errorf("verdict %s, %s, weights %v", table.Verdict, table.Why, w)
		}
	})
}

// Reloads of the configuration make no load young that nobody has renewed.
func TestInheritedLoadsGrowOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := fourServers(), newGraphite(uneven())
		r := newRig(t, ingest(), g, p)
		f := fleetOf(r)
		stop := run(t, f)
		time.Sleep(5 * time.Minute)
		p.do(func() { p.down = errRefused })
		g.do(func() { g.hung = true })
		for range 60 { // 20 minutes
			stop()
			next := newRig(t, ingest(), g, p)
			after := fleetOf(next)
			after.Inherit(f)
			r, f = next, after
			stop = run(t, f)
			time.Sleep(20 * time.Second)
		}
		stop()
		table := r.table(0)
		since := time.Since(table.Time)
		for i := range table.Rows {
			row := &table.Rows[i]
			if row.AgeSeconds != nil && *row.AgeSeconds+since.Seconds() < 20*60 {
				t.Errorf("%s: age %v s, in a table %s old, 20 minutes after the last data", row.Server, *row.AgeSeconds, since)
			}
		}
	})
}

// What is wrong with a map is told once, too, and its end is told.
func TestInheritTellsNoMapFaultTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := fourServers(), newGraphite(uneven())
		m := &fakeMaps{worker: p.state.Info.Worker, err: haproxy.ErrNoMap}
		log := &logbook.Book{}
		fleet := func(maps config.Maps) *Fleet {
			b := ingest()
			b.Maps = maps
			return &Fleet{balancers: []*Balancer{New(Options{
				Backend: b, Renderer: g, Logger: slog.New(slog.NewTextHandler(log, nil)),
				Planes: []Plane{{Socket: "unix:/run/0.sock", DataPlane: p, Maps: m}},
			})}}
		}
		next := func(old *Fleet, maps config.Maps) *Fleet {
			f := fleet(maps)
			if old != nil {
				f.Inherit(old)
			}
			stop := run(t, f)
			time.Sleep(time.Minute)
			stop()
			return f
		}
		want := func(n int, text string) {
			t.Helper()
			if got := log.Count(text); got != n {
				t.Errorf("%d log lines with %q, want %d; log:\n%s", got, text, n, log)
			}
		}
		f := next(next(nil, config.Maps{Load: "/a", Weight: "/b"}), config.Maps{Load: "/a"})
		want(2, "HAProxy has not loaded a map")
		if n := len(f.Faults()); n != 1 {
			t.Errorf("%d faults, want that of the one map that is kept: %+v", n, f.Faults())
		}
		m.mu.Lock()
		m.err = nil
		m.mu.Unlock()
		next(next(f, config.Maps{Load: "/a"}), config.Maps{Load: "/a"})
		want(1, "HAProxy has loaded the map")
		want(1, "map filled")
	})
}

// A restart of this process takes up what the last one left.
func TestRecallPutsWeightsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := fourServers(), newGraphite(uneven())
		before := newRig(t, ingest(), g, p)
		f := fleetOf(before)
		stop := run(t, f)
		time.Sleep(5 * time.Second)
		stop()
		learnt, weights := f.Learnt(), p.weights()
		if len(learnt) != 1 || learnt[0].Weights["s1"] != weights["s1"] {
			t.Fatalf("learnt %+v, weights %v", learnt, weights)
		}
		// HAProxy is reloaded while we are away, and Graphite is gone.
		p.do(p.reloadLocked)
		g.do(func() { g.err = errRefused })

		stale := newRig(t, ingest(), g, p)
		stale.balancer.options.Backend.Mode = config.Observe
		late := fleetOf(stale)
		late.Recall(learnt, time.Now().Add(11*time.Minute), 10*time.Minute, true)
		late.Recall(learnt, time.Now().Add(-time.Hour), 10*time.Minute, true) // from the future
		if stale.balancer.planes[0].memory.known {
			t.Error("something too old, or from the future, was taken up")
		}

		next := newRig(t, ingest(), g, p)
		f = fleetOf(next)
		f.Recall(learnt, time.Now(), 10*time.Minute, true)
		stop = run(t, f)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff(weights, p.weights()); diff != "" {
			t.Errorf("weights (-left +now):\n%s", diff)
		}
		stop()
	})
}

// What was learnt is as old as HAProxy's last answer, and not as the last pass:
// with long intervals a short restart would else lose the weights.
func TestLearntStandsUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ingest()
		b.Interval = time.Hour
		r := newRig(t, b, newGraphite(uneven()), fourServers())
		r.start()
		time.Sleep(40 * time.Minute)
		r.stop()
		if l := r.balancer.planes[0].learnt.Load(); l == nil || time.Since(l.Time) > 2*time.Second {
			t.Errorf("learnt %+v at %s", l, time.Now())
		}
	})
}

func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := fourServers(), newGraphite(uneven())
		r := newRig(t, ingest(), g, p)
		f := fleetOf(r)
		if stuck := f.Stuck(time.Now()); len(stuck) != 0 {
			t.Errorf("stuck before Run: %v", stuck)
		}
		stop := run(t, f)
		for range 100 { // HAProxy and Graphite that hang are no loop that hangs
			time.Sleep(10 * time.Second)
			if stuck := f.Stuck(time.Now()); len(stuck) != 0 {
				t.Fatalf("stuck: %v", stuck)
			}
			p.do(func() { p.hung = true })
			g.do(func() { g.hung = true })
		}
		stop()
		if stuck := f.Stuck(time.Now().Add(10 * time.Minute)); len(stuck) != 2 {
			t.Errorf("stuck %v, want the loop and its plane once they have ended", stuck)
		}
	})
}

// After a good end a weight that is not what we left is somebody else's; after a
// kill it may be our own, set since the file was written.
func TestRecallAfterAKill(t *testing.T) {
	for ended, told := range map[bool]int{true: 1, false: 0} {
		synctest.Test(t, func(t *testing.T) {
			p := fourServers()
			r := newRig(t, ingest(), newGraphite(uneven()), p)
			f := fleetOf(r)
			f.Recall([]Learnt{{
				Backend: "ingest", Socket: "unix:/run/0.sock", Time: time.Now(), Worker: p.state.Info.Worker,
				Weights: map[string]int{"s1": 100, "s2": 50, "s3": 100, "s4": 100},
			}}, time.Now(), time.Minute, ended)
			stop := run(t, f)
			time.Sleep(2 * time.Minute)
			stop()
			r.wantLog(told, "somebody else has set weights")
		})
	}
}
