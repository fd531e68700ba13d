package operations

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const document = "docs/operations.md"

// kind is what a row of the table is about.
type kind int

const (
	logged     kind = iota // a line of the log
	cause                  // the cause in a line of the log
	exit                   // what the program says before it ends
	haproxyLog             // a line of HAProxy's log
)

// areaHAProxy has the causes that HAProxy's client names.
const areaHAProxy = "HAProxy"

// row is one row of the table.
type row struct {
	area    string
	kind    kind
	message string
	overs   []string
	once    string // in place of overs: why no line says that it is over
	traffic string
	do      string
	status  bool // it is an open fault
	metrics []condition
	alerts  []string
}

// condition is a series of /metrics and what it says.
type condition struct {
	series string // name, or name{label="value"}
	zero   bool   // it is 0; else above
}

// parsed is the document.
type parsed struct {
	text     string
	rows     []*row
	normal   []string // lines of level INFO
	commands []string // fenced blocks of shell
}

// find gives a row by its message.
func (p *parsed) find(message string) *row {
	i := slices.IndexFunc(p.rows, func(r *row) bool { return r.message == message })
	if i < 0 {
		return nil
	}
	return p.rows[i]
}

var (
	quoted = regexp.MustCompile("`([^`]+)`|``(.+?)``")
	alert  = regexp.MustCompile(`^HAProxyWeighter\w+$`)
	series = regexp.MustCompile(`^(haproxy_weighter_[a-z_]+(?:\{[^}]*\})?)( == 0)?$`)
	fenced = regexp.MustCompile("(?ms)^```.*?^```")
	fence  = regexp.MustCompile("(?ms)^```sh\n(.*?)^```")
)

// inCode lists what stands in backquotes.
func inCode(text string) (all []string) {
	text = fenced.ReplaceAllString(text, "")
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.TrimSpace(m[1]+m[2]))
	}
	return all
}

func readDocument(t *testing.T) *parsed {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, document))
	if err != nil {
		t.Fatal(err)
	}
	p := &parsed{text: string(text)}
	area, table, normal := "", false, false
	for line := range strings.Lines(p.text) {
		cells := cellsOf(line)
		switch {
		case strings.HasPrefix(line, "## "):
			table, normal = strings.Contains(line, "Messages"), strings.Contains(line, "Normal")
		case table && len(cells) == 5 && strings.HasPrefix(cells[0], "**"):
			area = strings.Trim(cells[0], "*")
		case table && len(cells) == 5 && strings.Contains(cells[0], "`"):
			p.rows = append(p.rows, rowOf(t, area, cells))
		case normal && len(cells) == 2 && strings.Contains(cells[0], "`"):
			p.normal = append(p.normal, inCode(cells[0])...)
		}
	}
	for _, m := range fence.FindAllStringSubmatch(p.text, -1) {
		p.commands = append(p.commands, m[1])
	}
	return p
}

// cellsOf splits a row of a table.
func cellsOf(line string) []string {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "|") || !strings.HasSuffix(line, "|") {
		return nil
	}
	cells := strings.Split(line[1:len(line)-1], "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

func rowOf(t *testing.T, area string, cells []string) *row {
	t.Helper()
	r := &row{area: area, message: inCode(cells[0])[0], overs: inCode(cells[1]), traffic: cells[2], do: cells[3]}
	if strings.HasPrefix(cells[1], "(") {
		r.once, r.overs = cells[1], nil
	}
	switch {
	case strings.HasPrefix(cells[0], "cause "):
		r.kind = cause
	case strings.HasPrefix(cells[0], "exit "):
		r.kind = exit
	case strings.HasPrefix(cells[0], "HAProxy's log "):
		r.kind = haproxyLog
	}
	r.status = strings.HasPrefix(cells[4], "status")
	for _, name := range inCode(cells[4]) {
		m := series.FindStringSubmatch(name)
		switch {
		case alert.MatchString(name):
			r.alerts = append(r.alerts, name)
		case m != nil:
			r.metrics = append(r.metrics, condition{m[1], m[2] != ""})
		default:
			t.Errorf("%q, in the row of %q, is neither an alert nor a series", name, r.message)
		}
	}
	return r
}

// TestTableIsWhole holds that no row leaves open what to do, that none is there
// twice, and that all that it points to exists.
func TestTableIsWhole(t *testing.T) {
	p := readDocument(t)
	if len(p.rows) < 60 || len(p.normal) < 15 || len(p.commands) < 3 {
		t.Fatalf("%s has %d messages, %d normal lines and %d blocks of commands", document, len(p.rows), len(p.normal), len(p.commands))
	}
	alerts, metrics := names(t, "packaging/prometheus/haproxy-weighter.rules.yml", `(?m)- alert: (\w+)$`), names(t, "docs/metrics.md", "(?m)^\\| `(haproxy_weighter_\\w+)`")
	seen := map[string]bool{}
	pointed := map[string]bool{}
	for _, r := range p.rows {
		if r.area == "" || r.message == "" || len(r.traffic) < 4 || len(r.do) < 5 {
			t.Errorf("the row of %q has an empty cell", r.message)
		}
		if seen[r.message] {
			t.Errorf("%q is there twice", r.message)
		}
		seen[r.message] = true
		if r.status && len(r.overs) == 0 && r.once == "" && r.kind == logged {
			t.Errorf("%q is an open fault, and no word says when it is over", r.message)
		}
		for _, a := range r.alerts {
			pointed[a] = true
			if !alerts[a] {
				t.Errorf("%q: there is no alert %s", r.message, a)
			}
		}
		for _, c := range r.metrics {
			name, _, _ := strings.Cut(c.series, "{")
			if !metrics[name] {
				t.Errorf("%q: there is no metric %s", r.message, name)
			}
		}
	}
	for _, line := range inCode(p.text) {
		if alert.MatchString(line) {
			pointed[line] = true
		}
	}
	for a := range alerts {
		if !pointed[a] {
			t.Errorf("%s does not say where the alert %s leads", document, a)
		}
	}
}

// names finds the first group of a pattern in a file of the repository.
func names(t *testing.T, file, pattern string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, file))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
		found[m[1]] = true
	}
	if len(found) < 10 {
		t.Fatalf("only %d names found in %s", len(found), file)
	}
	return found
}
