package admin

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// decoded is the body of an answer as JSON; it must have nothing that T has not.
func decoded[T any](t *testing.T, a answer) T {
	t.Helper()
	var v T
	d := json.NewDecoder(strings.NewReader(a.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	if kind := a.header.Get("Content-Type"); kind != "application/json" {
		t.Errorf("Content-Type %q", kind)
	}
	return v
}

func TestTables(t *testing.T) {
	s := newSite(t, haproxyOf("ingest", 3), loadsOf(3), quick())
	s.listen()
	s.balance()
	s.passed()
	s.until("loads are there", func() bool { return s.fleet.Tables()[0].Fresh == 3 })

	all := decoded[api.Tables](t, s.get("/api/v1/table"))
	one := decoded[api.Tables](t, s.get("/api/v1/table/ingest"))
	bare := decoded[api.Tables](t, s.get("/api/v1/table/ingest?reasons=no"))
	for what, got := range map[string]api.Tables{"all": all, "one": one, "bare": bare} {
		if len(got.Tables) != 1 || got.Tables[0].Backend != "ingest" || len(got.Tables[0].Servers) != 3 {
			t.Fatalf("%s: %+v", what, got)
		}
		for _, server := range got.Tables[0].Servers {
			if server.Load == nil || !server.Measured || !server.InRotation || (len(server.Reasons) == 0) != (what == "bare") {
				t.Errorf("%s: %+v", what, server)
			}
		}
	}
	if a := s.get("/api/v1/table/ingest?reasons=no"); strings.Contains(a.body, "null,\"in_rotation") || !strings.Contains(a.body, `"reasons":[]`) {
		t.Errorf("reasons of a bare table: %s", a.body)
	}
	if a := s.get("/api/v1/table/ingest?reasons=maybe"); a.status != http.StatusBadRequest || !strings.Contains(a.body, "allowed: yes, no") {
		t.Errorf("reasons=maybe: %+v", a)
	}
	a := s.get("/api/v1/table/nope")
	want := api.Problem{Error: `there is no backend "nope" in the configuration in force`, Do: "there are the backends ingest"}
	if diff := cmp.Diff(want, decoded[api.Problem](t, a)); diff != "" || a.status != http.StatusNotFound {
		t.Errorf("unknown backend: %d (-want +got):\n%s", a.status, diff)
	}
}

func TestStatus(t *testing.T) {
	s := newSite(t, haproxyOf("ingest", 3), loadsOf(3), quick())
	s.listen()
	before := decoded[api.Status](t, s.get("/api/v1/status"))
	if before.Ready || len(before.Backends) != 1 || before.Backends[0].Tables == nil || before.SPOA == nil || before.Faults == nil || before.Config.RestartKeys == nil {
		t.Errorf("before the first pass: %+v", before)
	}
	s.balance()
	s.until("ready", func() bool { return decoded[api.Status](t, s.get("/api/v1/status")).Ready })
	got := decoded[api.Status](t, s.get("/api/v1/status"))
	b := got.Backends[0]
	if got.Version != "1.2.3" || got.PID != 4711 || b.Backend != "ingest" || b.Mode != "live" || b.IntervalSeconds != 0.5 || len(b.Tables) != 1 {
		t.Errorf("status %+v", got)
	}
	for _, row := range b.Tables[0].Servers {
		if len(row.Reasons) != 0 {
			t.Errorf("the status has reasons: %+v", row)
		}
	}
	s.do(func() { s.status, s.words = 503, "gone" })
	s.until("the fault is told", func() bool {
		faults := decoded[api.Status](t, s.get("/api/v1/status")).Faults
		return slices.ContainsFunc(faults, func(f balancer.Fault) bool { return f.What == "no loads from Graphite" && f.Backend == "ingest" })
	})
}

func TestReady(t *testing.T) {
	observe := quick()
	observe.Name, observe.Mode = "watched", config.Observe
	s := newSite(t, haproxyOf("ingest", 2), map[string]float64{"other": 1}, quick(), observe)
	s.listen()
	wantReady := func(status int, text string) {
		t.Helper()
		if a := s.get("/-/ready"); a.status != status || a.body != text {
			t.Errorf("ready: %d %q, want %d %q", a.status, a.body, status, text)
		}
	}
	if a := s.get("/-/healthy"); a.status != http.StatusOK || a.body != "healthy\n" {
		t.Errorf("healthy: %+v", a)
	}
	wantReady(http.StatusServiceUnavailable, "not ready\nbackend ingest: no HAProxy has been read yet\n")
	s.balance()
	s.until("a pass without data", func() bool {
		a := s.get("/-/ready")
		return a.status == http.StatusServiceUnavailable && strings.Contains(a.body, "backend ingest: no pass has had loads yet: ")
	})
	s.do(func() { s.loads = loadsOf(2) })
	s.until("ready", func() bool { return s.get("/-/ready").status == http.StatusOK })
	wantReady(http.StatusOK, "ready\n")
	// What fails later is a fault, and no reason to be called not ready.
	s.do(func() { s.loads = map[string]float64{"other": 1} })
	s.until("a hold", func() bool { return s.fleet.Tables()[0].HoldCode == "stale" })
	wantReady(http.StatusOK, "ready\n")
}

func TestHistoryOverHTTP(t *testing.T) {
	s := newSite(t, haproxyOf("ingest", 2), loadsOf(2), quick())
	s.listen()
	s.balance()
	s.passed()
	var got api.History
	s.until("weights are written", func() bool {
		got = decoded[api.History](t, s.get("/api/v1/history/ingest"))
		return len(got.Events) > 0 && got.Events[0].Kind == api.EventWeights
	})
	first := got.Events[0]
	if len(first.Changes) != 2 || first.Changes[0].Before != 100 || first.Socket == "" || !strings.Contains(first.Text, " 100 -> ") {
		t.Errorf("first event %+v", first)
	}
	if len(got.Series) != 1 || len(got.Series[0].Times) == 0 || len(got.Series[0].Loads["s1"]) != len(got.Series[0].Times) {
		t.Errorf("series %+v", got.Series)
	}
	future := time.Now().Add(time.Hour).Unix()
	later := decoded[api.History](t, s.get(fmt.Sprintf("/api/v1/history/ingest?since=%d", future)))
	if len(later.Events) != 0 || len(later.Series) != 1 || len(later.Series[0].Times) != 0 {
		t.Errorf("since an hour from now: %+v", later)
	}
	if bare := decoded[api.History](t, s.get("/api/v1/history/ingest?series=no")); len(bare.Series) != 0 || len(bare.Events) == 0 {
		t.Errorf("series=no: %+v", bare)
	}
	for path, status := range map[string]int{
		"/api/v1/history/nope": 404, "/api/v1/history/ingest?since=yesterday": 400, "/api/v1/history/ingest?since=-1": 400,
		"/api/v1/history/ingest?since=99999999999999": 400, "/api/v1/history/ingest?series=2": 400, "/api/v1/history/": 404, "/nowhere": 404, "/metrics": 404,
	} {
		if a := s.get(path); a.status != status || decoded[api.Problem](t, a).Error == "" {
			t.Errorf("%s: %+v, want %d", path, a, status)
		}
	}
}

func TestEvents(t *testing.T) {
	s := newSite(t, haproxyOf("ingest", 2), loadsOf(2), quick())
	s.server.limits.heartbeat = 50 * time.Millisecond
	s.listen()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.tcp+"/api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	w, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	if kind := w.Header.Get("Content-Type"); kind != "text/event-stream" || w.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("header %v", w.Header)
	}
	lines := bufio.NewScanner(w.Body)
	next := func(event string) string {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == "event: "+event && lines.Scan() {
				return strings.TrimPrefix(lines.Text(), "data: ")
			}
		}
		t.Fatalf("no event %s: %v", event, lines.Err())
		return ""
	}
	if got := next("beat"); got != "{}" {
		t.Errorf("beat %q", got)
	}
	s.balance()
	var pass api.Pass
	for pass.Fresh != 2 { // a first pass may come before the loads
		if err := json.Unmarshal([]byte(next("pass")), &pass); err != nil {
			t.Fatal(err)
		}
	}
	if pass.Backend != "ingest" || pass.Mode != "live" || pass.InService != 2 || pass.AgeSeconds == nil || pass.Imbalance < 1 {
		t.Errorf("pass %+v", pass)
	}
}

