package query

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/negasus/haproxy-spoe-go/action"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// steadyGraphite has one load for each of two servers, until it fails.
type steadyGraphite struct {
	load  float64
	fails *atomic.Bool
}

func (g steadyGraphite) Render(context.Context, graphite.Request) (*graphite.Answer, error) {
	if g.fails.Load() {
		return nil, errors.New("no whole answer within 5 s")
	}
	now := time.Now()
	points := []graphite.Point{{Unix: now.Unix() - 20, Value: g.load}, {Unix: now.Unix() - 10, Value: g.load}}
	return &graphite.Answer{Now: now, Series: []graphite.Series{{Name: "s1", Points: points}, {Name: "s2", Points: points}}}, nil
}

// steadyHAProxy has two servers and takes every weight.
type steadyHAProxy struct{ backend string }

func (h steadyHAProxy) State(context.Context, string) (*haproxy.State, error) {
	server := haproxy.Server{Name: "s1", ID: 1, Op: haproxy.OpRunning, Weight: 256, InitialWeight: 256, SinceChange: time.Hour}
	other := server
	other.Name, other.ID = "s2", 2
	return &haproxy.State{
		Backend: h.backend, Algorithm: "roundrobin", Servers: []haproxy.Server{server, other},
		Info: haproxy.Info{Worker: haproxy.Worker{PID: 1, StartTime: 1}, Uptime: time.Hour},
	}, nil
}

func (h steadyHAProxy) SetWeights(ctx context.Context, backend string, _ []haproxy.Change, _ int) (*haproxy.Outcome, error) {
	after, _ := h.State(ctx, backend)
	return &haproxy.Outcome{Info: after.Info, After: after}, nil
}

// TestRendersThatFail: answers stay as fresh as their data are, however many
// answers of Graphite are missing, and no longer.
func TestRendersThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		o := Options{Logger: slog.New(slog.DiscardHandler)}
		var all []*balancer.Balancer
		for name, load := range map[string]float64{"busy": 5000, "idle": 10} {
			b := balancer.New(balancer.Options{
				Backend: config.Backend{
					Name: name, Interval: 30 * time.Second, Target: "x", Window: 5 * time.Minute, Aggregate: graphite.Last,
					MaxAge: 90 * time.Second, Capacity: config.Capacity{Kind: "equal"}, Mode: config.Live, Weighting: weighting.DefaultSettings(),
				},
				Renderer: steadyGraphite{load, &fails}, Planes: []balancer.Plane{{Socket: "unix:/a", DataPlane: steadyHAProxy{name}}},
				Logger: o.Logger, Jitter: func() float64 { return 0.5 },
			})
			all = append(all, b)
			o.Sources = append(o.Sources, Source{Backend: name, Tables: b.Tables, MaxAge: 90 * time.Second, Quorum: 0.5})
		}
		h := New(o)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		for _, b := range all {
			name := b.Config().Name
			b.Notify(func() { h.Refresh(name) })
			wg.Go(func() { _ = b.Run(ctx) })
		}
		step := func(wait time.Duration, want string) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			var answer action.Actions
			q := query{h: h, now: time.Now()}
			q.choose("busy,idle")
			q.backend("idle")
			q.server("idle", "s2")
			if answer = q.answer; printed(t, answer) != want {
				t.Errorf("got %s\nwant %s", printed(t, answer), want)
			}
		}
		const loads = ` load_mean=10 load_max=10 load_total=20 best="s1" worst="s1" imbalance=1000`
		step(time.Second, `backend="idle" fresh=true servers=2 age_ms=11000`+loads+` fresh=true weight=256 share=500 age_ms=11000 load=10 relative=1000`)
		fails.Store(true)
		step(30*time.Second, `backend="idle" fresh=true servers=2 age_ms=41000`+loads+` fresh=true weight=256 share=500 age_ms=41000 load=10 relative=1000`)
		step(49*time.Second, `backend="idle" fresh=true servers=2 age_ms=90000`+loads+` fresh=true weight=256 share=500 age_ms=90000 load=10 relative=1000`)
		step(time.Second, `backend="busy" fresh=false servers=2 age_ms=91000 fresh=false weight=256 share=500 age_ms=91000`)
		step(time.Minute, `backend="busy" fresh=false servers=2 age_ms=151000 fresh=false weight=256 share=500 age_ms=151000`)
		fails.Store(false)
		step(30*time.Second, `backend="idle" fresh=true servers=2 age_ms=31000`+loads+` fresh=true weight=256 share=500 age_ms=31000 load=10 relative=1000`)
	})
}
