package config

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

var compareRegexps = cmp.Comparer(func(a, b *regexp.Regexp) bool {
	return a == b || a != nil && b != nil && a.String() == b.String()
})

func addresses(t *testing.T, written ...string) []haproxy.Address {
	t.Helper()
	var all []haproxy.Address
	for _, w := range written {
		a, err := haproxy.ParseAddress(w)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

// defaultBackend is what a backend is when the file gives name and target only.
func defaultBackend(name, target string) Backend {
	return Backend{
		Name: name, Target: target,
		Interval: 30 * time.Second, Window: 5 * time.Minute, MaxAge: 90 * time.Second,
		Aggregate: graphite.Last, Capacity: Capacity{Kind: "equal"}, Mode: Live,
		SessionLimit: 20000, Weighting: weighting.DefaultSettings(),
	}
}

func TestMinimalHasTheDocumentedDefaults(t *testing.T) {
	got, err := Parse("weighter.toml", []byte(Minimal), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		File:     "weighter.toml",
		HAProxy:  HAProxy{Sockets: addresses(t, "/run/haproxy/admin.sock"), Timeout: 2 * time.Second, Watch: time.Second},
		Graphite: graphite.Config{URL: "http://graphite.example.com", Method: "POST", Timeout: 5 * time.Second, MaxBody: 16 << 20},
		SPOA:     SPOA{MaxFrameSize: 16380, MaxConnections: 1024, IdleTimeout: 5 * time.Minute},
		Report:   Report{Prefix: "haproxy_weighter.{host}", Interval: time.Minute},
		Admin:    Admin{Listen: Listener{"tcp", "127.0.0.1:9101"}, Control: "/run/haproxy-weighter/control.sock"},
		State:    State{MaxAge: 10 * time.Minute},
		Log:      Log{Format: "text", Level: slog.LevelInfo},
		Backends: []Backend{defaultBackend("ingest", "aliasByNode(tcp-service.*.datapoints.received, 1)")},
	}
	if diff := cmp.Diff(want, got, compareRegexps); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestEveryKeyArrives(t *testing.T) {
	got, err := parseFile(t, "testdata/good/everything.toml")
	if err != nil {
		t.Fatal(err)
	}
	got.Warnings = nil // depends on the permissions that a checkout gives
	first := Backend{
		Name: "ingest.tcp:1", Sockets: addresses(t, "abns@weighter"), Interval: 10 * time.Second,
		Target:       "sortByName(\n  servers.*.load)",
		ServerRegexp: regexp.MustCompile(`^servers\.(?P<dc>\w+)\.(\w+)$`), ServerName: "${dc}-$2",
		Window: 2 * time.Minute, Until: 30 * time.Second, Aggregate: graphite.Median, MaxAge: 150 * time.Second,
		Capacity: Capacity{Kind: "table", Table: map[string]float64{"big1": 2, "old.1": 0.5}},
		Mode:     Observe, FunctionSet: true,
		Maps: Maps{Load: "/etc/haproxy/maps/load@1.map", Weight: "/etc/haproxy/maps/weight.map"},
		Weighting: weighting.Settings{
			Function: weighting.LimitedProportions, LimitingFactor: 3, Aggressiveness: 1.5, Better: weighting.Higher,
			MinWeight: 1, MaxWeight: 100, MaxShare: 2.5, MaxStep: 0.2, Deadband: 0, Quorum: 1,
			OnMissing: weighting.MissingInitial, OnStale: weighting.StaleInitial, StaleAfter: time.Hour,
			Interval: 10 * time.Second, Window: 2 * time.Minute,
		},
	}
	second := defaultBackend("udp", "servers.{server}.load")
	second.Capacity.Kind = "initial-weight"
	second.Maps.Load = "/etc/haproxy/maps/load@1.map"
	want := &Config{
		File:    "testdata/good/everything.toml",
		HAProxy: HAProxy{Sockets: addresses(t, "/run/haproxy/admin.sock", "abns@weighter"), Timeout: time.Second, Watch: 500 * time.Millisecond},
		Graphite: graphite.Config{
			URL: "https://graphite.example.com/hosted/key?extra_label=tenant%3Da", Method: "GET", Timeout: 1500 * time.Millisecond,
			Header:   http.Header{"X-Org-Id": {"1"}, "X-Key": {secret + "${x}$1"}},
			Username: "me", Password: "correct horse", MaxBody: 1 << 20,
		},
		SPOA: SPOA{
			Listen:       []Listener{{"tcp", "127.0.0.1:9002"}, {"tcp", "[::1]:9002"}, {"tcp", "localhost:9003"}, {"unix", "/run/weighter/spoa.sock"}},
			MaxFrameSize: 32764, MaxConnections: 5000, IdleTimeout: time.Hour,
		},
		Report: Report{
			Carbon: []graphite.CarbonAddress{{HostPort: "carbon.example.com:2003"}, {HostPort: "[::1]:2003"}, {HostPort: "hosted.example.com:20030", TLS: true}},
			Prefix: secret + ".{host}-a.b", Interval: 10 * time.Second,
		},
		Admin:    Admin{Listen: Listener{"tcp", "[::1]:9201"}, Control: "testdata/good/control.sock"},
		State:    State{File: "/var/lib/haproxy-weighter/state.json", MaxAge: time.Minute},
		Log:      Log{Format: "json", Level: slog.LevelDebug},
		Backends: []Backend{first, second},
	}
	if diff := cmp.Diff(want, got, compareRegexps); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTablesMayBeInline(t *testing.T) {
	got, err := parseFile(t, "testdata/good/inline.toml")
	if err != nil {
		t.Fatal(err)
	}
	a, b := defaultBackend("a", "x"), defaultBackend("b", "y")
	a.Capacity = Capacity{Kind: "table", Table: map[string]float64{"s1": 2}}
	b.Interval, b.Weighting.Interval = time.Minute, time.Minute
	if diff := cmp.Diff([]Backend{a, b}, got.Backends, compareRegexps); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLoadNamesTheFileThatIsNotThere(t *testing.T) {
	_, err := Load("testdata/no-such-file.toml")
	const want = "can't read the configuration: open testdata/no-such-file.toml: no such file or directory"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestLoadReadsTheFile(t *testing.T) {
	c, err := Load("testdata/good/inline.toml")
	if err != nil {
		t.Fatal(err)
	}
	if c.File != "testdata/good/inline.toml" || len(c.Backends) != 2 {
		t.Errorf("got %v", c)
	}
}

func TestLoadRefusesAHugeFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weighter.toml")
	if err := os.WriteFile(file, bytes.Repeat([]byte("#\n"), largestFile), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(file)
	if want := "can't read the configuration: " + file + " is larger than 4MiB"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestLogLevels(t *testing.T) {
	for word, want := range map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	} {
		c, err := Parse("weighter.toml", []byte(Minimal+"[log]\nlevel = \""+word+"\""), testEnv)
		if err != nil || c.Log.Level != want {
			t.Errorf("%s: got %v, error %v", word, c, err)
		}
	}
}
