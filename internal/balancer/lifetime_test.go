package balancer

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/test/logbook"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// agingHAProxy is a fake that lists sessions as well.
type agingHAProxy struct {
	*fakeHAProxy
	mu    sync.Mutex
	ages  []time.Duration
	err   error
	hangs bool
	dumps []time.Time
}

func (a *agingHAProxy) SessionAges(ctx context.Context, _ int) (*haproxy.Sessions, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dumps = append(a.dumps, time.Now())
	if a.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if a.err != nil {
		return nil, a.err
	}
	info, err := a.Info(ctx)
	return &haproxy.Sessions{Info: info, Ages: map[string][]time.Duration{"ingest": a.ages}}, err
}

// spread are ages as an exponential lifetime of tau gives them.
func spread(tau time.Duration, n int) []time.Duration {
	ages := make([]time.Duration, n)
	for i := range ages {
		ages[i] = time.Duration(float64(tau) * -math.Log1p(-(float64(i)+0.5)/float64(n)))
	}
	return ages
}

// set gives the ages of a worker that has been up for uptime, out of those of one
// that has always been.
func (a *agingHAProxy) set(ages []time.Duration, uptime time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ages = slices.DeleteFunc(ages, func(age time.Duration) bool { return age > uptime })
}

func agingRig(t *testing.T, a *agingHAProxy) *rig {
	a.fakeHAProxy = fourServers()
	r := newRig(t, ingest(), newGraphite(uneven()), a.fakeHAProxy)
	p := r.balancer.planes[0]
	p.data, p.lifetime = a, newLifetime(a, p.backend)
	return r
}

func TestLifetimeFromSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &agingHAProxy{ages: spread(time.Hour, 1000)}
		r := agingRig(t, a)
		r.start()
		defer r.stop()
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		table := r.table(0)
		if table.LifetimeFrom != "sessions" || table.Lifetime < 55*time.Minute || table.Lifetime > 65*time.Minute {
			t.Errorf("lifetime %s from %q, want about 1 h from sessions", table.Lifetime, table.LifetimeFrom)
		}
		for i := 1; i < len(a.dumps); i++ {
			if apart := a.dumps[i].Sub(a.dumps[i-1]); apart < 2*time.Minute {
				t.Errorf("two dumps %s apart", apart)
			}
		}
		if len(a.dumps) < 4 {
			t.Errorf("%d dumps in 10 minutes", len(a.dumps))
		}
	})
}

func TestLifetimeStaysOverAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &agingHAProxy{ages: spread(time.Hour, 1000)}
		r := agingRig(t, a)
		r.start()
		defer r.stop()
		time.Sleep(5 * time.Minute)
		a.do(a.reloadLocked)
		for up := range 20 { // the long ones are with the old worker
			a.set(spread(time.Hour, 1000), time.Duration(up)*time.Minute)
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		if table := r.table(0); table.Lifetime < 55*time.Minute {
			t.Errorf("lifetime %s, 20 minutes after a reload: want what was known before it", table.Lifetime)
		}
		a.set(spread(5*time.Minute, 1000), time.Hour)
		time.Sleep(4 * time.Hour)
		synctest.Wait()
		if table := r.table(0); table.Lifetime > 10*time.Minute {
			t.Errorf("lifetime %s, hours after: want what the new worker tells", table.Lifetime)
		}
	})
}

// A worker that is too young to tell a long lifetime tells that connections
// are short all the same.
func TestLifetimeGetsShorterThoughHAProxyIsReloadedOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &agingHAProxy{ages: spread(20*time.Hour, 1000)}
		r := agingRig(t, a)
		r.start()
		defer r.stop()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if table := r.table(0); table.Lifetime < 15*time.Hour {
			t.Fatalf("lifetime %s, want about 20 h", table.Lifetime)
		}
		a.set(spread(3*time.Minute, 1000), time.Hour)
		a.do(a.reloadLocked)
		for n := range 2 {
			time.Sleep(15 * time.Minute)
			synctest.Wait()
			if table := r.table(0); table.Lifetime > 4*time.Minute || table.LifetimeFrom != "sessions" {
				t.Errorf("reload %d: lifetime %s from %q, 15 min after it: want about 3 min", n, table.Lifetime, table.LifetimeFrom)
			}
			time.Sleep(time.Hour)
			a.do(a.reloadLocked)
		}
	})
}

