package balancer

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
)

// newLooking is a rig with an interval of an hour whose planes look every second.
func newLooking(t *testing.T, planes ...*fakeHAProxy) *rig {
	b := ingest()
	b.Interval = time.Hour
	r := newRig(t, b, newGraphite(map[string]float64{"s1": 100, "s2": 200, "s3": 300}), planes...)
	for _, p := range r.balancer.planes {
		p.sighting = newSighting(time.Second)
	}
	return r
}

// TestLooksBetweenPasses: what an operator does to a server is in the table
// within two looks, and nothing else comes of it.
func TestLooksBetweenPasses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*haproxy.State)
		names  bool
	}{
		"drain":    {func(s *haproxy.State) { s.Servers[0].Admin = haproxy.ForcedDrain }, false},
		"maint":    {func(s *haproxy.State) { s.Servers[0].Admin, s.Servers[0].Op = haproxy.ForcedMaint, haproxy.OpStopped }, false},
		"weight 0": {func(s *haproxy.State) { s.Servers[0].Weight = 0 }, false},
		"down":     {func(s *haproxy.State) { s.Servers[0].Op = haproxy.OpStopped }, false},
		"deleted":  {func(s *haproxy.State) { s.Servers = s.Servers[1:] }, false},
		"nothing":  {func(*haproxy.State) {}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake("s1", "s2", "s3")
				r := newLooking(t, f)
				r.start()
				defer r.stop()
				time.Sleep(10*time.Second + time.Millisecond)
				before, lines, writes := r.table(0), r.log.String(), f.writeCount()
				if !before.row("s1").InRotation() || !before.Passed() {
					t.Fatalf("table %+v", before)
				}
				f.do(func() { c.change(&f.state) })
				time.Sleep(2 * time.Second)
				after := r.table(0)
				if got := after.row("s1").InRotation(); got != c.names {
					t.Errorf("in rotation: %t", got)
				}
				if c.names && after != before {
					t.Error("a table is published in which nothing has changed")
				}
				if after.Time != before.Time || after.Verdict != before.Verdict || after.Why != before.Why {
					t.Errorf("a look decides: %+v", after)
				}
				if r.log.String() != lines || f.writeCount() != writes || r.graphite.requestCount() != 1 {
					t.Errorf("%d writes, %d renders; log:\n%s", f.writeCount(), r.graphite.requestCount(), r.log)
				}
			})
		})
	}
}

// TestLooksSwallowNoForeignWrite: a look shows a weight that somebody else has
// set, and the pass finds and takes it back.
func TestLooksSwallowNoForeignWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("s1", "s2", "s3")
		r := newLooking(t, f)
		r.start()
		defer r.stop()
		time.Sleep(10 * time.Second)
		ours := f.weights()["s1"]
		f.do(func() { f.server("s1").Weight = 7 })
		time.Sleep(10 * time.Second)
		if got := r.table(0).row("s1").AppliedWeight; got != 7 {
			t.Fatalf("the looks show weight %d", got)
		}
		r.wantLog(0, "somebody else")
		r.balancer.Wake()
		time.Sleep(time.Second)
		if got := f.weights()["s1"]; got != ours || r.table(0).Foreign != 1 {
			t.Errorf("weight %d after the pass, %d of ours before; table %+v", got, ours, r.table(0))
		}
	})
}

// TestLooksAreBearable: a HAProxy with many servers is looked at more seldom,
// and one whose tables name no server for anyone not at all.
func TestLooksAreBearable(t *testing.T) {
	for name, c := range map[string]struct {
		looks       time.Duration
		servers     int
		least, most int // reads in a minute
	}{
		"few servers":    {time.Second, 3, 45, 62},
		"2,000 servers":  {time.Second, 2000, 14, 17},
		"many backends":  {10 * time.Second, 3, 6, 9},
		"nobody is told": {0, 3, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var names []string
				for i := range c.servers {
					names = append(names, "s"+string(rune('a'+i%26))+time.Duration(i).String())
				}
				f := newFake(names...)
				r := newLooking(t, f)
				r.balancer.planes[0].sighting = newSighting(c.looks)
				r.start()
				defer r.stop()
				time.Sleep(time.Minute)
				f.mu.Lock()
				defer f.mu.Unlock()
				if f.reads < c.least || f.reads > c.most {
					t.Errorf("%d reads in a minute, want %d to %d", f.reads, c.least, c.most)
				}
			})
		})
	}
}