func TestMetricsArePassedOn(t *testing.T) {
	s := newSite(t, haproxyOf("ingest", 1), loadsOf(1), quick())
	s.server.options.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "up 1\n") })
	s.listen()
	if a := s.get("/metrics"); a.status != http.StatusOK || a.body != "up 1\n" {
		t.Errorf("metrics: %+v", a)
	}
}

// TestBeforeThereIsAFleet holds that nothing breaks while the daemon starts.
func TestBeforeThereIsAFleet(t *testing.T) {
	s := newSite(t, haproxyOf("ingest", 1), loadsOf(1), quick())
	s.server.options.Fleet = func() *balancer.Fleet { return nil }
	s.listen()
	for path, status := range map[string]int{
		"/": 200, "/api/v1/status": 200, "/api/v1/table": 200, "/api/v1/table/ingest": 404, "/api/v1/history/ingest": 404, "/-/ready": 503, "/-/healthy": 200,
	} {
		if a := s.get(path); a.status != status {
			t.Errorf("%s: %d, want %d", path, a.status, status)
		}
	}
	if a := s.get("/api/v1/table"); a.body != `{"tables":[]}`+"\n" {
		t.Errorf("tables %s", a.body)
	}
}

// TestNoSecretIsShown holds that what the configuration keeps secret is in no
// answer, also not in the words of a fault.
func TestNoSecretIsShown(t *testing.T) {
	s := newSiteOf(t, haproxyOf("ingest", 1), loadsOf(1), func(c *config.Config) {
		c.Backends = []config.Backend{quick()}
		c.Graphite.URL += "/s3cret-path"
		c.Graphite.Username, c.Graphite.Password = "s3cret-user", "s3cret-password"
		c.Graphite.Header = http.Header{"X-Key": {"s3cret-header"}}
	})
	s.do(func() {
		s.status, s.words = 403, "no access for s3cret-user with s3cret-password, s3cret-header at /s3cret-path"
	})
	s.listen()
	s.balance()
	s.until("the fault is told", func() bool { return strings.Contains(s.get("/").body, "no loads from Graphite") })
	for _, path := range []string{"/", "/api/v1/status", "/api/v1/table", "/api/v1/table/ingest", "/api/v1/history/ingest", "/-/ready"} {
		if a := s.get(path); strings.Contains(a.body, "s3cret") {
			t.Errorf("%s shows a secret: %s", path, a.body)
		}
	}
}

