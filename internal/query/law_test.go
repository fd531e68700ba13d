package query

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/negasus/haproxy-spoe-go/action"
	"github.com/negasus/haproxy-spoe-go/message"
	"pgregory.net/rapid"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/spoa"
)

// anyRow draws a row of whatever kind.
func anyRow(t *rapid.T, name string) balancer.Row {
	r := row(name, rapid.OneOf(rapid.Float64Range(0, 1e290), rapid.Float64Range(0, 1000), rapid.Just(0.0)).Draw(t, "load"), rapid.IntRange(0, 256).Draw(t, "weight"))
	r.Capacity = rapid.OneOf(rapid.Just(1.0), rapid.Float64Range(1e-9, 1e6), rapid.Just(0.0), rapid.Just(math.Inf(1))).Draw(t, "capacity")
	r.AdminState = rapid.SampledFrom([]string{"ready", "ready", "ready", "maint", "drain"}).Draw(t, "admin")
	r.OpState = rapid.SampledFrom([]string{"running", "running", "starting", "stopped", "stopping", "op(9)"}).Draw(t, "op")
	r.Backup = rapid.IntRange(0, 5).Draw(t, "backup") == 0
	if rapid.IntRange(0, 3).Draw(t, "silent") == 0 {
		silent(&r)
	} else {
		aged(rapid.Float64Range(-10, 200).Draw(t, "age"))(&r)
	}
	return r
}

func anyTable(t *rapid.T) *balancer.Table {
	var rows []balancer.Row
	for i := range rapid.IntRange(0, 8).Draw(t, "servers") {
		rows = append(rows, anyRow(t, fmt.Sprintf("s%d", i)))
	}
	return table(rows...)
}

// TestUrnIsExact goes through every number that can be drawn: each server
// comes out as often as its weight says, and no other.
func TestUrnIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := anyTable(t).Rows
		u := newUrn(rows, nil)
		n := uint64(0)
		for i := range rows {
			if rows[i].InRotation() {
				n++
			}
		}
		limit := n * u.total
		count := make(map[any]uint64)
		for drawn := range limit {
			count[u.draw(func(most uint64) uint64 {
				if most != limit {
					t.Fatalf("drawn from %d, not %d", most, limit)
				}
				return drawn
			})]++
		}
		for i := range rows {
			want := uint64(0)
			if rows[i].InRotation() {
				want = n * uint64(rows[i].AppliedWeight)
			}
			if got := count[rows[i].Server]; got != want {
				t.Fatalf("%s with weight %d of %d comes %d times of %d, want %d", rows[i].Server, rows[i].AppliedWeight, u.total, got, limit, want)
			}
		}
		if limit == 0 && u.draw(func(uint64) uint64 { panic("nothing to draw from") }) != nil {
			t.Fatal("drawn from nothing")
		}
	})
}

// values are variables by name.
func values(answer action.Actions) map[string]any {
	all := make(map[string]any)
	for _, a := range answer {
		all[a.Name] = a.Value
	}
	return all
}

func ask(t *rapid.T, h *Handler, m *message.Message) map[string]any {
	var answer action.Actions
	if err := h.ServeSPOE(&answer, &spoa.Request{Messages: message.Messages{m}}); err != nil {
		t.Fatal(err)
	}
	got := values(answer)
	if len(got) != len(answer) {
		t.Fatalf("a variable is set twice: %v", answer)
	}
	for name, value := range got {
		if n, ok := value.(int64); ok && n < 0 {
			t.Fatalf("%s = %d", name, n)
		}
	}
	return got
}