// TestLookThatFails: the table says so, once, and is seen no more after a while;
// it is seen again with the first read.
func TestLookThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("s1", "s2", "s3")
		r := newLooking(t, f)
		r.start()
		defer r.stop()
		time.Sleep(10 * time.Second)
		f.do(func() { f.broken = errors.New("no servers today") })
		time.Sleep(3 * time.Second)
		if tbl := r.table(0); !tbl.Unread() || !tbl.Seen(time.Now()) {
			t.Errorf("unread %t, seen %t", tbl.Unread(), tbl.Seen(time.Now()))
		}
		time.Sleep(time.Minute)
		if r.table(0).Seen(time.Now()) {
			t.Error("it counts as seen")
		}
		r.wantLog(1, "HAProxy can't be read")
		f.do(func() { f.broken = nil })
		time.Sleep(20 * time.Second)
		if tbl := r.table(0); tbl.Unread() || !tbl.Seen(time.Now()) {
			t.Errorf("afterwards: unread %t, seen %t", tbl.Unread(), tbl.Seen(time.Now()))
		}
		r.wantLog(1, "HAProxy can be read again")
	})
}

// TestSocketGoneIsUnseen: nobody comes to look when the watcher gets no answer,
// and then the table is seen no more though no pass has failed yet.
func TestSocketGoneIsUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("s1", "s2", "s3")
		r := newLooking(t, f)
		r.start()
		defer r.stop()
		time.Sleep(10 * time.Second)
		f.do(func() { f.down = errRefused })
		time.Sleep(8 * time.Second)
		if !r.table(0).Seen(time.Now()) {
			t.Error("unseen too soon")
		}
		time.Sleep(4 * time.Second)
		if r.table(0).Seen(time.Now()) {
			t.Error("it counts as seen")
		}
	})
}

func TestSeen(t *testing.T) {
	begin := time.Unix(1_800_000_000, 0)
	for name, c := range map[string]struct {
		every   time.Duration
		servers int
		want    time.Duration // seen until; 0: for ever
	}{
		"nobody looks":  {0, 3, 0},
		"each second":   {time.Second, 3, 10 * time.Second},
		"each minute":   {time.Minute, 3, 3 * time.Minute},
		"2,000 servers": {time.Second, 2000, 12 * time.Second},
	} {
		table := &Table{Sighting: newSighting(c.every), Rows: make([]Row, c.servers)}
		if c.want > 0 && table.Seen(begin) {
			t.Errorf("%s: seen before anyone has looked", name)
		}
		table.Sighting.Note(begin)
		if !table.Seen(begin.Add(c.want)) {
			t.Errorf("%s: not seen after %s", name, c.want)
		}
		if got := table.Seen(begin.Add(c.want + time.Hour)); got != (c.want == 0) {
			t.Errorf("%s: seen after an hour more: %t", name, got)
		}
	}
}

func TestLooksOf(t *testing.T) {
	for _, c := range []struct {
		watch    time.Duration
		backends int
		want     time.Duration
	}{
		{100 * time.Millisecond, 1, time.Second}, {time.Second, 50, time.Second},
		{time.Minute, 1, time.Minute}, {time.Second, 500, 10 * time.Second},
	} {
		if got := looksOf(&config.Config{HAProxy: config.HAProxy{Watch: c.watch}, Backends: make([]config.Backend, c.backends)}); got != c.want {
			t.Errorf("watch %s, %d backends: %s, want %s", c.watch, c.backends, got, c.want)
		}
	}
}
