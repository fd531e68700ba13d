package docs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link       = regexp.MustCompile(`!?\[[^\]]*\]\(([^)\s]+)\)`)
	noAnchor   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	inDocument = regexp.MustCompile(`(?:^|[\s(\x60])((?:docs|packaging|internal|test|haproxy-conf|lua)/[\w./-]*\w)`)
	bareName   = regexp.MustCompile(`(?:^|[\s(])([a-z][a-z-]+\.md)\b`)
	goTest     = regexp.MustCompile(`\b((?:graphite|internal/\w+|lua|spoa|test(?:/\w+)*|weighting))\.((?:Test|Fuzz|Benchmark)[A-Z]\w*)`)
)

// TestLinks holds that each relative link leads to a file, and to a heading in it where
// it has an anchor; pictures are such links too. Files named without a link exist as well.
// (Tests that docs/security.md names are held by test/security.)
func TestLinks(t *testing.T) {
	all := documents(t)
	anchors := map[string]map[string]bool{}
	for _, d := range all {
		anchors[d.name] = map[string]bool{}
		for _, s := range d.sections {
			anchors[d.name][anchor(s.heading)] = true
		}
	}
	followed := 0
	for _, d := range all {
		text := d.prose()
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			followed++
			file, fragment, _ := strings.Cut(m[1], "#")
			target := d.name
			if file != "" {
				target = path.Join(path.Dir(d.name), file)
			}
			if !exists(target) {
				t.Errorf("%s links to %s, which does not exist", d.name, m[1])
			} else if fragment != "" && !anchors[target][fragment] {
				t.Errorf("%s links to %s, and %s has no such heading", d.name, m[1], target)
			}
		}
		for _, s := range d.sections {
			for _, b := range s.blocks {
				text += b.text
			}
		}
		text = link.ReplaceAllString(goTest.ReplaceAllString(text, ""), "")
		for _, m := range inDocument.FindAllStringSubmatch(text, -1) {
			if !exists(strings.TrimSuffix(m[1], "/")) {
				t.Errorf("%s names %s, which does not exist", d.name, m[1])
			}
		}
		for _, m := range bareName.FindAllStringSubmatch(text, -1) {
			t.Errorf("%s names %s without a link to it", d.name, m[1])
		}
	}
	if followed < 55 {
		t.Errorf("only %d links followed", followed)
	}
}

// TestDocumentsAreFound holds that README leads to each document.
func TestDocumentsAreFound(t *testing.T) {
	text := parse(t, "README.md").prose()
	for _, d := range documents(t) {
		if path.Dir(d.name) == "docs" && !strings.Contains(text, "("+d.name+")") {
			t.Errorf("README.md does not link to %s", d.name)
		}
	}
}

// anchor is what GitHub makes of a heading.
func anchor(heading string) string {
	return strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

func TestAnchor(t *testing.T) {
	for heading, want := range map[string]string{
		"The fields of `--json`":               "the-fields-of---json",
		"`lua FILE --json`":                    "lua-file---json",
		"Lua: inside HAProxy":                  "lua-inside-haproxy",
		"HAProxy's runtime socket":             "haproxys-runtime-socket",
		"`/api/v1/events`":                     "apiv1events",
		"The same answers as SPOE's, the maps": "the-same-answers-as-spoes-the-maps",
	} {
		if got := anchor(heading); got != want {
			t.Errorf("%s: %s, want %s", heading, got, want)
		}
	}
}

func exists(name string) bool {
	_, err := os.Stat(filepath.Join(repository, name))
	return err == nil
}
