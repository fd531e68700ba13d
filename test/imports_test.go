// Package test has what is tested about the repository as a whole.
package test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/haproxy-weighter/haproxy-weighter"

// mayImport is the import table: which packages of ours each package may
// import outside its tests. A package that is not in it fails the test: decide
// where it belongs before it exists. A name that ends in "/..." stands for all
// packages below.
var mayImport = map[string][]string{
	// For others to use: they know nothing of the daemon.
	"graphite":     {},
	"weighting":    {},
	"spoa":         {},
	"lua":          {},
	"haproxy-conf": {},

	// The daemon.
	"internal/haproxy":     {},
	"internal/script":      {"weighting", "lua"},
	"internal/config":      {"graphite", "weighting", "lua", "internal/haproxy", "internal/script"},
	"internal/balancer":    {"graphite", "weighting", "internal/haproxy", "internal/config"},
	"internal/query":       {"internal/balancer", "spoa", "lua"},
	"internal/api":         {"graphite", "weighting", "internal/balancer"},
	"internal/report":      {"graphite", "internal/balancer", "internal/config"},
	"internal/admin":       {"weighting", "internal/api", "internal/balancer", "internal/config"},
	"internal/state":       {"internal/balancer"},
	"internal/daemon":      {"graphite", "spoa", "lua", "weighting", "internal/..."},
	"internal/metrics":     {"graphite", "weighting", "spoa", "internal/haproxy", "internal/config", "internal/balancer", "internal/query"},
	"internal/simulate":    {"graphite", "weighting", "lua", "internal/script", "internal/config", "internal/balancer"},
	"internal/manual":      {},
	"internal/cli":         {"graphite", "weighting", "spoa", "lua", "haproxy-conf", "internal/...", "test/demo"},
	"cmd/haproxy-weighter": {"internal/cli"},

	// What ships beside the program.
	"packaging/grafana/generate": {},

	// Parts of tests and of the command "demo".
	"test":              {},
	"test/child":        {},
	"test/haproxyproc":  {"test/child"},
	"test/haproxytest":  {"test/haproxyproc"}, // for tests only: it imports testing
	"test/graphiteproc": {"test/child"},
	"test/ingest":       {},
	"test/logbook":      {},
	"test/memgraphite":  {},
	"test/demo":         {"test/haproxyproc", "test/ingest", "test/memgraphite", "graphite", "weighting", "internal/haproxy", "internal/config", "internal/balancer"},
	"test/scripts":      {},
	"test/metrics":      {},
	"test/docs":         {}, // tests only
	"test/e2e":          {},
	"test/operations":   {}, // tests only
	"test/bench":        {"test/haproxyproc", "graphite", "weighting", "internal/haproxy", "internal/config", "internal/balancer"},
	"test/luahaproxy":   {}, // tests only
	"test/packaging":    {}, // tests only
	"test/spoe":         {"test/haproxyproc", "haproxy-conf", "spoa"},
	"test/spoefaults":   {"test/spoe", "test/haproxyproc"},
	"test/benchspoa":    {"spoa", "test/haproxyproc"},
	"test/security":     {}, // tests only
	"test/faults":       {"test/child", "test/haproxyproc", "test/graphiteproc", "test/faults/trace", "test/faults/front"},
	"test/faults/trace": {},
	"test/faults/front": {"test/child", "test/faults/trace"},
	"test/corpus":       {},
	"test/corpus/keep":  {"test/corpus"},
	"test/convergence":  {"test/haproxyproc", "test/graphiteproc", "test/ingest", "weighting", "internal/config", "internal/balancer", "internal/simulate"},
}

// onlyImporters are the packages that may import a library at all, so that it
// can be replaced in one place.
var onlyImporters = map[string][]string{
	"github.com/BurntSushi/toml":           {"internal/config"},
	"github.com/spf13/cobra":               {"internal/cli"},
	"github.com/spf13/pflag":               {"internal/cli"},
	"github.com/negasus/haproxy-spoe-go":   {"spoa", "internal/query", "internal/daemon", "test/spoe", "test/benchspoa"},
	"github.com/prometheus":                {"internal/metrics"},
	"github.com/google/go-cmp":             {},
	"github.com/rogpeppe/go-internal":      {},
	"pgregory.net/rapid":                   {},
	"go.uber.org/goleak":                   {},
	"github.com/yuin/gopher-lua":           {"lua"},
	"testing":                              {"test/corpus", "test/haproxytest"},
	"github.com/inconshreveable/mousetrap": {},
}

// listed is what "go list -json" says of one package.
type listed struct {
	ImportPath string
	Imports    []string // outside tests
}

func TestImportTable(t *testing.T) {
	packages := list(t)
	if len(packages) < 5 {
		t.Fatalf("go list found only %d packages", len(packages))
	}
	for _, p := range packages {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		allowed, known := mayImport[name]
		if !known {
			t.Errorf("package %s is not in the import table of this test: add it, with the packages of ours that it may import", name)
			continue
		}
		for _, path := range p.Imports {
			if breach := judge(name, allowed, path); breach != "" {
				t.Error(breach)
			}
		}
	}
}

// judge says what is wrong with one import; nothing when it may be.
func judge(name string, allowed []string, path string) string {
	if ours, ok := strings.CutPrefix(path, module+"/"); ok {
		if !slices.ContainsFunc(allowed, func(a string) bool { return covers(a, ours) }) {
			return name + " may not import " + ours
		}
		return ""
	}
	for library, importers := range onlyImporters {
		if (path == library || strings.HasPrefix(path, library+"/")) && !slices.Contains(importers, name) {
			return name + " may not import " + path
		}
	}
	return ""
}

// covers tells whether an entry of the table stands for a package.
func covers(entry, name string) bool {
	if below, ok := strings.CutSuffix(entry, "/..."); ok {
		return strings.HasPrefix(name, below+"/")
	}
	return entry == name
}

func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", module+"/...")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, stderr.String())
	}
	var packages []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		packages = append(packages, p)
	}
}

// TestJudge holds that the table can be breached at all.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name, path string
		breach     bool
	}{
		{"weighting", "time", false},
		{"weighting", module + "/graphite", true},
		{"weighting", "github.com/BurntSushi/toml", true},
		{"internal/config", "github.com/BurntSushi/toml", false},
		{"internal/config", module + "/internal/balancer", true},
		{"internal/cli", module + "/internal/simulate", false},
		{"internal/cli", module + "/test/haproxyproc", true},
		{"internal/cli", "github.com/negasus/haproxy-spoe-go/agent", true},
		{"spoa", "github.com/negasus/haproxy-spoe-go/agent", false},
		{"test/ingest", "testing", true},
		{"test/ingest", "testing/iotest", true},
	} {
		breach := judge(c.name, mayImport[c.name], c.path)
		if (breach != "") != c.breach {
			t.Errorf("%s importing %s: judged %q, want a breach: %v", c.name, c.path, breach, c.breach)
		}
	}
}
