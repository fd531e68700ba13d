package config

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// keyLine is a key of reference.toml, whether optional ("#key = ...") or not.
// Text has a blank after its "#".
var keyLine = regexp.MustCompile(`(?m)^#?([a-z_]+)\s*= `)

// weighLine is backend.script, which goes with function = "lua" only.
const weighLine = `#script = "/etc/haproxy-weighter/weigh.lua"`

// exclusive are the keys of reference.toml that can't stand side by side.
var exclusive = [][]string{{"username", "password_file"}, {"bearer_token_file"}}

func TestReferenceIsSoundAsItIs(t *testing.T) {
	got, err := Parse("reference.toml", []byte(Reference), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	minimal, err := Parse("reference.toml", []byte(Minimal), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	minimal.Graphite.URL = got.Graphite.URL // https, for the TLS keys
	if diff := cmp.Diff(minimal, got, compareRegexps); diff != "" {
		t.Errorf("an optional key is not commented out: -minimal +reference:\n%s", diff)
	}
}

// uncommented is the reference with every optional key in force but the named
// ones, and its files where the test has them.
func uncommented(folder string, without []string) string {
	lines := strings.Split(Reference, "\n")
	for i, line := range lines {
		m := keyLine.FindStringSubmatch(line)
		if m != nil && !slices.Contains(without, m[1]) && line != weighLine {
			lines[i] = strings.TrimPrefix(line, "#")
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "\n"), "/etc/haproxy-weighter/", folder+"/")
}

// referenceFolder has the files that the reference names.
func referenceFolder(t *testing.T) string {
	folder := t.TempDir()
	writeCertificate(t, folder)
	for name, text := range map[string]string{
		"graphite.password": "secret\n", "graphite.token": "secret\n",
		"answer.lua": "function answer() end\n", "weigh.lua": "function weigh() end\n",
	} {
		if err := os.WriteFile(folder+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestReferenceIsSoundWithALuaFunction(t *testing.T) {
	text := uncommented(referenceFolder(t), []string{"username", "password_file", "limiting_factor", "aggressiveness"})
	text = strings.Replace(text, `function = "limited-proportions"`, `function = "lua"`, 1)
	folder := regexp.MustCompile(`"(.*)/answer.lua"`).FindStringSubmatch(text)[1]
	text = strings.Replace(text, strings.ReplaceAll(weighLine, "/etc/haproxy-weighter", folder), `script = "`+folder+`/weigh.lua"`, 1)
	c, err := Parse("reference.toml", []byte(text), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	if b := c.Backends[0].Weighting; b.Function != "lua" || b.NewWeigher == nil || c.SPOA.Script == nil {
		t.Errorf("function %q, script of the backend %v, of the agent %v", b.Function, b.NewWeigher != nil, c.SPOA.Script)
	}
}

func TestReferenceIsSoundUncommented(t *testing.T) {
	folder := referenceFolder(t)
	for _, without := range exclusive {
		text := uncommented(folder, without)
		c, err := Parse("reference.toml", []byte(text), testEnv)
		if err != nil {
			t.Errorf("without %v: %v", without, err)
			continue
		}
		if c.Warnings != nil {
			t.Errorf("without %v: %v", without, c.Warnings)
		}
	}
}

// TestReferenceShowsTheDefaults takes away, one by one, the optional keys
// whose text does not call them an example: nothing may change.
func TestReferenceShowsTheDefaults(t *testing.T) {
	want, err := Parse("reference.toml", []byte(Reference), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for block := range strings.SplitSeq(Reference, "\n\n") {
		if strings.Contains(block, "Example") || !strings.Contains(block, "\n#") {
			continue
		}
		// Such a key is refused alone; TestMinimalHasTheDocumentedDefaults has it.
		dependent := strings.Contains(strings.ReplaceAll(block, "\n# ", " "), "Only with ")
		for _, m := range keyLine.FindAllStringSubmatch(block, -1) {
			line := m[0][1:]
			if !strings.HasPrefix(m[0], "#") || dependent || slices.Contains([]string{"limiting_factor", "aggressiveness", "stale_after"}, m[1]) {
				continue
			}
			shown := strings.Replace(block, m[0], line, 1)
			got, err := Parse("reference.toml", []byte(strings.Replace(Reference, block, shown, 1)), testEnv)
			if err != nil {
				t.Errorf("%s: %v", m[1], err)
				continue
			}
			if diff := cmp.Diff(want, got, compareRegexps); diff != "" {
				t.Errorf("%s is not shown with its default: -default +shown:\n%s", m[1], diff)
			}
			n++
		}
	}
	if n < 20 {
		t.Errorf("only %d keys compared", n)
	}
}

func TestReferenceHasEveryKey(t *testing.T) {
	r := &reader{file: "none", env: testEnv, flawed: map[string]bool{}}
	root := r.newTable("", "", nil)
	readFile(root)
	var known []string
	for _, table := range r.tables[1:] {
		for _, key := range table.known {
			known = append(known, joinPath(table.name, key))
		}
	}

	var documented []string
	table := ""
	header := regexp.MustCompile(`^\[+([a-z_.]+)\]+$`)
	for line := range strings.SplitSeq(Reference, "\n") {
		if m := header.FindStringSubmatch(line); m != nil {
			table = m[1]
		}
		if m := keyLine.FindStringSubmatch(line); m != nil {
			documented = append(documented, joinPath(table, m[1]))
		}
	}
	slices.Sort(known)
	slices.Sort(documented)
	if diff := cmp.Diff(known, documented); diff != "" {
		t.Errorf("-known to the decoder +documented in reference.toml:\n%s", diff)
	}
	if len(known) < 40 {
		t.Errorf("only %d keys", len(known))
	}
}
