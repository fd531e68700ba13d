package simulate

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	userscript "github.com/haproxy-weighter/haproxy-weighter/internal/script"
	"github.com/haproxy-weighter/haproxy-weighter/lua"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// inverse is inverse proportion to the load.
const inverse = `
	function weigh(servers, backend)
		local shares = {}
		for _, s in ipairs(servers) do
			shares[s.name] = s.capacity / math.max(s.load / s.capacity, backend.mean / 5)
		end
		return shares
	end`

func scriptFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weigh.lua")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestScriptInTheModel: inverse proportion in Lua does what the built-in
// function does, since limits and all else are the same.
func TestScriptInTheModel(t *testing.T) {
	o := study(t, little(), 1, "equal", "limited-proportions:aggressiveness=1,limiting_factor=5", "lua:script="+scriptFile(t, inverse))
	imbalance := func(i int) float64 { return o.Rows[i].Results[0].Imbalance }
	if equal, builtIn, script := imbalance(0), imbalance(1), imbalance(2); script >= equal || script < builtIn*0.97 || script > builtIn*1.03 {
		t.Errorf("max/mean: equal weights %v, built in %v, script %v", equal, builtIn, script)
	}
}

func TestPoliciesOfScripts(t *testing.T) {
	for policy, want := range map[string]string{
		"lua":                                  "lua needs a script, as in lua:script=FILE",
		"lua:script=none.lua":                  "none.lua: can't read the script",
		"water-fill:script=x":                  "script=x, want a number",
		"lua:script=" + scriptFile(t, "x = 1"): "it defines no function weigh",
	} {
		if _, err := ParsePolicy(policy); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", policy, err, want)
		}
	}
}

// TestReplayOfAScript has a recording with further values.
func TestReplayOfAScript(t *testing.T) {
	s, err := lua.Load(scriptFile(t, `
		function weigh(servers)
			local shares = {}
			for _, s in ipairs(servers) do shares[s.name] = 1 / (1 + (s.metrics.errors or 0)) end
			return shares
		end`), lua.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := replayed()
	if err := userscript.Weighing(&r.Backend.Weighting, s, "ingest"); err != nil {
		t.Fatal(err)
	}
	r.Backend.ServerRegexp, r.Backend.ServerName = regexp.MustCompile(`^tcp-service\.([^.]*)\.received$|^(.*/errors)$`), "$1$2"
	body := strings.TrimSuffix(recorded(), "]") + "," + strings.ReplaceAll(strings.TrimPrefix(recorded(), "["), "tcp-service.", "")
	body = regexp.MustCompile(`"([abc])\.received"`).ReplaceAllString(body, `"$1/errors"`)
	steps := replaySteps(t, r, body)
	var names []string
	var weights []int
	for _, server := range steps[0].Servers {
		names, weights = append(names, server.Server), append(weights, server.Weight)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, names); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// 1/1001 : 1/2001 : 1/3001
	if diff := cmp.Diff([]int{256, 128, 85}, weights); diff != "" || steps[0].Verdict != weighting.Write {
		t.Errorf("%s: %s, -want +got:\n%s", steps[0].Verdict, steps[0].Why, diff)
	}
}
