package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// at prints a moment as people and scripts read it alike.
func at(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// ago prints how long before now a moment was; a clock that was set back makes
// it "0s", not a negative time.
func ago(t, now time.Time) string { return span(now.Sub(t)) + " ago" }

const day = 24 * time.Hour

// span prints a duration in its two largest units: "3d4h", "12m", "45s".
func span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return twoUnits(d, time.Minute, "m", time.Second, "s")
	case d < day:
		return twoUnits(d, time.Hour, "h", time.Minute, "m")
	}
	return twoUnits(d, day, "d", time.Hour, "h")
}

func twoUnits(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	text := strconv.FormatInt(int64(d/large), 10) + largeName
	if rest := d % large / small; rest > 0 {
		text += strconv.FormatInt(int64(rest), 10) + smallName
	}
	return text
}

// spanOf is span for a number of seconds.
func spanOf(seconds float64) string { return span(time.Duration(seconds * float64(time.Second))) }

// spanValue is a flag that takes a duration with days and weeks in it.
type spanValue struct{ duration time.Duration }

// String implements pflag.Value.
func (s *spanValue) String() string {
	if s.duration == 0 {
		return ""
	}
	return span(s.duration)
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
