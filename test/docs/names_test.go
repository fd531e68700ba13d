package docs

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// keys are those of the configuration, with and without their table. A test of
// internal/config holds that reference.toml has each key that is accepted, and no other.
func keys(t *testing.T) fields {
	t.Helper()
	all := fields{}
	table := ""
	for line := range strings.Lines(config.Reference) {
		if m := regexp.MustCompile(`^\[+([a-z]+)\]+$`).FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			table = m[1]
		}
		if m := regexp.MustCompile(`^#?([a-z_]+)\s*= `).FindStringSubmatch(line); m != nil {
			all[m[1]], all[table+"."+m[1]] = true, true
		}
	}
	if len(all) < 80 {
		t.Fatalf("only %d keys found", len(all))
	}
	return all
}

// literals are the quoted strings of the program and of its Lua: names of functions, of
// labels and their values, of variables, of keys of the log.
func literals(t *testing.T) fields {
	t.Helper()
	all := fields{}
	quoted := regexp.MustCompile(`"([a-z][a-z0-9_-]*)"`)
	for _, folder := range []string{"graphite", "internal", "lua", "spoa", "weighting"} {
		err := filepath.WalkDir(filepath.Join(repository, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || strings.HasSuffix(path, "_test.go") || !slices.Contains([]string{".go", ".lua"}, filepath.Ext(path)) {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range quoted.FindAllStringSubmatch(string(text), -1) {
				all[m[1]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// others are words of HAProxy, Lua, Prometheus and systemd that the documents use, and
// names that are examples.
var others = strings.Fields(`
	args chroot default_backend dst global group inspect-delay load-server-state-from-file lua-load lua-load-per-thread
	map_str_int pool-low-conn sess setenv spoe-message txn use_backend use-server
	local randomseed return
	rule_files critical
	systemd-sysusers etc usr grafana prometheus
	tau`)

var (
	name     = regexp.MustCompile(`^[a-z][a-z0-9]*([_-][a-z0-9]+)*$`)
	tableKey = regexp.MustCompile(`\b(haproxy|graphite|spoa|admin|state|report|log|backend)\.([a-z_]+)\b`)
	setting  = regexp.MustCompile(`^([a-z_]+) = `)
)

// TestNamesExist holds that each name in backquotes is one of the program's: a key of the
// configuration, a field of JSON, a command, a target of make, or a word that the source
// has; or one of the words of others above.
func TestNamesExist(t *testing.T) {
	known := keys(t)
	maps.Copy(known, literals(t))
	known.of(api.Status{})
	for c := range commands(t) {
		known[c] = true
	}
	for target := range targets(t) {
		known[target] = true
	}
	used := fields{}
	for _, d := range documents(t) {
		if d.name == "docs/json.md" {
			continue // TestJSONFields
		}
		for _, s := range spans(d.prose()) {
			switch {
			case !name.MatchString(s) || known[s] || strings.HasPrefix(s, "haproxy_weighter_"): // metrics: below
			case slices.Contains(others, s):
				used[s] = true
			case d.name == "docs/metrics.md" && strings.Contains(read(t, d.name), "`haproxy_weighter_"+s+"`"):
			default:
				t.Errorf("%s: nothing is called %q", d.name, s)
			}
		}
	}
	for _, s := range others {
		if !used[s] {
			t.Errorf("no document says %q as a word of others: take it out of this test", s)
		}
	}
}

// TestKeysExist holds that each key of the configuration that a document names exists:
// table.key anywhere, and key = value.
func TestKeysExist(t *testing.T) {
	known := keys(t)
	n := 0
	for _, d := range documents(t) {
		for _, s := range spans(d.prose()) {
			// No paths; backend.servers and so on are the Lua table of docs/lua.md.
			if m := tableKey.FindStringSubmatch(s); m != nil && m[2] != "cfg" && !strings.Contains(s, "/") && !strings.Contains(s, "backend.servers") {
				n++
				if !known[m[0]] {
					t.Errorf("%s: there is no key %s", d.name, m[0])
				}
			}
			if m := setting.FindStringSubmatch(s); m != nil {
				n++
				if !known[m[1]] {
					t.Errorf("%s: there is no key %s", d.name, m[1])
				}
			}
		}
	}
	if n < 50 {
		t.Errorf("only %d keys found in the documents", n)
	}
}

// TestMetricsAndAlertsExist holds that each metric is one of docs/metrics.md, which
// internal/metrics compares with the program, and each alert one of the rules.
func TestMetricsAndAlertsExist(t *testing.T) {
	metrics := read(t, "docs/metrics.md")
	rules := read(t, "packaging/prometheus/haproxy-weighter.rules.yml")
	n := 0
	for _, d := range documents(t) {
		text := read(t, d.name)
		for _, m := range regexp.MustCompile(`\bhaproxy_weighter_\w+`).FindAllString(text, -1) {
			n++
			if !strings.Contains(metrics, "\n| `"+m+"` |") {
				t.Errorf("%s: there is no metric %s", d.name, m)
			}
		}
		for _, m := range regexp.MustCompile(`\bHAProxyWeighter\w+`).FindAllString(text, -1) {
			n++
			if !strings.Contains(rules, "- alert: "+m+"\n") {
				t.Errorf("%s: there is no alert %s", d.name, m)
			}
		}
	}
	if n < 150 {
		t.Errorf("only %d metrics and alerts found", n)
	}
}

// TestHoldCodes holds that docs/metrics.md lists each cause for which weights can be held.
func TestHoldCodes(t *testing.T) {
	var source strings.Builder
	for _, pattern := range []string{"weighting/*.go", "internal/balancer/*.go"} {
		files, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(text)
		}
	}
	_, list, ok := strings.Cut(parse(t, "docs/metrics.md").section(t, "Backends").text, "`code` is one of ")
	told := spans(list)
	codes := regexp.MustCompile(`(?m)^\s*(?:const )?Hold[A-Z]\w+ += "([a-z-]+)"`).FindAllStringSubmatch(source.String(), -1)
	if !ok || len(codes) < 8 {
		t.Fatalf("only the codes %v in the source, %v in the document", codes, told)
	}
	for _, m := range codes {
		if !slices.Contains(told, m[1]) {
			t.Errorf("docs/metrics.md does not list the code %s", m[1])
		}
	}
}

// TestMessagesExist holds that each SPOE message and variable that a document other than
// docs/spoe.md names is in that one, which test/spoe compares with the program.
func TestMessagesExist(t *testing.T) {
	spoe := read(t, "docs/spoe.md")
	for _, d := range documents(t) {
		text := read(t, d.name)
		for _, m := range regexp.MustCompile(`\bweighter-(?:backend|server|pick|choose)\w*`).FindAllString(text, -1) {
			if !strings.Contains(spoe, "\n| `"+m+"` |") {
				t.Errorf("%s: there is no message %s", d.name, m)
			}
		}
		for _, m := range regexp.MustCompile(`\btxn\.weighter\.(\w+)`).FindAllStringSubmatch(text, -1) {
			own := []string{"NAME", "error", "wait"} // wait: of the script in docs/lua.md
			if d.name != "docs/spoe.md" && !slices.Contains(own, m[1]) && !strings.Contains(spoe, "`"+m[1]+"`") {
				t.Errorf("%s: there is no variable %s", d.name, m[0])
			}
		}
	}
}

// TestChecks compares the names of checks in docs/json.md with the source.
func TestChecks(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(repository, "internal/cli/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	known, told := fields{}, fields{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?:s\.add\(|s\.others\(|\b[cC]heck: +)"([a-z-]+)"`).FindAllStringSubmatch(string(text), -1) {
			known[m[1]] = true
		}
	}
	table := false
	for _, cells := range rows(parse(t, "docs/json.md").section(t, "`check --json` and `check --live --json`").text) {
		if table {
			told[strings.Trim(cells[0], "`")] = true
		}
		table = table || len(cells) == 3 && cells[1] == "of"
	}
	if diff := cmp.Diff(known, told); diff != "" {
		t.Errorf("checks (-in the program +in docs/json.md):\n%s", diff)
	}
}

// TestExitCodes compares the tables of exit codes with the program, and looks for others.
func TestExitCodes(t *testing.T) {
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^\texit[A-Z]\w+ += (\d+)`).FindAllStringSubmatch(read(t, "internal/cli/cli.go"), -1) {
		want = append(want, m[1])
	}
	for name, heading := range map[string]string{"README.md": "Commands", "docs/operations.md": "Life cycle"} {
		var told []string
		for _, cells := range rows(parse(t, name).section(t, heading).text) {
			if regexp.MustCompile(`^\d$`).MatchString(cells[0]) {
				told = append(told, cells[0])
			}
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("exit codes (-in the program +in %s):\n%s", name, diff)
		}
	}
	for _, d := range documents(t) {
		for _, m := range regexp.MustCompile(`(?i)\bexit code:? (\d+)`).FindAllStringSubmatch(d.prose(), -1) {
			if !slices.Contains(want, m[1]) {
				t.Errorf("%s: %s: there is no such", d.name, m[0])
			}
		}
	}
}

// targets are those of the Makefile.
func targets(t *testing.T) fields {
	t.Helper()
	all := fields{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(read(t, "Makefile"), -1) {
		all[m[1]] = true
	}
	return all
}

// TestMakeTargets holds that each "make TARGET VARIABLE=..." of the documents is there,
// that flags in such a variable are of that program, and that each target is told.
func TestMakeTargets(t *testing.T) {
	known, told := targets(t), fields{"all": true, "clean": true}
	makefile := read(t, "Makefile")
	line := regexp.MustCompile("(?:^|[\\s`])make((?: [a-zA-Z_-]+(?:=(?:'[^']*'|\"[^\"]*\"|[^\\s`]+))?)+)")
	for _, d := range documents(t) {
		text := strings.Join(spans(d.prose()), "\n")
		for _, s := range d.sections {
			for _, b := range s.blocks {
				text += "\n" + b.text
			}
		}
		for _, m := range line.FindAllStringSubmatch(text, -1) {
			for _, w := range regexp.MustCompile(`([a-zA-Z_-]+)(=(?:'[^']*'|"[^"]*"|\S+))?`).FindAllStringSubmatch(m[1], -1) {
				if w[2] == "" && !known[w[1]] {
					t.Errorf("%s: make %s: there is no such target", d.name, w[1])
				}
				if w[2] != "" && !strings.Contains(makefile, "$("+w[1]+")") && !strings.Contains(makefile, "$(if $("+w[1]) {
					t.Errorf("%s: make%s: the Makefile has no %s", d.name, m[1], w[1])
				}
				told[w[1]] = true
				flagsExist(t, d, w[1], w[2])
			}
		}
		if d.name == "CONTRIBUTING.md" { // "the other targets ..."
			for _, s := range spans(d.prose()) {
				told[s] = true
			}
		}
	}
	for target := range known {
		if !told[target] {
			t.Errorf("no document tells of make %s", target)
		}
	}
}

// programs are the sources of the programs that the Makefile hands flags to.
var programs = map[string]string{"FAULTS_FLAGS": "faults", "SOAK_FLAGS": "faults", "CONVERGENCE_FLAGS": "convergence"}

func flagsExist(t *testing.T, d *document, variable, value string) {
	t.Helper()
	for _, f := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(value, -1) {
		files, err := filepath.Glob(filepath.Join(repository, "test", programs[variable], "*.go"))
		if err != nil || programs[variable] == "" {
			t.Fatalf("%s: %s%s: this test does not know the program: %v", d.name, variable, value, err)
		}
		if !slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && regexp.MustCompile(`Var\([^"\n]*"`+f[1]+`"`).Match(text)
		}) {
			t.Errorf("%s: %s%s: there is no flag --%s", d.name, variable, value, f[1])
		}
	}
}
