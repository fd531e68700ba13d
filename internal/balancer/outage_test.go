package balancer

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// blindness is a time in which no pass can set weights; what may be missing
// after it is missing since then, not since before.
var blindness = map[string]struct{ begin, end func(*rig, *fakeHAProxy) }{
	"HAProxy's socket is busy": {
		func(_ *rig, p *fakeHAProxy) { p.do(func() { p.down = errRefused }) },
		func(_ *rig, p *fakeHAProxy) { p.do(func() { p.down = nil }) },
	},
	"HAProxy hangs": {
		func(_ *rig, p *fakeHAProxy) { p.do(func() { p.hung = true }) },
		func(_ *rig, p *fakeHAProxy) { p.do(func() { p.hung = false }) },
	},
	"the backend is away": {
		func(_ *rig, p *fakeHAProxy) { p.do(func() { p.missing = true }) },
		func(_ *rig, p *fakeHAProxy) { p.do(func() { p.missing = false }) },
	},
	"weights are frozen": {
		func(r *rig, _ *fakeHAProxy) {
			_ = r.controls.Freeze("ingest", Freeze{Order{Author: "ada", Reason: "release"}})
		},
		func(r *rig, _ *fakeHAProxy) { _ = r.controls.Unfreeze("ingest") },
	},
	"mode observe": {
		func(r *rig, _ *fakeHAProxy) {
			_ = r.controls.SetMode("ingest", &ModeOrder{Order: Order{Author: "ada", Reason: "release"}, Mode: config.Observe})
		},
		func(r *rig, _ *fakeHAProxy) { _ = r.controls.SetMode("ingest", nil) },
	},
}

func TestBlindnessUsesUpNoHoldOfAServer(t *testing.T) {
	for name, blind := range blindness {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, g := fourServers(), newGraphite(uneven())
				r := newRig(t, ingest(), g, p)
				r.start()
				defer r.stop()
				time.Sleep(5 * time.Minute)
				before := p.weights()
				blind.begin(r, p)
				time.Sleep(16 * time.Minute) // the hold is three windows, 15 min
				g.do(func() {
					delete(g.loads, "s1")
					g.points["s1"] = nulls(time.Now())
				})
				time.Sleep(time.Minute)
				blind.end(r, p)
				time.Sleep(time.Minute)
				synctest.Wait()
				row := r.table(0).row("s1")
				if w := p.weights()["s1"]; w > before["s1"]+2 || row.Load != nil {
					t.Errorf("s1, the busiest, has had no data for two minutes, load %v, and its weight went from %d to %d: %+v",
						row.Load, before["s1"], w, row.reason(weighting.StepMissing))
				}
			})
		})
	}
}

func TestBlindnessIsNoTimeWithoutData(t *testing.T) {
	for name, blind := range blindness {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, g := fourServers(), newGraphite(uneven())
				b := ingest()
				b.Weighting.OnStale = weighting.StaleInitial // after 10 min
				r := newRig(t, b, g, p)
				r.start()
				defer r.stop()
				time.Sleep(5 * time.Minute)
				before := p.weights()
				blind.begin(r, p)
				time.Sleep(11 * time.Minute)
				g.do(func() { g.err = errRefused })
				time.Sleep(31 * time.Second)
				blind.end(r, p)
				time.Sleep(time.Minute)
				synctest.Wait()
				if diff := cmp.Diff(before, p.weights()); diff != "" {
					t.Errorf("weights changed, though data were missing for a minute or two (-before +after):\n%s", diff)
				}
			})
		})
	}
}

func TestWeightsOfLongAgoAreNotPutBack(t *testing.T) {
	for _, away := range []time.Duration{11 * time.Minute, 12 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			p, g := fourServers(), newGraphite(uneven())
			r := newRig(t, ingest(), g, p)
			r.start()
			defer r.stop()
			time.Sleep(5 * time.Minute)
			p.do(func() { p.missing = true; p.reloadLocked() })
			g.do(func() { g.err = errRefused })
			time.Sleep(away)
			p.do(func() { p.missing = false; p.reloadLocked() })
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			if diff := cmp.Diff(map[string]int{"s1": 100, "s2": 100, "s3": 100, "s4": 100}, p.weights()); diff != "" {
				t.Errorf("back after %s (-haproxy.cfg +now):\n%s", away, diff)
			}
			r.wantLog(1, "too old to be put back")
			r.wantLog(0, "somebody else")
			g.do(func() { g.err = nil })
			time.Sleep(31 * time.Second)
			synctest.Wait()
			if w := p.weights(); w["s1"] >= w["s2"] {
				t.Errorf("weights %v once Graphite is back", w)
			}
		})
	}
}

