package balancer

import (
	"errors"
	"math"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

func order(d time.Duration) Order {
	return Order{Reason: "a disk is slow", Author: "alice", Since: time.Now(), Until: time.Now().Add(d)}
}

// try fails the test when an order is refused.
func try(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantShares holds that the shares are those that the weights give.
func wantShares(t *testing.T, table *Table) {
	t.Helper()
	sum := 0
	for i := range table.Rows {
		sum += table.Rows[i].Weight
	}
	for i := range table.Rows {
		if r := &table.Rows[i]; math.Abs(r.Share-float64(r.Weight)/float64(sum)) > 1e-9 {
			t.Errorf("%s has share %g with weight %d of %d", r.Server, r.Share, r.Weight, sum)
		}
	}
}

func TestPinCountsAtOnceAndUntilItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		time.Sleep(5 * time.Second)
		free := p.weights()
		try(t, r.controls.Pin("ingest", "s1", Pin{Order: order(10 * time.Minute), Weight: 7}))
		synctest.Wait()
		if w := p.weights(); w["s1"] != 7 || w["s2"] != free["s2"] {
			t.Errorf("weights %v, want s1 at 7 and the others as before (%v)", w, free)
		}
		wantShares(t, r.table(0))
		row := r.table(0).row("s1")
		if why := row.reason(StepPin); row.Pin == nil || row.Weight != 7 || why == nil || !strings.Contains(why.Text, "alice") || !strings.Contains(why.Text, "a disk is slow") {
			t.Errorf("row %+v does not tell of the pin", row)
		}
		time.Sleep(9 * time.Minute)
		if w := p.weights()["s1"]; w != 7 {
			t.Errorf("weight %d before the pin's time is over", w)
		}
		time.Sleep(2 * time.Minute)
		if w := p.weights(); w["s1"] == 7 || r.table(0).row("s1").Pin != nil {
			t.Errorf("weights %v after the pin's time", w)
		}
		r.wantLog(1, "servers are pinned")
		r.wantLog(1, "servers are no longer pinned")
		r.wantLog(0, "somebody else")
	})
}

// The end of an order is a reason for a pass, however long the interval is.
func TestOrdersEndAtTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := fourServers(), ingest()
		b.Interval = time.Hour
		r := newRig(t, b, newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		time.Sleep(5 * time.Second)
		try(t, r.controls.Pin("ingest", "s1", Pin{Order: order(time.Minute), Weight: 7}))
		try(t, r.controls.Pin("ingest", "s2", Pin{Order: order(2 * time.Minute), Weight: 9}))
		time.Sleep(time.Minute + time.Second)
		if w := p.weights(); w["s1"] == 7 || w["s2"] != 9 || r.table(0).row("s1").Pin != nil {
			t.Errorf("weights %v a second after the end of the pin of s1", w)
		}
		try(t, r.controls.Unpin("ingest", "s2"))
		try(t, r.controls.SetMode("ingest", &ModeOrder{Order: order(time.Minute), Mode: config.Observe}))
		try(t, r.controls.Freeze("ingest", Freeze{Order: order(30 * time.Second)}))
		time.Sleep(31 * time.Second)
		if table := r.table(0); table.Control.Freeze != nil || table.Mode != string(config.Observe) {
			t.Errorf("after the end of the freeze: %+v, mode %s", table.Control, table.Mode)
		}
		time.Sleep(30 * time.Second)
		if table := r.table(0); table.Mode != string(config.Live) {
			t.Errorf("mode %s after its time", table.Mode)
		}
		asked := r.graphite.requestCount()
		time.Sleep(30 * time.Minute)
		if n := r.graphite.requestCount(); n != asked {
			t.Errorf("%d renders while no order ends", n-asked)
		}
	})
}

