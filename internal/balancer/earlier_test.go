package balancer

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// loadsNow prints what a reader of a table has of each server now; what is too
// old is none.
func (t *Table) loadsNow() string {
	var all []string
	for i := range t.Rows {
		r, text := &t.Rows[i], " none"
		if r.Load != nil && r.AgeSeconds != nil && r.Series != "" && r.Timestamp != nil {
			age := time.Duration(*r.AgeSeconds*float64(time.Second)) + time.Since(t.Time)
			if text = fmt.Sprintf(" %g %s", *r.Load, age.Round(time.Second)); r.Earlier {
				text += " earlier"
			}
			if age > t.MaxAge {
				text = " none"
			}
		}
		all = append(all, r.Server+text)
	}
	return strings.Join(all, ", ")
}

// An answer that Graphite has not given does not make data old: readers of the
// table go on with the last load until it is older than max_age. No weight
// comes of it.
func TestLoadsStayWhileTheyCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := newFake("s1", "s2"), newGraphite(map[string]float64{"s1": 300, "s2": 100})
		r := newRig(t, ingest(), g, p)
		r.start()
		defer r.stop()
		time.Sleep(time.Second)
		weights, writes := p.weights(), p.writeCount()
		g.do(func() { g.err = errors.New("no whole answer within 5 s") })
		for pass, want := range []string{
			"s1 300 41s earlier, s2 100 41s earlier", "s1 300 1m11s earlier, s2 100 1m11s earlier",
			"s1 none, s2 none", "s1 none, s2 none",
		} {
			time.Sleep(30 * time.Second)
			synctest.Wait()
			table := r.table(0)
			if diff := cmp.Diff(want, table.loadsNow()); diff != "" {
				t.Errorf("pass %d (-want +got):\n%s", pass, diff)
			}
			age, known := table.DataAge()
			if known != (table.Earlier() == 2) || known && age != time.Duration(40+30*pass)*time.Second {
				t.Errorf("pass %d: age %s, %v; %d earlier", pass, age, known, table.Earlier())
			}
			if table.HoldCode != weighting.HoldStale || table.Fresh != 0 || table.row("s1").reason(weighting.StepMissing) == nil ||
				!strings.Contains(table.Fault, "no whole answer within 5 s") {
				t.Errorf("pass %d: the pass took old loads for new ones: %+v", pass, table)
			}
		}
		if diff := cmp.Diff(weights, p.weights()); diff != "" || p.writeCount() != writes {
			t.Errorf("weights have moved: %s", diff)
		}
		g.do(func() { g.err = nil })
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if got := r.table(0).loadsNow(); got != "s1 300 11s, s2 100 11s" {
			t.Errorf("with data again: %s", got)
		}
	})
}

// The same holds for one server that an answer has no load of.
func TestLoadOfOneServerStays(t *testing.T) {
	now := time.Now()
	for name, points := range map[string][]graphite.Point{
		"absent": nil, "null": nulls(now), "infinity": steady(now, math.Inf(1)), "negative": steady(now, -1),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, g := fourServers(), newGraphite(uneven())
				r := newRig(t, ingest(), g, p)
				r.start()
				defer r.stop()
				time.Sleep(time.Second)
				g.do(func() {
					delete(g.loads, "s1")
					if points != nil {
						moved := steady(time.Now(), points[len(points)-1].Value)
						g.points["s1"] = moved
					}
				})
				time.Sleep(30 * time.Second)
				synctest.Wait()
				table := r.table(0)
				if got := table.loadsNow(); got != "s1 400 41s earlier, s2 100 11s, s3 100 11s, s4 100 11s" {
					t.Errorf("readers have %s", got)
				}
				if age, _ := table.DataAge(); table.Fresh != 3 || table.Mean != 100 || age != 10*time.Second || table.row("s1").reason(weighting.StepMissing) == nil {
					t.Errorf("the pass counts it: %+v", table)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := r.table(0).loadsNow(); !strings.HasPrefix(got, "s1 none, ") {
					t.Errorf("later readers have %s", got)
				}
			})
		})
	}
}

// A zero that is not believed does not count later either.
func TestUnbelievedLoadDoesNotStay(t *testing.T) {
	old := loaded(haproxy.Worker{}, map[string]float64{"s1": 0, "s2": 5})
	old.Rows[0].Reasons = []weighting.Reason{{Step: weighting.StepStuck}}
	p := &plane{backend: &config.Backend{MaxAge: time.Minute}}
	p.table.Store(old)
	next := loaded(haproxy.Worker{}, nil)
	next.Time = at(30)
	p.keepLoads(next)
	if next.row("s1").Load != nil || next.row("s2").Load == nil || *next.row("s2").AgeSeconds != 20 {
		t.Errorf("%+v", next.Rows)
	}
}

