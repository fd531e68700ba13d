// Package manual writes manual pages: roff with the macros of man(7), which
// man-db's groff and mandoc both read.
package manual

import (
	"fmt"
	"strings"
	"time"
)

// Page is one manual page as it grows: each method adds to its end.
type Page struct {
	name    string
	section int
	b       strings.Builder
	headed  bool // a heading came last: it brings the space of a paragraph
}

// Head is what the first and the last line of a page show.
type Head struct {
	Name    string // as it is looked up: "haproxy-weighter-check"
	Section int    // 1 to 9
	Summary string // one line, for apropos too
	Date    time.Time
	Source  string // program and version
}

// New begins a page with its section NAME.
func New(h Head) *Page {
	p := &Page{name: h.Name, section: h.Section}
	titles := map[int]string{1: "User Commands", 5: "File Formats", 8: "System Administration"}
	fmt.Fprintf(&p.b, ".TH %s %d %s %s %s\n", quoted(strings.ToUpper(h.Name)), h.Section,
		h.Date.UTC().Format(time.DateOnly), quoted(h.Source), quoted(titles[h.Section]))
	// No hyphenation, and no padding to a straight right edge: commands stay whole.
	p.b.WriteString(".nh\n.ad l\n")
	p.Section("NAME")
	p.prose(h.Name + ` - ` + h.Summary)
	return p
}

// File is the name that the page's file has: "haproxy-weighter.1".
func (p *Page) File() string { return fmt.Sprintf("%s.%d", p.name, p.section) }

// String returns the page as far as it is written.
func (p *Page) String() string { return p.b.String() }

// Section begins a section.
func (p *Page) Section(title string) { p.heading(".SH", title) }

// Subsection begins a part of a section.
func (p *Page) Subsection(title string) { p.heading(".SS", title) }

func (p *Page) heading(macro, title string) {
	fmt.Fprintf(&p.b, "%s %s\n", macro, quoted(title))
	p.headed = true
}

// paragraph parts what follows from what came before.
func (p *Page) paragraph(macro string) {
	if !p.headed {
		p.b.WriteString(macro + "\n")
	}
	p.headed = false
}

// Text adds plain text as help texts have it: empty lines part paragraphs, and
// lines that begin with two blanks, or with tab, are shown as they are.
func (p *Page) Text(text string) { p.blocks(text, false) }

// Bold adds a paragraph in bold, for a synopsis.
func (p *Page) Bold(text string) {
	p.paragraph(".PP")
	p.b.WriteString(bold(text) + "\n")
}

// Literal adds text that is shown as it is.
func (p *Page) Literal(text string) {
	p.paragraph(".PP")
	p.literal(strings.Split(strings.Trim(text, "\n"), "\n"))
}

// Term adds one or more terms with the text that is about them.
func (p *Page) Term(terms []string, text string) {
	for i, t := range terms {
		macro := ".TP"
		if i > 0 {
			macro = ".TQ"
		}
		p.b.WriteString(macro + "\n" + bold(t) + "\n")
	}
	p.headed = true // the term is one
	p.blocks(text, true)
}

// SeeAlso adds the section with other pages, each as "name(1)".
func (p *Page) SeeAlso(pages ...string) {
	p.Section("SEE ALSO")
	for i, page := range pages {
		name, section, _ := strings.Cut(page, "(")
		comma := ","
		if i == len(pages)-1 {
			comma = ""
		}
		fmt.Fprintf(&p.b, ".BR %s (%s%s\n", escape(name), section, comma)
	}
}

// blocks writes paragraphs and literal lines; indented means below a term.
func (p *Page) blocks(text string, indented bool) {
	var block []string
	literal := false
	flush := func() {
		switch {
		case len(block) == 0:
			return
		case literal && indented:
			p.headed = false
			p.b.WriteString(".RS\n")
			p.literal(block)
			p.b.WriteString(".RE\n")
		case literal:
			p.paragraph(".PP")
			p.literal(block)
		case indented:
			p.paragraph(".IP")
			p.prose(strings.Join(block, " "))
		default:
			p.paragraph(".PP")
			p.prose(strings.Join(block, " "))
		}
		block = nil
	}
	for line := range strings.Lines(strings.Trim(text, "\n")) {
		line = strings.TrimRight(line, " \n")
		shown := strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "\t")
		if line == "" || shown != literal {
			flush()
		}
		if line != "" {
			literal = shown
			block = append(block, line)
		}
	}
	flush()
}

// prose writes running text, in lines as roff likes them: under 80 bytes.
func (p *Page) prose(text string) {
	p.headed = false
	const width = 76
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(escape(line))+1+len(escape(word)) > width {
			p.b.WriteString(escape(line) + "\n")
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	if line != "" {
		p.b.WriteString(escape(line) + "\n")
	}
}

func (p *Page) literal(text []string) {
	p.b.WriteString(".EX\n")
	for _, line := range text {
		p.b.WriteString(escape(line) + "\n")
	}
	p.b.WriteString(".EE\n")
}

func bold(text string) string { return `\fB` + escape(text) + `\fR` }

func quoted(text string) string { return `"` + strings.ReplaceAll(escape(text), `"`, `\(dq`) + `"` }

// The letters that mean something to roff. A plain "-" is printed as a hyphen,
// which nobody can paste into a shell.
var letters = strings.NewReplacer(
	`\`, `\e`, `-`, `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, "\t", "    ",
)

func escape(text string) string {
	text = letters.Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
