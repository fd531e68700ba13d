package balancer

import (
	"context"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	client "github.com/haproxy-weighter/haproxy-weighter/test/ingest"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// TestRealLifetimeKnown has clients whose mean lifetime is known connect through
// a real HAProxy, and compares. The constants of time are scaled by 1/60, and so
// are the clients: 8 s stand for 8 min.
func TestRealLifetimeKnown(t *testing.T) {
	for _, test := range []struct {
		name  string
		short int // connections that close at once, for each long one
	}{{"long ones only", 0}, {"nine short ones to each long one", 9}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			const lifetime, open = 8 * time.Second, 300
			server, err := client.Listen("s1", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Stop)
			line := "s1 " + server.Address() + " weight 100"
			cfg := proxy(t, "roundrobin", line, strings.Replace(line, "s1", "s2", 1))
			address := regexp.MustCompile(`bind (\S+)`).FindStringSubmatch(cfg)[1]
			s := newSite(t, map[string]float64{"s1": 100, "s2": 100}, cfg)
			ctx, cancel := context.WithCancel(t.Context())
			var playing sync.WaitGroup
			t.Cleanup(func() { cancel(); playing.Wait() })
			clients := &client.Clients{Address: address, Plan: client.Workload{
				Seed: 1, Open: open, Lifetime: lifetime, Duration: 10 * time.Minute,
				Rates: client.Lognormal{Median: 2, Min: 2, Max: 2},
			}.Plan()}
			playing.Go(func() { clients.Run(ctx) })
			playing.Go(func() { shortOnes(ctx, address, float64(test.short*open)/lifetime.Seconds()) })

			fleet, _ := s.start(func(b *config.Backend) { b.Weighting.Timing = weighting.DefaultTiming().Scaled(1.0 / 60) })
			began := time.Now()
			var estimates []time.Duration
			s.until("enough estimates", func() bool {
				tables := fleet.Balancers()[0].Tables()
				// All sessions began together: four lifetimes later their ages
				// are spread as in any backend.
				if len(tables) == 1 && time.Since(began) > 4*lifetime && tables[0].LifetimeFrom == "sessions" {
					if l := tables[0].Lifetime; !slices.Contains(estimates, l) {
						estimates = append(estimates, l)
					}
				}
				return len(estimates) == 5
			})
			slices.Sort(estimates)
			// 300 sessions give 7 % of noise in each estimate.
			if got := estimates[2]; got < lifetime*3/4 || got > lifetime*5/4 {
				t.Errorf("mean lifetime is told as %v (of %v), is %v; %+v", got, estimates, lifetime, clients.Stats())
			}
		})
	}
}

// shortOnes opens connections that close at once, rate a second.
func shortOnes(ctx context.Context, address string, rate float64) {
	const every = 20 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	for due := 0.0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for due += rate * every.Seconds(); due >= 1; due-- {
			c, err := net.DialTimeout("tcp", address, time.Second)
			if err != nil {
				return // at the end of the test HAProxy may go first
			}
			c.Close()
		}
	}
}
