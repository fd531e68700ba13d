package security

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// root is the folder of the repository.
const root = "../.."

func document(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rows are the cells of the table below a heading, without its head.
func rows(t *testing.T, heading string) [][]string {
	t.Helper()
	_, section, ok := strings.Cut(document(t), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("docs/security.md has no %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var all [][]string
	for line := range strings.Lines(section) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "|") {
			var cells []string
			for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
				cells = append(cells, strings.TrimSpace(cell))
			}
			all = append(all, cells)
		}
	}
	if len(all) < 3 {
		t.Fatalf("below %q there is no table", heading)
	}
	return all[2:]
}

// reached is how far a lie that feeds one of n servers gets: the largest share
// after one pass and after all, and the passes until 99 % of that.
func reached(t *testing.T, n int, function weighting.Function, step float64) (first, last float64, passes int) {
	s := weighting.DefaultSettings()
	s.Function, s.MaxStep = function, step
	l := newLiar(t, s, n)
	l.in.Lifetime = time.Hour
	lie := make([]float64, n)
	for i := range lie {
		lie[i] = 1e9
	}
	lie[0] = 0.001
	var shares []float64
	for range 150 {
		shares = append(shares, l.pass(lie).Servers[0].Share)
	}
	last = slices.Max(shares)
	return shares[0], last, 1 + slices.IndexFunc(shares, func(share float64) bool { return share >= 0.99*last })
}

// TestDocumentedBounds works the table out again, by the formula and by lying.
func TestDocumentedBounds(t *testing.T) {
	percent := func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }
	var want [][]string
	for _, n := range []int{2, 4, 10, 20, 100} {
		s := weighting.DefaultSettings()
		bound := mostShare(&s, n, false)
		s.Function = weighting.Feedback
		limits := mostShare(&s, n, false)
		first, last, _ := reached(t, n, weighting.WaterFill, 0)
		_, slow, passes := reached(t, n, weighting.WaterFill, 0.2)
		_, feedback, _ := reached(t, n, weighting.Feedback, 0)
		if first != last || slow != last {
			t.Errorf("%d servers: %v after one pass, %v at last, %v with max_step", n, first, last, slow)
		}
		want = append(want, []string{fmt.Sprint(n), percent(1 / float64(n)), percent(bound), percent(first), fmt.Sprint(passes), percent(limits), percent(feedback)})
	}
	if d := cmp.Diff(want, rows(t, "## A Graphite that lies")); d != "" {
		t.Errorf("docs/security.md (-want +got):\n%s", d)
	}
}

var testName = regexp.MustCompile("`([a-z][a-z/-]*)\\.((?:Test|Fuzz)[A-Za-z]+)`")

// TestEachClaimHasItsTest: the tests that the document names are there, and
// each test of this package is named.
func TestEachClaimHasItsTest(t *testing.T) {
	named := make(map[string]bool)
	for _, m := range testName.FindAllStringSubmatch(document(t), -1) {
		named[m[1]+"."+m[2]] = true
		if !slices.Contains(testsOf(t, m[1]), m[2]) {
			t.Errorf("there is no %s in %s", m[2], m[1])
		}
	}
	for _, name := range testsOf(t, "test/security") {
		if !named["test/security."+name] && name != "TestMain" {
			t.Errorf("docs/security.md has no claim that %s tries", name)
		}
	}
}

var testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)

func testsOf(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testFunction.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names
}

// TestDependenciesAreExplained: each module that we ask for ourselves is there
// with its reason, and no other.
func TestDependenciesAreExplained(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", filepath.Join(root, "go.mod")).Output()
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
		Replace []json.RawMessage
	}
	if err := json.NewDecoder(bytes.NewReader(out)).Decode(&mod); err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, r := range mod.Require {
		if !r.Indirect {
			want = append(want, "`"+r.Path+"`")
		}
	}
	for _, row := range rows(t, "## What it is made of") {
		if got = append(got, row[0]); len(row) < 3 || row[1] == "" || row[2] == "" {
			t.Errorf("%s has no reason", row[0])
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("docs/security.md and go.mod (-go.mod +document):\n%s", d)
	}
	if len(mod.Replace) > 0 {
		t.Errorf("go.mod replaces modules: %s", mod.Replace)
	}
}
