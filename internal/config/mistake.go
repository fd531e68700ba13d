package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Mistake is one thing that is wrong in a configuration file.
type Mistake struct {
	File   string // as given by the user
	Line   int    // from 1; the line of the table, or 1, when the key is missing
	Column int    // from 1, for a mistake of TOML syntax; 0 for every other
	Key    string // path of the key, such as "backend.interval"; empty for a mistake of syntax
	Text   string // what is wrong, and what is allowed
}

// String gives "file:line: key: text", or "file:line:column: text" for a
// mistake of syntax.
func (m Mistake) String() string {
	if m.Column > 0 {
		return fmt.Sprintf("%s:%d:%d: %s", m.File, m.Line, m.Column, m.Text)
	}
	return fmt.Sprintf("%s:%d: %s: %s", m.File, m.Line, m.Key, m.Text)
}

// Errors are all mistakes of one file, in the order of their lines.
type Errors []Mistake

// Error gives one mistake a line, without a newline at the end.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, m := range e {
		lines[i] = m.String()
	}
	return strings.Join(lines, "\n")
}

func sortMistakes(m []Mistake) {
	slices.SortStableFunc(m, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Text, b.Text))
	})
}