// While HAProxy can't be read, loads go on as long as Graphite answers, and
// then until they are too old; a reload of the configuration makes none younger.
func TestLoadsWhileHAProxyIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := newFake("s1", "s2"), newGraphite(map[string]float64{"s1": 300, "s2": 100})
		r := newRig(t, ingest(), g, p)
		r.start()
		time.Sleep(time.Second)
		p.do(func() { p.down = syscall.ECONNREFUSED })
		g.do(func() { g.loads["s1"] = 310 })
		step := func(wait time.Duration, want string) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			if got := r.table(0); got.loadsNow() != want || !got.Unread() {
				t.Errorf("readers have %s, want %s; %s", got.loadsNow(), want, got.Why)
			}
		}
		step(30*time.Second, "s1 310 11s, s2 100 11s")
		g.do(func() { g.err = errors.New("timeout") })
		step(30*time.Second, "s1 310 41s earlier, s2 100 41s earlier")
		for i := range 3 { // 10 s each, so that no pass comes in between
			old := r
			old.stop()
			g.do(func() { g.hung = true })
			r = newRig(t, ingest(), g, p)
			r.balancer.inherit(old.balancer)
			r.start()
			step(10*time.Second, fmt.Sprintf("s1 310 %[1]s earlier, s2 100 %[1]s earlier", time.Duration(51+10*i)*time.Second))
		}
		old := r
		old.stop()
		r = newRig(t, ingest(), g, p)
		r.balancer.inherit(old.balancer)
		time.Sleep(20 * time.Second)
		r.start()
		defer func() { r.stop() }()
		step(time.Second, "s1 none, s2 none")
	})
}

// Loads of another target are no loads of this one.
func TestLoadsOfAnotherTargetDoNotStay(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*config.Backend)
		want   string
	}{
		"the same": {func(b *config.Backend) { b.Weighting.MinWeight = 9 }, "s1 300 12s earlier, s2 100 12s earlier"},
		"target":   {func(b *config.Backend) { b.Target = "sessions.*" }, "s1 none, s2 none"},
		"window":   {func(b *config.Backend) { b.Window = time.Minute }, "s1 none, s2 none"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, g := newFake("s1", "s2"), newGraphite(map[string]float64{"s1": 300, "s2": 100})
				before := newRig(t, ingest(), g, p)
				before.start()
				time.Sleep(time.Second)
				before.stop()
				g.do(func() { g.err = errors.New("timeout") })
				b := ingest()
				c.change(&b)
				r := newRig(t, b, g, p)
				r.balancer.inherit(before.balancer)
				r.start()
				defer r.stop()
				time.Sleep(time.Second)
				synctest.Wait()
				if got := r.table(0).loadsNow(); got != c.want {
					t.Errorf("readers have %s, want %s", got, c.want)
				}
			})
		})
	}
}

// After HAProxy could not be read, the first look at it ends that state for all
// who read the table: also when the same worker answers again, and when Graphite
// keeps the next pass waiting.
func TestTableIsReadAgain(t *testing.T) {
	for name, c := range map[string]struct {
		reload, silent bool
		wait           time.Duration
	}{
		"another worker": {reload: true, wait: 2 * time.Second}, "the same worker": {wait: 20 * time.Second},
		"another worker, and no answer of Graphite": {reload: true, silent: true, wait: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, b := fourServers(), ingest()
				b.MaxAge = 5 * time.Minute
				r := newRig(t, b, newGraphite(uneven()), p)
				r.start()
				defer r.stop()
				time.Sleep(31 * time.Second)
				weights := p.weights()
				p.do(func() { p.broken = syscall.EAGAIN })
				time.Sleep(31 * time.Second)
				r.graphite.do(func() { r.graphite.hung = c.silent })
				time.Sleep(32 * time.Second)
				synctest.Wait()
				if !r.table(0).Unread() {
					t.Fatalf("table %+v", r.table(0))
				}
				p.do(func() {
					p.broken = nil
					p.server("s4").Sessions = 77
					if c.reload {
						p.reloadLocked()
					}
				})
				time.Sleep(c.wait)
				synctest.Wait()
				table := r.table(0)
				if table.Unread() || table.row("s4").Sessions != 77 || table.Worker != p.state.Info.Worker {
					t.Errorf("table %+v", table)
				}
				if table.Passed() == c.silent {
					t.Errorf("verdict %s, %q: %s", table.Verdict, table.HoldCode, table.Why)
				}
				if got := table.loadsNow(); strings.Contains(got, "none") {
					t.Errorf("readers have %s", got)
				}
				if diff := cmp.Diff(weights, p.weights()); diff != "" {
					t.Errorf("weights (-before +now):\n%s", diff)
				}
			})
		})
	}
}

