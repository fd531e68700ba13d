package cli

import (
	"slices"
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
// top.
func (l *line) draw(unicode bool) string {
	marks := []rune("_.-=+*#@")
	if unicode {
		marks = []rune("▁▂▃▄▅▆▇█")
	}
	var b strings.Builder
	for _, v := range l.filled() {
		if v == nil {
			b.WriteByte(' ')
			continue
		}
		level := 0.0
		if l.most > l.least {
			level = (*v - l.least) / (l.most - l.least)
		}
		b.WriteRune(marks[min(int(level*float64(len(marks))), len(marks)-1)])
	}
	return strings.TrimRight(b.String(), " ")
}

// filled are the columns with the gaps between passes filled. When the time is
// short, passes are further apart than columns; a gap of more than twice the
// least one, or one with a pass without a number in it, is a real gap.
func (l *line) filled() [lineWidth]*float64 {
	var at []int
	for i, v := range l.columns {
		if v != nil {
			at = append(at, i)
		}
	}
	least := lineWidth
	for i := 1; i < len(at); i++ {
		least = min(least, at[i]-at[i-1])
	}
	columns := l.columns
	for i := 1; i < len(at); i++ {
		from, to := at[i-1], at[i]
		if to-from > 2*least || slices.Contains(l.missing[from:to], true) {
			continue
		}
		for j := from + 1; j < to; j++ {
			columns[j] = l.columns[from]
		}
	}
	return columns
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
