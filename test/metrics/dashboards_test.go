package metrics

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
)

// dashboard is what the tests read of a shipped file.
type dashboard struct {
	Panels     []panel
	Templating struct{ List []variable }
}

type panel struct {
	Type    string
	Title   string
	Targets []struct{ Expr, Target string }
}

type variable struct {
	Name, Type, Definition, Regex, AllValue string
}

func readDashboard(t *testing.T, name string) *dashboard {
	t.Helper()
	text, err := os.ReadFile("../../packaging/grafana/" + name)
	if err != nil {
		t.Fatal(err)
	}
	d := &dashboard{}
	if err := json.Unmarshal(text, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// filled puts what Grafana does in the place of the variables: every value.
func (d *dashboard) filled(t *testing.T, query string) string {
	t.Helper()
	query = strings.ReplaceAll(query, "$__rate_interval", "10s")
	for _, v := range d.Templating.List {
		value := v.AllValue
		if v.Type == "textbox" {
			value = "haproxy_weighter"
		}
		query = strings.ReplaceAll(query, "$"+v.Name, value)
	}
	if strings.Contains(query, "$") {
		t.Errorf("a variable is left in %s", query)
	}
	return query
}

// testQueries waits until every query of the dashboard has an answer; ask says
// what is wrong with that to one.
func (s *scene) testQueries(d *dashboard, atLeast int, ask func(query string) string) {
	s.t.Helper()
	waiting := make(map[string]string) // query to title
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			waiting[d.filled(s.t, q.Expr+q.Target)] = p.Title
		}
	}
	if len(waiting) < atLeast {
		s.t.Errorf("only %d queries", len(waiting))
	}
	s.eventually("queries", func() string {
		var failures []string
		for query, title := range waiting {
			if why := ask(query); why != "" {
				failures = append(failures, fmt.Sprintf("%s: %s: %s", title, query, why))
				continue
			}
			delete(waiting, query)
		}
		return strings.Join(failures, "\n")
	})
}

var labelValues = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)

func (s *scene) testPrometheusDashboard(t *testing.T) {
	s.t = t
	d := readDashboard(t, "haproxy-weighter-prometheus.json")
	s.testQueries(d, 40, s.hasNumber)
	asked := 0
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		asked++
		m := labelValues.FindStringSubmatch(v.Definition)
		if m == nil {
			t.Errorf("the variable %s asks %q", v.Name, v.Definition)
			continue
		}
		samples, err := s.query(fmt.Sprintf("count by (%s) (%s)", m[2], d.filled(t, m[1])))
		if err != nil || len(samples) == 0 || samples[0].Metric[m[2]] == "" {
			t.Errorf("the variable %s finds %v, %v", v.Name, samples, err)
		}
	}
	if asked != 3 {
		t.Errorf("%d variables, want host, proxy and server", asked)
	}
}

// hasNumber says what is wrong with the answer to a query: an error, nothing,
// or nothing but NaN.
func (s *scene) hasNumber(query string) string {
	samples, err := s.query(query)
	if err != nil {
		return err.Error()
	}
	for _, v := range samples {
		if !math.IsNaN(v.number()) {
			return ""
		}
	}
	return fmt.Sprintf("no number: %v", samples)
}

func (s *scene) testGraphiteDashboard(t *testing.T) {
	s.t = t
	d := readDashboard(t, "haproxy-weighter-graphite.json")
	s.testQueries(d, 10, s.renders)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host = regexp.MustCompile(`[^A-Za-z0-9_-]`).ReplaceAllString(host, "_")
	want := map[string]string{"host": host, "proxy": "ingest", "server": "s3"}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			s.eventually("variable "+v.Name, func() string { return s.offers(&v, d.filled(t, v.Definition), want[v.Name]) })
			delete(want, v.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("no variables for %v", want)
	}
}

// renders says what is wrong with Graphite's answer to a target.
func (s *scene) renders(target string) string {
	body, err := s.get(s.graphite.URL + "/render?format=json&from=-30s&target=" + url.QueryEscape(target))
	if err != nil {
		return err.Error()
	}
	var series []struct {
		Target     string
		Datapoints [][2]*float64
	}
	if err := json.Unmarshal(body, &series); err != nil {
		return fmt.Sprintf("%v in %s", err, body)
	}
	counts := strings.Contains(target, "isNonNull(") // which makes a 0 of what is not there
	for _, one := range series {
		for _, point := range one.Datapoints {
			if point[0] != nil && (!counts || *point[0] > 0) {
				return ""
			}
		}
	}
	return "no point in " + string(body)
}

// offers says why a variable does not have a value among those that it finds.
func (s *scene) offers(v *variable, definition, want string) string {
	var found []string
	if path, ok := strings.CutPrefix(definition, "expand("); ok {
		body, err := s.get(s.graphite.URL + "/metrics/expand?query=" + url.QueryEscape(strings.TrimSuffix(path, ")")))
		if err != nil {
			return err.Error()
		}
		var answer struct{ Results []string }
		if err := json.Unmarshal(body, &answer); err != nil {
			return err.Error()
		}
		found = answer.Results
	} else {
		body, err := s.get(s.graphite.URL + "/metrics/find?query=" + url.QueryEscape(definition))
		if err != nil {
			return err.Error()
		}
		var answer []struct{ Text string }
		if err := json.Unmarshal(body, &answer); err != nil {
			return err.Error()
		}
		for _, a := range answer {
			found = append(found, a.Text)
		}
	}
	pattern := regexp.MustCompile(strings.Trim(v.Regex, "/"))
	for _, text := range found {
		m := pattern.FindStringSubmatch(text)
		if v.Regex == "" && text == want || len(m) > 1 && m[1] == want {
			return ""
		}
	}
	return fmt.Sprintf("no %s in %q", want, found)
}
