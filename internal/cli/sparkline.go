package cli

import (
	"strings"
	"time"
)

// lineWidth is how many characters a line of history is wide.
const lineWidth = 60

// line is a series of numbers, brought to the width of a terminal.
type line struct {
	least, most float64
	last        *float64 // nil: not known now
	known       bool     // there is any number
	columns     [lineWidth]*float64
	missing     [lineWidth]bool // there was a time without a number
}

// lineOf sorts values into columns from start to end. A column shows the
// largest of its values: what is looked for is the peak.
func lineOf(times []int64, values []*float64, start, end time.Time) *line {
	l := &line{}
	whole := max(end.Sub(start).Seconds(), 1)
	for i, v := range values[:min(len(values), len(times))] {
		l.last = v
		place := float64(times[i]-start.Unix()) / whole * lineWidth
		at := int(min(max(place, 0), lineWidth-1))
		if v == nil {
			l.missing[at] = true
			continue
		}
		if !l.known {
			l.least, l.most, l.known = *v, *v, true
		}
		l.least, l.most = min(l.least, *v), max(l.most, *v)
		column := &l.columns[at]
		if *column == nil || **column < *v {
			*column = v
		}
	}
	return l
}

// draw makes the picture: from the least value at the bottom to the most at the
// top. Passes are further apart than columns when the time is short: a gap of
// about the usual width is filled.
func (l *line) draw(unicode bool) string {
	marks := []rune("_.-=+*#@")
	if unicode {
		marks = []rune("▁▂▃▄▅▆▇█")
	}
	usual := 2 * l.usualGap()
	var b strings.Builder
	var before *float64
	gap := 0
	for i, v := range l.columns {
		if v == nil {
			if l.missing[i] {
				before = nil
			}
			if gap++; before == nil || gap >= usual {
				b.WriteByte(' ')
				continue
			}
			v = before
		} else {
			before, gap = v, 0
		}
		level := 0.0
		if l.most > l.least {
			level = (*v - l.least) / (l.most - l.least)
		}
		b.WriteRune(marks[min(int(level*float64(len(marks))), len(marks)-1)])
	}
	return strings.TrimRight(b.String(), " ")
}

// usualGap is the least distance of two columns with values.
func (l *line) usualGap() int {
	usual, last := lineWidth, -1
	for i, v := range l.columns {
		if v == nil {
			continue
		}
		if last >= 0 {
			usual = min(usual, i-last)
		}
		last = i
	}
	if usual == lineWidth {
		return 0
	}
	return usual
}

// unicode tells whether the terminal's locale shows more than ASCII.
func (p *Program) unicode() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(p.getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}
