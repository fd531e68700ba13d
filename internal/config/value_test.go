package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestExpand(t *testing.T) {
	for _, test := range []struct {
		in, want string
		mistakes int
	}{
		{"", "", 0},
		{"plain $1 $ $$ $WEIGHTER_HOST {x}", "plain $1 $ $$ $WEIGHTER_HOST {x}", 0},
		{"${WEIGHTER_HOST}", "graphite.example.com", 0},
		{"a${WEIGHTER_HOST}b${WEIGHTER_HOST}c", "agraphite.example.combgraphite.example.comc", 0},
		{"$${WEIGHTER_HOST}", "${WEIGHTER_HOST}", 0},
		{"$$${WEIGHTER_HOST}", "$${WEIGHTER_HOST}", 0},
		{"${NO_SUCH} ${NOR_THIS} ${WEIGHTER_EMPTY}", "", 3},
		{"${}", "", 1},
		{"${a-b}", "", 1},
		{"${open", "", 1},
	} {
		got, mistakes := expand(test.in, testEnv)
		if len(mistakes) != test.mistakes {
			t.Errorf("%q: %q, want %d mistakes", test.in, mistakes, test.mistakes)
		}
		if test.mistakes == 0 && got != test.want {
			t.Errorf("%q: got %q, want %q", test.in, got, test.want)
		}
	}
}

func TestPlainDuration(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s": 0, "100ms": 100 * time.Millisecond, "30s": 30 * time.Second, "90s": 90 * time.Second, "1m": time.Minute,
		"5m": 5 * time.Minute, "2m30s": 150 * time.Second, "1h": time.Hour, "1h30m": 90 * time.Minute, "1h0m5s": time.Hour + 5*time.Second, "168h": 168 * time.Hour,
	} {
		got := plain(d)
		if back, err := time.ParseDuration(got); got != want || err != nil || back != d {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	for _, test := range []struct {
		in   string
		want int64
		ok   bool
	}{
		{"64KiB", 64 << 10, true}, {"16MiB", 16 << 20, true}, {"1 GiB", 1 << 30, true}, {"0KiB", 0, true},
		{"16", 0, false}, {"MiB", 0, false}, {"-1MiB", 0, false}, {"1.5MiB", 0, false}, {"16MB", 0, false}, {"9999999999999GiB", 0, false},
	} {
		if got, ok := parseSize(test.in); ok != test.ok || ok && got != test.want {
			t.Errorf("%q: got %d, %v", test.in, got, ok)
		}
	}
}

func TestClosest(t *testing.T) {
	candidates := []string{"interval", "window", "max_age", "until", "name"}
	for word, want := range map[string]string{
		"intervall": "interval", "Interval": "interval", "inetrval": "interval", "windwo": "window", "max-age": "max_age",
		"MAX_AGE": "max_age", "nmae": "name", "frequency": "", "n": "", "": "",
	} {
		if got := closest(word, candidates); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}

func TestReferences(t *testing.T) {
	for in, want := range map[string][]string{
		"": nil, "web": nil, "$": nil, "$$1": nil, "$-": nil, "$1": {"1"}, "${1}a$2": {"1", "2"}, "$1a": {"1a"}, "$$$dc-${2}": {"dc", "2"},
	} {
		if diff := cmp.Diff(want, references(in)); diff != "" {
			t.Errorf("%q: -want +got:\n%s", in, diff)
		}
	}
}
