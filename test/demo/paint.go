package demo

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// style is an ANSI attribute.
type style string

const (
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

// painter draws with what the screen allows.
type painter struct{ Screen }

// style colours text, when colours are allowed.
func (p painter) style(s style, text string) string {
	if !p.Colour || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// pick chooses between a block character and its stand-in.
func (p painter) pick(block, ascii string) string {
	if p.ASCII {
		return ascii
	}
	return block
}

// header explains the bar of the loads, the mean being its middle.
func (p painter) header(width int) string {
	const left, right = "load", "mean"
	if width/2 < len(left)+len(right) {
		return left
	}
	return left + strings.Repeat(" ", width/2-len(left)-len(right)+1) + right
}

// bar draws part (0..1) of width columns, with a mark at column mark (none
// when negative). More than the whole is the whole.
func (p painter) bar(part float64, width, mark int) string {
	eighths := int(math.Round(min(max(part, 0), 1) * float64(width) * 8))
	line := make([]rune, width)
	for c := range line {
		line[c] = p.horizontal(eighths - 8*c)
		if c == mark && !p.ASCII {
			line[c] = '│'
		} else if c == mark {
			line[c] = '|'
		}
	}
	return string(line)
}

// horizontal is one cell of a bar, filled from the left by n eighths.
func (p painter) horizontal(n int) rune {
	switch {
	case p.ASCII && n >= 4:
		return '#'
	case p.ASCII, n <= 0:
		return ' '
	case n >= 8:
		return '█'
	}
	return []rune(" ▏▎▍▌▋▊▉")[n]
}

// column is one cell of a chart, filled from below by part (0..1).
func (p painter) column(part float64) rune {
	n := 0
	if !math.IsNaN(part) {
		n = int(math.Round(min(max(part, 0), 1) * 8))
	}
	switch {
	case p.ASCII && n >= 4:
		return '#'
	case p.ASCII, n == 0:
		return ' '
	}
	return []rune(" ▁▂▃▄▅▆▇█")[n]
}

// cut shortens a line to width columns; colours count nothing and are ended.
func cut(line string, width int) string {
	columns := 0
	coloured := false
	for i := 0; i < len(line); {
		if line[i] == '\x1b' {
			end := strings.IndexByte(line[i:], 'm')
			if end < 0 {
				return line[:i]
			}
			coloured = line[i:i+end+1] != "\x1b[0m"
			i += end + 1
			continue
		}
		if columns == width {
			if coloured {
				return line[:i] + "\x1b[0m"
			}
			return line[:i]
		}
		_, size := utf8.DecodeRuneInString(line[i:])
		i += size
		columns++
	}
	return line
}

// wrap breaks text without colours at spaces into at most n lines of width
// columns; the last one is cut.
func wrap(text string, width, n int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width || len(lines) == n-1:
			line += " " + word
		default:
			lines = append(lines, line)
			line = "  " + word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	for i, l := range lines {
		lines[i] = cut(l, width)
	}
	return lines
}

// thousands prints a whole number with commas.
func thousands(v float64) string {
	digits := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
