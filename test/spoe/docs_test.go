package spoe

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/negasus/haproxy-spoe-go/action"
	"github.com/negasus/haproxy-spoe-go/message"

	haproxyconf "github.com/haproxy-weighter/haproxy-weighter/haproxy-conf"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/query"
	"github.com/haproxy-weighter/haproxy-weighter/spoa"
)

const document = "../../docs/spoe.md"

// quoted finds words in backquotes.
var quoted = regexp.MustCompile("`([^`]+)`")

// documented is a document's message.
type documented struct{ Args, Variables []string }

// TestDocumentMessages holds that docs/spoe.md and the program have the same messages,
// arguments and variables.
func TestDocumentMessages(t *testing.T) {
	text := read(t, document)
	told := map[string]documented{}
	described := map[string]bool{}
	for _, cells := range tableRows(text) {
		switch {
		case len(cells) == 3 && strings.HasPrefix(cells[0], "`weighter-"):
			told[words(cells[0])[0]] = documented{words(cells[1]), slices.Sorted(slices.Values(words(cells[2])))}
		case len(cells) == 3 && slices.Contains([]string{"boolean", "integer", "string"}, cells[1]):
			for _, v := range words(cells[0]) {
				described[v] = true
			}
		}
	}
	handler := tables{"ingest": rows(1, 2, 3)}.handler().(*query.Handler)
	real := map[string]documented{}
	set := map[string]bool{}
	for name := range handler.Counts().ByMessage {
		d := documented{Args: told[name].Args, Variables: variables(t, handler, name, told[name].Args)}
		for _, v := range d.Variables {
			set[v] = true
		}
		real[name] = d
		for i, arg := range d.Args { // each one is needed
			if got := variables(t, handler, name, slices.Delete(slices.Clone(d.Args), i, i+1)); len(got) > 0 {
				t.Errorf("%s sets %v without the argument %s", name, got, arg)
			}
		}
	}
	if diff := cmp.Diff(real, told); diff != "" {
		t.Errorf("messages (-in the program +in %s):\n%s", document, diff)
	}
	if diff := cmp.Diff(set, described); diff != "" {
		t.Errorf("variables (-in the program +described in %s):\n%s", document, diff)
	}
}

// variables asks one message and returns the names that are set, sorted.
func variables(t *testing.T, h spoa.Handler, name string, args []string) []string {
	t.Helper()
	m := message.AcquireMessage()
	m.Name = name
	for _, arg := range args {
		value, ok := map[string]string{"backend": "ingest", "backends": "ingest", "server": "s1"}[arg]
		if !ok {
			t.Fatalf("%s has an argument %q that this test does not know", name, arg)
		}
		m.KV.Add(arg, value)
	}
	var answer action.Actions
	if err := h.ServeSPOE(&answer, &spoa.Request{Messages: message.Messages{m}}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range answer {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	return names
}

// TestVariablesExist holds that whatever is read in the document and in the examples is
// set by some message.
func TestVariablesExist(t *testing.T) {
	handler := tables{"ingest": rows(1, 2, 3)}.handler()
	known := map[string]bool{"error": true, "NAME": true}
	for name, args := range map[string][]string{
		"weighter-backend": {"backend"}, "weighter-server": {"backend", "server"},
		"weighter-pick": {"backend"}, "weighter-choose": {"backends"},
	} {
		for _, v := range variables(t, handler, name, args) {
			known[v] = true
			for _, as := range []string{"a_", "b_", "least_"} { // the words after "as" in them
				known[as+v] = true
			}
		}
	}
	files, err := filepath.Glob("../../haproxy-conf/*/*")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range append(files, document) {
		for _, m := range regexp.MustCompile(`txn\.weighter\.(\w+)`).FindAllStringSubmatch(read(t, file), -1) {
			found[m[1]] = true
			if !known[m[1]] {
				t.Errorf("%s reads txn.weighter.%s, which no message sets", file, m[1])
			}
		}
	}
	if len(found) < 10 {
		t.Errorf("only %v are read anywhere", slices.Sorted(maps.Keys(found)))
	}
}

// TestDocumentNames holds that the keys of weighter.toml and the examples that the document
// names exist.
func TestDocumentNames(t *testing.T) {
	text := read(t, document)
	keys := regexp.MustCompile(`\bspoa\.([a-z_]+)`).FindAllStringSubmatch(text, -1)
	if len(keys) == 0 {
		t.Error("no key of [spoa] is named")
	}
	for _, m := range keys {
		if !regexp.MustCompile(`(?m)^#?` + m[1] + ` = `).MatchString(config.Reference) {
			t.Errorf("%s names spoa.%s, which reference.toml has not", document, m[1])
		}
	}
	var named []string
	for _, m := range regexp.MustCompile(`\(\.\./haproxy-conf/([a-z-]+)\)`).FindAllStringSubmatch(text, -1) {
		named = append(named, m[1])
	}
	var want []string
	for _, e := range haproxyconf.Examples() {
		want = append(want, e.Name)
	}
	if diff := cmp.Diff(want, named); diff != "" {
		t.Errorf("examples (-there +in the document):\n%s", diff)
	}
}

// TestDocumentTable holds that the document's table has a line for each fault.
func TestDocumentTable(t *testing.T) {
	var got []string
	for _, cells := range tableRows(read(t, document)) {
		if len(cells) > 2 && strings.HasPrefix(cells[1], "+") {
			got = append(got, cells[0])
		}
	}
	var want []string
	for _, f := range Faults() {
		want = append(want, f.Words)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("make spoe-faults writes it anew (-measured +in the document):\n%s", diff)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// tableRows are the cells of all tables in a document.
func tableRows(text string) (all [][]string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		all = append(all, cells)
	}
	return all
}

// words are what is in backquotes.
func words(cell string) (all []string) {
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		all = append(all, m[1])
	}
	return all
}
