package balancer

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

func TestPlanChangesNothing(t *testing.T) {
	p := fourServers()
	tables, err := newRig(t, ingest(), newGraphite(uneven()), p).balancer.Plan(t.Context())
	if err != nil || len(tables) != 1 {
		t.Fatalf("%d tables, error %v", len(tables), err)
	}
	row := tables[0].row("s1")
	if p.writeCount() != 0 || row.AppliedWeight != 100 || row.Weight >= 100 || len(row.Reasons) == 0 || tables[0].Changes != 0 {
		t.Errorf("%d writes, %d changes, row %+v: want the new weight beside the old one, nothing written", p.writeCount(), tables[0].Changes, *row)
	}
}

func TestPlanJoinsItsErrors(t *testing.T) {
	dead, well, g := fourServers(), fourServers(), newGraphite(nil)
	dead.down, g.err = errors.New("connection refused"), errors.New("status 503")
	tables, err := newRig(t, ingest(), g, dead, well).balancer.Plan(t.Context())
	if err == nil || !strings.Contains(err.Error(), "connection refused") || !strings.Contains(err.Error(), "status 503") {
		t.Errorf("error %v: want what HAProxy and what Graphite said", err)
	}
	if len(tables) != 1 || tables[0].Verdict != weighting.Hold || len(tables[0].Rows) != 4 {
		t.Errorf("tables %+v: want that of the HAProxy that answers, holding", tables)
	}
}

func TestPlanOfABackendThatIsNowhere(t *testing.T) {
	p := fourServers()
	p.missing = true
	if tables, err := newRig(t, ingest(), newGraphite(uneven()), p).balancer.Plan(t.Context()); err == nil || len(tables) != 0 {
		t.Errorf("tables %v, error %v", tables, err)
	}
	named := ingest()
	named.Sockets = []haproxy.Address{{Kind: "unix", Path: "/run/0.sock"}}
	if _, err := newRig(t, named, newGraphite(uneven()), p).balancer.Plan(t.Context()); err == nil {
		t.Error("no error for a named socket without the backend")
	}
}

func TestPlanWithServerTargets(t *testing.T) {
	b := ingest()
	b.Target = "load.{server}"
	tables, err := newRig(t, b, newGraphite(uneven()), fourServers()).balancer.Plan(t.Context())
	if err != nil || len(tables) != 1 || tables[0].Fresh != 4 {
		t.Errorf("tables %+v, error %v", tables, err)
	}
}

func TestPlanesOfABackend(t *testing.T) {
	all := []Plane{{Socket: "unix:/a"}, {Socket: "unix:/b"}, {Socket: "unix:/c"}}
	for _, test := range []struct {
		sockets []haproxy.Address
		want    []string
	}{
		{nil, []string{"unix:/a", "unix:/b", "unix:/c"}},
		{[]haproxy.Address{{Kind: "unix", Path: "/c"}, {Kind: "unix", Path: "/a"}}, []string{"unix:/a", "unix:/c"}},
	} {
		var got []string
		for _, p := range planesOf(&config.Backend{Sockets: test.sockets}, all) {
			got = append(got, p.Socket)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("sockets %v (-want +got):\n%s", test.sockets, diff)
		}
	}
}

func TestIntervalHasJitter(t *testing.T) {
	for jitter, want := range map[float64]time.Duration{0: 27 * time.Second, 0.5: 30 * time.Second, 0.9999: 33 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, ingest(), newGraphite(uneven()), fourServers())
			r.balancer.options.Jitter = func() float64 { return jitter }
			start := time.Now()
			r.balancer.rest(t.Context(), start)
			if got := time.Since(start).Round(time.Second); got != want {
				t.Errorf("jitter %v: a rest of %s, want %s", jitter, got, want)
			}
		})
	}
}

func TestAlgorithmFirstIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		p.state.Algorithm = "first"
		r := newRig(t, ingest(), newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		r.wantLog(1, "weights have no effect")
		if r.table(0).Fault == "" {
			t.Error("the table tells no fault")
		}
	})
}

func TestSeriesOfNobodyAreToldAtChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGraphite(uneven())
		g.loads["s99"] = 1
		r := newRig(t, ingest(), g, fourServers())
		r.start()
		defer r.stop()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		r.wantLog(1, "series that are for no server")
		g.do(func() { delete(g.loads, "s99") })
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		r.wantLog(2, "series that are for no server")
	})
}
