package haproxy

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/haproxy-weighter/haproxy-weighter/test/corpus"
)

// FuzzSplitRow holds splitRow against encoding/csv: what it takes, that one
// takes and reads alike.
func FuzzSplitRow(f *testing.F) {
	corpus.Add(f)
	for _, seed := range []string{
		"be,s1,0,,L4OK", `be,s1,"Layer4 check passed",x`, `"a,b","c""d",`, "\"two\nlines\",3\nnext,row", `"open`, `"x"y,z`, ",", "", `a"b,c`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" || strings.ContainsAny(text, "\r") || strings.Contains(text, "\n\n") || strings.HasPrefix(text, "\n") {
			return // not a block of a reply: those hold no blank line
		}
		got, _, err := splitRow(nil, strings.Split(text, "\n"))
		if err != nil {
			return
		}
		r := csv.NewReader(strings.NewReader(text))
		r.LazyQuotes, r.FieldsPerRecord = true, -1
		want, err := r.Read()
		if err != nil {
			t.Fatalf("%q is read as %q, encoding/csv refuses it: %v", text, got, err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q is read as %q, encoding/csv reads %q", text, got, want)
		}
	})
}

func FuzzSplitWords(f *testing.F) {
	corpus.Add(f)
	for _, seed := range []string{"1 be 2 s1", " a  b\t", "", "x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if strings.ContainsAny(line, "\n\v\f\r\u0085\u00a0") || strings.ContainsFunc(line, func(r rune) bool { return r > 127 }) {
			return // HAProxy separates by blanks, and its names are ASCII
		}
		if diff := cmp.Diff(strings.Fields(line), splitWords(nil, line), cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	})
}
