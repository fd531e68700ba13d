package balancer

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
)

// sessions is a HAProxy with connections that come at random and live
// exponentially. A reload leaves the open ones to a worker that nobody asks.
type sessions struct {
	random *rand.Rand
	now    time.Time
	open   int           // on average, over all workers
	tau    time.Duration // their mean lifetime
	crowd  float64       // connections of five seconds that come beside each of them

	info  haproxy.Info
	began time.Time   // of the worker
	ends  []time.Time // of its connections, in the order in which they came
	came  []time.Time
	total int64
}

func newSessions(open int, tau time.Duration) *sessions {
	s := &sessions{random: rand.New(rand.NewPCG(1, 2)), now: time.Unix(1_800_000_000, 0), open: open, tau: tau}
	s.reload()
	return s
}

func (s *sessions) reload() {
	s.info.Worker.PID++
	s.info.Worker.StartTime = s.now.Unix()
	s.began, s.came, s.ends, s.total = s.now, nil, nil, 0
}

// pass lets time go by.
func (s *sessions) pass(d time.Duration) {
	end := s.now.Add(d)
	s.arrive(end, float64(s.open)/s.tau.Seconds(), s.tau)
	if s.crowd > 0 {
		s.arrive(end, s.crowd*float64(s.open)/s.tau.Seconds(), 5*time.Second)
	}
	s.now = end
	came, ends := s.came[:0], s.ends[:0]
	for i, e := range s.ends {
		if e.After(s.now) {
			came, ends = append(came, s.came[i]), append(ends, e)
		}
	}
	s.came, s.ends = came, ends
}

func (s *sessions) arrive(end time.Time, rate float64, tau time.Duration) {
	for at := s.now; ; {
		at = at.Add(time.Duration(s.random.ExpFloat64() / rate * float64(time.Second)))
		if at.After(end) {
			return
		}
		s.total++
		s.came = append(s.came, at)
		s.ends = append(s.ends, at.Add(time.Duration(s.random.ExpFloat64()*float64(tau))))
	}
}

func (s *sessions) state() *haproxy.State {
	s.info.Uptime = s.now.Sub(s.began).Truncate(time.Second)
	return &haproxy.State{Info: s.info, Servers: []haproxy.Server{{Name: "s1", Sessions: len(s.ends), TotalSessions: s.total}}}
}

func (s *sessions) ages() *haproxy.Sessions {
	s.state()
	ages := make([]time.Duration, len(s.came))
	for i, at := range s.came {
		ages[i] = s.now.Sub(at).Truncate(time.Second)
	}
	return &haproxy.Sessions{Info: s.info, Ages: map[string][]time.Duration{"ingest": ages}}
}

// watching is a lifetime that watches sessions, a pass each 30 s.
type watching struct {
	*sessions
	l      *lifetime
	every  time.Duration // between two reloads
	listed bool          // ages can be had
	asked  time.Time
}

func newWatching(s *sessions, every time.Duration, listed bool, learnt time.Duration) *watching {
	b := ingest()
	w := &watching{sessions: s, every: every, listed: listed, l: newLifetime(nil, &b)}
	from := fromLittle
	if listed {
		w.l.reader, from = &agingHAProxy{}, fromSessions
	}
	w.l.recall(Learnt{Worker: haproxy.Worker{PID: 1}, Time: s.now, Lifetime: learnt, LifetimeFrom: from})
	return w
}

// run makes passes for d and returns the lifetimes believed after each.
func (w *watching) run(d time.Duration) []time.Duration {
	var means []time.Duration
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	reload := w.began.Add(w.every)
	for end := w.now.Add(d); w.now.Before(end); {
		wait := time.Duration(float64(30*time.Second) * (0.9 + 0.2*w.random.Float64()))
		for !reload.After(w.now.Add(wait)) {
			wait -= reload.Sub(w.now)
			w.pass(reload.Sub(w.now))
			w.reload()
			reload = w.now.Add(w.every)
		}
		w.pass(wait)
		w.l.note(w.state(), w.now, log)
		if w.listed && len(w.ends) > 0 && w.now.Sub(w.asked) >= 2*time.Minute {
			w.asked = w.now
			horizon := w.l.timing.YoungHorizon(time.Minute, w.l.mean)
			_ = w.l.take(dump{sessions: w.ages(), horizon: horizon, at: w.now})
		}
		means = append(means, w.l.mean)
	}
	return means
}

