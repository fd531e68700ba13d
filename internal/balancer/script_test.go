package balancer

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/script"
	"github.com/haproxy-weighter/haproxy-weighter/lua"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// scripted is the backend weighed by a script of this text.
func scripted(t *testing.T, text string) config.Backend {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weigh.lua")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := lua.Load(path, lua.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := ingest()
	b.FunctionSet = true
	if err := script.Weighing(&b.Weighting, s, b.Name); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestScriptWeighsByFurtherValues: series with a slash in their server's name
// go to the script beside the load, and to the table.
func TestScriptWeighsByFurtherValues(t *testing.T) {
	b := scripted(t, `
		function weigh(servers, backend)
			assert(backend.name == "ingest" and #servers == 4 and #backend.others == 0)
			local shares = {}
			for _, s in ipairs(servers) do
				shares[s.name] = 1 / (1 + (s.metrics.errors or 0) + (s.metrics.late or 100))
			end
			return shares
		end`)
	g := newGraphite(map[string]float64{
		"s1": 10, "s2": 10, "s3": 10, "s4": 10,
		"s1/late": 0, "s2/late": 1, "s3/late": 3, "s4/late": 1, "s4/errors": 2, "s9/late": 5,
	})
	tables, err := newRig(t, b, g, fourServers()).balancer.Plan(t.Context())
	if err != nil || len(tables) != 1 {
		t.Fatalf("%d tables, error %v", len(tables), err)
	}
	table := tables[0]
	weights := map[string]int{}
	for _, r := range table.Rows {
		weights[r.Server] = r.Weight
	}
	if diff := cmp.Diff(map[string]int{"s1": 256, "s2": 128, "s3": 64, "s4": 64}, weights); diff != "" || table.Function != weighting.Lua {
		t.Errorf("function %s, why %q (-want +got):\n%s", table.Function, table.Why, diff)
	}
	if diff := cmp.Diff(map[string]float64{"late": 1, "errors": 2}, table.row("s4").Metrics); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	rows, err := Loads(t.Context(), g, b, []string{"s1", "s2", "s3", "s4"})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if want := r.Server != "s9"; r.Usable != want || r.Series == "s4/late" && (r.Server != "s4" || r.Metric != "late") {
			t.Errorf("%+v", r)
		}
	}
}

// TestFurtherValuesAreForScripts: for any other function a slash is a part of a
// name that no server has.
func TestFurtherValuesAreForScripts(t *testing.T) {
	g := newGraphite(map[string]float64{"s1": 10, "s2": 10, "s3": 10, "s4": 10, "s1/late": 0})
	tables, err := newRig(t, ingest(), g, fourServers()).balancer.Plan(t.Context())
	if err != nil || len(tables) != 1 || tables[0].row("s1").Metrics != nil {
		t.Errorf("tables %+v, error %v", tables, err)
	}
}

// TestScriptThatFailsHolds: told once when it begins, once when it is over;
// and what a script prints is logged.
func TestScriptThatFailsHolds(t *testing.T) {
	b := scripted(t, `
		local passes = 0
		function weigh(servers)
			passes = passes + 1
			print("pass", passes)
			if passes > 1 and passes < 5 then error("on strike") end
			local shares = {}
			for _, s in ipairs(servers) do shares[s.name] = 1 / s.load end
			return shares
		end`)
	synctest.Test(t, func(t *testing.T) {
		p := fourServers()
		r := newRig(t, b, newGraphite(uneven()), p)
		r.start()
		defer r.stop()
		time.Sleep(75 * time.Second)
		synctest.Wait()
		table := r.table(0)
		if table.Verdict != weighting.Hold || table.HoldCode != weighting.HoldScript || p.writeCount() != 1 {
			t.Errorf("verdict %s, code %s, %d writes", table.Verdict, table.HoldCode, p.writeCount())
		}
		r.wantLog(1, `msg="weights are held"`)
		r.wantLog(1, "correct backend.script and reload")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if table := r.table(0); table.Verdict == weighting.Hold {
			t.Errorf("still holding: %s", table.Why)
		}
		r.wantLog(1, "weights are no longer held for that reason (script)")
		r.wantLog(1, `msg="the script prints"`+" backend=ingest socket=unix:/run/0.sock text=\"pass\\t3\"")
	})
}
