package haproxy

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func mustState(t *testing.T, c *Client, backend string) *State {
	t.Helper()
	s, err := c.State(t.Context(), backend)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustSet(t *testing.T, c *Client, backend string, changes ...Change) *Outcome {
	t.Helper()
	out, err := c.SetWeights(t.Context(), backend, changes, 0)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func weights(s *State) map[string]int {
	m := make(map[string]int)
	for _, srv := range s.Servers {
		m[srv.Name] = srv.Weight
	}
	return m
}

func TestState(t *testing.T) {
	onBoth(t, func(t *testing.T, tt *target) {
		for _, be := range sceneBackends() {
			if be.disabled {
				continue
			}
			want := &State{Backend: be.name, Algorithm: be.algorithm, Servers: []Server{}}
			for _, s := range be.servers {
				want.Servers = append(want.Servers, *s)
			}
			before := tt.dials.Load()
			got := mustState(t, tt.Client, be.name)
			if got.Info.Worker.PID == 0 || got.Info.Version == "" || got.Info.Stopping {
				t.Errorf("%s: info %+v", be.name, got.Info)
			}
			ignore := cmp.Options{cmpopts.IgnoreFields(State{}, "Info"), cmpopts.IgnoreFields(Server{}, "SinceChange")}
			if diff := cmp.Diff(want, got, ignore); diff != "" {
				t.Errorf("%s (-want +got):\n%s", be.name, diff)
			}
			dials := int32(1)
			if be.name == "shadow" && tt.shadow { // a frontend by the same name: one more
				dials = 2
			}
			if n := tt.dials.Load() - before; n != dials {
				t.Errorf("%s: %d connections, want %d", be.name, n, dials)
			}
		}
	})
}

func TestStateErrors(t *testing.T) {
	onBoth(t, func(t *testing.T, tt *target) {
		for backend, want := range map[string]error{"nosuch": ErrNoBackend, "off": ErrDisabled, "a;b": ErrName, "": ErrName, "a b": ErrName, "a\nb": ErrName} {
			s, err := tt.State(t.Context(), backend)
			var op *OpError
			if s != nil || !errors.Is(err, want) || !errors.As(err, &op) {
				t.Errorf("State(%q) = %v, %v, want an OpError with %v", backend, s, err, want)
			}
		}
	})
}

func TestInfoAndBackends(t *testing.T) {
	onBoth(t, func(t *testing.T, tt *target) {
		info, err := tt.Info(t.Context())
		if err != nil || info.Worker.PID == 0 || info.Worker.StartTime == 0 || !strings.Contains(info.Version, ".") || info.Node == "" {
			t.Errorf("Info() = %+v, %v", info, err)
		}
		if state := mustState(t, tt.Client, "rr"); state.Info.Worker != info.Worker {
			t.Errorf("worker of State %v, of Info %v", state.Info.Worker, info.Worker)
		}
		names, err := tt.Backends(t.Context())
		if diff := cmp.Diff([]string{"rr", "fixed", "off", "shadow", "empty"}, names); err != nil || diff != "" {
			t.Errorf("Backends() = %v, %v", names, err)
		}
	})
}

func TestSetWeights(t *testing.T) {
	onBoth(t, func(t *testing.T, tt *target) {
		tt.run("set server rr/s3 state ready;set server rr/s4 weight 1\n")
		out := mustSet(t, tt.Client, "rr", Change{"s3", 1}, Change{"s1", 256}, Change{"s4", 77})
		if out.Applied != 3 || out.Failed != nil || out.Info.Worker.PID == 0 {
			t.Errorf("outcome %+v", out)
		}
		want := map[string]int{"s1": 256, "s2": 50, "s3": 1, "s4": 77}
		if diff := cmp.Diff(want, weights(out.After)); diff != "" {
			t.Errorf("read back (-want +got):\n%s", diff)
		}
		if n := tt.dials.Load(); n != 2 {
			t.Errorf("%d connections, want 2", n)
		}
		state := mustState(t, tt.Client, "rr")
		if diff := cmp.Diff(want, weights(state)); diff != "" {
			t.Errorf("state (-want +got):\n%s", diff)
		}
		if s, ok := state.Server("s1"); !ok || s.InitialWeight != 100 {
			t.Errorf("s1 = %+v", s)
		}
		if _, ok := state.Server("nosuch"); ok {
			t.Error("found a server that is not there")
		}
		// The same again is fine, and so is nothing.
		if out := mustSet(t, tt.Client, "rr", Change{"s1", 256}); out.Applied != 1 {
			t.Errorf("outcome %+v", out)
		}
		if out := mustSet(t, tt.Client, "rr"); out.Applied != 0 || out.Failed != nil || len(out.After.Servers) != 4 {
			t.Errorf("outcome of no change %+v", out)
		}
	})
}

// TestTakenOutBeforeTheFirstLine: what the caller has read may be seconds old.
func TestTakenOutBeforeTheFirstLine(t *testing.T) {
	onBoth(t, func(t *testing.T, tt *target) {
		tt.run("set server rr/s1 weight 0;set server rr/s2 state drain\n") // s3 is in maint and s4 at weight 0 by configuration
		out := mustSet(t, tt.Client, "rr", Change{"s1", 7}, Change{"s2", 7}, Change{"s3", 7}, Change{"s4", 7})
		if diff := cmp.Diff(map[string]int{"s1": 0, "s2": 50, "s3": 50, "s4": 0}, weights(out.After)); diff != "" || out.Applied != 0 {
			t.Errorf("outcome %+v (-want +got):\n%s", out, diff)
		}
		for _, name := range []string{"s1", "s2", "s3", "s4"} {
			if !errors.Is(out.Failed[name], ErrTakenOut) {
				t.Errorf("%s: %v", name, out.Failed[name])
			}
		}
		tt.run("set server rr/s2 state ready\n")
		if out := mustSet(t, tt.Client, "rr", Change{"s1", 7}, Change{"s2", 8}); out.Applied != 1 || weights(out.After)["s2"] != 8 {
			t.Errorf("outcome %+v", out)
		}
	})
}

func TestSetWeightsPerLine(t *testing.T) {
	onBoth(t, func(t *testing.T, tt *target) {
		tt.run("set server rr/s3 state ready;set server rr/s4 weight 1\n") // or the second line leaves them alone
		changes := []Change{{"s1", 10}, {"s2", 20}, {"s3", 30}, {"nosuch", 35}, {"s4", 40}}
		out, err := tt.SetWeights(t.Context(), "rr", changes, 2)
		if err != nil {
			t.Fatal(err)
		}
		if out.Applied != 4 || len(out.Failed) != 1 || !errors.Is(out.Failed["nosuch"], ErrNoServer) {
			t.Errorf("outcome %+v", out)
		}
		if diff := cmp.Diff(map[string]int{"s1": 10, "s2": 20, "s3": 30, "s4": 40}, weights(out.After)); diff != "" {
			t.Errorf("read back (-want +got):\n%s", diff)
		}
		if n := tt.dials.Load(); n != 4 {
			t.Errorf("%d connections for 5 changes at 2 a line, want 4", n)
		}
	})
}

func TestSetWeightsRefusals(t *testing.T) {
	onBoth(t, func(t *testing.T, tt *target) {
		out := mustSet(t, tt.Client, "fixed", Change{"s1", 100}, Change{"s2", 60}, Change{"gone", 1})
		if out.Applied != 1 || !errors.Is(out.Failed["s2"], ErrStaticAlgorithm) || !errors.Is(out.Failed["gone"], ErrNoServer) {
			t.Errorf("outcome %+v", out)
		}
		var op *OpError
		if !errors.As(out.Failed["s2"], &op) || op.Command != "set server fixed/s2 weight 60" {
			t.Errorf("error of s2: %+v", op)
		}
		for _, text := range []string{"static LB algorithm", "hash-type consistent", "set server fixed/s2 weight 60", tt.Address().String()} {
			if !strings.Contains(out.Failed["s2"].Error(), text) {
				t.Errorf("%q does not contain %q", out.Failed["s2"], text)
			}
		}
		for backend, want := range map[string]error{"nosuch": ErrNoBackend, "off": ErrDisabled} {
			if out, err := tt.SetWeights(t.Context(), backend, []Change{{"s1", 5}}, 0); out != nil || !errors.Is(err, want) {
				t.Errorf("SetWeights(%s) = %+v, %v, want %v", backend, out, err, want)
			}
		}
	})
}

// TestSetWeightsNothingSent: what is refused here never reaches HAProxy.
func TestSetWeightsNothingSent(t *testing.T) {
	onBoth(t, func(t *testing.T, tt *target) {
		long := strings.Repeat("x", 1025)
		for _, changes := range [][]Change{
			{{"s1", 0}}, {{"s1", -1}}, {{"s1", 257}},
			{{"", 1}}, {{"s1;set server rr/s2", 1}}, {{"s1 weight 5\nshow info", 1}}, {{"s1/s2", 1}}, {{`s\1`, 1}}, {{"#1", 1}}, {{"s1 <<", 1}}, {{long, 1}},
			{{"s1", 5}, {"s1", 6}},
		} {
			out, err := tt.SetWeights(t.Context(), "rr", append([]Change{{"s2", 9}}, changes...), 0)
			if out != nil || !is(err, ErrWeight, ErrName) {
				t.Errorf("%v: %+v, %v", changes, out, err)
			}
		}
		if n := tt.dials.Load(); n != 0 {
			t.Errorf("%d connections", n)
		}
		if w := weights(mustState(t, tt.Client, "rr")); w["s2"] != 50 {
			t.Errorf("weights %v", w)
		}
	})
}

func TestAdminStates(t *testing.T) {
	onBoth(t, func(t *testing.T, tt *target) {
		tt.run("set server rr/s1 state drain;set server rr/s2 state maint;set server rr/s3 state ready\n")
		s := mustState(t, tt.Client, "rr")
		var got []string
		for _, srv := range s.Servers {
			line := srv.Name + " " + srv.Op.String() + " " + srv.Admin.String()
			if srv.Draining() {
				line += " draining"
			}
			if srv.InService() {
				line += " in service"
			}
			got = append(got, line)
		}
		want := []string{
			"s1 running drain (forced-drain) draining",
			"s2 stopped maint (forced-maint)",
			"s3 running ready (config-maint) in service", // disabled in haproxy.cfg, made ready since
			"s4 running ready draining",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestProbe(t *testing.T) {
	onBoth(t, func(t *testing.T, tt *target) {
		before := weights(mustState(t, tt.Client, "rr"))
		if err := tt.Probe(t.Context()); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(before, weights(mustState(t, tt.Client, "rr"))); diff != "" {
			t.Errorf("the probe changed something: %s", diff)
		}
	})
}

func TestNoSessions(t *testing.T) {
	onBoth(t, func(t *testing.T, tt *target) {
		s, err := tt.SessionAges(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Ages) != 0 || s.Info.Worker.PID == 0 {
			t.Errorf("sessions %+v", s)
		}
	})
}

func TestLinesInOneConnectionEach(t *testing.T) {
	f := newFakeServer(t)
	c := NewClient(f.address(), Options{})
	mustState(t, c, "rr")
	mustSet(t, c, "rr", Change{"s1", 3}, Change{"s2", 4})
	want := []string{
		"show info;show servers state rr;show stat rr 6 -1\n",
		"show info;show servers state rr\n",
		"show info;set server rr/s1 weight 3;set server rr/s2 weight 4;show servers state rr\n",
	}
	if got := f.received(); !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
}
