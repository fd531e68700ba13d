package haproxy

import (
	"fmt"
	"strings"
)

// The two dumps that a pass reads are most of what it reads at all, and nine
// in ten of their columns are of no use here. So lines are cut into pieces of
// the reply itself, in a slice that is used again, instead of by encoding/csv
// and strings.Fields: one copy and one allocation less a line.

// splitWords appends the words of a line, which blanks separate, to dst.
func splitWords(dst []string, line string) []string {
	begin := -1
	for i := range len(line) {
		switch blank := line[i] == ' ' || line[i] == '\t'; {
		case blank && begin >= 0:
			dst, begin = append(dst, line[begin:i]), -1
		case !blank && begin < 0:
			begin = i
		}
	}
	if begin >= 0 {
		dst = append(dst, line[begin:])
	}
	return dst
}

// splitRow appends the fields of the first row of block to dst and returns what
// follows the row. Fields are as RFC 4180 has them: one that begins with a quote
// ends with one, and may hold commas, doubled quotes and line ends.
func splitRow(dst, block []string) (row, rest []string, err error) {
	line, rest := block[0], block[1:]
	for {
		if !strings.HasPrefix(line, `"`) {
			end := strings.IndexByte(line, ',')
			if end < 0 {
				return append(dst, line), rest, nil
			}
			dst, line = append(dst, line[:end]), line[end+1:]
			continue
		}
		end := closingQuote(line)
		for end < 0 && len(rest) > 0 {
			line, rest = line+"\n"+rest[0], rest[1:]
			end = closingQuote(line)
		}
		if end < 0 {
			return nil, nil, fmt.Errorf("%w: a line of show stat has a quote that does not end: %s", ErrMismatch, cut(line))
		}
		dst = append(dst, strings.ReplaceAll(line[1:end], `""`, `"`))
		switch after := line[end+1:]; {
		case after == "":
			return dst, rest, nil
		case after[0] == ',':
			line = after[1:]
		default:
			return nil, nil, fmt.Errorf("%w: a line of show stat goes on after a closing quote: %s", ErrMismatch, cut(line))
		}
	}
}

// closingQuote returns where the field that begins line with a quote has its
// closing one; -1 when it has none.
func closingQuote(line string) int {
	for i := 1; i < len(line); i++ {
		if line[i] != '"' {
			continue
		}
		if i+1 == len(line) || line[i+1] != '"' {
			return i
		}
		i++
	}
	return -1
}
