package metrics

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const rulesTest = "../../packaging/prometheus/haproxy-weighter_test.yml"

// TestRules runs what an operator would: promtool's check and the unit tests.
func TestRules(t *testing.T) {
	if complaint := promtool(t, nil, "check", "rules", rulesFile); complaint != "" {
		t.Error(complaint)
	}
	if complaint := promtool(t, nil, "test", "rules", rulesTest); complaint != "" {
		t.Error(complaint)
	}
}

// rule is an alert as Prometheus has read it.
type rule struct {
	Name        string
	Query       string
	Duration    float64
	Labels      map[string]string
	Annotations map[string]string
	Health      string
	LastError   string
	State       string
}

func (s *scene) rules() ([]rule, error) {
	var data struct {
		Groups []struct{ Rules []rule }
	}
	if err := s.api("rules", &data); err != nil {
		return nil, err
	}
	var all []rule
	for _, g := range data.Groups {
		all = append(all, g.Rules...)
	}
	return all, nil
}

// testRules holds that a real Prometheus can evaluate every rule, that of all
// alerts the one begins that there is a cause for (see engine), and that each
// rule has what it needs.
func (s *scene) testRules(t *testing.T) {
	s.t = t
	s.eventually("all rules are evaluated", func() string {
		rules, err := s.rules()
		if err != nil {
			return err.Error()
		}
		var active []string
		for _, r := range rules {
			if r.Health != "ok" {
				return fmt.Sprintf("%s is %s: %s", r.Name, r.Health, r.LastError)
			}
			if r.State != "inactive" {
				active = append(active, r.Name)
			}
		}
		return cmp.Diff([]string{"HAProxyWeighterSPOEMessagesRefused"}, active)
	})
	rules, err := s.rules()
	if err != nil {
		t.Fatal(err)
	}
	if len(rules) < 15 {
		t.Fatalf("only %d rules", len(rules))
	}
	names, tests, listed := metricNames(t), unitTests(t), documented(t)
	for _, r := range rules {
		if severity := r.Labels["severity"]; listed[r.Name] != severity {
			t.Errorf("docs/metrics.md has the severity %q for %s, which has %q", listed[r.Name], r.Name, severity)
		}
		delete(listed, r.Name)
		for _, name := range ours.FindAllString(r.Query, -1) {
			if !names[name] {
				t.Errorf("%s asks for %s, which docs/metrics.md does not have", r.Name, name)
			}
		}
		r.check(t, tests[r.Name])
	}
	if len(listed) > 0 {
		t.Errorf("docs/metrics.md has alerts that do not exist: %v", listed)
	}
}

// documented are the alerts of docs/metrics.md, with their severity.
func documented(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	for _, m := range regexp.MustCompile("(?m)^\\| `(HAProxyWeighter\\w+)` \\| (\\w+) \\|").FindAllStringSubmatch(string(text), -1) {
		found[m[1]] = m[2]
	}
	return found
}

// check looks at the words of a rule and at its unit tests.
func (r *rule) check(t *testing.T, tested unitTest) {
	t.Helper()
	if s := r.Labels["severity"]; s != "critical" && s != "warning" && s != "info" {
		t.Errorf("%s has the severity %q", r.Name, s)
	}
	if len(r.Annotations["summary"]) < 20 || len(r.Annotations["description"]) < 60 {
		t.Errorf("%s does not tell what is wrong and what to do: %v", r.Name, r.Annotations)
	}
	if !tested.quiet || tested.fires == "" {
		t.Errorf("%s has no unit test in which it stays quiet, or none in which it fires", r.Name)
	}
	for kind, text := range r.Annotations {
		for _, m := range labelInText.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(tested.fires, m[1]+"=") {
				t.Errorf("%s of %s has the label %s in it, which the alert does not have: %s", kind, r.Name, m[1], tested.fires)
			}
		}
	}
}

var (
	ours        = regexp.MustCompile(`haproxy_weighter_[a-z_]+[a-z]`)
	labelInText = regexp.MustCompile(`\$labels\.([a-z]+)`)
)

// metricNames are those of docs/metrics.md, with the series of histograms.
func metricNames(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)^\\| `(haproxy_weighter_[a-z_]+)` \\| ([a-z]+) \\|").FindAllStringSubmatch(string(text), -1) {
		if m[2] == "histogram" {
			names[m[1]+"_bucket"], names[m[1]+"_sum"], names[m[1]+"_count"] = true, true, true
			continue
		}
		names[m[1]] = true
	}
	if len(names) < 40 {
		t.Fatalf("only %d metrics found in docs/metrics.md", len(names))
	}
	return names
}

// unitTest is what the tests of one alert expect.
type unitTest struct {
	quiet bool   // it does not fire at some time
	fires string // the labels of it when it does
}

func unitTests(t *testing.T) map[string]unitTest {
	t.Helper()
	text, err := os.ReadFile(rulesTest)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]unitTest)
	for _, m := range regexp.MustCompile(`expr: ALERTS\{alertname="(\w+)",alertstate="firing"\}\n\s+eval_time: \w+\n\s+exp_samples:(?: (\[\])|\n\s+- labels: '(.+)')`).FindAllStringSubmatch(string(text), -1) {
		u := found[m[1]]
		u.quiet = u.quiet || m[2] != ""
		if m[3] != "" {
			u.fires = m[3]
		}
		found[m[1]] = u
	}
	return found
}
