package scripts

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// document is a text whose fenced blocks are to be tried as they are printed.
type document struct {
	root    string // of the repository
	blocks  []*block
	replace []string // old and new, in turn
}

// block is one fenced block.
type block struct {
	heading  string // of the section that it is in
	language string
	text     string
	tried    bool
}

// documentKey is where a script keeps its document.
type documentKey struct{}

func documentOf(ts *testscript.TestScript) *document {
	return ts.Value(documentKey{}).(*document)
}

var fence = regexp.MustCompile("(?m)^(#+ (.*)|```([a-z]*)\n((?s:.*?)\n)```)$")

// readDocument takes a document apart.
func readDocument(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: document FILE")
	}
	// Scripts run elsewhere; documents are named from the root of the repository.
	d := documentOf(ts)
	text, err := os.ReadFile(filepath.Join(d.root, args[0]))
	ts.Check(err)
	heading := ""
	for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
		if m[2] != "" {
			heading = m[2]
			continue
		}
		d.blocks = append(d.blocks, &block{heading: heading, language: m[3], text: m[4]})
	}
	if fences := strings.Count("\n"+string(text), "\n```"); fences != 2*len(d.blocks) || len(d.blocks) == 0 {
		ts.Fatalf("%s has %d fences, and %d blocks were found", args[0], fences, len(d.blocks))
	}
}

// substitute has a text in a document stand for another one in this test.
func substitute(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: substitute TEXT OTHER")
	}
	d := documentOf(ts)
	d.replace = append(d.replace, args...)
}

// next is the first block that has not been tried.
func (d *document) next(ts *testscript.TestScript, language, heading string) string {
	for _, b := range d.blocks {
		if b.tried {
			continue
		}
		if b.heading != heading || b.language != language {
			ts.Fatalf("the next block is %q under %q, not %q under %q", b.language, b.heading, language, heading)
		}
		b.tried = true
		return strings.NewReplacer(d.replace...).Replace(b.text)
	}
	ts.Fatalf("all blocks have been tried")
	return ""
}

// try runs the next block of a document, which must be of commands that all
// succeed; the block of text behind it, if there is one, is what they print:
// each of its lines, in this order, with anything in the place of "…".
func try(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: try HEADING")
	}
	d := documentOf(ts)
	if err := ts.Exec("sh", "-exc", d.next(ts, "sh", args[0])); err != nil {
		ts.Fatalf("%v", err)
	}
	for _, b := range d.blocks {
		if b.tried {
			continue
		}
		if b.language == "text" && b.heading == args[0] {
			compare(ts, d.next(ts, "text", args[0]), ts.ReadFile("stdout"))
		}
		return
	}
}

func compare(ts *testscript.TestScript, printed, got string) {
	rest := strings.Split(got, "\n")
	for line := range strings.Lines(printed) {
		var parts []string
		for part := range strings.SplitSeq(strings.TrimSpace(line), "…") {
			// How wide a column is depends on what else is in it.
			words := strings.Fields(part)
			for i := range words {
				words[i] = regexp.QuoteMeta(words[i])
			}
			parts = append(parts, strings.Join(words, `\s+`))
		}
		want := regexp.MustCompile(strings.Join(parts, ".*"))
		i := 0
		for i < len(rest) && !want.MatchString(rest[i]) {
			i++
		}
		if i == len(rest) {
			ts.Fatalf("the document shows %q, and this was printed:\n%s", line, got)
		}
		rest = rest[i+1:]
	}
}

// put writes the next block of a document, which is no command, into a file.
func put(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: put LANGUAGE HEADING FILE")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(documentOf(ts).next(ts, args[0], args[1])), 0o600))
}

// tried fails when a block of the document has been left out.
func tried(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: tried")
	}
	d := documentOf(ts)
	if len(d.blocks) == 0 {
		ts.Fatalf("no document was read")
	}
	for _, b := range d.blocks {
		if !b.tried {
			ts.Fatalf("this block under %q was not tried:\n%s", b.heading, b.text)
		}
	}
}
