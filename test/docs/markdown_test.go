package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// repository is its root, seen from here.
const repository = "../.."

// document is one Markdown file, taken apart.
type document struct {
	name     string // from the root of the repository
	sections []*section
}

// section is a heading with what stands below it up to the next heading of any level.
type section struct {
	heading string // empty: before the first one
	text    string // without fenced blocks
	blocks  []*block
}

// block is one fenced block. A block within a list is without its indentation.
type block struct {
	in       *document
	heading  string
	language string
	text     string
	line     int // of its fence
}

// first is the first line of the block.
func (b *block) first() string {
	line, _, _ := strings.Cut(b.text, "\n")
	return strings.TrimSpace(line)
}

var (
	fence   = regexp.MustCompile("^( *)```([a-z]*)$")
	heading = regexp.MustCompile("^#+ (.*)$")
	span    = regexp.MustCompile("``(.+?)``|`([^`]+)`")
)

// documents are all Markdown files of the repository.
func documents(t *testing.T) []*document {
	t.Helper()
	var all []*document
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "bin") && path != repository:
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		name, err := filepath.Rel(repository, path)
		all = append(all, parse(t, name))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 12 {
		t.Fatalf("only %d documents found", len(all))
	}
	return all
}

func parse(t *testing.T, name string) *document {
	t.Helper()
	d := &document{name: name, sections: []*section{{}}}
	var open *block
	indent := ""
	n := 0
	for line := range strings.Lines(read(t, name)) {
		n++
		line = strings.TrimSuffix(line, "\n")
		s := d.sections[len(d.sections)-1]
		m := fence.FindStringSubmatch(line)
		switch {
		case open != nil && m != nil:
			s.blocks = append(s.blocks, open)
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		case m != nil:
			open, indent = &block{in: d, heading: s.heading, language: m[2], line: n}, m[1]
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			t.Errorf("%s:%d: a fence that this test does not understand", name, n)
		case heading.MatchString(line):
			d.sections = append(d.sections, &section{heading: heading.FindStringSubmatch(line)[1]})
		default:
			s.text += line + "\n"
		}
	}
	if open != nil {
		t.Errorf("%s:%d: this block is not closed", name, open.line)
	}
	return d
}

// section finds one by its heading; fails when there is none.
func (d *document) section(t *testing.T, heading string) *section {
	t.Helper()
	i := slices.IndexFunc(d.sections, func(s *section) bool { return s.heading == heading })
	if i < 0 {
		t.Fatalf("%s has no section %q", d.name, heading)
	}
	return d.sections[i]
}

// prose is the text of a document without fenced blocks.
func (d *document) prose() string {
	var b strings.Builder
	for _, s := range d.sections {
		b.WriteString(s.heading + "\n" + s.text)
	}
	return b.String()
}

// spans lists what stands in backquotes.
func spans(text string) (all []string) {
	for _, m := range span.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.Join(strings.Fields(m[1]+m[2]), " "))
	}
	return all
}

// rows are the cells of all tables in a text, without the lines below their heads.
func rows(text string) (all [][]string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		all = append(all, cells)
	}
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
