package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/cli"
	"github.com/haproxy-weighter/haproxy-weighter/internal/simulate"
	"github.com/haproxy-weighter/haproxy-weighter/test/demo"
)

// fields is a set of names.
type fields map[string]bool

// of collects the fields of a type and of all types in it, but for those of the
// types in without: their section is another one.
func (f fields) of(v any, without ...any) fields {
	var skip []reflect.Type
	for _, w := range without {
		skip = append(skip, reflect.TypeOf(w))
	}
	f.collect(reflect.TypeOf(v), skip)
	return f
}

func (f fields) collect(t reflect.Type, skip []reflect.Type) {
	for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map}, t.Kind()) {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || slices.Contains(skip, t) {
		return
	}
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
			continue
		case name != "":
			f[name] = true
		case !field.Anonymous:
			continue // not a type that is made for JSON: time.Time and the like
		}
		f.collect(field.Type, skip)
	}
}

// printed collects the fields of what the program prints, but for what is below the
// fields in open, whose names are data.
func (f fields) printed(t *testing.T, open []string, args ...string) fields {
	t.Helper()
	var out, errs strings.Builder
	p := &cli.Program{Stdout: &out, Stderr: &errs}
	if code := p.Run(t.Context(), args); code != 0 {
		t.Fatalf("%v: exit code %d: %s", args, code, errs.String())
	}
	var v any
	if err := json.Unmarshal([]byte(out.String()), &v); err != nil {
		t.Fatalf("%v: %v: %s", args, err, out.String())
	}
	f.walk(v, open)
	return f
}

func (f fields) walk(v any, open []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			f.walk(e, open)
		}
	case map[string]any:
		for name, e := range v {
			f[name] = true
			if !slices.Contains(open, name) {
				f.walk(e, open)
			}
		}
	}
}

