package haproxy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/test/corpus"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
)

// mapScene starts a HAProxy that reads two maps: one of numbers, which is
// empty, and one of words.
func mapScene(t *testing.T, o haproxyproc.Options) (p *haproxyproc.Process, numbers, words string) {
	t.Helper()
	dir := t.TempDir()
	numbers, words = filepath.Join(dir, "load.map"), filepath.Join(dir, "words.map")
	for path, text := range map[string]string{numbers: "", words: "# a comment\nin/s1 one\nin/s2   two words\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o.Config = defaultsConfig + fmt.Sprintf(`
listen in
  mode http
  bind 127.0.0.1:%d
  http-request set-header x %%[str(in/s1),map_str_int(%s,0)]
  http-request set-header y %%[str(in/s1),map(%s)]
  server s1 127.0.0.1:9
`, freePorts(t, 1)[0], numbers, words)
	return startHAProxy(t, o), numbers, words
}

func mustMap(t *testing.T, c *Client, path string) *Map {
	t.Helper()
	m, err := c.Map(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if m.Info.Worker.PID == 0 || m.Path != path {
		t.Errorf("map %+v", m)
	}
	return m
}

func TestMaps(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		p, numbers, words := mapScene(t, haproxyproc.Options{Binary: b.Path, MasterWorker: true})
		for _, text := range []string{p.SocketPath, "master:" + p.MasterPath} {
			a, err := ParseAddress(text)
			if err != nil {
				t.Fatal(err)
			}
			c := NewClient(a, Options{})
			if m := mustMap(t, c, numbers); len(m.Entries) > 0 {
				t.Errorf("%s: an empty map has %v", text, m.Entries)
			}
			if diff := cmp.Diff([]MapEntry{{"in/s1", "one"}, {"in/s2", "two words"}}, mustMap(t, c, words).Entries); diff != "" {
				t.Errorf("%s: words (-want +got):\n%s", text, diff)
			}
			out, err := c.EditMap(t.Context(), numbers, []MapEdit{
				{MapAdd, "in/s1", 7}, {MapSet, "in/s1", 9223372036854775807}, {MapSet, "in/s9", 1},
				{MapAdd, "in/s2", 8}, {MapDelete, "in/s2", 0}, {MapDelete, "in/s3", 0}, {MapAdd, "in/s4", -1},
			}, 2)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if out.Applied != 5 || len(out.Failed) != 2 || !errors.Is(out.Failed["in/s9"], ErrNoKey) || !errors.Is(out.Failed["in/s3"], ErrNoKey) {
				t.Errorf("%s: outcome %+v", text, out)
			}
			m := mustMap(t, c, numbers)
			if diff := cmp.Diff([]MapEntry{{"in/s1", "9223372036854775807"}, {"in/s4", "-1"}}, m.Entries); diff != "" {
				t.Errorf("%s: numbers (-want +got):\n%s", text, diff)
			}
			if m.Info.Worker != out.Info.Worker {
				t.Errorf("%s: worker %v, then %v", text, out.Info.Worker, m.Info.Worker)
			}
			if _, err := c.Map(t.Context(), numbers+"x"); !errors.Is(err, ErrNoMap) {
				t.Errorf("%s: read of a map that is not loaded: %v", text, err)
			}
			if _, err := c.EditMap(t.Context(), numbers+"x", []MapEdit{{MapAdd, "in/s1", 1}}, 0); !errors.Is(err, ErrNoMap) {
				t.Errorf("%s: edit of a map that is not loaded: %v", text, err)
			}
			if _, err := c.EditMap(t.Context(), numbers, []MapEdit{{MapDelete, "in/s1", 0}, {MapDelete, "in/s4", 0}}, 0); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
	})
}

// TestMapsAfterReload: the file is read again, and what was set is gone.
func TestMapsAfterReload(t *testing.T) {
	p, numbers, _ := mapScene(t, haproxyproc.Options{MasterWorker: true})
	c := NewClient(socketOf(p), Options{})
	out, err := c.EditMap(t.Context(), numbers, []MapEdit{{MapAdd, "in/s1", 7}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Reload(""); err != nil {
		t.Fatal(err)
	}
	if m := mustMap(t, c, numbers); len(m.Entries) > 0 || m.Info.Worker == out.Info.Worker {
		t.Errorf("after the reload: %+v", m)
	}
}

// TestLargeMap: lines stay below what HAProxy reads.
func TestLargeMap(t *testing.T) {
	p, numbers, _ := mapScene(t, haproxyproc.Options{})
	c := NewClient(socketOf(p), Options{})
	name := strings.Repeat("n", 200)
	var edits []MapEdit
	var want []MapEntry
	for i := range 500 {
		key := fmt.Sprintf("%s/%s%d", name, name, i)
		edits, want = append(edits, MapEdit{MapAdd, key, int64(i)}), append(want, MapEntry{key, fmt.Sprint(i)})
	}
	out, err := c.EditMap(t.Context(), numbers, edits, 0)
	if err != nil || out.Applied != 500 || out.Failed != nil {
		t.Fatalf("outcome %+v, error %v", out, err)
	}
	if diff := cmp.Diff(want, mustMap(t, c, numbers).Entries); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for rest := edits; len(rest) > 0; {
		commands, n := c.mapLine(numbers, rest, 0)
		if line := c.line(commands); len(line) > maxLine {
			t.Fatalf("a line of %d bytes", len(line))
		}
		rest = rest[n:]
	}
}

// TestMapNames: nothing that would end or change a command is sent.
func TestMapNames(t *testing.T) {
	f := newFakeServer(t)
	c := NewClient(f.address(), Options{})
	for _, path := range []string{"", "load.map", "#1", "/a b", "/a;b", "/a\nb", `/a\b`, "/a#b", "/a<<b", "/" + strings.Repeat("a", maxName), "/é"} {
		if _, err := c.Map(t.Context(), path); !errors.Is(err, ErrName) {
			t.Errorf("path %q read: %v", path, err)
		}
		if _, err := c.EditMap(t.Context(), path, []MapEdit{{MapAdd, "in/s1", 1}}, 0); !errors.Is(err, ErrName) {
			t.Errorf("path %q edited: %v", path, err)
		}
	}
	for _, key := range []string{"", "in/", "/s1", "in/s1/x", "in s1", "in/s1;shutdown frontend x", "in/s1\n", "#0x1", strings.Repeat("a", 3*maxName)} {
		if _, err := c.EditMap(t.Context(), "/load.map", []MapEdit{{MapSet, key, 1}}, 0); !errors.Is(err, ErrName) {
			t.Errorf("key %q: %v", key, err)
		}
	}
	if _, err := c.EditMap(t.Context(), "/load.map", []MapEdit{{"clear", "in/s1", 1}}, 0); !errors.Is(err, ErrName) {
		t.Errorf("an unknown edit: %v", err)
	}
	if n := len(f.lines); n > 0 {
		t.Errorf("sent: %q", f.lines)
	}
}

func TestParseEdits(t *testing.T) {
	for name, tt := range map[string]struct {
		reply string
		n     int
		bad   []int // answers that are errors
		err   error
	}{
		"all well":         {infoText + "\n\n", 2, nil, nil},
		"one key gone":     {infoText + "\nentry not found.\n\n\n", 3, []int{1}, nil},
		"severity":         {infoText + "[3]: Key not found.\n\n", 1, []int{0}, nil},
		"wrong type":       {infoText + "unable to parse '1'.\n\n\n", 2, []int{0}, nil},
		"no map":           {infoText + "Unknown map identifier. Please use #<id> or <file>.\n\n\n", 2, nil, ErrNoMap},
		"not allowed":      {infoText + "Permission denied\n\n", 1, nil, ErrPermission},
		"not known":        {infoText + "Something new\n\n", 1, nil, ErrMismatch},
		"one too few":      {infoText + "\n", 2, nil, ErrTruncated},
		"cut":              {infoText + "\nentry not fo", 2, nil, ErrTruncated},
		"something beyond": {infoText + "\n\nwhat?\n\n", 2, nil, ErrMismatch},
		"old worker":       {strings.Replace(infoText, "Stopping: 0", "Stopping: 1", 1) + "\n", 1, nil, ErrStopping},
	} {
		_, answers, err := parseEdits(tt.reply, tt.n, false)
		if tt.err != nil || err != nil {
			if tt.err == nil || !errors.Is(err, tt.err) {
				t.Errorf("%s: error %v, want %v", name, err, tt.err)
			}
			continue
		}
		var bad []int
		for i, a := range answers {
			if a != nil {
				bad = append(bad, i)
			}
		}
		if diff := cmp.Diff(tt.bad, bad); diff != "" || len(answers) != tt.n {
			t.Errorf("%s: %d answers, (-want +got):\n%s", name, len(answers), diff)
		}
	}
}

func FuzzParseMap(f *testing.F) {
	corpus.Add(f)
	for _, reply := range []string{
		infoText + "0x7f38bc0468f0 ingest/s1 5\n0x560364b71480 ingest/s2 6\n\n", infoText + "\n",
		infoText + "Unknown map identifier. Please use #<id> or <file>.\n\n", infoText + "0x1\n\n",
	} {
		f.Add(reply)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		m, err := parseMap(reply, "/load.map", false)
		if err == nil && (m.Info.Worker.PID <= 0 || !strings.HasSuffix(reply, "\n")) {
			t.Errorf("taken: %q", reply)
		}
		if _, answers, err := parseEdits(reply, 3, false); err == nil && len(answers) != 3 {
			t.Errorf("%d answers", len(answers))
		}
	})
}

func TestMapEditsPerLine(t *testing.T) {
	for entries, want := range map[int]int{0: 150_000, 1: 150_000, 1000: 150, 10_000: 15, 1 << 30: 1} {
		if got := MapEditsPerLine(entries); got != want {
			t.Errorf("%d entries: %d a line, want %d", entries, got, want)
		}
	}
}
