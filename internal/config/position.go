package config

import (
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// positions are the lines, from 1, of every key, table and list element of a
// file, by path: "backend[1].capacity.s1", "haproxy.sockets[0]". The TOML
// library tells the line of a key by its name alone, which is not enough for
// the second [[backend]], and not at all for an unknown key.
type positions map[string]int

// locate finds the positions in a file that the TOML library has accepted,
// without a byte order mark.
// At anything it does not expect it stops: later keys then have no position.
func locate(data []byte) positions {
	l := locator{text: string(data), line: 1, lines: positions{}, lists: map[string]int{}}
	for l.statement() {
	}
	return l.lines
}

// joinPath puts a key behind the path of its table, in quotes when TOML needs them.
func joinPath(table, key string) string {
	if !isBare(key) {
		key = strconv.Quote(key)
	}
	if table == "" {
		return key
	}
	return table + "." + key
}

func indexPath(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

func isBare(key string) bool {
	for i := range len(key) {
		if !isBareByte(key[i]) {
			return false
		}
	}
	return key != ""
}

func isBareByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// locator walks over TOML text and notes where things are. It skips values,
// it does not read them.
type locator struct {
	text  string // what is left
	line  int
	table string // path of the table that the last header opened
	lines positions
	lists map[string]int // path -> number of [[path]] seen
}

// statement handles one header or one key with its value; false at the end.
func (l *locator) statement() bool {
	l.blank("")
	switch {
	case l.text == "":
		return false
	case strings.HasPrefix(l.text, "[["):
		l.skip(2)
		return l.header(true)
	case l.text[0] == '[':
		l.skip(1)
		return l.header(false)
	}
	return l.assignment(l.table)
}

func (l *locator) header(list bool) bool {
	line := l.line
	parts, ok := l.key()
	if !ok || !strings.HasPrefix(l.text, "]") {
		return false
	}
	l.skip(1)
	if list {
		if !strings.HasPrefix(l.text, "]") {
			return false
		}
		l.skip(1)
	}
	path := ""
	for i, part := range parts {
		path = joinPath(path, part)
		if list && i == len(parts)-1 {
			l.note(path, line)
			l.lists[path]++
		}
		if n := l.lists[path]; n > 0 {
			path = indexPath(path, n-1)
		}
		l.note(path, line)
	}
	l.table = path
	return true
}

func (l *locator) assignment(table string) bool {
	line := l.line
	parts, ok := l.key()
	if !ok || !strings.HasPrefix(l.text, "=") {
		return false
	}
	l.skip(1)
	path := table
	for _, part := range parts {
		path = joinPath(path, part)
		l.note(path, line)
	}
	return l.value(path)
}

// note keeps the first line of a path: a table that several keys add to
// begins at the first.
func (l *locator) note(path string, line int) {
	if _, ok := l.lines[path]; !ok {
		l.lines[path] = line
	}
}

// key reads a dotted key, with the blanks around it.
func (l *locator) key() ([]string, bool) {
	var parts []string
	for {
		l.text = strings.TrimLeft(l.text, " \t")
		part, ok := l.keyPart()
		if !ok {
			return nil, false
		}
		parts = append(parts, part)
		l.text = strings.TrimLeft(l.text, " \t")
		if !strings.HasPrefix(l.text, ".") {
			return parts, true
		}
		l.skip(1)
	}
}

func (l *locator) keyPart() (string, bool) {
	if l.text == "" {
		return "", false
	}
	if q := l.text[0]; q == '"' || q == '\'' {
		quoted, ok := l.quoted()
		if !ok {
			return "", false
		}
		if q == '\'' || !strings.Contains(quoted, `\`) {
			return quoted[1 : len(quoted)-1], true
		}
		var key struct{ K string }
		_, err := toml.Decode("K = "+quoted, &key)
		return key.K, err == nil
	}
	n := 0
	for n < len(l.text) && isBareByte(l.text[n]) {
		n++
	}
	part := l.text[:n]
	l.skip(n)
	return part, n > 0
}

// value skips a value, and notes what is inside a list or an inline table.
func (l *locator) value(path string) bool {
	l.text = strings.TrimLeft(l.text, " \t")
	if l.text == "" {
		return false
	}
	switch l.text[0] {
	case '"', '\'':
		_, ok := l.quoted()
		return ok
	case '[':
		return l.list(path)
	case '{':
		return l.inlineTable(path)
	}
	n := strings.IndexAny(l.text, ",]}#\r\n")
	if n < 0 {
		n = len(l.text)
	}
	l.skip(n)
	return n > 0
}

func (l *locator) list(path string) bool {
	l.skip(1)
	for i := 0; ; i++ {
		l.blank(",")
		if l.text == "" {
			return false
		}
		if l.text[0] == ']' {
			l.skip(1)
			return true
		}
		element := indexPath(path, i)
		l.note(element, l.line)
		if !l.value(element) {
			return false
		}
	}
}

func (l *locator) inlineTable(path string) bool {
	l.skip(1)
	for {
		l.blank(",")
		if l.text == "" {
			return false
		}
		if l.text[0] == '}' {
			l.skip(1)
			return true
		}
		if !l.assignment(path) {
			return false
		}
	}
}

// quoted skips a string of any of the four kinds and returns it as written.
func (l *locator) quoted() (string, bool) {
	quote, start := l.text[:1], l.text
	long := strings.Repeat(quote, 3)
	end := quote
	if strings.HasPrefix(start, long) {
		end = long
	}
	for n := len(end); n < len(start); n++ {
		switch {
		case quote == `"` && start[n] == '\\':
			n++
		case strings.HasPrefix(start[n:], end):
			n += len(end)
			// A long string may end in one or two quotes of its own.
			for i := 0; end == long && i < 2 && strings.HasPrefix(start[n:], quote); i++ {
				n++
			}
			l.skip(n)
			return start[:n], true
		}
	}
	return "", false
}

// blank skips white space, newlines, comments and the given separators.
func (l *locator) blank(separators string) {
	for {
		rest := strings.TrimLeft(l.text, " \t\r\n"+separators)
		l.skip(len(l.text) - len(rest))
		if !strings.HasPrefix(l.text, "#") {
			return
		}
		n := strings.IndexByte(l.text, '\n')
		if n < 0 {
			n = len(l.text)
		}
		l.skip(n)
	}
}

// skip moves over n bytes and counts the newlines among them.
func (l *locator) skip(n int) {
	l.line += strings.Count(l.text[:n], "\n")
	l.text = l.text[n:]
}
