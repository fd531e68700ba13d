package cli

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
)

// ago prints how long before now a moment was; a clock that was set back makes
// it "0s", not a negative time.
func ago(t, now time.Time) string { return api.Span(now.Sub(t)) + " ago" }

const day = 24 * time.Hour

// spanOf is api.Span for a number of seconds.
func spanOf(seconds float64) string { return api.Span(time.Duration(seconds * float64(time.Second))) }

// spanValue is a flag that takes a duration with days and weeks in it.
type spanValue struct{ duration time.Duration }

// String implements pflag.Value.
func (s *spanValue) String() string {
	if s.duration == 0 {
		return ""
	}
	return api.Span(s.duration)
}

// Type implements pflag.Value.
func (s *spanValue) Type() string { return "DURATION" }

// Set implements pflag.Value.
func (s *spanValue) Set(text string) (err error) {
	s.duration, err = parseSpan(text)
	return err
}

var errSpan = errors.New("allowed: a duration above zero and up to 30d, such as 30m, 2h, 1d or 1w")

// parseSpan reads "30m", "1h30m", "1d12h", "2w".
func parseSpan(text string) (time.Duration, error) {
	const most = 30 * day // as the daemon allows
	rest, total := text, time.Duration(0)
	for _, unit := range []struct {
		name string
		long time.Duration
	}{{"w", 7 * day}, {"d", day}} {
		digits, after, found := strings.Cut(rest, unit.name)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil {
			return 0, errSpan
		}
		total += time.Duration(n) * unit.long
		rest = after
	}
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 || d > most {
			return 0, errSpan
		}
		total += d
	}
	if total <= 0 || total > most {
		return 0, errSpan
	}
	return total, nil
}