// TestLaws hold for any table at any time.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tables := []*balancer.Table{anyTable(t), anyTable(t)}
		now := begin.Add(time.Duration(rapid.IntRange(-5, 100).Draw(t, "seconds")) * time.Second)
		higher := rapid.Bool().Draw(t, "higher")
		h := New(Options{Now: func() time.Time { return now }, Sources: []Source{{
			Backend: "in", MaxAge: time.Minute, Quorum: rapid.Float64Range(0, 1).Draw(t, "quorum"), HigherIsBetter: higher,
			Tables: func() []*balancer.Table { return tables[:1] },
		}}})
		rows := tables[0].Rows
		backend := ask(t, h, asked("weighter-backend", "backend", "in"))
		rotating, shares := map[any]bool{}, int64(0)
		for i := range rows {
			r := &rows[i]
			s := ask(t, h, asked("weighter-server", "backend", "in", "server", r.Server))
			shares += s["share"].(int64)
			rotating[r.Server] = r.InRotation()
			fresh := r.Load != nil && time.Duration(*r.AgeSeconds*float64(time.Second))+now.Sub(begin) <= time.Minute
			if s["fresh"] != fresh {
				t.Fatalf("%s: fresh %v, want %v", r.Server, s["fresh"], fresh)
			}
			if _, there := s["load"]; there != fresh {
				t.Fatalf("%s: load %v, fresh %v", r.Server, s["load"], fresh)
			}
			if r.InRotation() && fresh && backend["fresh"] == true && s["load"].(int64) > backend["load_max"].(int64) {
				t.Fatalf("%s: load %d above load_max %d", r.Server, s["load"], backend["load_max"])
			}
		}
		if shares > 0 && (shares < 1000-8 || shares > 1000+8) {
			t.Fatalf("shares sum to %d", shares)
		}
		for _, name := range []string{"best", "worst"} {
			if server, there := backend[name]; there && !rotating[server] || there != (backend["fresh"] == true) {
				t.Fatalf("%s is %v, fresh %v", name, server, backend["fresh"])
			}
		}
		if mean, there := backend["load_mean"]; there && mean.(int64)-1 > backend["load_max"].(int64) {
			t.Fatalf("mean %d, max %d", mean, backend["load_max"])
		}
		if im, there := backend["imbalance"]; there && im.(int64) < 999 {
			t.Fatalf("imbalance %d", im)
		}
		if server, there := ask(t, h, asked("weighter-pick", "backend", "in"))["server"]; there != (shares > 0) || there && !rotating[server] {
			t.Fatalf("picked %v", server)
		}
		// With another table before it, the ages of what it has are the same.
		tables[0], tables[1] = tables[1], tables[0]
		h.Refresh("in")
		tables[0], tables[1] = tables[1], tables[0]
		h.Refresh("in")
		again := ask(t, h, asked("weighter-backend", "backend", "in"))
		delete(again, "age_ms")
		delete(backend, "age_ms")
		if fmt.Sprint(again) != fmt.Sprint(backend) {
			t.Fatalf("before %v, after another table %v", backend, again)
		}
	})
}

// TestNoAnswerFails: whatever is asked, the process and the frame survive.
func TestNoAnswerFails(t *testing.T) {
	d := newDesk(t, map[string][]*balancer.Table{"in": {mixed()}})
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Just[any]("in"), rapid.Just[any]("s1"), rapid.Map(rapid.String(), func(s string) any { return s }),
			rapid.Just[any](nil), rapid.Just[any](int64(-1)), rapid.Just[any](true), rapid.Just[any]([]byte{0}))
		m := asked(rapid.SampledFrom([]string{"weighter-backend", "weighter-server", "weighter-pick.x", "weighter-choose", "weighter-", "."}).Draw(t, "name"))
		for _, name := range []string{"backend", "server", "backends", "as"} {
			if rapid.Bool().Draw(t, name) {
				m.KV.Add(name, value.Draw(t, "value"))
			}
		}
		ask(t, d.Handler, m)
	})
}

// allocations of one frame with each of the four messages, for a table of n.
func allocations(t *testing.T, n int) float64 {
	rows := make([]balancer.Row, n)
	for i := range rows {
		rows[i] = row(fmt.Sprintf("server-%d", i), float64(1000+i), 1+i%256)
	}
	made := table(rows...)
	made.Sighting = balancer.NewSighting(time.Second)
	made.Sighting.Note(begin)
	h := New(Options{Now: func() time.Time { return begin }, Sources: []Source{{
		Backend: "in", MaxAge: time.Minute, Quorum: 0.5, Tables: func() []*balancer.Table { return []*balancer.Table{made} },
	}}})
	request := &spoa.Request{Messages: message.Messages{
		asked("weighter-backend", "backend", "in"), asked("weighter-server", "backend", "in", "server", "server-7"),
		asked("weighter-pick", "backend", "in"), asked("weighter-choose", "backends", "in, in"),
	}}
	answer := make(action.Actions, 0, 64)
	return testing.AllocsPerRun(1000, func() {
		answer = answer[:0]
		if err := h.ServeSPOE(&answer, request); err != nil || len(answer) != 17 {
			t.Fatalf("%v, %v", answer, err)
		}
	})
}

