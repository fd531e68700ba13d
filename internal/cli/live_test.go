package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// TestJudgeVersion has the versions that no test machine runs.
func TestJudgeVersion(t *testing.T) {
	for version, want := range map[string]result{
		"2.0.31":               fail,
		"2.3.21":               fail,
		"2.4.0":                warn,
		"2.5.14":               warn,
		"2.6.12-1+deb12u3":     ok,
		"3.0.11":               ok,
		"3.4.7":                ok,
		"3.5-dev1":             warn,
		"3.5-dev1-1a2b3c":      warn,
		"10.1.2":               warn,
		"":                     warn,
		"unknown":              warn,
		"2.x":                  warn,
		"1.8.32-3+deb9u1~bpo8": fail,
	} {
		got, found, do := judgeVersion(version)
		if got != want {
			t.Errorf("HAProxy %q: %s, want %s", version, got, want)
		}
		if !strings.Contains(found, version) || (do == "") != (got == ok) {
			t.Errorf("HAProxy %q: %s: found %q, do %q", version, got, found, do)
		}
	}
}

func TestJudgeAlgorithm(t *testing.T) {
	chosen := func(f weighting.Function) *config.Backend {
		b := &config.Backend{FunctionSet: true}
		b.Weighting.Function = f
		return b
	}
	open := &config.Backend{}
	for _, c := range []struct {
		algorithm string
		backend   *config.Backend
		want      result
	}{
		{"roundrobin", open, ok},
		{"random", open, ok},
		{"random(2)", open, ok},
		{"roundrobin", chosen(weighting.WaterFill), ok},
		{"roundrobin", chosen(weighting.Feedback), warn},
		{"leastconn", open, ok},
		{"leastconn", chosen(weighting.Feedback), ok},
		{"leastconn", chosen(weighting.WaterFill), warn},
		{"static-rr", open, fail},
		{"first", open, fail},
		{"source", open, warn},
		{"uri", open, warn},
		{"hdr(host)", open, warn},
		{"rdp-cookie", open, warn},
		{"", open, warn},
		{"sticky", open, warn},
	} {
		got, found, do := judgeAlgorithm(c.algorithm, c.backend)
		if got != c.want || found == "" || (do == "") != (got == ok) {
			t.Errorf("balance %q: %s (%q, %q), want %s", c.algorithm, got, found, do, c.want)
		}
	}
}

func TestJudgeInitialWeights(t *testing.T) {
	servers := func(weights ...int) []haproxy.Server {
		var list []haproxy.Server
		for i, w := range weights {
			list = append(list, haproxy.Server{Name: string(rune('a' + i)), InitialWeight: w})
		}
		return list
	}
	for _, c := range []struct {
		servers []haproxy.Server
		want    result
		found   string
	}{
		{servers(100, 50, 256), ok, "50 or more in haproxy.cfg"},
		{servers(100, 1, 9), warn, "b, c: weight below 10 in haproxy.cfg"},
		{servers(0, 1, 100), warn, "a: weight 0 in haproxy.cfg"},
		{servers(1, 1, 1, 1, 1, 1, 1), warn, "a, b, c, d, e and 2 more: weight below 10 in haproxy.cfg"},
	} {
		got, found, _ := judgeInitialWeights(c.servers)
		if got != c.want || found != c.found {
			t.Errorf("got %s %q, want %s %q", got, found, c.want, c.found)
		}
	}
}

func TestJudgeCapacity(t *testing.T) {
	for _, c := range []struct {
		table map[string]float64
		want  result
		found string
	}{
		{map[string]float64{"s1": 1, "s2": 2}, ok, "given for every server"},
		{map[string]float64{"s1": 4}, ok, "s2: not in the table, so 1"},
		{map[string]float64{"s1": 4, "S2": 2}, warn, "S2: in the table, but no server of HAProxy's"},
	} {
		got, found, do := judgeCapacity(c.table, []string{"s1", "s2"})
		if got != c.want || found != c.found || (do == "") != (got == ok) {
			t.Errorf("%v: %s %q %q, want %s %q", c.table, got, found, do, c.want, c.found)
		}
	}
}

func TestMatchRows(t *testing.T) {
	rows := []balancer.LoadRow{
		{Series: "one", Server: "s1", Usable: true},
		{Series: "two", Server: "s2", Reason: "all null"},
		{Series: "other", Server: "x9", Usable: true},
		{Series: "odd", Reason: "gives no server"},
		{Server: "s3", Reason: "no series"},
	}
	want := matches{
		matched: []string{"s1"}, unusable: []string{"s2"},
		strangers: []string{"other", "odd"}, without: []string{"s3"},
	}
	got := matchRows(rows, []string{"s1", "s2", "s3"})
	if d := cmp.Diff(want, got, cmp.AllowUnexported(matches{})); d != "" {
		t.Errorf("matches (-want +got):\n%s", d)
	}
	// Without HAProxy's names no series is a stranger that names a server.
	got = matchRows(rows[:4], nil)
	want = matches{matched: []string{"s1", "x9"}, unusable: []string{"s2"}, strangers: []string{"odd"}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(matches{})); d != "" {
		t.Errorf("matches without servers (-want +got):\n%s", d)
	}
}

func TestAges(t *testing.T) {
	series := func(step int64) *graphite.Answer {
		return &graphite.Answer{Series: []graphite.Series{{Points: []graphite.Point{{Unix: 1000}, {Unix: 1000 + step}, {Unix: 1000 + 3*step}}}}}
	}
	age := func(seconds float64) []balancer.LoadRow {
		return []balancer.LoadRow{{Usable: true, AgeSeconds: &seconds}}
	}
	for _, c := range []struct {
		name           string
		maxAge, window time.Duration
		step           int64
		age            float64
		want           []string
	}{
		{"defaults with data of 10 s", 90 * time.Second, 5 * time.Minute, 10, 8, []string{"max-age ok"}},
		{"data of a minute, two minutes late", 90 * time.Second, 5 * time.Minute, 60, 180, []string{"max-age warn"}},
		{"exactly two steps and the delay", 140 * time.Second, 5 * time.Minute, 60, 80, []string{"max-age ok"}},
		{"window shorter than max_age", 90 * time.Second, time.Minute, 10, 8, []string{"max-age ok", "window warn"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &survey{}
			b := &config.Backend{Name: "ingest", MaxAge: c.maxAge, Window: c.window}
			s.ages(b, age(c.age), []*graphite.Answer{series(c.step)})
			var got []string
			for _, f := range s.findings {
				got = append(got, f.Check+" "+string(f.Result))
			}
			if d := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("findings (-want +got):\n%s", d)
			}
		})
	}
}

func TestClock(t *testing.T) {
	for _, c := range []struct {
		skew  time.Duration
		want  result
		found string
	}{
		{0, ok, "as Graphite's"},
		{2 * time.Second, ok, "as Graphite's"},
		{-3 * time.Second, warn, "ours is 3s behind Graphite's"},
		{time.Minute, warn, "ours is 1m0s ahead of Graphite's"},
	} {
		s := &survey{}
		s.clock(&config.Backend{Name: "ingest"}, []*graphite.Answer{{}, {ClockSkew: c.skew}})
		if len(s.findings) != 1 || s.findings[0].Result != c.want || s.findings[0].Found != c.found {
			t.Errorf("skew %s: %+v, want %s %q", c.skew, s.findings, c.want, c.found)
		}
	}
}

func TestHostOf(t *testing.T) {
	if got := hostOf("https://www.example.com/secret-key/graphite"); got != "https://www.example.com" {
		t.Errorf("got %q: the path may hold a key", got)
	}
}
