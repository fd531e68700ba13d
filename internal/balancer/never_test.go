package balancer

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// uneven is what most tests feed: s1 carries far more than the others.
func uneven() map[string]float64 {
	return map[string]float64{"s1": 400, "s2": 100, "s3": 100, "s4": 100}
}

func fourServers() *fakeHAProxy { return newFake("s1", "s2", "s3", "s4") }

func TestPassWritesAndPublishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ingest(), newGraphite(uneven()), fourServers())
		r.start()
		defer r.stop()
		synctest.Wait()
		got, table := r.planes[0].weights(), r.table(0)
		if got["s1"] >= got["s2"] || got["s1"] == 0 {
			t.Fatalf("s1 carries four times the load and got %v; log:\n%s", got, r.log)
		}
		for name, w := range got {
			row := table.row(name)
			if row.AppliedWeight != w || row.Weight != w || row.Load == nil || row.Sessions != 10 {
				t.Errorf("row %+v does not show weight %d, its load and 10 sessions", *row, w)
			}
		}
		if table.Verdict != weighting.Write || table.Changes == 0 || table.Fresh != 4 || table.Fault != "" ||
			!table.LastChange.Equal(table.Time) || table.Worker.PID != 100 {
			t.Errorf("table %+v", *table)
		}
		r.wantLog(1, "weights in force")
		r.wantLog(1, `weights="s1=100 s2=100 s3=100 s4=100"`)
	})
}

func TestNeverTakesAnythingElseForALoad(t *testing.T) {
	now := time.Now()
	stale := steady(now.Add(-10*time.Minute), 1)
	for name, points := range map[string][]graphite.Point{
		"null":     nulls(now),
		"no point": {},
		"infinity": steady(now, math.Inf(1)),
		"negative": steady(now, -5),
		"stale":    stale,
	} {
		t.Run(name, func(t *testing.T) {
			g := newGraphite(map[string]float64{"s2": 100, "s3": 100, "s4": 110})
			g.points["s1"] = points
			r := newRig(t, ingest(), g, fourServers())
			if _, err := r.balancer.Plan(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantNoLoad(t, r, "s1")
		})
	}
	t.Run("absent", func(t *testing.T) {
		r := newRig(t, ingest(), newGraphite(map[string]float64{"s2": 100, "s3": 100, "s4": 110}), fourServers())
		if _, err := r.balancer.Plan(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantNoLoad(t, r, "s1")
	})
}

func wantNoLoad(t *testing.T, r *rig, server string) {
	t.Helper()
	tables, err := newRig(t, r.balancer.options.Backend, r.graphite, r.planes...).balancer.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	row := tables[0].row(server)
	if row.Load != nil || row.AgeSeconds != nil || row.Share < 0.24 || row.Share > 0.26 {
		t.Errorf("row %+v: want no load, no age and the share that the weight in force gives", *row)
	}
	if tables[0].Fresh != 3 {
		t.Errorf("%d servers fresh, want 3", tables[0].Fresh)
	}
}

func TestNeverTakesAnErrorOrAnEmptyAnswerForALoad(t *testing.T) {
	for name, break_ := range map[string]func(*fakeGraphite){
		"error page": func(g *fakeGraphite) { g.err = errors.New("status 500: an HTML page") },
		"empty list": func(g *fakeGraphite) { g.loads = nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, p := newGraphite(uneven()), fourServers()
				break_(g)
				r := newRig(t, ingest(), g, p)
				r.start()
				defer r.stop()
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if p.writeCount() != 0 {
					t.Errorf("wrote %v", p.writes)
				}
				table := r.table(0)
				if table.Verdict != weighting.Hold || table.Fault == "" || table.Fresh != 0 {
					t.Errorf("verdict %s, fault %q, fresh %d", table.Verdict, table.Fault, table.Fresh)
				}
				r.wantLog(1, "no loads from Graphite")
				g.do(func() { g.err, g.loads = nil, uneven() })
				time.Sleep(time.Minute)
				synctest.Wait()
				r.wantLog(1, "loads from Graphite are back")
				if p.writeCount() == 0 {
					t.Error("nothing written once Graphite was back")
				}
			})
		})
	}
}

func TestNeverRaisesAWeightOfZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		p.server("s2").Weight = 0
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		if w := p.weights()["s2"]; w != 0 {
			t.Fatalf("s2 was at weight 0 and is at %d", w)
		}
		r.wantLog(1, "that is a drain")

		p.do(func() { p.server("s3").Weight = 0 }) // by hand, against a weight of ours
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if w := p.weights()["s3"]; w != 0 {
			t.Fatalf("s3 was set to 0 by hand and is at %d", w)
		}
		r.wantLog(2, "that is a drain")
		r.wantLog(0, "somebody else")

		p.do(func() { p.server("s3").Weight = 50 })
		time.Sleep(time.Minute)
		synctest.Wait()
		r.wantLog(1, "servers are no longer at weight 0")
		r.wantLog(0, "somebody else")
	})
}