// A pin is an order, so it counts when there are no loads to weigh by; other
// servers are not moved.
func TestPinCountsWithoutData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := fourServers(), newGraphite(uneven())
		r := newRig(t, ingest(), g, p)
		r.start()
		defer r.stop()
		time.Sleep(5 * time.Second)
		before := p.weights()
		g.do(func() { g.err = errRefused })
		try(t, r.controls.Pin("ingest", "s2", Pin{Order: order(time.Hour), Weight: 200}))
		time.Sleep(time.Minute)
		before["s2"] = 200
		if diff := cmp.Diff(before, p.weights()); diff != "" {
			t.Errorf("weights (-want +got):\n%s", diff)
		}
	})
}

func TestPinNeverBringsAServerBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		p.server("s1").Weight = 0
		p.server("s2").Admin = haproxy.ForcedMaint
		p.server("s3").Op = haproxy.OpStopped
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		for _, s := range []string{"s1", "s2", "s3", "s9"} {
			try(t, r.controls.Pin("ingest", s, Pin{Order: order(time.Hour), Weight: 50}))
		}
		r.start()
		defer r.stop()
		time.Sleep(2 * time.Minute)
		w := p.weights()
		if w["s1"] != 0 || w["s2"] != 100 || w["s3"] != 100 {
			t.Errorf("weights %v: servers out of rotation were touched", w)
		}
		r.wantLog(1, "pins have no effect now")
		p.do(func() { p.server("s3").Op = haproxy.OpRunning })
		time.Sleep(time.Minute)
		if w := p.weights()["s3"]; w != 50 {
			t.Errorf("weight %d of a pinned server that is back, want 50", w)
		}
		r.wantLog(1, `"pins have an effect again" backend=ingest socket=unix:/run/0.sock servers=s3`)
	})
}

func TestPinOutlivesAReloadOfHAProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		try(t, r.controls.Pin("ingest", "s4", Pin{Order: order(time.Hour), Weight: 3}))
		time.Sleep(5 * time.Second)
		p.do(p.reloadLocked)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if w := p.weights()["s4"]; w != 3 {
			t.Errorf("weight %d after the reload, want the pinned 3", w)
		}
	})
}

// A frozen backend is the operator's: nothing is written, hand-set weights stay,
// and a reload of HAProxy gets back what was in force.
func TestFreezeKeepsWhatIsInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := fourServers(), newGraphite(uneven())
		r := newRig(t, ingest(), g, p)
		r.start()
		defer r.stop()
		time.Sleep(5 * time.Second)
		try(t, r.controls.Freeze("ingest", Freeze{order(time.Hour)}))
		try(t, r.controls.Pin("ingest", "s2", Pin{Order: order(time.Hour), Weight: 9}))
		synctest.Wait()
		writes := p.writeCount()
		p.do(func() { p.server("s1").Weight = 111 })
		g.do(func() { g.loads = map[string]float64{"s1": 900, "s2": 10, "s3": 10, "s4": 10} })
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		frozen := p.weights()
		if frozen["s1"] != 111 || p.writeCount() != writes {
			t.Errorf("weights %v, %d writes while frozen", frozen, p.writeCount()-writes)
		}
		table := r.table(0)
		wantShares(t, table)
		if table.Verdict != weighting.Hold || table.HoldCode != HoldFrozen || table.Control.Freeze == nil || table.row("s1").Weight != 111 {
			t.Errorf("table %+v does not tell of the freeze", table)
		}
		p.do(p.reloadLocked)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff(frozen, p.weights()); diff != "" {
			t.Errorf("weights after a reload (-before +after):\n%s", diff)
		}
		r.wantLog(1, "weights are frozen by an operator")
		r.wantLog(0, "somebody else has set")
		if faults := r.balancer.Faults(); len(faults) == 0 || !strings.Contains(faults[0].Cause, "alice") {
			t.Errorf("faults %+v do not tell of the freeze", faults)
		}
		try(t, r.controls.Unfreeze("ingest"))
		time.Sleep(time.Second)
		if w := p.weights(); w["s2"] != 9 || w["s1"] == 111 {
			t.Errorf("weights %v after the freeze: want the pin and new weights in force", w)
		}
		r.wantLog(1, "weights are no longer frozen")
	})
}

func TestModeOrderTakesThePlaceOfTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		try(t, r.controls.SetMode("ingest", &ModeOrder{Order: order(time.Hour), Mode: config.Observe}))
		r.start()
		defer r.stop()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if table := r.table(0); p.writeCount() != 0 || table.Mode != "observe" || table.Control.Mode == nil {
			t.Errorf("%d writes in mode %q", p.writeCount(), table.Mode)
		}
		try(t, r.controls.SetMode("ingest", nil))
		synctest.Wait()
		if p.writeCount() == 0 || r.table(0).Mode != "live" {
			t.Errorf("%d writes, mode %q after the order", p.writeCount(), r.table(0).Mode)
		}
		try(t, r.controls.SetMode("ingest", &ModeOrder{Order: order(time.Minute), Mode: config.Observe}))
		time.Sleep(30 * time.Second)
		if mode := r.table(0).Mode; mode != "observe" {
			t.Errorf("mode %q", mode)
		}
		time.Sleep(2 * time.Minute)
		if mode := r.table(0).Mode; mode != "live" {
			t.Errorf("mode %q after the order's time", mode)
		}
	})
}

func TestOrdersThatAreRefused(t *testing.T) {
	c := NewControls(time.Now, nil)
	for _, weight := range []int{-1, 0, 257} {
		if err := c.Pin("ingest", "s1", Pin{Weight: weight}); err == nil {
			t.Errorf("a pin at %d is taken", weight)
		}
	}
	if all := c.All(); len(all) != 0 {
		t.Errorf("orders %v", all)
	}
}

// An order that changes nothing is told from one that does, and nobody hears of
// it: no write of the state file, no pass.
func TestOrdersThatChangeNothing(t *testing.T) {
	now, heard := time.Unix(1e9, 0), 0
	c := NewControls(func() time.Time { return now }, func(string) { heard++ })
	by := func(reason string, left time.Duration) Order {
		o := Order{Reason: reason, Author: "alice", Since: now}
		if left > 0 {
			o.Until = now.Add(left)
		}
		return o
	}
	pin := func(weight int, o Order) func() error {
		return func() error { return c.Pin("ingest", "s1", Pin{Order: o, Weight: weight}) }
	}
	freeze := func(o Order) func() error { return func() error { return c.Freeze("ingest", Freeze{o}) } }
	mode := func(m config.Mode, o Order) func() error {
		return func() error { return c.SetMode("ingest", &ModeOrder{Order: o, Mode: m}) }
	}
	bob := by("r", time.Hour)
	bob.Author = "bob"
	for _, step := range []struct {
		name  string
		order func() error
		want  string // why there was nothing to do; empty: there was
	}{
		{"unpin", func() error { return c.Unpin("ingest", "s1") }, "ingest/s1 is not pinned"},
		{"unfreeze", func() error { return c.Unfreeze("ingest") }, "ingest is not frozen"},
		{"mode file", func() error { return c.SetMode("ingest", nil) }, "ingest has the mode that the file says"},
		{"pin", pin(7, by("r", time.Hour)), ""},
		{"typed twice", pin(7, by("r", time.Hour+time.Minute)), "ingest/s1 is pinned at 7 already"},
		{"longer", pin(7, by("r", time.Hour+2*time.Minute)), ""},
		{"shorter", pin(7, by("r", time.Minute)), ""},
		{"a little longer, and short", pin(7, by("r", 64*time.Second)), ""},
		{"another weight", pin(8, by("r", 64*time.Second)), ""},
		{"another reason", pin(8, by("s", 64*time.Second)), ""},
		{"an hour", pin(8, by("r", time.Hour)), ""},
		{"another author", pin(8, bob), ""},
		{"freeze", freeze(by("r", time.Hour)), ""},
		{"freeze twice", freeze(by("r", time.Hour)), "ingest is frozen already"},
		{"mode", mode(config.Observe, by("r", 0)), ""},
		{"mode twice", mode(config.Observe, by("r", 0)), "ingest has mode observe by such an order already"},
		{"mode with an end", mode(config.Observe, by("r", time.Hour)), ""},
		{"mode without one", mode(config.Observe, by("r", 0)), ""},
		{"another mode", mode(config.Live, by("r", 0)), ""},
	} {
		before, told := c.Of("ingest"), heard
		err := step.order()
		var nothing *UnchangedError
		switch {
		case step.want == "":
			if err != nil || heard != told+1 {
				t.Errorf("%s: %v, told %d times", step.name, err, heard-told)
			}
		case !errors.As(err, &nothing) || nothing.Why != step.want || heard != told:
			t.Errorf("%s: %v, told %d times", step.name, err, heard-told)
		case !cmp.Equal(before, c.Of("ingest")):
			t.Errorf("%s: the orders have changed: %s", step.name, cmp.Diff(before, c.Of("ingest")))
		}
	}
}