// jsonSections are the sections of docs/json.md with the fields that each has to tell.
func jsonSections(t *testing.T) map[string]fields {
	t.Helper()
	folder := t.TempDir()
	put := func(name, text string) string {
		t.Helper()
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	config := put("weighter.toml", "[haproxy]\nsockets = [\"/run/none.sock\"]\n[graphite]\nurl = \"http://127.0.0.1:9\"\n[[backend]]\nname = \"ingest\"\ntarget = \"x\"\n")
	canary := filepath.Join(repository, "lua/examples/canary")
	answer := put("answer.lua", "function answer() return { wait = true } end\n")
	recording := put("recorded.json", `[{"target": "s1", "datapoints": [[1, 1700000000], [2, 1700000010]]}]`)

	sections := map[string]fields{
		"`loads BACKEND --json`":                                     fields{}.of(balancer.LoadRow{}),
		"`plan [BACKEND] --json`":                                    fields{}.of(api.Table{}),
		"`check --json` and `check --live --json`":                   fields{}.printed(t, nil, "check", "--json", "-f", config),
		"`status [BACKEND] --json`":                                  fields{}.of(api.Status{}, api.Table{}),
		"`explain BACKEND/SERVER --json`":                            {},
		"`history BACKEND --json`":                                   fields{}.of(api.History{}),
		"`pin`, `unpin`, `freeze`, `unfreeze`, `mode` with `--json`": fields{}.of(api.Done{}, balancer.Control{}),
		"`demo --json`":                                              fields{}.of(demo.Result{}),
		"`haproxy-conf --json`":                                      fields{}.printed(t, nil, "haproxy-conf", "--list", "--json"),
		"The HTTP API":                                               fields{}.of(api.Tables{}, api.Table{}).of(api.Problem{}),
		"`/api/v1/events`":                                           fields{}.of(api.Pass{}),
		"Orders":                                                     fields{}.of(api.Order{}),
	}
	sections["`lua FILE --json`"] = fields{}.printed(t, []string{"metrics", "reasons"}, "lua", canary+".lua", "--table", canary+".json", "--json", "--bench", "2").
		printed(t, []string{"variables"}, "lua", answer, "--table", canary+".json", "--message", "x", "--json", "--bench", "2")
	// "reasons" are those of plan.
	sections["`simulate --json`"] = fields{"worst": true}.of(simulate.Worst{}).
		printed(t, nil, "simulate", "--json", "--servers", "2", "--connections", "20", "--seeds", "1", "--lifetime", "1m", "--policy", "equal").
		printed(t, []string{"reasons"}, "simulate", "--json", "--series", recording, "-f", config)
	return sections
}

// jsonWords are words in backquotes that are no fields of their section: values, and
// fields of another section that is named there.
var jsonWords = map[string][]string{
	"`plan [BACKEND] --json`": {"plan", "live", "observe", "write", "keep", "hold", "run", "balance", "sessions", "little", "ready", "drain", "maint", "running",
		"starting", "stopping", "stopped"},
	"`check --json` and `check --live --json`":                   {"ok", "warn", "fail"},
	"`status [BACKEND] --json`":                                  {"graphite", "socket", "frozen", "plan", "reasons", "mode", "weight"},
	"`history BACKEND --json`":                                   {"weights", "foreign", "order", "hold", "fault", "good", "reload"},
	"`lua FILE --json`":                                          {"weigh", "answer", "script", "plan"},
	"`simulate --json`":                                          {"imbalance"},
	"`demo --json`":                                              {},
	"`haproxy-conf --json`":                                      {},
	"`explain BACKEND/SERVER --json`":                            {"plan", "servers"},
	"`pin`, `unpin`, `freeze`, `unfreeze`, `mode` with `--json`": {"status"},
	"`loads BACKEND --json`":                                     {"aggregate"},
	"The HTTP API":                                               {"worst", "name", "load", "share", "weight", "sessions", "age", "reasons", "series"},
	"`/api/v1/events`":                                           {"pass", "beat"},
	"Orders":                                                     {"pin", "unpin", "freeze", "unfreeze", "mode", "live", "observe", "file"},
}

var word = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// TestJSONFields compares docs/json.md with what the program prints and sends: each field
// is told in its section, and what is told there is a field, or a value listed above.
func TestJSONFields(t *testing.T) {
	d := parse(t, "docs/json.md")
	for heading, want := range jsonSections(t) {
		// The table of checks is compared by TestChecks.
		text, _, _ := strings.Cut(d.section(t, heading).text, "| `check` | of |")
		told, named := fields{}, fields{}
		for _, s := range spans(text) {
			for _, m := range regexp.MustCompile(`"([a-z_]+)"`).FindAllStringSubmatch(s, -1) {
				told[m[1]] = true
			}
			if word.MatchString(s) {
				told[s] = true
			}
		}
		for name := range want {
			if !told[name] {
				t.Errorf("docs/json.md, %s: the field %q is not told", heading, name)
			}
		}
		for name := range told {
			if !want[name] && !slices.Contains(jsonWords[heading], name) {
				t.Errorf("docs/json.md, %s: %q is no field there", heading, name)
			}
		}
		for _, name := range jsonWords[heading] {
			if !told[name] {
				named[name] = true
			}
		}
		if len(named) > 0 {
			t.Errorf("%s: this test expects words that are not there: %v", heading, named)
		}
	}
}

// TestEveryJSONSectionIsCompared holds that no section of docs/json.md is left out above.
func TestEveryJSONSectionIsCompared(t *testing.T) {
	compared := jsonSections(t)
	var left []string
	for _, s := range parse(t, "docs/json.md").sections {
		if _, ok := compared[s.heading]; !ok && s.heading != "" {
			left = append(left, s.heading)
		}
	}
	if diff := cmp.Diff([]string{"The fields of `--json`", "The history", "Who may ask"}, left); diff != "" {
		t.Errorf("sections without fields (-known +there):\n%s", diff)
	}
}