func TestNeverRaisesAWeightOfZeroAfterAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		time.Sleep(40 * time.Second)
		p.do(func() {
			p.server("s3").InitialWeight = 0 // the new configuration says so
			p.reloadLocked()
		})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if w := p.weights()["s3"]; w != 0 {
			t.Errorf("s3 has initial weight 0 in the new configuration and is at %d", w)
		}
	})
}

func TestNeverTouchesAServerInMaintOrDrain(t *testing.T) {
	for name, admin := range map[string]haproxy.AdminState{
		"maint by hand": haproxy.ForcedMaint, "maint by the file": haproxy.ConfigMaint | haproxy.ForcedMaint,
		"maint inherited": haproxy.InheritedMaint, "maint by DNS": haproxy.ResolutionMaint,
		"drain": haproxy.ForcedDrain, "drain inherited": haproxy.InheritedDrain,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := fourServers()
				p.server("s1").Admin = admin
				r := newRig(t, ingest(), newGraphite(uneven()), p)
				r.start()
				defer r.stop()
				time.Sleep(5 * time.Minute)
				p.do(p.reloadLocked)
				p.do(func() { p.server("s1").Admin = admin })
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				for _, batch := range p.writes {
					for _, c := range batch {
						if c.Server == "s1" {
							t.Fatalf("wrote %+v", c)
						}
					}
				}
				if row := r.table(0).row("s1"); row.Share != 0 || row.AdminState == "ready" {
					t.Errorf("row %+v", *row)
				}
			})
		})
	}
}

func TestNeverActsBelowQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := fourServers(), newGraphite(map[string]float64{"s1": 400})
		r := newRig(t, ingest(), g, p)
		r.start()
		defer r.stop()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if p.writeCount() != 0 {
			t.Errorf("wrote %v with one server of four fresh", p.writes)
		}
		if table := r.table(0); table.Verdict != weighting.Hold || table.HoldCode == "" || table.Why == "" {
			t.Errorf("verdict %s, code %q, why %q", table.Verdict, table.HoldCode, table.Why)
		}
		r.wantLog(1, "weights are held")
		r.wantLog(1, "servers without usable load")
	})
}

func TestNeverGivesAServerWithoutDataAnExtremeWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := fourServers(), newGraphite(map[string]float64{"s1": 100, "s2": 100, "s3": 100, "s4": 100})
		r := newRig(t, ingest(), g, p)
		r.start()
		defer r.stop()
		synctest.Wait()
		before := r.table(0).row("s2").Share
		g.do(func() { delete(g.loads, "s2") })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if now := r.table(0).row("s2").Share; math.Abs(now-before) > 0.01 {
			t.Errorf("s2 without data went from share %.3f to %.3f at once", before, now)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		share := r.table(0).row("s2").Share
		if share < 0.1 || share > 0.45 {
			t.Errorf("s2 without data has share %.2f, want about the average of four", share)
		}
	})
}

func TestNeverSetsZero(t *testing.T) {
	// The fake panics at a weight of 0, whatever sends it.
	decision := &weighting.Decision{Verdict: weighting.Write, Servers: []weighting.ServerDecision{
		{Name: "s1", Weight: 0}, {Name: "s2", Weight: 257}, {Name: "s3", Weight: -1}, {Name: "s4", Weight: 1},
	}}
	p := fourServers()
	want := []haproxy.Change{{Server: "s4", Weight: 1}}
	if diff := cmp.Diff(want, changesOf(decision, Control{}, p.snapshot())); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestNeverWritesWhenNothingChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		r := newRig(t, ingest(), newGraphite(map[string]float64{"s1": 100, "s2": 100, "s3": 100, "s4": 100}), p)
		r.start()
		defer r.stop()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		first := p.writeCount()
		time.Sleep(8 * time.Minute)
		synctest.Wait()
		if p.writeCount() != first {
			t.Errorf("wrote %v though nothing changed", p.writes[first:])
		}
		for _, batch := range p.writes {
			if len(batch) == 0 {
				t.Error("an empty batch was sent")
			}
		}
	})
}