// BenchmarkRequests has what a scrape of 300 servers costs, without the network.
func BenchmarkRequests(b *testing.B) {
	s := newSite(b, haproxyOf("ingest", 300), loadsOf(300), quick())
	stop := s.balance()
	s.until("loads are there", func() bool { return len(s.fleet.Tables()) == 1 && s.fleet.Tables()[0].Fresh == 300 })
	stop()
	h := s.server.readOnly(nil)
	for _, path := range []string{"/api/v1/table/ingest?reasons=no", "/api/v1/table/ingest", "/"} {
		b.Run(path, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
				b.SetBytes(int64(w.Body.Len()))
			}
		})
	}
}

// TestPageOfHAProxyGone: the cause stands above the backends, once for all of
// them; what each has last noted of it is in its list of events.
func TestPageOfHAProxyGone(t *testing.T) {
	one, two := quick(), quick()
	two.Name = "other"
	_, servers, _ := strings.Cut(haproxyOf("other", 3), "backend other\n")
	s := newSite(t, haproxyOf("ingest", 3)+"backend other\n"+servers, loadsOf(3), one, two)
	s.listen()
	s.balance()
	s.passed()
	s.haproxy.Kill()
	const cause = "the file is there but nothing listens on it"
	s.until("HAProxy is gone for both", func() bool {
		for _, table := range s.fleet.Tables() {
			if !table.Unread() || !strings.Contains(table.Why, cause) {
				return false
			}
		}
		all := api.Troubles(s.fleet.Faults())
		return len(all) == 1 && strings.Contains(all[0].Cause, cause)
	})
	page := regexp.MustCompile(`(?s)<div class="events">.*?</div>`).ReplaceAllString(s.get("/").body, "")
	if strings.Count(page, cause) != 1 || strings.Count(page, "Held: HAProxy could not be read; the fault above tells why.") != 2 || !strings.Contains(page, "1 fault now") {
		t.Errorf("page:\n%s", page)
	}
}