// While HAProxy is gone no pass is made; tables say all the same what is
// ordered now.
func TestOrdersShowWhileHAProxyIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		try(t, r.controls.Pin("ingest", "s1", Pin{Order: order(time.Hour), Weight: 7}))
		time.Sleep(5 * time.Second)
		p.do(func() { p.down = syscall.ECONNREFUSED })
		time.Sleep(time.Minute)
		try(t, r.controls.Unpin("ingest", "s1"))
		try(t, r.controls.Pin("ingest", "s2", Pin{Order: order(time.Hour), Weight: 9}))
		synctest.Wait()
		if table := r.table(0); !table.Unread() || table.row("s1").Pin != nil || table.row("s2").Pin == nil || table.row("s1").AppliedWeight != 7 {
			t.Errorf("%+v", table)
		}
	})
}

func TestRestoreLeavesOutWhatIsOver(t *testing.T) {
	now := time.Unix(1e9, 0)
	c := NewControls(func() time.Time { return now }, nil)
	at := func(d time.Duration) Order { return Order{Until: now.Add(d)} }
	c.Restore(map[string]Control{"ingest": {
		Pins:   map[string]Pin{"s1": {at(time.Second), 5}, "s2": {at(0), 6}, "s3": {Order{}, 7}},
		Freeze: &Freeze{at(-time.Hour)},
	}})
	got := c.Of("ingest")
	if len(got.Pins) != 2 || got.Freeze != nil {
		t.Errorf("%+v", got)
	}
	now = now.Add(time.Minute)
	if got := c.Of("ingest"); len(got.Pins) != 1 || got.Pins["s3"].Weight != 7 {
		t.Errorf("a minute later %+v", got)
	}
}

// An order given while HAProxy hangs counts as soon as it answers again, however
// long the interval is, and so does all that a pass finds.
func TestOrdersCountOnceHAProxyAnswers(t *testing.T) {
	for name, interval := range map[string]time.Duration{"with a load to weigh by": time.Hour, "with one that is too old by then": 30 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, b := fourServers(), ingest()
				b.Interval = interval
				r := newRig(t, b, newGraphite(uneven()), p)
				r.start()
				defer r.stop()
				time.Sleep(5 * time.Second)
				p.do(func() { p.hung = true })
				time.Sleep(time.Minute)
				try(t, r.controls.Pin("ingest", "s1", Pin{Order: order(time.Hour), Weight: 7}))
				time.Sleep(time.Minute)
				asked := r.graphite.requestCount()
				p.do(func() { p.hung = false })
				time.Sleep(15 * time.Second) // what is under way may take its 10 s to time out
				if w := p.weights()["s1"]; w != 7 || r.table(0).Unread() {
					t.Errorf("weight %d, table %+v", w, r.table(0))
				}
				if n := r.graphite.requestCount() - asked; interval == time.Hour && n > 1 {
					t.Errorf("%d renders", n)
				}
				r.wantLog(1, "socket answers again")
			})
		})
	}
}