// However often HAProxy is reloaded, a lifetime that was learnt and is far too
// long goes, and none that is learnt then is.
func TestLifetimeThatIsTooLongGoes(t *testing.T) {
	const learnt = 20 * time.Hour
	for _, tt := range []struct {
		every, tau, gone time.Duration
		listed           bool
	}{
		{time.Minute, 3 * time.Minute, time.Hour, true},
		{time.Minute, 30 * time.Minute, 6*time.Hour + 5*time.Minute, true},
		{time.Hour, 3 * time.Minute, 15 * time.Minute, true},
		{time.Hour, 30 * time.Minute, time.Hour, true},
		{time.Hour, 8 * time.Hour, 6*time.Hour + 5*time.Minute, true},
		{24 * time.Hour, 3 * time.Minute, 15 * time.Minute, true},
		{24 * time.Hour, 30 * time.Minute, time.Hour, true},
		{24 * time.Hour, 8 * time.Hour, 6*time.Hour + 5*time.Minute, true},
		{time.Minute, 3 * time.Minute, 5 * time.Minute, false},
		{time.Minute, 30 * time.Minute, 6*time.Hour + 5*time.Minute, false},
		{time.Hour, 3 * time.Minute, 5 * time.Minute, false},
		{time.Hour, 30 * time.Minute, time.Hour, false},
		{time.Hour, 8 * time.Hour, 6*time.Hour + 5*time.Minute, false},
		{24 * time.Hour, 3 * time.Minute, 5 * time.Minute, false},
		{24 * time.Hour, 30 * time.Minute, time.Hour, false},
		{24 * time.Hour, 8 * time.Hour, 6*time.Hour + 5*time.Minute, false},
	} {
		t.Run(fmt.Sprintf("reload each %s, lifetime %s, ages %t", tt.every, tt.tau, tt.listed), func(t *testing.T) {
			open := 1000
			if tt.tau == 3*time.Minute {
				open = 200 // each of them comes and goes often
			}
			w := newWatching(newSessions(open, tt.tau), tt.every, tt.listed, learnt)
			w.reload()
			before := w.run(tt.gone)
			t.Logf("%s believed at first, %s after %s", before[0], before[len(before)-1], tt.gone)
			for i, mean := range w.run(max(6*time.Hour, tt.every+time.Hour)) {
				if mean > 5*tt.tau/2 { // three lifetimes make loads swing
					t.Fatalf("%s, and %d passes later: %s believed", tt.gone, i+1, mean)
				}
				if floor := min(tt.tau, tt.every) / 5; mean < floor {
					t.Fatalf("%s, and %d passes later: %s believed, though workers show more than %s", tt.gone, i+1, mean, floor)
				}
			}
		})
	}
}

// With so few connections that nothing is clear, time alone ends what was learnt.
func TestLifetimeThatNobodyConfirmsGoes(t *testing.T) {
	for _, every := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
		w := newWatching(newSessions(4, 3*time.Minute), every, true, 20*time.Hour)
		w.reload()
		w.run(6*time.Hour + 5*time.Minute)
		for i, mean := range w.run(12 * time.Hour) {
			if mean > 30*time.Minute {
				t.Fatalf("reload each %s: 6 h and %d passes later %s is believed, with four connections open that live 3 min", every, i, mean)
			}
		}
	}
}

// What workers have shown before connections became short is no reason to
// believe it afterwards.
func TestLifetimeShownBeforeIsForgotten(t *testing.T) {
	w := newWatching(newSessions(1000, 8*time.Hour), time.Hour, true, 8*time.Hour)
	w.reload()
	w.run(5 * time.Hour)
	w.tau = 15 * time.Minute
	w.reload()
	w.run(30 * time.Minute)
	for i, mean := range w.run(2 * time.Hour) {
		if mean > 30*time.Minute {
			t.Fatalf("%s believed %d passes after connections became short", mean, 60+i)
		}
	}
}

// A crowd of short connections makes the counters of a young worker say that
// none lives long. They have no word while ages can be had.
func TestCrowdOfShortConnectionsShortensNothing(t *testing.T) {
	s := newSessions(300, 8*time.Hour)
	s.crowd = 9
	w := newWatching(s, 24*time.Hour, true, 8*time.Hour)
	w.reload()
	for i, mean := range w.run(5 * time.Hour) {
		if mean != 8*time.Hour {
			t.Fatalf("pass %d after a reload: %s believed, 8 h learnt", i+1, mean)
		}
	}
	w.listed, w.l.reader = false, nil
	if means := w.run(time.Hour); means[len(means)-1] > 4*time.Hour {
		t.Errorf("%s believed without ages, want less: counters see the crowd", means[len(means)-1])
	}
}

// A restart of this process forgets neither the lifetime nor that the worker
// is too young for another one.
func TestRecallOfALifetimeWithAYoungWorker(t *testing.T) {
	w := newWatching(newSessions(300, 8*time.Hour), 24*time.Hour, true, 8*time.Hour)
	w.reload()
	w.run(20 * time.Minute)
	old := Learnt{Worker: w.info.Worker, Time: w.now, Lifetime: w.l.mean, LifetimeFrom: w.l.from}
	b := ingest()
	w.pass(5 * time.Minute)
	w.l = newLifetime(nil, &b)
	w.l.reader = &agingHAProxy{}
	w.l.recall(old)
	for i, mean := range w.run(time.Hour) {
		if mean != 8*time.Hour {
			t.Fatalf("pass %d after a restart: %s believed, 8 h learnt", i+1, mean)
		}
	}
}