// TestAllocations: what is allocated is the two ages, whatever the table's size.
func TestAllocations(t *testing.T) {
	for _, n := range []int{10, 10_000} {
		if got := allocations(t, n); got > 2 {
			t.Errorf("%d servers: %g allocations for a frame of four messages, want at most 2", n, got)
		}
	}
}

// TestTablesChangeUnderLoad: every answer comes from one table as a whole.
func TestTablesChangeUnderLoad(t *testing.T) {
	made := func(n int) *balancer.Table {
		var rows []balancer.Row
		for i := range 20 {
			rows = append(rows, row(fmt.Sprintf("s%d", i), float64(n), 1+n%256))
		}
		return table(rows...)
	}
	var current atomic.Pointer[balancer.Table]
	current.Store(made(1))
	h := New(Options{Now: func() time.Time { return begin }, Sources: []Source{{
		Backend: "in", MaxAge: time.Minute, Tables: func() []*balancer.Table { return []*balancer.Table{current.Load()} },
	}}})
	done := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			request := &spoa.Request{Messages: message.Messages{
				asked("weighter-backend", "backend", "in"), asked("weighter-server", "backend", "in", "server", "s3", "as", "s"), asked("weighter-pick", "backend", "in"),
			}}
			var answer action.Actions
			for asks := 0; ; asks++ {
				select {
				case <-done:
					if asks > 100 {
						return
					}
				default:
				}
				answer = answer[:0]
				_ = h.ServeSPOE(&answer, request)
				v := values(answer)
				if v["load_max"] != v["load_mean"] || v["load_total"] != 20*v["load_mean"].(int64) || v["s_weight"] != 1+v["s_load"].(int64)%256 || v["server"] == nil {
					t.Errorf("an answer of two tables: %v", v)
					return
				}
			}
		})
	}
	for w := range 2 { // two planes publish at once
		writers.Go(func() {
			for n := range 500 {
				current.Store(made(2*n + w))
				h.Refresh("in")
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	if got := h.backends["in"].index.Load().table; got != current.Load() {
		t.Error("the newest table is not the one that answers")
	}
}

func BenchmarkAnswer(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		rows := make([]balancer.Row, n)
		for i := range rows {
			rows[i] = row(fmt.Sprintf("server-%d", i), float64(1000+i), 1+i%256)
		}
		h := New(Options{Sources: []Source{{
			Backend: "in", MaxAge: time.Hour, Tables: func() []*balancer.Table { t := table(rows...); t.Time = time.Now(); return []*balancer.Table{t} },
		}}})
		for _, m := range []*message.Message{
			asked("weighter-backend", "backend", "in"), asked("weighter-server", "backend", "in", "server", "server-7"), asked("weighter-pick", "backend", "in"),
		} {
			b.Run(fmt.Sprintf("%s/%d", m.Name, n), func(b *testing.B) {
				request := &spoa.Request{Messages: message.Messages{m}}
				answer := make(action.Actions, 0, 64)
				for b.Loop() {
					answer = answer[:0]
					_ = h.ServeSPOE(&answer, request)
				}
			})
		}
	}
	rows := make([]balancer.Row, 10_000)
	for i := range rows {
		rows[i] = row(fmt.Sprintf("server-%d", i), float64(1000+i), 1+i%256)
	}
	b.Run("index/10000", func(b *testing.B) {
		for b.Loop() {
			newIndex(&backend{source: Source{MaxAge: time.Minute, Quorum: 0.5}}, table(rows...), nil, nil)
		}
	})
}
