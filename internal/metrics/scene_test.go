package metrics

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/query"
	"github.com/haproxy-weighter/haproxy-weighter/spoa"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

const socket = "unix:/run/haproxy/admin.sock"

// start is the time of each scene's newest table.
var start = time.Unix(1_800_000_000, 0)

// scene is Metrics over tables that a test makes.
type scene struct {
	*Metrics
	view *view // nil: no fleet yet
	now  time.Time
}

// newScene has a time and no tables.
func newScene() *scene {
	s := &scene{now: start, view: &view{
		backends: []*config.Backend{{Name: "ingest", Interval: 30 * time.Second}},
		sockets:  []string{socket},
	}}
	s.Metrics = New(Options{
		Version: "1.2.3", Now: func() time.Time { return s.now },
		Queries: func() (query.Counts, bool) {
			return query.Counts{Unknown: 2, ByMessage: map[string]query.MessageCounts{"weighter-pick": {Answered: 5, NotFound: 4, Refused: 3}}}, true
		},
		Carbon: func() (CarbonStats, bool) {
			return CarbonStats{Sent: 10, Dropped: 1, Refused: 2, Batches: 3, Failures: 4, Queued: 5, Failing: 1}, true
		},
	})
	s.look = func() *view {
		if s.view != nil {
			s.view.now = s.now
		}
		return s.view
	}
	return s
}

// row is a server that is up and has a load.
func row(server string, load float64, weight int) balancer.Row {
	age := 12.5
	return balancer.Row{
		Server: server, Load: &load, AgeSeconds: &age, Capacity: 1, Share: 0.5, Weight: weight + 1, AppliedWeight: weight,
		InitialWeight: 100, AdminState: "ready", OpState: "running",
	}
}

// table is a pass of the backend ingest in which all was well.
func table(rows ...balancer.Row) *balancer.Table {
	return &balancer.Table{
		Backend: "ingest", Socket: socket, Time: start, Algorithm: "roundrobin", Mode: "live", Rows: rows,
		Verdict: weighting.Write, Function: weighting.WaterFill, Fresh: len(rows), InService: len(rows),
		Mean: 20, Imbalance: 1.5, Lifetime: 10 * time.Minute, Delay: time.Minute, Gain: 2, LoopGain: 0.2,
		Changes: 2, MaxAge: 90 * time.Second, LastChange: start.Add(-time.Minute),
	}
}

// everything makes something happen of each kind.
func (s *scene) everything() {
	t := table(row("s1", 10, 120), row("s2", 30, 80))
	s.view.tables = []*balancer.Table{t}
	s.Rendered("ingest", nil, 40*time.Millisecond)
	s.Asked(socket, "state", nil, 2*time.Millisecond)
	s.Passed(t)
	s.Opened()
	s.Answered(spoa.Results{spoa.ResultOK: 2, spoa.ResultError: 1}, 30*time.Microsecond)
	s.Closed(spoa.ReasonIdle)
	s.Reloaded(nil)
}

// want compares the named metrics with what is wanted, in Prometheus' text.
// Comments are left out of both.
func (s *scene) want(t *testing.T, text string, names ...string) {
	t.Helper()
	full := make([]string, len(names))
	for i, n := range names {
		full[i] = prefix + n
	}
	got, err := testutil.GatherAndFormat(s, expfmt.TypeTextPlain, full...)
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for line := range bytes.Lines(got) {
		if line[0] != '#' {
			lines.WriteString(strings.TrimPrefix(string(line), prefix))
		}
	}
	if lines.String() != text {
		t.Errorf("%s:\n%swant:\n%s", names, lines.String(), text)
	}
}

// wantNone fails when a named metric has a series.
func (s *scene) wantNone(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		if count, err := testutil.GatherAndCount(s, prefix+n); err != nil || count != 0 {
			t.Errorf("%s has %d series, want none; %v", n, count, err)
		}
	}
}

func (s *scene) scrape(t testing.TB, query string, header ...string) (body []byte) {
	t.Helper()
	request := httptest.NewRequest("GET", "/metrics"+query, nil)
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	answer := httptest.NewRecorder()
	s.Handler().ServeHTTP(answer, request)
	if answer.Code != 200 {
		t.Fatalf("status %d: %s", answer.Code, answer.Body)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

var _ prometheus.Gatherer = (*scene)(nil)

func many(n int) []balancer.Row {
	rows := make([]balancer.Row, n)
	for i := range rows {
		rows[i] = row(fmt.Sprintf("server-%d", i), float64(i), 1+i%256)
		rows[i].Reasons = []weighting.Reason{{Step: weighting.StepLoad}, {Step: weighting.StepRelative}, {Step: weighting.StepFunction}, {Step: weighting.StepWeight}}
	}
	return rows
}

func serve(h http.Handler) (status int) {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	return answer.Code
}