func TestNeverSendsAWeightThatIsInForce(t *testing.T) {
	state := fourServers().snapshot()
	state.Servers[0].Weight = 42
	want := []haproxy.Change{{Server: "s1", Weight: 100}}
	got := differing(map[string]int{"s1": 100, "s2": 100, "s3": 100, "s4": 100}, state)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestNeverSendsLongLinesToCostlyAlgorithms(t *testing.T) {
	for algorithm, want := range map[string]int{
		"roundrobin": 0, "leastconn": 0, "first": 0, "static-rr": 0, "": 10, "unknown": 10,
		"random": 10, "source": 10, "uri": 10, "hdr": 10, "url_param": 10, "rdp-cookie": 10, "hash": 10,
	} {
		if got := (&haproxy.State{Algorithm: algorithm}).ChangesPerLine(); got != want {
			t.Errorf("balance %q: %d changes a line, want %d", algorithm, got, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		p.state.Algorithm = "random"
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		time.Sleep(10 * time.Second)
		p.do(p.reloadLocked)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]int{10, 10}, p.lines); diff != "" {
			t.Errorf("changes a line of the pass and of the reload (-want +got):\n%s", diff)
		}
	})
}

func TestNeverLeavesHalfAppliedWeightsUnreported(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		halfApplied(t, func(p *fakeHAProxy) { p.refuse = map[string]error{"s1": errRefused} }, "Permission denied")
	})
	t.Run("not kept", func(t *testing.T) {
		halfApplied(t, func(p *fakeHAProxy) { p.ignore = map[string]bool{"s1": true} }, "100 is in force")
	})
}

func halfApplied(t *testing.T, fail func(*fakeHAProxy), words string) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		fail(p)
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		table := r.table(0)
		row := table.row("s1")
		if row.AppliedWeight != 100 || row.Weight == 100 {
			t.Errorf("applied %d, computed %d: want what is in force beside what was wanted", row.AppliedWeight, row.Weight)
		}
		if table.Fault == "" {
			t.Error("the table tells no fault")
		}
		r.wantLog(1, "weights are not all as they were set")
		if r.log.Count(words) == 0 {
			t.Errorf("the log does not have %q:\n%s", words, r.log)
		}
		p.do(func() { p.refuse, p.ignore = nil, nil })
		time.Sleep(time.Minute)
		synctest.Wait()
		r.wantLog(1, "weights are as they were set")
		if table := r.table(0); table.Fault != "" {
			t.Errorf("fault %q is still told", table.Fault)
		}
	})
}

func TestNeverLosesAWriteThatGotNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		lost := &lostAnswers{fakeHAProxy: p}
		r.balancer.planes[0].data = lost
		r.start()
		defer r.stop()
		synctest.Wait()
		table := r.table(0)
		if table.Fault == "" || table.row("s1").AppliedWeight != p.weights()["s1"] {
			t.Errorf("fault %q, applied %d, in force %d", table.Fault, table.row("s1").AppliedWeight, p.weights()["s1"])
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		r.wantLog(0, "somebody else")
	})
}

// TestNeverTakesItsOwnLateWriteForSomebodyElses hangs HAProxy in a write. It
// carries the line out when it goes on, and nobody waits for the answer then.
func TestNeverTakesItsOwnLateWriteForSomebodyElses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		late := &lateWrite{fakeHAProxy: p}
		r.balancer.planes[0].data = late
		r.start()
		defer r.stop()
		time.Sleep(2 * time.Minute)
		p.do(func() {
			p.down = nil
			for _, c := range late.sent {
				p.server(c.Server).Weight = c.Weight
			}
		})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		r.wantLog(0, "somebody else")
		if w := p.weights(); len(late.sent) == 0 || w["s1"] >= w["s2"] {
			t.Errorf("sent %v, weights %v", late.sent, w)
		}
	})
}

// lateWrite does not answer the first write, nor anything after it.
type lateWrite struct {
	*fakeHAProxy
	sent []haproxy.Change
}

func (l *lateWrite) SetWeights(ctx context.Context, backend string, changes []haproxy.Change, perLine int) (*haproxy.Outcome, error) {
	if l.sent != nil {
		return l.fakeHAProxy.SetWeights(ctx, backend, changes, perLine)
	}
	l.do(func() { l.sent, l.down = changes, haproxy.ErrTimeout })
	return nil, haproxy.ErrTimeout
}

// lostAnswers takes weights and never says so.
type lostAnswers struct{ *fakeHAProxy }

func (l *lostAnswers) SetWeights(ctx context.Context, backend string, changes []haproxy.Change, perLine int) (*haproxy.Outcome, error) {
	_, _ = l.fakeHAProxy.SetWeights(ctx, backend, changes, perLine)
	return nil, errors.New("read: i/o timeout")
}
