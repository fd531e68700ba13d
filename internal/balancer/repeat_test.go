package balancer

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestRepeatedAnswersAreTold once, when they are older than data may be.
func TestRepeatedAnswersAreTold(t *testing.T) {
	var log bytes.Buffer
	b := New(Options{Backend: ingest(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	const begun, over = "Graphite's answer is an old one", "Graphite's answers are new again"
	limit := ingest().MaxAge
	for i, c := range []struct {
		repeated    time.Duration
		begun, over int
	}{{0, 0, 0}, {limit, 0, 0}, {limit + time.Second, 1, 0}, {2 * limit, 1, 0}, {0, 1, 1}, {2 * limit, 2, 1}} {
		b.tellRepeat(&picture{repeated: c.repeated})
		if got := log.String(); strings.Count(got, begun) != c.begun || strings.Count(got, over) != c.over {
			t.Errorf("picture %d: told %d and %d times, want %d and %d", i, strings.Count(got, begun), strings.Count(got, over), c.begun, c.over)
		}
	}
}
