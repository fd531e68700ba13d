package balancer

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

func TestRotation(t *testing.T) {
	for name, test := range map[string]struct {
		server haproxy.Server
		want   weighting.Rotation
	}{
		"running":                          {haproxy.Server{Op: haproxy.OpRunning, Weight: 1}, weighting.InRotation},
		"starting":                         {haproxy.Server{Op: haproxy.OpStarting, Weight: 1}, weighting.InRotation},
		"stopped":                          {haproxy.Server{Op: haproxy.OpStopped, Weight: 1}, weighting.Down},
		"stopping":                         {haproxy.Server{Op: haproxy.OpStopping, Weight: 1}, weighting.Down},
		"weight 0":                         {haproxy.Server{Op: haproxy.OpRunning}, weighting.Drain},
		"drain":                            {haproxy.Server{Op: haproxy.OpRunning, Weight: 1, Admin: haproxy.ForcedDrain}, weighting.Drain},
		"maint wins over drain":            {haproxy.Server{Op: haproxy.OpStopped, Admin: haproxy.ForcedMaint | haproxy.ForcedDrain}, weighting.Maint},
		"made ready, disabled in the file": {haproxy.Server{Op: haproxy.OpRunning, Weight: 1, Admin: haproxy.ConfigMaint}, weighting.InRotation},
		"fqdn from cli":                    {haproxy.Server{Op: haproxy.OpRunning, Weight: 1, Admin: haproxy.FQDNFromCLI}, weighting.InRotation},
		"backup":                           {haproxy.Server{Op: haproxy.OpRunning, Weight: 1, Backup: true}, weighting.Backup},
	} {
		if got := rotationOf(&test.server); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestArrivalsAcrossReloads(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	state := func(uptime time.Duration, since map[string]time.Duration) *haproxy.State {
		s := &haproxy.State{Info: haproxy.Info{Uptime: uptime}}
		for _, name := range []string{"s1", "s2", "s3"} {
			if d, ok := since[name]; ok {
				s.Servers = append(s.Servers, haproxy.Server{Name: name, SinceChange: d})
			}
		}
		return s
	}
	var a arrivals
	a.note(state(time.Hour, map[string]time.Duration{"s1": time.Hour, "s2": time.Minute}), now)
	want := map[string]time.Time{"s1": {}, "s2": now.Add(-time.Minute)}
	if diff := cmp.Diff(want, a.up); diff != "" {
		t.Errorf("at the first look (-want +got):\n%s", diff)
	}

	now = now.Add(30 * time.Second) // reloaded 10 s ago, with a new server s3
	a.note(state(10*time.Second, map[string]time.Duration{"s1": 10 * time.Second, "s2": 10 * time.Second, "s3": 10 * time.Second}), now)
	want["s3"] = now.Add(-10 * time.Second)
	if diff := cmp.Diff(want, a.up); diff != "" {
		t.Errorf("after a reload (-want +got):\n%s", diff)
	}

	now = now.Add(time.Minute) // s1 has been down and came up 5 s ago
	a.note(state(70*time.Second, map[string]time.Duration{"s1": 5 * time.Second, "s2": 70 * time.Second}), now)
	want = map[string]time.Time{"s1": now.Add(-5 * time.Second), "s2": want["s2"]}
	if diff := cmp.Diff(want, a.up); diff != "" {
		t.Errorf("after a restart of s1 (-want +got):\n%s", diff)
	}
}

func TestCapacities(t *testing.T) {
	servers := []haproxy.Server{{Name: "s1", InitialWeight: 100}, {Name: "s2", InitialWeight: 50}, {Name: "s3"}}
	for kind, test := range map[string]struct {
		capacity config.Capacity
		want     []float64
	}{
		"equal":          {config.Capacity{Kind: "equal"}, []float64{1, 1, 1}},
		"initial-weight": {config.Capacity{Kind: "initial-weight"}, []float64{100, 50, 75}},
		"table":          {config.Capacity{Kind: "table", Table: map[string]float64{"s2": 2.5}}, []float64{1, 2.5, 1}},
	} {
		if diff := cmp.Diff(test.want, capacitiesOf(test.capacity, servers)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
	if got := capacitiesOf(config.Capacity{Kind: "initial-weight"}, servers[2:]); got[0] != 1 {
		t.Errorf("all initial weights 0: capacity %v, want 1", got[0])
	}
}
