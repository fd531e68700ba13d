package weighting

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func within(t *testing.T, what string, got, want time.Duration, part float64) {
	t.Helper()
	if math.Abs(float64(got)/float64(want)-1) > part {
		t.Errorf("%s: %v, want %v within %v %%", what, got, want, part*100)
	}
}

func TestFromAgesByHand(t *testing.T) {
	m := time.Minute
	// young = (1+1)/(2+2) = 1/2: tau = 5 min / ln 2.
	got, ok := FromAges([]time.Duration{m, 10 * m}, 5*m)
	if !ok {
		t.Fatal("not ok")
	}
	within(t, "two sessions", got, time.Duration(float64(5*m)/math.Ln2), 1e-6)
	for _, ages := range [][]time.Duration{nil, {}} {
		if _, ok := FromAges(ages, 5*m); ok {
			t.Error("ok without a session")
		}
	}
	if _, ok := FromAges([]time.Duration{m}, 0); ok {
		t.Error("ok without a horizon")
	}
}

// openSessions draws the ages of n open sessions of a mean lifetime: memoryless.
func openSessions(r *rand.Rand, n int, lifetime time.Duration) []time.Duration {
	ages := make([]time.Duration, n)
	for i := range ages {
		ages[i] = time.Duration(r.ExpFloat64() * float64(lifetime))
	}
	return ages
}

func TestFromAgesFindsTheLifetime(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, lifetime := range []time.Duration{10 * time.Minute, time.Hour, 8 * time.Hour} {
		horizon := Timing{}.YoungHorizon(time.Minute, lifetime)
		got, _ := FromAges(openSessions(r, 100_000, lifetime), horizon)
		within(t, "estimate", got, lifetime, 0.1)
	}
}

// TestFromAgesIgnoresShortConnections: 9 connections of 5 s for each long one
// are few at any moment (Little: 9 arrivals * 5 s beside 1 * 1 h).
func TestFromAgesIgnoresShortConnections(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const long = 20_000
	ages := openSessions(r, long, time.Hour)
	plain, _ := FromAges(ages, 5*time.Minute)
	ages = append(ages, openSessions(r, long*9*5/3600, 5*time.Second)...)
	mixed, _ := FromAges(ages, 5*time.Minute)
	if mixed < plain*4/5 {
		t.Errorf("%v with short connections, %v without", mixed, plain)
	}
}

func TestYoungHorizon(t *testing.T) {
	for _, tt := range []struct{ delay, lifetime, want time.Duration }{
		{30 * time.Second, 0, 5 * time.Minute},
		{2 * time.Minute, time.Hour, 8 * time.Minute},
		{30 * time.Second, 20 * time.Hour, 12 * time.Minute},
	} {
		if got := (Timing{}).YoungHorizon(tt.delay, tt.lifetime); got != tt.want {
			t.Errorf("d %v, tau %v: %v, want %v", tt.delay, tt.lifetime, got, tt.want)
		}
	}
}

func TestClampLifetime(t *testing.T) {
	for _, tt := range []struct{ in, want time.Duration }{
		{time.Second, 2 * time.Minute}, {time.Hour, time.Hour}, {1000 * time.Hour, 168 * time.Hour},
	} {
		if got := (Timing{}).ClampLifetime(tt.in); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.in, got, tt.want)
		}
	}
}

// traffic shows a Little a steady backend of two servers.
type traffic struct {
	l     Little
	now   time.Time
	total [2]int64
}

func newTraffic() *traffic { return &traffic{now: start} }

// run observes n times, each 30 s after the last, with perServer arrivals.
func (tr *traffic) run(n int, perServer int64, open int) {
	for range n {
		tr.now = tr.now.Add(30 * time.Second)
		tr.total[0] += perServer
		tr.total[1] += perServer
		tr.l.Observe(tr.now, []SessionCount{{"a", open, tr.total[0]}, {"b", open, tr.total[1]}})
	}
}

func (tr *traffic) lifetime(t *testing.T) time.Duration {
	t.Helper()
	got, ok := tr.l.Lifetime()
	if !ok {
		t.Fatal("not ok")
	}
	return got
}

func TestLittleFindsTheLifetime(t *testing.T) {
	tr := newTraffic()
	if _, ok := tr.l.Lifetime(); ok {
		t.Fatal("ok before any observation")
	}
	tr.run(1, 30, 3600)
	if _, ok := tr.l.Lifetime(); ok {
		t.Fatal("ok after one observation")
	}
	tr.run(100, 30, 3600) // 2 arrivals a second, 7,200 open: an hour
	within(t, "steady", tr.lifetime(t), time.Hour, 0.01)
}

func TestLittleClipsAStorm(t *testing.T) {
	tr := newTraffic()
	tr.run(100, 30, 3600)
	tr.run(1, 3000, 3600) // a hundred times the rate: counts as 4 times
	// One part of 1-exp(-30/900) of 4 times the rate: 1 + 3*0.0328.
	within(t, "after a storm", tr.lifetime(t), 3600*time.Second*10000/10984, 0.01)
}

func TestLittleLeavesOutAReload(t *testing.T) {
	tr := newTraffic()
	tr.run(100, 30, 3600)
	tr.total = [2]int64{}
	tr.run(1, 5, 3600) // the new worker's counters
	within(t, "at the reload", tr.lifetime(t), time.Hour, 0.01)
	tr.run(10, 30, 3600)
	within(t, "after it", tr.lifetime(t), time.Hour, 0.01)
}

func TestLittleLeavesOutAReloadThatOneCounterHides(t *testing.T) {
	tr := newTraffic()
	tr.run(100, 30, 3600)
	tr.total[0] = 0 // b had few connections and is past its old count already
	tr.total[1] += 1000
	tr.run(1, 0, 3600)
	within(t, "at the reload", tr.lifetime(t), time.Hour, 0.01)
}

func TestLittleCountsANewServerFromItsSecondSight(t *testing.T) {
	tr := newTraffic()
	tr.run(100, 30, 3600)
	tr.now = tr.now.Add(30 * time.Second)
	tr.l.Observe(tr.now, []SessionCount{
		{"a", 3600, tr.total[0] + 30}, {"b", 3600, tr.total[1] + 30}, {"c", 0, 1_000_000},
	})
	within(t, "with a new server", tr.lifetime(t), time.Hour, 0.01)
}

func TestLittleIsShortWithLittleEvidence(t *testing.T) {
	tr := newTraffic()
	tr.run(2, 0, 10) // nothing arrived in 30 s: 20 open / (1/30 s)
	within(t, "no arrival", tr.lifetime(t), 10*time.Minute, 1e-6)
	tr.run(1000, 0, 10)
	within(t, "none for long", tr.lifetime(t), 20*15*time.Minute, 1e-6)
}

func TestLittleWithoutSessionsOrTimeIsNotOK(t *testing.T) {
	tr := newTraffic()
	tr.run(10, 30, 0)
	if _, ok := tr.l.Lifetime(); ok {
		t.Error("ok without open sessions")
	}
	var l Little
	for range 3 {
		l.Observe(start, []SessionCount{{"a", 5, 5}})
	}
	if _, ok := l.Lifetime(); ok {
		t.Error("ok though no time has passed")
	}
}
