package config

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"
)

// reader gathers what the reading of one file brings to light.
type reader struct {
	file     string      // as given by the user
	mode     fs.FileMode // of the file; 0: of no matter
	env      lookup
	lines    positions
	flawed   map[string]bool // paths with a mistake: checks across keys leave them alone
	tables   []*table        // every table read so far
	mistakes Errors
	warnings []Mistake
	filledIn []string // what the environment has put into targets
}

// mistake notes what is wrong with the key at path, which is that of a list
// element as well.
func (r *reader) mistake(path, key, format string, args ...any) {
	r.flawed[path] = true
	if strings.HasSuffix(path, "]") {
		r.flawed[path[:strings.LastIndexByte(path, '[')]] = true
	}
	r.mistakes = append(r.mistakes, Mistake{File: r.file, Line: r.line(path), Key: key, Text: fmt.Sprintf(format, args...)})
}

func (r *reader) warn(path, key, format string, args ...any) {
	r.warnings = append(r.warnings, Mistake{File: r.file, Line: r.line(path), Key: key, Text: fmt.Sprintf(format, args...)})
}

// line finds the line of a path, or of the nearest table around it.
func (r *reader) line(path string) int {
	for path != "" {
		if n, ok := r.lines[path]; ok {
			return n
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return 1
}

// table is one TOML table while it is read. Whoever reads a key names it,
// with its default and its range, in one call; that call makes the key a
// known one, and whatever nobody asked for is unknown at the end. So a key
// can't be accepted and then ignored, and one table needs no second list.
//
// The library's decoding into structs is not used: it stops at the first key
// of a wrong type, takes "Interval" for "interval", and tells the line of a
// key by a name that all [[backend]] tables share.
type table struct {
	*reader
	name   string // as printed: "backend"
	path   string // as located: "backend[1]"
	values map[string]any
	broken bool // it is not a table at all, and that has been said
	known  []string
}

func (r *reader) newTable(name, path string, values map[string]any) *table {
	t := &table{reader: r, name: name, path: path, values: values}
	r.tables = append(r.tables, t)
	return t
}

// take hands out the raw value of a key, nil when the file does not have it.
func (t *table) take(key string) any {
	if !slices.Contains(t.known, key) {
		t.known = append(t.known, key)
	}
	return t.values[key]
}

// wrong notes a mistake of the key.
func (t *table) wrong(key, format string, args ...any) {
	t.mistake(joinPath(t.path, key), joinPath(t.name, key), format, args...)
}

// caution notes a warning about the key.
func (t *table) caution(key, format string, args ...any) {
	t.warn(joinPath(t.path, key), joinPath(t.name, key), format, args...)
}

// require notes a mistake when the file does not have the key.
func (t *table) require(key, allowed string) {
	if t.values[key] == nil && !t.broken {
		t.wrong(key, "is missing; allowed: %s", allowed)
	}
}

// given tells whether the file has the key.
func (t *table) given(key string) bool { return t.values[key] != nil }

// sound tells whether no mistake of the keys is known.
func (t *table) sound(keys ...string) bool {
	return !slices.ContainsFunc(keys, func(k string) bool { return t.flawed[joinPath(t.path, k)] })
}

// firstGiven returns the first of the keys that the file has: the one a
// mistake that concerns them all is reported at.
func (t *table) firstGiven(keys ...string) string {
	for _, k := range keys {
		if t.given(k) {
			return k
		}
	}
	return keys[0]
}

// refer names another key with its value, for a mistake that concerns two.
func (t *table) refer(key string, value any) string {
	if d, ok := value.(time.Duration); ok {
		value = plain(d)
	}
	if t.given(key) {
		return fmt.Sprintf("%s (%v)", joinPath(t.name, key), value)
	}
	return fmt.Sprintf("%s (%v, the default)", joinPath(t.name, key), value)
}

// sub opens a table inside t. One that is not there is empty.
func (t *table) sub(key string) *table {
	s := t.free(key)
	t.tables = append(t.tables, s)
	return s
}

// free opens a table inside t whose keys the user chooses.
func (t *table) free(key string) *table {
	raw := t.take(key)
	values, ok := raw.(map[string]any)
	s := &table{reader: t.reader, name: joinPath(t.name, key), path: joinPath(t.path, key), values: values}
	if raw != nil && !ok {
		s.broken = true
		t.wrong(key, "is %s; allowed: a table, begun by the line [%s]", describe(raw), s.name)
	}
	return s
}

// list opens the tables of an array of tables.
func (t *table) list(key string) []*table {
	name, path := joinPath(t.name, key), joinPath(t.path, key)
	var all []*table
	switch raw := t.take(key).(type) {
	case nil:
	case []map[string]any:
		for i, values := range raw {
			all = append(all, t.newTable(name, indexPath(path, i), values))
		}
	case []any:
		for i, element := range raw {
			values, ok := element.(map[string]any)
			if !ok {
				t.mistake(indexPath(path, i), name, "is a list with %s in it; allowed: tables, each begun by the line [[%s]]", describe(element), name)
				continue
			}
			all = append(all, t.newTable(name, indexPath(path, i), values))
		}
	case map[string]any:
		t.wrong(key, "is a single table; allowed: a list of tables, so write [[%s]] with two brackets", name)
	default:
		t.wrong(key, "is %s; allowed: tables, each begun by the line [[%s]]", describe(raw), name)
	}
	return all
}

// unknown reports every key that nobody asked for.
func (r *reader) unknown() {
	home := map[string]string{} // key -> a table that knows it
	for _, t := range slices.Backward(r.tables) {
		for _, k := range t.known {
			home[k] = t.name
		}
	}
	for _, t := range r.tables {
		for _, key := range slices.Sorted(maps.Keys(t.values)) {
			if slices.Contains(t.known, key) {
				continue
			}
			owner, elsewhere := home[key]
			switch {
			case elsewhere && owner != "":
				t.wrong(key, "unknown key here; it belongs to the table %q", owner)
			case closest(key, t.known) != "":
				t.wrong(key, "unknown key; did you mean %q?", closest(key, t.known))
			default:
				t.wrong(key, "unknown key; allowed here: %s", strings.Join(slices.Sorted(slices.Values(t.known)), ", "))
			}
		}
	}
}

// describe says what a raw value is.
func describe(raw any) string {
	switch raw.(type) {
	case string:
		return "a string"
	case int64:
		return "a whole number"
	case float64:
		return "a number with a fraction"
	case bool:
		return "true or false"
	case time.Time:
		return "a date or time"
	case map[string]any:
		return "a table"
	case []map[string]any:
		return "a list of tables"
	}
	return "a list"
}
