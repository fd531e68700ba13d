package manual

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func page(section int) *Page {
	return New(Head{
		Name: "try-it", Section: section, Summary: "a page", Source: "try 1.0",
		Date: time.Date(2026, 1, 2, 23, 0, 0, 0, time.FixedZone("", -3600)),
	})
}

func TestHead(t *testing.T) {
	p := page(5)
	if got, want := p.File(), "try-it.5"; got != want {
		t.Errorf("file %q, want %q", got, want)
	}
	want := `.TH "TRY\-IT" 5 2026-01-03 "try 1.0" "File Formats"
.nh
.ad l
.SH "NAME"
try\-it \- a page
`
	if diff := cmp.Diff(want, p.String()); diff != "" {
		t.Error(diff)
	}
}

func TestBlocks(t *testing.T) {
	for _, c := range []struct {
		name string
		add  func(*Page)
		want string
	}{
		{"paragraphs, the first without a macro below its heading", func(p *Page) {
			p.Section("S")
			p.Text("one\nline\n\ntwo")
		}, ".SH \"S\"\none line\n.PP\ntwo\n"},
		{"literal lines begin with two blanks and stay as they are", func(p *Page) {
			p.Section("S")
			p.Text("try:\n  a  b\n\n  c\nmore")
		}, ".SH \"S\"\ntry:\n.PP\n.EX\n  a  b\n.EE\n.PP\n.EX\n  c\n.EE\n.PP\nmore\n"},
		{"terms that share a text, with a literal part", func(p *Page) {
			p.Term([]string{"--a", "-b"}, "text\n  shown\n\nlast")
		}, ".TP\n\\fB\\-\\-a\\fR\n.TQ\n\\fB\\-b\\fR\ntext\n.RS\n.EX\n  shown\n.EE\n.RE\n.IP\nlast\n"},
		{"nothing is taken for a request of roff's", func(p *Page) {
			p.Section(`say "x"`)
			p.Text(".PP 'quoted' back\\slash `tick` ^~")
			p.Literal(".so /etc/passwd")
		}, ".SH \"say \\(dqx\\(dq\"\n\\&.PP \\(aqquoted\\(aq back\\eslash \\(gatick\\(ga \\(ha\\(ti\n.PP\n.EX\n\\&.so /etc/passwd\n.EE\n"},
		{"see also", func(p *Page) { p.SeeAlso("a(1)", "b-c(5)") },
			".SH \"SEE ALSO\"\n.BR a (1),\n.BR b\\-c (5)\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := page(1)
			head := p.String()
			c.add(p)
			if diff := cmp.Diff(c.want, strings.TrimPrefix(p.String(), head)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLinesAreShort(t *testing.T) {
	p := page(1)
	p.Text(strings.Repeat("word--with-dashes ", 40))
	for line := range strings.Lines(p.String()) {
		if len(line) > 80 {
			t.Errorf("%d bytes: %s", len(line), line)
		}
	}
}

// TestReferenceIsWhole: every key, table and comment of the configuration's
// reference is in its page.
func TestReferenceIsWhole(t *testing.T) {
	p := page(5)
	if err := p.Reference(config.Reference); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(p.String()), " ")
	keys := 0
	for line := range strings.Lines(config.Reference) {
		line = strings.TrimRight(line, "\n")
		if keyLine.MatchString(line) {
			keys++
		}
		if line == "" || line == "#" || chapterLine.MatchString(line) {
			continue
		}
		want := strings.Join(strings.Fields(escape(strings.TrimPrefix(line, "# "))), " ")
		if !strings.Contains(unwrapped(text), unwrapped(want)) {
			t.Errorf("not in the page: %s", line)
		}
	}
	if got := strings.Count(p.String(), "\n.TP\n") + strings.Count(p.String(), "\n.TQ\n"); got != keys || keys < 40 {
		t.Errorf("%d terms, %d keys", got, keys)
	}
}

// unwrapped undoes what depends on where a line begins.
func unwrapped(s string) string { return regexp.MustCompile(`\\&`).ReplaceAllString(s, "") }

func TestReferenceRefuses(t *testing.T) {
	const begin = "# ---- part ----\n\n"
	for _, c := range []struct{ name, toml, want string }{
		{"a key without a comment", begin + "#key = 1\n", "line 4: key without a comment: #key = 1"},
		{"a key before the first part", "# text\n#key = 1\n\n", "line 3: key before the first part: #key = 1"},
		{"a comment that touches the key above", begin + "# text\n#key = 1\n# more\n", "line 5: a comment right below a key: an empty line must part them"},
		{"what it does not know", begin + "key=1\n", "line 3: neither comment, table nor key: key=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := page(5).Reference(c.toml + "\n# end\n")
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