// Ages are asked for once a pass: with long intervals they are old by the next
// one, and count all the same.
func TestLifetimeFromSessionsWithALongInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &agingHAProxy{fakeHAProxy: fourServers(), ages: spread(time.Hour, 1000)}
		b := ingest()
		b.Interval = 10 * time.Minute
		r := newRig(t, b, newGraphite(uneven()), a.fakeHAProxy)
		p := r.balancer.planes[0]
		p.data, p.lifetime = a, newLifetime(a, p.backend)
		r.start()
		defer r.stop()
		time.Sleep(time.Hour)
		synctest.Wait()
		if table := r.table(0); table.LifetimeFrom != "sessions" {
			t.Errorf("lifetime %s from %q, want it from sessions", table.Lifetime, table.LifetimeFrom)
		}
	})
}

func TestLifetimeByLittleWithoutAges(t *testing.T) {
	for name, change := range map[string]func(*agingHAProxy, *plane){
		"dump fails":    func(a *agingHAProxy, _ *plane) { a.err = haproxy.ErrTooManySessions },
		"turned off":    func(a *agingHAProxy, p *plane) { p.lifetime.reader = nil },
		"too many open": func(a *agingHAProxy, p *plane) { p.lifetime.limit = 39 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &agingHAProxy{ages: spread(time.Hour, 1000)}
				r := agingRig(t, a)
				change(a, r.balancer.planes[0])
				r.start()
				defer r.stop()
				for range 120 { // 40 sessions open, one comes each 30 s: 20 minutes
					time.Sleep(30 * time.Second)
					a.do(func() { a.state.Servers[0].TotalSessions++ })
				}
				synctest.Wait()
				table := r.table(0)
				if table.LifetimeFrom != "little" || table.Lifetime < 15*time.Minute || table.Lifetime > 25*time.Minute {
					t.Errorf("lifetime %s from %q, want about 20 min from little", table.Lifetime, table.LifetimeFrom)
				}
				if name != "dump fails" && len(a.dumps) > 0 {
					t.Errorf("%d dumps", len(a.dumps))
				}
			})
		})
	}
}

func TestDumpThatHangsDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &agingHAProxy{hangs: true}
		r := agingRig(t, a)
		r.start()
		defer r.stop()
		synctest.Wait() // the first pass is made and its dump hangs
		want := a.weights()
		a.do(a.reloadLocked)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := a.weights(); got["s1"] != want["s1"] {
			t.Errorf("s1 at %d, was %d before the reload", got["s1"], want["s1"])
		}
	})
}

func TestDumpsAreShared(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	a := &agingHAProxy{fakeHAProxy: fourServers(), ages: spread(time.Hour, 10)}
	s := &sharedAges{DataPlane: a, reader: a, keep: 2 * time.Minute, now: func() time.Time { return now }}
	ask := func(limit, dumps int) error {
		t.Helper()
		_, err := s.SessionAges(t.Context(), limit)
		if len(a.dumps) != dumps {
			t.Errorf("%d dumps, want %d", len(a.dumps), dumps)
		}
		return err
	}
	for range 3 {
		if err := ask(100, 1); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(2 * time.Minute)
	a.err = haproxy.ErrTooManySessions
	if err := ask(100, 2); !errors.Is(err, haproxy.ErrTooManySessions) {
		t.Errorf("error %v", err)
	}
	_ = ask(50, 2)  // it would be given up as well
	_ = ask(200, 3) // it may be let through
}

func TestLoopGainIsToldWhenItBeginsAndEnds(t *testing.T) {
	log := &logbook.Book{}
	p := newPlane(Plane{Socket: "x", DataPlane: fourServers()}, &Options{Now: time.Now}, slog.New(slog.NewTextHandler(log, nil)), true)
	d := &weighting.Decision{Gain: 8, Delay: time.Minute, Lifetime: 5 * time.Minute}
	for range 3 {
		p.tellLoopGain(d)
	}
	if log.Count("react more strongly") != 1 || log.Count("is 1.60") != 1 {
		t.Errorf("log:\n%s", log)
	}
	d.Gain = 2
	for range 3 {
		p.tellLoopGain(d)
	}
	if log.Count("react no more strongly") != 1 {
		t.Errorf("log:\n%s", log)
	}
}
