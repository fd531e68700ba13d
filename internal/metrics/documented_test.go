package metrics

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
)

// documented reads the tables of docs/metrics.md: name to type and labels.
func documented(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 6 || !strings.HasPrefix(cells[1], " `"+prefix) {
			continue
		}
		name := strings.Trim(cells[1], " `")
		if _, twice := found[name]; twice {
			t.Errorf("%s is documented twice", name)
		}
		found[name] = strings.TrimSpace(cells[2]) + " " + strings.TrimSpace(cells[3])
		if len(strings.TrimSpace(cells[4])) < 5 {
			t.Errorf("%s has no meaning", name)
		}
	}
	return found
}

func TestDocumented(t *testing.T) {
	s := newScene()
	s.everything()
	families, err := s.Gather()
	if err != nil {
		t.Fatal(err)
	}
	emitted := make(map[string]string)
	for _, f := range families {
		ours := strings.HasPrefix(f.GetName(), prefix)
		if !ours && !strings.HasPrefix(f.GetName(), "go_") && !strings.HasPrefix(f.GetName(), "process_") {
			t.Errorf("%s is neither ours nor of the kinds that docs/metrics.md speaks of", f.GetName())
		}
		if !ours {
			continue
		}
		names := make(map[string]bool)
		for _, m := range f.Metric {
			for _, l := range m.Label {
				names[l.GetName()] = true
			}
		}
		sorted := slices.Sorted(maps.Keys(names))
		emitted[f.GetName()] = strings.ToLower(f.GetType().String()) + " " + strings.Join(sorted, ", ")
	}
	if diff := cmp.Diff(documented(t), emitted); diff != "" {
		t.Errorf("documented (-) and emitted (+):\n%s", diff)
	}
}

// TestDocumentedValues holds that docs/metrics.md lists each value that a label
// can have.
func TestDocumentedValues(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	s := newScene()
	s.everything()
	families, err := s.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range haproxy.Commands() {
		if !strings.Contains(string(text), "`"+command+"`") {
			t.Errorf("the command %s is not in docs/metrics.md", command)
		}
	}
	closed := []string{"result", "reason", "code", "verdict", "message", "command"}
	seen := 0
	for _, f := range families {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if slices.Contains(closed, l.GetName()) {
					seen++
					if !strings.Contains(string(text), "`"+l.GetValue()+"`") {
						t.Errorf("%s{%s=%q} is not in docs/metrics.md", f.GetName(), l.GetName(), l.GetValue())
					}
				}
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d labels with a fixed set of values", seen)
	}
}

func TestLint(t *testing.T) {
	s := newScene()
	s.everything()
	problems, err := testutil.GatherAndLint(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
