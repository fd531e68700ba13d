package weighting

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// inWorker draws the ages of the connections of a mean lifetime in a worker
// that has been up for uptime, when n are open in all workers together.
func inWorker(r *rand.Rand, n int, lifetime, uptime time.Duration) []time.Duration {
	var ages []time.Duration
	for _, age := range openSessions(r, n, lifetime) {
		if age < uptime {
			ages = append(ages, age)
		}
	}
	return ages
}

// A worker's youth is no evidence: FromAges is short in it, this is not.
func TestShorterByAgesAllowsForYouth(t *testing.T) {
	const believed = 8 * time.Hour
	for _, up := range []time.Duration{10 * time.Minute, time.Hour, 6 * time.Hour, 48 * time.Hour} {
		r := rand.New(rand.NewPCG(1, uint64(up)))
		for range 300 {
			ages := inWorker(r, 2000, believed, up)
			if short, ok := ShorterByAges(ages, 5*time.Minute, up, believed); ok {
				t.Fatalf("up %s: %s, though it is %s", up, short, believed)
			}
		}
	}
}

func TestShorterByAgesFindsTheLifetime(t *testing.T) {
	for _, tt := range []struct{ lifetime, up time.Duration }{
		{3 * time.Minute, 10 * time.Minute}, {3 * time.Minute, 24 * time.Hour},
		{30 * time.Minute, time.Hour}, {30 * time.Minute, 24 * time.Hour},
		{2 * time.Hour, 6 * time.Hour},
	} {
		r := rand.New(rand.NewPCG(3, 4))
		got, ok := ShorterByAges(inWorker(r, 20_000, tt.lifetime, tt.up), 5*time.Minute, tt.up, 20*time.Hour)
		if !ok {
			t.Fatalf("lifetime %s, up %s: nothing found", tt.lifetime, tt.up)
		}
		within(t, "lifetime "+tt.lifetime.String()+", up "+tt.up.String(), got, tt.lifetime, 0.15)
	}
}

func TestShorterByAgesWithoutEvidence(t *testing.T) {
	m := time.Minute
	young := make([]time.Duration, 100)
	for name, ask := range map[string]func() (time.Duration, bool){
		"no session":       func() (time.Duration, bool) { return ShorterByAges(nil, 5*m, time.Hour, time.Hour) },
		"few sessions":     func() (time.Duration, bool) { return ShorterByAges(young[:14], 5*m, time.Hour, time.Hour) },
		"too young":        func() (time.Duration, bool) { return ShorterByAges(young, 5*m, 10*m-1, time.Hour) },
		"no horizon":       func() (time.Duration, bool) { return ShorterByAges(young, 0, time.Hour, time.Hour) },
		"nothing believed": func() (time.Duration, bool) { return ShorterByAges(young, 5*m, time.Hour, 0) },
	} {
		if got, ok := ask(); ok {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got, ok := ShorterByAges(young, 5*m, time.Hour, time.Hour); !ok || got > 2*m {
		t.Errorf("all young: %s, %t, want a short lifetime", got, ok)
	}
}

// busy shows a Little a worker from its start: connections of a mean lifetime
// come at an even rate, and those of them that still live are open.
func busy(l *Little, now time.Time, up, lifetime time.Duration) time.Time {
	l.Restart()
	open, total := 0.0, 0.0
	for range int(up / (30 * time.Second)) {
		now = now.Add(30 * time.Second)
		total += 3000
		most := 100 * lifetime.Seconds()
		open = most + (open-most)*math.Exp(-30/lifetime.Seconds())
		l.Observe(now, []SessionCount{{"a", int(open), int64(total)}})
	}
	return now
}

func TestLittleShorterInYoungWorkers(t *testing.T) {
	for _, up := range []time.Duration{2 * time.Minute, 20 * time.Minute, 24 * time.Hour} {
		var l Little
		now := start
		for range 10 { // workers, each as young
			now = busy(&l, now, up, 30*time.Minute)
		}
		got, ok := l.Shorter(20 * time.Hour)
		if !ok {
			t.Fatalf("workers up %s: nothing found", up)
		}
		within(t, "workers up "+up.String(), got, 30*time.Minute, 0.15)
		if got, ok := l.Shorter(40 * time.Minute); ok {
			t.Errorf("workers up %s: %s is clearly shorter than 40 min", up, got)
		}
		if got, ok := l.Shorter(0); ok {
			t.Errorf("workers up %s: %s is shorter than what is not known", up, got)
		}
	}
}

func TestLittleShorterWithoutEvidence(t *testing.T) {
	var l Little
	if got, ok := l.Shorter(time.Hour); ok {
		t.Errorf("%s found in nothing", got)
	}
	busy(&l, start, time.Hour, 20*time.Hour)
	if got, ok := l.Shorter(20 * time.Hour); ok {
		t.Errorf("%s found, and it is 20 h", got)
	}
}

// A worker that has counted beyond the last one's counts shows no counter that
// went backwards.
func TestLittleRestart(t *testing.T) {
	tr := newTraffic()
	tr.run(100, 30, 3600)
	tr.l.Restart()
	tr.run(1, 100_000, 10)
	tr.run(1, 30, 3600)
	within(t, "after the new worker's first count", tr.lifetime(t), time.Hour, 0.01)
	if got, ok := tr.l.Shorter(90 * time.Minute); ok {
		t.Errorf("%s: the old worker's connections count as ended", got)
	}
}

// What was true hours ago is forgotten.
func TestLittleShorterIsOfLate(t *testing.T) {
	var l Little
	now := busy(&l, start, 24*time.Hour, 8*time.Hour)
	busy(&l, now, 6*time.Hour, 10*time.Minute)
	got, ok := l.Shorter(8 * time.Hour)
	if !ok {
		t.Fatal("nothing found")
	}
	within(t, "hours after", got, 10*time.Minute, 0.3)
}
