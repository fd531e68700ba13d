package cli

import (
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
)

func TestParseSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "30m": 30 * time.Minute, "1h30m": 90 * time.Minute, "1d": day, "1w": 7 * day,
		"1w2d3h": 9*day + 3*time.Hour, "1d12h": 36 * time.Hour, "30d": 30 * day, "1.5h": 90 * time.Minute,
	} {
		if got, err := parseSpan(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "0", "0s", "0d", "2", "-1h", "1d-1h", "soon", "d", "w", "1dd", "1d1d", "2d1w", "31d", "721h", "99999999h", "999999999999d",
		"1e3d", "0x1d", "+1d", " 1d", "1 d", "infd",
	} {
		if got, err := parseSpan(text); err == nil {
			t.Errorf("%q is taken for %s", text, got)
		}
	}
}

func TestParseSpanReadsSpan(t *testing.T) {
	for _, d := range []time.Duration{time.Second, 59 * time.Second, 61 * time.Second, 2 * time.Hour, 25 * time.Hour, 30 * day} {
		if got, err := parseSpan(api.Span(d)); err != nil || got != d {
			t.Errorf("%s reads back as %s, %v", api.Span(d), got, err)
		}
	}
}
