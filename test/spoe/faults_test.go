package spoe

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
)

// TestFaults holds that traffic goes on under every fault, by weights when the agent is of no
// help, and that txn.weighter.error says why.
func TestFaults(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		for _, f := range Faults() {
			t.Run(f.Name, func(t *testing.T) {
				outcomes, err := f.Measure(t.Context(), b, 2*cycle, !f.Answers)
				if err != nil {
					t.Fatal(err)
				}
				got := map[string]int{}
				for _, o := range outcomes {
					got[o.Server]++
					if allowed := f.Errors(b); !slices.Contains(allowed, o.Error) {
						t.Errorf("txn.weighter.error is %s, want one of %v", o.Error, allowed)
					}
				}
				if got[""] > 0 {
					t.Errorf("%d of %d connections got no server", got[""], len(outcomes))
				}
				if f.ByWeight {
					if diff := cmp.Diff(map[string]int{"s1": 2, "s2": 4, "s3": 6}, got); diff != "" {
						t.Errorf("not by weight (-want +got):\n%s", diff)
					}
				}
			})
		}
	})
}

// TestReloadInFlight holds that a connection that waits for the agent while HAProxy is reloaded
// gets a server all the same.
func TestReloadInFlight(t *testing.T) {
	o := Options{Example: "tcp-pick", MasterWorker: true, Handler: Fixed{"weighter-pick": {"server": "s2"}}}
	onEach(t, o, func(t *testing.T, s *Scene, b haproxyproc.Binary) {
		s.Agent.Break(silent)
		const clients = 5
		called := s.Agent.Called()
		type result struct {
			visit Visit
			err   error
		}
		results := make(chan result, clients)
		for range clients {
			go func() {
				v, err := s.Connect(t.Context(), nil)
				results <- result{v, err}
			}()
		}
		<-called
		if err := s.HAProxy.Reload(""); err != nil {
			t.Error(err)
		}
		s.Agent.Release()
		for range clients {
			r := <-results
			if r.err != nil || r.visit.Server == "" {
				t.Errorf("a connection during a reload went to server %q: %v", r.visit.Server, r.err)
				continue
			}
			line, err := s.Log(r.visit)
			if err != nil {
				t.Fatal(err)
			}
			if e := variable(line, "error"); e != NoError && e != errShutdown {
				t.Errorf("txn.weighter.error is %s; log %q", e, line)
			}
		}
	})
}
