package config

import (
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/test/corpus"
)

func TestLocate(t *testing.T) {
	const text = `# a = 1
top = 1 # b = 2
"quoted \u0061.b" = ''
'single.\u0061' = """ x = 1 \"""
y = 2 """""
dotted . key = 1979-05-27 07:32:00
[table] # [other]
list = [ # comment ]
  "]", '}', # another
  { in = 1, "a b" = [ 2,
    3 ] },
]
raw = '''
[[fake]]'''''
[[row]]
x = 1
sub.y = 2
[row.sub2]
[[row]]
[[row.col]]
[[row.col]]
x = 3
`
	want := positions{
		"top": 2, `"quoted a.b"`: 3, `"single.\\u0061"`: 4, "dotted": 6, "dotted.key": 6,
		"table": 7, "table.list": 8, "table.list[0]": 9, "table.list[1]": 9, "table.list[2]": 10,
		"table.list[2].in": 10, `table.list[2]."a b"`: 10, `table.list[2]."a b"[0]`: 10, `table.list[2]."a b"[1]`: 11,
		"table.raw": 13, "row": 15, "row[0]": 15, "row[0].x": 16, "row[0].sub": 17, "row[0].sub.y": 17, "row[0].sub2": 18,
		"row[1]": 19, "row[1].col": 20, "row[1].col[0]": 20, "row[1].col[1]": 21, "row[1].col[1].x": 22,
	}
	if diff := cmp.Diff(want, locate([]byte(text))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// paths lists everything that the library found in a file, as locate names it.
func paths(path string, value any, to map[string]bool) {
	if path != "" {
		to[path] = true
	}
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			paths(joinPath(path, key), inner, to)
		}
	case []map[string]any:
		for i, inner := range v {
			paths(indexPath(path, i), inner, to)
		}
	case []any:
		for i, inner := range v {
			paths(indexPath(path, i), inner, to)
		}
	}
}

// FuzzLocate holds locate against the library: what one finds in a valid file,
// the other has to find too.
func FuzzLocate(f *testing.F) {
	corpus.Add(f)
	f.Add(Reference)
	f.Add(Minimal)
	f.Add("a = [[1, {b.c = '''x''''', d = \"\"\"\\\"\"\"\"}], []]\r\n[[e.f]]\r\n\"g\\\"\" = 1 # h\r\n[e.f.i]")
	f.Add("'' = {}\n[\"\".a]\nb = 1979-05-27 07:32:00 # c\n[[d]]\n[[d]]\n[d.e]\nf.g = inf")
	f.Fuzz(func(t *testing.T, text string) {
		data := cutMark([]byte(text))
		var values map[string]any
		if _, err := toml.Decode(string(data), &values); err != nil {
			return
		}
		want := map[string]bool{}
		paths("", values, want)
		got := locate(data)
		last := 1 + strings.Count(string(data), "\n")
		for path := range want {
			if line, ok := got[path]; !ok || line < 1 || line > last {
				t.Errorf("%s: line %d, found %v", path, line, ok)
			}
		}
		for path := range got {
			if !want[path] {
				t.Errorf("%s is not in the file", path)
			}
		}
	})
}

// FuzzParse: whatever the bytes, there is a Config or there are mistakes, and
// each has a line of the file.
func FuzzParse(f *testing.F) {
	corpus.Add(f)
	f.Add([]byte(Reference))
	f.Add([]byte(Minimal))
	f.Add([]byte(uncommented("testdata/files", nil)))
	f.Add([]byte("[[backend]]\nserver_regexp='('\nserver_name='$1x'\ncapacity.s=nan\nuntil='-1s'\n[graphite]\nurl='${A}'\nheaders={a='b'}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("weighter.toml", data, testEnv)
		if (c == nil) == (err == nil) {
			t.Fatalf("both or neither: %v, %v", c, err)
		}
		if err == nil {
			return
		}
		mistakes, ok := err.(Errors)
		if !ok || len(mistakes) == 0 {
			t.Fatalf("error %T: %v", err, err)
		}
		for _, m := range mistakes {
			if m.Line < 1 || m.Line > 1+strings.Count(string(data), "\n") || m.Text == "" || m.Key == "" && m.Column == 0 {
				t.Errorf("mistake %#v", m)
			}
		}
	})
}
