package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// text is a string of the file. Messages quote it as written, because what
// the environment put into it may be secret.
type text struct {
	value   string // with the environment variables filled in
	written string
}

// literal reads a string in which "$" has a meaning of its own.
func (t *table) literal(key, allowed string) (string, bool) {
	switch raw := t.take(key).(type) {
	case nil:
	case string:
		return raw, true
	default:
		t.wrong(key, "is %s; allowed: %s", describe(raw), allowed)
	}
	return "", false
}

// text reads a string, with environment variables in it. allowed says what
// the key takes. The second result is false without a sound value.
func (t *table) text(key, allowed string) (text, bool) {
	written, ok := t.literal(key, allowed)
	if !ok {
		return text{}, false
	}
	return t.expand(joinPath(t.path, key), joinPath(t.name, key), written)
}

func (t *table) expand(path, name, written string) (text, bool) {
	value, problems := expand(written, t.env)
	for _, p := range problems {
		t.mistake(path, name, "%s", p)
	}
	return text{value, written}, len(problems) == 0
}

// element is one string of a list, with the place to report its mistakes at.
type element struct {
	text
	path, name string
}

// texts reads a list of strings. Elements that are none are reported and left
// out; a key that is not there gives nothing.
func (t *table) texts(key, allowed string) []element {
	raw := t.take(key)
	list, ok := raw.([]any)
	if raw != nil && !ok {
		t.wrong(key, "is %s; allowed: %s", describe(raw), allowed)
		return nil
	}
	if raw != nil && len(list) == 0 {
		t.wrong(key, "is an empty list; allowed: %s", allowed)
	}
	var all []element
	for i, r := range list {
		path, name := indexPath(joinPath(t.path, key), i), joinPath(t.name, key)
		written, ok := r.(string)
		if !ok {
			t.mistake(path, name, "has %s in it; allowed: %s", describe(r), allowed)
			continue
		}
		if text, ok := t.expand(path, name, written); ok {
			all = append(all, element{text, path, name})
		}
	}
	return all
}

// choice reads a string that must be one of a few.
func choice[T ~string](t *table, key string, fallback T, others ...T) T {
	quoted := make([]string, 0, 1+len(others))
	for _, c := range append([]T{fallback}, others...) {
		quoted = append(quoted, strconv.Quote(string(c)))
	}
	return choiceOr(t, key, strings.Join(quoted, ", "), fallback, others...)
}

// choiceOr is choice with the words for what is allowed.
func choiceOr[T ~string](t *table, key, allowed string, fallback T, others ...T) T {
	v, ok := t.text(key, allowed)
	if !ok {
		return fallback
	}
	all := append([]T{fallback}, others...)
	names := make([]string, len(all))
	for i, c := range all {
		if names[i] = string(c); names[i] == v.value {
			return c
		}
	}
	t.wrong(key, "%q is not known; %sallowed: %s", v.written, didYouMean(v.value, names), allowed)
	return fallback
}

// duration reads a string such as "30s".
func (t *table) duration(key string, fallback, least, most time.Duration) time.Duration {
	allowed := fmt.Sprintf("a duration from %s to %s, such as %q", plain(least), plain(most), plain(fallback))
	v, ok := t.text(key, allowed)
	if !ok {
		return fallback
	}
	d, err := time.ParseDuration(v.value)
	switch {
	case err != nil:
		t.wrong(key, "%q is not a duration; allowed: %s", v.written, allowed)
	case d < least || d > most:
		t.wrong(key, "%q is out of range; allowed: %s", v.written, allowed)
	default:
		return d
	}
	return fallback
}

// seconds reads a duration of whole seconds: Graphite knows no finer time.
func (t *table) seconds(key string, fallback, least, most time.Duration) time.Duration {
	d := t.duration(key, fallback, least, most)
	if d%time.Second != 0 {
		t.wrong(key, "%s is not a whole number of seconds, and Graphite knows no finer time; allowed: such as %q", plain(d), plain(fallback))
		return fallback
	}
	return d
}

// plain prints a duration as one would write it: "5m" and "90s", not "5m0s"
// and "1m30s".
func plain(d time.Duration) string {
	if d < 2*time.Minute && d%time.Second == 0 && d%time.Minute != 0 {
		return fmt.Sprintf("%ds", d/time.Second)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

const (
	kibibyte = int64(1) << 10
	mebibyte = int64(1) << 20
	gibibyte = int64(1) << 30
)

// size reads a string such as "16MiB" into bytes.
func (t *table) size(key string, fallback, least, most int64) int64 {
	allowed := fmt.Sprintf("a size from %s to %s, such as %q", plainSize(least), plainSize(most), plainSize(fallback))
	v, ok := t.text(key, allowed)
	if !ok {
		return fallback
	}
	n, ok := parseSize(v.value)
	switch {
	case !ok:
		t.wrong(key, "%q is not a size; allowed: %s", v.written, allowed)
	case n < least || n > most:
		t.wrong(key, "%q is out of range; allowed: %s", v.written, allowed)
	default:
		return n
	}
	return fallback
}

func parseSize(s string) (int64, bool) {
	for _, u := range []struct {
		name  string
		bytes int64
	}{{"KiB", kibibyte}, {"MiB", mebibyte}, {"GiB", gibibyte}} {
		digits, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimRight(digits, " "), 10, 64)
		return n * u.bytes, err == nil && n >= 0 && n <= math.MaxInt64/u.bytes
	}
	return 0, false
}

func plainSize(n int64) string {
	switch {
	case n >= gibibyte && n%gibibyte == 0:
		return fmt.Sprintf("%dGiB", n/gibibyte)
	case n >= mebibyte && n%mebibyte == 0:
		return fmt.Sprintf("%dMiB", n/mebibyte)
	}
	return fmt.Sprintf("%dKiB", n/kibibyte)
}

// integer reads a whole number.
func (t *table) integer(key string, fallback, least, most int) int {
	allowed := fmt.Sprintf("a whole number from %d to %d", least, most)
	switch raw := t.take(key).(type) {
	case nil:
	case int64:
		if raw >= int64(least) && raw <= int64(most) {
			return int(raw)
		}
		t.wrong(key, "%d is out of range; allowed: %s", raw, allowed)
	default:
		t.wrong(key, "is %s; allowed: %s", describe(raw), allowed)
	}
	return fallback
}

// span is a range of numbers.
type span struct {
	low, high float64
	open      bool // low itself is outside
}

func (s span) String() string {
	low, high := strconv.FormatFloat(s.low, 'f', -1, 64), strconv.FormatFloat(s.high, 'f', -1, 64)
	if s.open {
		return "a number above " + low + ", at most " + high
	}
	return "a number from " + low + " to " + high
}

// has is false for NaN.
func (s span) has(x float64) bool {
	return x <= s.high && (x > s.low || !s.open && x == s.low)
}

// number reads a number, with or without a fraction.
func (t *table) number(key string, fallback float64, s span) float64 {
	return t.numberOr(key, fallback, s, s.String())
}

// numberOr is number with the words for what is allowed.
func (t *table) numberOr(key string, fallback float64, s span, allowed string) float64 {
	var x float64
	switch raw := t.take(key).(type) {
	case nil:
		return fallback
	case int64:
		x = float64(raw)
	case float64:
		x = raw
	default:
		t.wrong(key, "is %s; allowed: %s", describe(raw), allowed)
		return fallback
	}
	if !s.has(x) {
		t.wrong(key, "%v is out of range; allowed: %s", x, allowed)
		return fallback
	}
	return x
}