// Weights that are too old leave those of haproxy.cfg in force no longer than a
// pass takes.
func TestNewWeightsAreThereAtOnceInPlaceOfOldOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		b := ingest()
		b.Interval = 5 * time.Minute
		r := newRig(t, b, newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		time.Sleep(time.Minute)
		p.do(func() { p.missing = true; p.reloadLocked() })
		time.Sleep(time.Hour)
		p.do(func() { p.missing = false; p.reloadLocked() })
		time.Sleep(2 * time.Second) // watch + 1 s
		synctest.Wait()
		if w := p.weights(); w["s1"] >= w["s2"] {
			t.Errorf("weights %v two seconds after the backend came back", w)
		}
	})
}

// Weights are as young as the newest answer of the worker that has them, however
// long ago the last pass was.
func TestWeightsStayYoungWhileTheirWorkerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := fourServers(), newGraphite(uneven())
		b := ingest()
		b.Interval = time.Hour
		r := newRig(t, b, g, p)
		r.start()
		defer r.stop()
		time.Sleep(50 * time.Minute)
		want := p.weights()
		g.do(func() { g.err = errRefused })
		p.do(p.reloadLocked)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff(want, p.weights()); diff != "" || want["s1"] >= want["s2"] {
			t.Errorf("weights (-before the reload +after):\n%s", diff)
		}
	})
}

func TestFrozenWeightsArePutBackHoweverOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		time.Sleep(5 * time.Minute)
		want := p.weights()
		if err := r.controls.Freeze("ingest", Freeze{Order{Author: "ada", Reason: "release"}}); err != nil {
			t.Fatal(err)
		}
		p.do(func() { p.down = errRefused })
		time.Sleep(time.Hour)
		p.do(func() { p.down = nil; p.reloadLocked() })
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff(want, p.weights()); diff != "" {
			t.Errorf("weights (-frozen +now):\n%s", diff)
		}
	})
}

func TestFleetRemembersForMaxAge(t *testing.T) {
	for maxAge, want := range map[time.Duration]time.Duration{0: time.Minute, 30 * time.Minute: 30 * time.Minute} {
		c, err := config.Parse("weighter.toml", []byte(config.Minimal), os.LookupEnv)
		if err != nil {
			t.Fatal(err)
		}
		c.State.MaxAge = maxAge
		f, err := NewFleet(c, FleetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer f.close()
		if got := f.balancers[0].planes[0].remember; got != want {
			t.Errorf("state.max_age %s: weights are put back for %s, want %s", maxAge, got, want)
		}
	}
}

// A server that a reload has found down and that comes up long after gets no
// weight of then.
func TestOwedWeightsOfLongAgoAreNotPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := fourServers(), newGraphite(uneven())
		r := newRig(t, ingest(), g, p)
		r.start()
		defer r.stop()
		time.Sleep(5 * time.Minute)
		g.do(func() { g.err = errRefused })
		p.upLater(time.Hour, "s1")
		time.Sleep(time.Minute)
		synctest.Wait()
		if w := p.weights()["s1"]; w != 100 {
			t.Errorf("s1 has come up an hour after a reload, and is at %d: want the weight of haproxy.cfg", w)
		}
	})
}

// A state file that another hand has made may lack the weights.
func TestRecallWithoutWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		f := fleetOf(r)
		f.Recall([]Learnt{{Backend: "ingest", Socket: "unix:/run/0.sock", Time: time.Now(), Worker: p.state.Info.Worker}},
			time.Now(), time.Minute, true)
		p.before = p.reloadLocked // in the middle of the first write
		stop := run(t, f)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		r.wantLog(0, "panic")
		if w := p.weights(); w["s1"] >= w["s2"] {
			t.Errorf("weights %v", w)
		}
		stop()
	})
}