// A HAProxy whose watcher is answered and whose servers can't be read is asked
// again, but more rarely, and each failure is no pass.
func TestReadAgainIsRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		b := ingest()
		b.Interval = 10 * time.Minute
		r := newRig(t, b, newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		time.Sleep(time.Second)
		p.do(func() { p.broken = errRefused })
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		p.do(func() { p.reads = 0 })
		before := r.table(0)
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		if r.table(0) != before {
			t.Errorf("a new table without a pass: %+v", r.table(0))
		}
		p.do(func() {
			if p.reads < 20 || p.reads > 40 {
				t.Errorf("%d reads in nine minutes", p.reads)
			}
		})
	})
}

// A server that comes between two passes, or a backend that comes back, has the
// load that the last answer gave.
func TestNewcomersHaveTheirLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFake("s1", "s2")
		b := ingest()
		b.Interval, b.MaxAge = 10*time.Minute, 20*time.Minute
		r := newRig(t, b, newGraphite(map[string]float64{"s1": 300, "s2": 100, "s3": 7}), p)
		r.start()
		defer r.stop()
		step := func(want string, change func()) {
			t.Helper()
			p.do(func() { change(); p.reloadLocked() })
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if want == "" {
				if tables := r.balancer.Tables(); len(tables) > 0 {
					t.Errorf("tables %+v", tables)
				}
			} else if got := r.table(0).loadsNow(); got != want {
				t.Errorf("readers have %s, want %s", got, want)
			}
		}
		time.Sleep(time.Second)
		step("s1 300 13s, s2 100 13s, s3 7 13s earlier", func() {
			p.state.Servers = append(p.state.Servers, newFake("s3").state.Servers...)
		})
		step("", func() { p.missing = true })
		step("s1 300 17s earlier, s2 100 17s earlier, s3 7 17s earlier", func() { p.missing = false })
		if table := r.table(0); table.HoldCode != HoldStarting {
			t.Errorf("table %+v", table)
		}
	})
}

// mappedRig has a map of loads beside one HAProxy.
func mappedRig(t *testing.T, b config.Backend, g *fakeGraphite, p *fakeHAProxy) (*rig, *fakeMaps) {
	b.Maps = config.Maps{Load: "/load.map"}
	m := &fakeMaps{worker: p.state.Info.Worker}
	r := newRig(t, b, g, p)
	o := r.balancer.options
	o.Logger = slog.New(slog.NewTextHandler(r.log, nil))
	o.Planes[0].Maps = m
	r.balancer = New(o)
	return r, m
}

// The map of loads follows the table: one failed render takes nothing out, too
// high an age does, also between two passes, and a HAProxy that is back after
// it could not be read has its map at once.
func TestMapGoesOnWithLoadsThatCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := newFake("s1", "s2"), newGraphite(map[string]float64{"s1": 300, "s2": 100})
		b := ingest()
		b.Interval, b.MaxAge = 5*time.Minute, 8*time.Minute
		r, m := mappedRig(t, b, g, p)
		r.start()
		defer r.stop()
		step := func(wait time.Duration, want string) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			if got := m.text(); got != want {
				t.Errorf("map %q, want %q", got, want)
			}
		}
		const full = "ingest/s1=300 ingest/s2=100"
		step(time.Second, full)
		g.do(func() { g.err = errors.New("timeout") })
		step(5*time.Minute, full)
		step(2*time.Minute+48*time.Second, full)
		step(3*time.Second, "") // between two passes
		g.do(func() { g.err = nil })
		step(3*time.Minute, full)

		p.do(func() { p.down = syscall.ECONNREFUSED })
		step(5*time.Minute, full)
		p.do(func() { p.down = nil; p.reloadLocked() })
		m.mu.Lock()
		m.worker, m.entries = p.state.Info.Worker, nil
		m.mu.Unlock()
		step(5*time.Second, full)
		r.wantLog(0, "a map can't be kept up to date")
	})
}
