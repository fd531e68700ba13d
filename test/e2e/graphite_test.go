package e2e

import "testing"

// TestGraphiteAway takes Graphite away in every way a process can be away, and
// checks that the weights stand still meanwhile, follow again afterwards, and
// that each outage is told once and its end once.
func TestGraphiteAway(t *testing.T) {
	names, habits := nodes()
	r := newRig(t, haproxyConfig([]string{"ingest"}, names), habits)
	d := r.start(backend("ingest", received, ""))
	want := proportions(r.feed.loads(), 5, 2)
	eventually(t, "the weights arrive", func() string { return same(want, r.weights("ingest")) })

	// Each load is far from the one before: far outside the deadband.
	loads := []float64{4000, 800, 4000, 800}
	const silent, answers = "no loads from Graphite", "loads from Graphite are back"
	for i, outage := range []struct {
		name        string
		gone, again string // what the log says
		away, back  func() error
	}{
		// First, while all that carbon can lose with its memory is more of the same.
		{"carbon dead", "weights are held", "weights are no longer held", func() error { r.graphite.KillCarbon(); return nil }, func() error { return r.graphite.StartCarbon(t.Context()) }},
		{"stopped", silent, answers, func() error { r.graphite.KillWeb(); return nil }, func() error { return r.graphite.StartWeb(t.Context()) }},
		{"hung", silent, answers, r.graphite.PauseWeb, r.graphite.ResumeWeb},
		{"carbon hung", silent, answers, r.graphite.PauseCarbon, r.graphite.ResumeCarbon},
	} {
		gone, back := []string{"level=WARN", "backend=ingest", outage.gone}, []string{"level=INFO", "backend=ingest", outage.again}
		begun, ended := len(d.log.lines(gone...)), len(d.log.lines(back...))
		before := r.weights("ingest")
		if err := outage.away(); err != nil {
			t.Fatal(err)
		}
		r.feed.change("node-1", func(h *habit) { h.load = loads[i] })
		eventually(t, "the outage is told: "+outage.name, func() string {
			if why := same(before, r.weights("ingest")); why != "" {
				t.Fatalf("%s: %s", outage.name, why)
			}
			if len(d.log.lines(gone...)) == begun {
				return "no line in the log"
			}
			return ""
		})
		if err := outage.back(); err != nil {
			t.Fatal(err)
		}
		want = proportions(r.feed.loads(), 5, 2)
		eventually(t, "the weights follow again: "+outage.name, func() string { return same(want, r.weights("ingest")) })
		if n := len(d.log.lines(gone...)) - begun; n != 1 {
			t.Errorf("%s: told %d times, want once", outage.name, n)
		}
		if n := len(d.log.lines(back...)) - ended; n != 1 {
			t.Errorf("%s: its end was told %d times, want once", outage.name, n)
		}
	}
}
