package admin

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// span is a length of time for people, in at most two units.
func span(d time.Duration) string {
	d = max(0, d)
	const day = 24 * time.Hour
	switch {
	case d < time.Second && d > 0:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d/time.Second))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d/time.Minute))
	case d < 2*day:
		return fmt.Sprintf("%d h %d min", int(d/time.Hour), int(d%time.Hour/time.Minute))
	}
	return fmt.Sprintf("%d d %d h", int(d/day), int(d%day/time.Hour))
}

// plain is a length of time exactly, without the zeros at its end: 1h30m, 30d.
func plain(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
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

// amount is a load for people: whole and grouped when large, else three digits.
func amount(v float64) string {
	if math.Abs(v) >= 1e15 {
		return digits(v)
	}
	if math.Abs(v) >= 100 {
		return grouped(strconv.FormatFloat(v, 'f', 0, 64))
	}
	return rough(v)
}

// rough is a number in three digits.
func rough(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// digits is a number of which nobody knows how large it is.
func digits(v float64) string { return strconv.FormatFloat(v, 'g', 5, 64) }

// grouped puts spaces that do not break between groups of three digits.
func grouped(s string) string {
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteString("\u202f")
		}
		b.WriteRune(c)
	}
	return sign + b.String()
}
