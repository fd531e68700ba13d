package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// style colours a cell. It is used on a terminal only, and never carries
// anything that the text does not say.
type style string

const (
	plain  style = ""
	bold   style = "1"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	faint  style = "2"
)

// cell is one field of a table.
type cell struct {
	text  string
	style style
}

// table is aligned text: a header, and rows of as many cells.
type table struct {
	header []string
	right  []bool // columns of numbers
	rows   [][]cell
	keys   int // the first columns, which tell rows apart: see parts; 0: it is printed in one, however wide
}

// newTable takes the column names; one that begins with ">" holds numbers and
// is aligned to the right.
func newTable(columns ...string) *table {
	t := &table{}
	for _, c := range columns {
		name, right := strings.CutPrefix(c, ">")
		t.header = append(t.header, name)
		t.right = append(t.right, right)
	}
	return t
}

// add takes the cells of a row. What came from Graphite or HAProxy may hold
// anything: see printable.
func (t *table) add(cells ...cell) {
	for i := range cells {
		cells[i].text = printable(cells[i].text)
	}
	t.rows = append(t.rows, cells)
}

// printable writes newlines, escape sequences for terminals and what else is
// not seen as Go does in a quoted text, so that no name can break a table,
// recolour a terminal or look like another name.
func printable(s string) string {
	unseen := func(r rune) bool { return !unicode.IsPrint(r) }
	if !strings.ContainsFunc(s, unseen) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unseen(r) {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// write prints the table on w, with colours when asked for.
func (t *table) write(w io.Writer, colours bool) error {
	head := make([]cell, len(t.header))
	for i, name := range t.header {
		head[i] = cell{name, bold}
	}
	rows := append([][]cell{head}, t.rows...)
	width := t.widths()
	var out strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, c := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c.text))
			text := c.text
			if colours && c.style != plain && text != "" {
				text = "\x1b[" + string(c.style) + "m" + text + "\x1b[0m"
			}
			if t.right[i] {
				line.WriteString(pad + text)
			} else {
				line.WriteString(text + pad)
			}
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// widths are those of the columns, in characters.
func (t *table) widths() []int {
	width := make([]int, len(t.header))
	for i, name := range t.header {
		width[i] = utf8.RuneCountInString(name)
	}
	for _, row := range t.rows {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(c.text))
		}
	}
	return width
}

// parts are the table in as many as it takes for each to fit into a line of most
// characters, every one with the columns that tell rows apart; 0 is no limit. A
// column that does not fit beside those is left to the terminal.
func (t *table) parts(most int) []*table {
	if t.keys == 0 || most <= 0 {
		return []*table{t}
	}
	keys, width := 0, t.widths()
	for _, w := range width[:t.keys] {
		keys += w + 2
	}
	var all []*table
	for from := t.keys; from < len(width); {
		to, line := from+1, keys+width[from]
		for to < len(width) && line+2+width[to] <= most {
			line += 2 + width[to]
			to++
		}
		all = append(all, t.columns(from, to))
		from = to
	}
	return all
}

// columns is the table with the columns that tell rows apart, and some others.
func (t *table) columns(from, to int) *table {
	one := &table{header: pick(t.header, t.keys, from, to), right: pick(t.right, t.keys, from, to)}
	for _, row := range t.rows {
		one.rows = append(one.rows, pick(row, t.keys, from, to))
	}
	return one
}

func pick[T any](list []T, keys, from, to int) []T {
	return slices.Concat(list[:keys], list[from:to])
}

// writeTable prints t on stdout, in parts where a terminal is narrower.
func (p *Program) writeTable(t *table) error {
	for i, part := range t.parts(p.width(p.Stdout)) {
		if i > 0 {
			fmt.Fprintln(p.Stdout)
		}
		if err := part.write(p.Stdout, p.colours(p.Stdout)); err != nil {
			return err
		}
	}
	return nil
}

// writeJSON prints v on stdout, indented.
func (p *Program) writeJSON(v any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	if _, err := p.Stdout.Write(unseenEscaped(text.Bytes())); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}

// unseenEscaped is the same JSON with what is not seen as \u escapes: those of
// ASCII are escaped anyway, but terminals also obey the controls from U+0080 on.
func unseenEscaped(text []byte) []byte {
	unseen := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
	if !bytes.ContainsFunc(text, unseen) {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	for _, r := range string(text) {
		if !unseen(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, half := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, "\\u%04x", half)
		}
	}
	return out
}

// number prints a load with four significant digits, and all digits before the
// point up to a length that a person reads.
func number(v float64) string {
	if v >= 1000 && v < 1e15 || v == 0 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// maybe prints a number that may be absent.
func maybe(v *float64, format func(float64) string) string {
	if v == nil {
		return "-"
	}
	return format(*v)
}

// seconds prints a number of seconds as a duration, "1m30s".
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if d > -10*time.Second && d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + "%" }
