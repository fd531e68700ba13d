package balancer

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// upLater reloads; servers are found up only after d.
func (f *fakeHAProxy) upLater(d time.Duration, servers ...string) {
	f.do(func() {
		f.reloadLocked()
		for _, name := range servers {
			f.server(name).Op = haproxy.OpStopped
		}
	})
	time.Sleep(d)
	f.do(func() {
		for _, name := range servers {
			f.server(name).Op = haproxy.OpRunning
			f.changed[name] = time.Now()
		}
	})
}

// TestServersThatComeUpAfterAReload are what init-state down, or addresses that
// are resolved late, make of a reload. Their weights come back, with data or
// without, and with data no server counts as one that has just come.
func TestServersThatComeUpAfterAReload(t *testing.T) {
	for name, silent := range map[string]bool{"with data": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, g := fourServers(), newGraphite(map[string]float64{"s1": 400, "s2": 300, "s3": 200, "s4": 100})
				b := ingest()
				b.Weighting.Function = weighting.LimitedProportions
				b.FunctionSet = true
				r := newRig(t, b, g, p)
				r.start()
				defer r.stop()
				time.Sleep(10 * time.Second)
				want := p.weights()
				if want["s1"] >= want["s2"] || want["s4"] != 256 {
					t.Fatalf("weights %v", want)
				}
				g.do(func() {
					if silent {
						g.err = errors.New("refused")
					}
				})
				for range 2 { // one reload before all have come up is followed by another
					p.upLater(500*time.Millisecond, "s2", "s3", "s4")
					p.upLater(10*time.Second, "s2", "s4")
				}
				time.Sleep(2 * time.Second) // watch + 1 s
				synctest.Wait()
				if diff := cmp.Diff(want, p.weights()); diff != "" {
					t.Errorf("weights (-before the reloads +after them):\n%s\nlog:\n%s", diff, r.log)
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if diff := cmp.Diff(want, p.weights()); diff != "" {
					t.Errorf("weights (-before the reloads +passes later):\n%s\nlog:\n%s", diff, r.log)
				}
				r.wantLog(0, "somebody else")
			})
		})
	}
}

// A server that an operator weights before it is up again keeps that weight, as
// far as nothing is known; one that stays down for long is cold when it comes.
func TestOwedWeightsAreForgotten(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	server := func(name string, weight int, op haproxy.OpState) haproxy.Server {
		return haproxy.Server{Name: name, Weight: weight, InitialWeight: 100, Op: op}
	}
	state := &haproxy.State{Servers: []haproxy.Server{
		server("up", 100, haproxy.OpRunning), server("late", 100, haproxy.OpStopped), server("set", 100, haproxy.OpStopped),
		server("gone", 100, haproxy.OpStopped), server("same", 100, haproxy.OpStopped), {Name: "drained", Op: haproxy.OpStopped},
	}}
	var c comeback
	c.expect(map[string]int{"up": 7, "late": 4, "set": 5, "gone": 6, "same": 100, "drained": 9, "other": 8}, state, now)
	if diff := cmp.Diff(map[string]int{"late": 4, "set": 5, "gone": 6}, c.owed); diff != "" {
		t.Errorf("-want +owed:\n%s", diff)
	}
	if due := c.due(state, false); due != nil {
		t.Errorf("due to servers that are down: %v", due)
	}
	state = &haproxy.State{Servers: []haproxy.Server{server("late", 100, haproxy.OpRunning), server("set", 42, haproxy.OpRunning)}}
	if diff := cmp.Diff([]haproxy.Change{{Server: "late", Weight: 4}}, c.due(state, false)); diff != "" {
		t.Errorf("-want +due:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"late": 4}, c.owed); diff != "" {
		t.Errorf("-want +owed in the end:\n%s", diff)
	}
	if due := c.due(state, true); due != nil || len(c.owed) != 0 {
		t.Errorf("due %v, owed %v, long after", due, c.owed)
	}
	c.owed = map[string]int{"late": 4}
	if !c.hurried(now.Add(settling-1)) || c.hurried(now.Add(settling)) {
		t.Error("servers are to be looked for in the first minute, and no longer")
	}
}

// Weights from other limits, and from haproxy.cfg, are brought within today's
// limits when they are put back; pins and frozen weights stay as they are.
func TestWeightsPutBackAreWithinTheLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := fourServers(), newGraphite(uneven())
		p.do(func() {
			for i := range p.state.Servers {
				p.state.Servers[i].Weight, p.state.Servers[i].InitialWeight = 1, 1
			}
		})
		g.do(func() { g.err = errors.New("refused") })
		r := newRig(t, ingest(), g, p)
		r.start()
		defer r.stop()
		time.Sleep(10 * time.Second)
		p.do(func() {
			for i := range p.state.Servers {
				p.state.Servers[i].InitialWeight = 100
			}
			p.reloadLocked()
		})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		least := ingest().Weighting.MinWeight
		if diff := cmp.Diff(map[string]int{"s1": least, "s2": least, "s3": least, "s4": least}, p.weights()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		order := Order{Reason: "r", Author: "a", Since: time.Now(), Until: time.Now().Add(time.Hour)}
		if err := r.controls.Pin("ingest", "s1", Pin{Order: order, Weight: 2}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		p.do(p.reloadLocked)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := p.weights(); got["s1"] != 2 || got["s2"] != least {
			t.Errorf("with a pin: %v", got)
		}
		if err := r.controls.Freeze("ingest", Freeze{Order: order}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		p.do(func() { p.server("s3").Weight = 3 })
		time.Sleep(time.Minute)
		p.do(p.reloadLocked)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := p.weights(); got["s3"] != 3 {
			t.Errorf("with a freeze: %v", got)
		}
	})
}
