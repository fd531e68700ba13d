package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const prometheusConfig = `
global:
  scrape_interval: 1s
  evaluation_interval: 1s
rule_files: [%q]
scrape_configs:
  - job_name: haproxy-weighter
    static_configs:
      - targets: [%q]
`

// rulesFile is what ships.
const rulesFile = "../../packaging/prometheus/haproxy-weighter.rules.yml"

func (s *scene) startPrometheus() {
	s.t.Helper()
	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write("prometheus.yml", fmt.Sprintf(prometheusConfig, rules, s.admin))
	path, err := exec.LookPath("prometheus")
	if err != nil {
		s.t.Fatalf("%v: install it with test/deps/install prometheus", err)
	}
	s.run("prometheus", path, "--config.file="+filepath.Join(s.dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(s.dir, "data"),
		"--web.listen-address="+strings.TrimPrefix(s.prom, "http://"), "--log.level=warn")
	s.eventually("Prometheus is ready", func() string { return s.answers(s.prom + "/-/ready") })
}

// sample is one series of an answer.
type sample struct {
	Metric map[string]string `json:"metric"`
	Value  [2]any            `json:"value"`
}

func (v sample) number() float64 {
	text, _ := v.Value[1].(string)
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err) // Prometheus writes numbers so
	}
	return n
}

// api asks Prometheus' API and decodes the data of the answer.
func (s *scene) api(path string, data any) error {
	body, err := s.get(s.prom + "/api/v1/" + path)
	if err != nil {
		return err
	}
	answer := struct {
		Status string
		Error  string
		Data   any
	}{Data: data}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("%w in %s", err, body)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	return nil
}

func (s *scene) query(expr string) ([]sample, error) {
	var data struct{ Result []sample }
	err := s.api("query?query="+url.QueryEscape(expr), &data)
	return data.Result, err
}

// byServer asks for a metric of the servers.
func (s *scene) byServer(expr string) (map[string]float64, error) {
	samples, err := s.query(expr)
	found := make(map[string]float64)
	for _, v := range samples {
		if v.Metric["proxy"] != "ingest" || v.Metric["socket"] != "unix:"+s.haproxy.SocketPath {
			return nil, fmt.Errorf("labels %v", v.Metric)
		}
		found[v.Metric["server"]] = v.number()
	}
	return found, err
}

// TestPrometheus has one scene for all that Prometheus and Graphite are asked:
// it takes seconds to set.
func TestPrometheus(t *testing.T) {
	s := newScene(t)
	t.Run("loads and weights", s.testLoadsAndWeights)
	t.Run("what promtool says", s.testPromtool)
	t.Run("rules", s.testRules)
	t.Run("dashboard for Prometheus", s.testPrometheusDashboard)
	t.Run("dashboard for Graphite", s.testGraphiteDashboard)
	t.Run("a server that goes", s.testServerGone) // changes the scene: the last one
}

// testLoadsAndWeights compares with what was sent to Graphite and with what
// HAProxy itself says.
func (s *scene) testLoadsAndWeights(t *testing.T) {
	s.t = t
	s.eventually("loads", func() string {
		got, err := s.byServer("haproxy_weighter_server_load")
		if err != nil {
			return err.Error()
		}
		return cmp.Diff(loads, got)
	})
	s.eventually("weights", func() string {
		want, err := s.weights()
		if err != nil {
			return err.Error()
		}
		got, err := s.byServer("haproxy_weighter_server_weight")
		if err != nil {
			return err.Error()
		}
		if got["s1"] >= got["s3"] {
			return fmt.Sprintf("the busiest server has not the least weight: %v", got)
		}
		return cmp.Diff(want, got)
	})
}

// weights are those in force, by HAProxy's own words.
func (s *scene) weights() (map[string]float64, error) {
	answer, err := s.haproxy.Command(s.t.Context(), "show servers state ingest")
	if err != nil {
		return nil, err
	}
	found := make(map[string]float64)
	for line := range strings.Lines(answer) {
		fields := strings.Fields(line)
		if len(fields) < 8 || fields[1] != "ingest" {
			continue
		}
		if found[fields[3]], err = strconv.ParseFloat(fields[7], 64); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// promtool runs it and gives what it prints when it is not content.
func promtool(t *testing.T, stdin []byte, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatalf("%v: install it with test/deps/install prometheus", err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%v: %s", err, out)
	}
	return ""
}

func (s *scene) testPromtool(t *testing.T) {
	s.t = t
	body, err := s.get("http://" + s.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(body, []byte("haproxy_weighter_server_load{")) {
		t.Fatalf("no load in\n%s", body)
	}
	if complaint := promtool(t, body, "check", "metrics"); complaint != "" {
		t.Error(complaint)
	}
}

// testServerGone reloads HAProxy without a server: its series end.
func (s *scene) testServerGone(t *testing.T) {
	s.t = t
	if err := s.haproxy.Reload(s.config("s1", "s2", "s3")); err != nil {
		t.Fatal(err)
	}
	s.eventually("the series of a server that is gone", func() string {
		got, err := s.byServer("haproxy_weighter_server_weight")
		if err != nil {
			return err.Error()
		}
		return cmp.Diff([]string{"s1", "s2", "s3"}, slices.Sorted(maps.Keys(got)))
	})
}
