package manual

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

var (
	chapterLine = regexp.MustCompile(`^# -{4} (.*?) -+$`)
	tableLine   = regexp.MustCompile(`^\[{1,2}[a-z]+\]{1,2}$`)
	keyLine     = regexp.MustCompile(`^#?[a-z_]+ *= `)
)

// Reference adds a commented TOML file as sections and terms. It is made for
// one whose comments are "# text" above the keys that they are about, whose
// optional keys are "#key = value", and whose parts begin with a line
// "# ---- title ----". A line that is nothing of this is an error: a page must
// not leave out anything.
func (p *Page) Reference(toml string) error {
	r := reference{page: p}
	for n, line := range strings.Split(strings.TrimRight(toml, "\n"), "\n") {
		if err := r.line(line); err != nil {
			return fmt.Errorf("line %d: %w", n+1, err)
		}
	}
	return r.flush()
}

// reference is where the reading of a file is.
type reference struct {
	page   *Page
	text   []string // comment not yet written
	keys   []string // keys that it is about
	inside bool     // a table has begun
}

func (r *reference) line(line string) error {
	switch chapter := chapterLine.FindStringSubmatch(line); {
	case chapter != nil:
		if err := r.flush(); err != nil {
			return err
		}
		r.inside = true
		r.page.Section(strings.ToUpper(chapter[1]))
	case tableLine.MatchString(line):
		r.prose()
		r.page.Subsection(line)
	case line == "":
		return r.flush()
	case line == "#" || strings.HasPrefix(line, "# "):
		if len(r.keys) > 0 {
			return errors.New("a comment right below a key: an empty line must part them")
		}
		r.text = append(r.text, strings.TrimPrefix(strings.TrimPrefix(line, "#"), " "))
	case keyLine.MatchString(line):
		r.keys = append(r.keys, line)
	default:
		return fmt.Errorf("neither comment, table nor key: %s", line)
	}
	return nil
}

// flush writes what has been read.
func (r *reference) flush() error {
	switch {
	case len(r.keys) == 0:
		r.prose()
	case len(r.text) == 0:
		return fmt.Errorf("key without a comment: %s", r.keys[0])
	case !r.inside:
		return fmt.Errorf("key before the first part: %s", r.keys[0])
	default:
		r.page.Term(r.keys, strings.Join(r.text, "\n"))
	}
	r.text, r.keys = nil, nil
	return nil
}

func (r *reference) prose() {
	if len(r.text) > 0 {
		r.page.Text(strings.Join(r.text, "\n"))
	}
	r.text = nil
}
