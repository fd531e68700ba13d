package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/test/corpus"
)

func TestBestNaming(t *testing.T) {
	for _, tt := range []struct {
		name            string
		series, servers []string
		exact           bool
		want            naming
		matched         int
	}{
		{"the same", []string{"s1", "s2", "x"}, []string{"s1", "s2"}, true, naming{}, 2},
		{"prefix and suffix", []string{"web-s1.example.com", "web-s2.example.com"}, []string{"s1", "s2"}, true,
			naming{pattern: `^web-(.+)\.example\.com$`}, 2},
		{"ten and one", []string{"h.s1", "h.s10", "h.s11"}, []string{"s1", "s10", "s11"}, true, naming{pattern: `^h\.(.+)$`}, 3},
		{"domain of the servers", []string{"web1", "web2"}, []string{"web1.example.com", "web2.example.com"}, true,
			naming{pattern: `^(.+)$`, name: "${1}.example.com"}, 2},
		{"domain with underscores", []string{"web1_a_b", "web2_a_b"}, []string{"web1.a.b", "web2.a.b"}, true,
			naming{pattern: `^(.+)_a_b$`, name: "${1}.a.b"}, 2},
		{"paths with different ends", []string{"a.s1.x", "a.s2.y", "b.s3.z"}, []string{"s1", "s2", "s3"}, true,
			naming{pattern: `^(?:[^.]*\.){1}([^.]+)`}, 3},
		{"different domains", []string{"s1.a", "s2.b"}, []string{"s1", "s2"}, true, naming{pattern: `^([^.]+)`}, 2},
		{"numbers", []string{"1", "2", "3"}, []string{"s1", "s2", "s3"}, false, naming{pattern: `^(.+)$`, name: "s${1}"}, 3},
		{"numbers of something else", []string{"1", "2", "3"}, []string{"s1", "s2", "s3"}, true, naming{}, 0},
		{"two series for a server", []string{"a.s1", "b.s1", "a.s2"}, []string{"s1", "s2"}, true, naming{pattern: `^a\.(.+)$`}, 2},
		{"signs of regular expressions", []string{"(a+b)[s1]$", "(a+b)[s2]$"}, []string{"s1", "s2"}, true,
			naming{pattern: `^\(a\+b\)\[(.+)\]\$$`}, 2},
		{"newlines", []string{"\ns1\n", "\ns2\n"}, []string{"s1", "s2"}, true, naming{pattern: "^\n(.+)\n$"}, 2},
		{"nothing in common", []string{"a", "b"}, []string{"s1", "s2"}, false, naming{}, 0},
		{"empty names", []string{"", ""}, []string{"s1", "s2"}, false, naming{}, 0},
		{"none", nil, []string{"s1"}, false, naming{}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, matched := bestNaming(tt.series, tt.servers, tt.exact)
			if got != tt.want || matched != tt.matched {
				t.Errorf("%+v for %d, want %+v for %d", got, matched, tt.want, tt.matched)
			}
		})
	}
}

func TestStatsSockets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	text := `global
  stats socket /run/haproxy/admin.sock mode 660 level admin
	stats   socket "/run/quoted.sock" level admin
  stats socket unix@/run/unix.sock
  stats socket abns@weighter level admin
  stats socket ipv4@127.0.0.1:9999 level admin
  stats socket *:9998
  stats socket :9997
  stats socket [::1]:9996
  stats socket ipv6@:::9995
  stats socket fd@${FD} level admin
  stats socket "${RUNTIME_DIRECTORY}/x.sock"
  stats socket sockpair@4
  stats socket relative.sock
  # stats socket /run/comment.sock
  stats timeout 30s
  stats socket
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := statsSockets(file)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/run/haproxy/admin.sock", "/run/quoted.sock", "/run/unix.sock", "abns@weighter",
		"tcp:127.0.0.1:9999", "tcp:127.0.0.1:9998", "tcp:127.0.0.1:9997", "tcp:[::1]:9996", "tcp:[::1]:9995"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("wanted (-), got (+):\n%s", d)
	}
	for _, address := range got {
		if _, err := haproxy.ParseAddress(address); err != nil {
			t.Error(err)
		}
	}
	if _, err := statsSockets(filepath.Dir(file)); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
}

// TestSeveralHAProxys has backends that are not the same on all of them.
func TestSeveralHAProxys(t *testing.T) {
	state := func(algorithm string, servers ...string) *haproxy.State {
		s := &haproxy.State{Algorithm: algorithm}
		for _, name := range servers {
			s.Servers = append(s.Servers, haproxy.Server{Name: name})
		}
		return s
	}
	one, two := &initSocket{}, &initSocket{}
	type told struct {
		k     *initSocket
		state *haproxy.State
		err   error
	}
	for _, tt := range []struct {
		name       string
		told       []told
		on         []*initSocket
		everywhere bool
		servers    []string
		why        string
	}{
		{"the same", []told{{one, state("roundrobin", "a", "b"), nil}, {two, state("roundrobin", "b", "c"), nil}},
			[]*initSocket{one, two}, true, []string{"a", "b", "c"}, ""},
		{"static on the second", []told{{one, state("roundrobin", "a", "b"), nil}, {two, state("static-rr", "x", "y"), nil}},
			[]*initSocket{one}, false, []string{"a", "b"}, ""},
		{"static on the first", []told{{one, state("static-rr", "x", "y"), nil}, {two, state("roundrobin", "a", "b"), nil}},
			[]*initSocket{two}, false, []string{"a", "b"}, ""},
		{"switched off on the first", []told{{one, nil, haproxy.ErrDisabled}, {two, state("roundrobin", "a", "b"), nil}},
			[]*initSocket{two}, false, []string{"a", "b"}, ""},
		{"static on both", []told{{one, state("first", "a", "b"), nil}, {two, state("first", "a", "b"), nil}},
			[]*initSocket{one, two}, true, []string{"a", "b"}, "balance first ignores weights"},
	} {
		b := &initBackend{name: "ingest", everywhere: true}
		for _, said := range tt.told {
			b.add(said.k, said.state, said.err)
		}
		if !slices.Equal(b.on, tt.on) || b.everywhere != tt.everywhere || !slices.Equal(b.servers, tt.servers) ||
			tt.why == "" && b.why != "" || !strings.HasPrefix(b.why, tt.why) || b.hopeless != (tt.why != "") {
			t.Errorf("%s: %+v", tt.name, b)
		}
	}
}

func TestFitTo(t *testing.T) {
	for _, tt := range []struct {
		step           int64         // seconds
		age            time.Duration // of the newest point
		maxAge, window time.Duration
	}{
		{10, 8 * time.Second, usualMaxAge, usualWindow},
		{60, 50 * time.Second, 3 * time.Minute, usualWindow},
		{60, 100 * time.Second, 220 * time.Second, 6 * time.Minute},
		{300, 200 * time.Second, 15 * time.Minute, 25 * time.Minute},
		{10, time.Hour, usualMaxAge, usualWindow}, // dead, not late
		{0, time.Second, usualMaxAge, usualWindow},
	} {
		now := time.Unix(100_000, 0)
		newest := now.Add(-tt.age).Unix()
		points := []graphite.Point{{Unix: newest, Value: 1}}
		if tt.step > 0 {
			points = []graphite.Point{{Unix: newest - tt.step, Value: 1}, {Unix: newest, Value: 1}}
		}
		s := newSearch(nil)
		s.answers["x"] = &graphite.Answer{Now: now, Series: []graphite.Series{{Name: "a", Points: points}, {Name: "b", Points: points}}}
		m, err := s.try(t.Context(), "x", &initBackend{name: "ingest", servers: []string{"a", "b"}})
		if err != nil {
			t.Fatal(err)
		}
		if m.maxAge != tt.maxAge || m.window != tt.window {
			t.Errorf("step %d, age %s: max_age %s and window %s, want %s and %s", tt.step, tt.age, m.maxAge, m.window, tt.maxAge, tt.window)
		}
		if fresh := tt.age < time.Hour; m.enough() != fresh {
			t.Errorf("step %d, age %s: enough is %v", tt.step, tt.age, !fresh)
		}
	}
}

// FuzzInitText puts anything into everything that comes from outside. The file
// must be a configuration with nothing in it but what was put there.
func FuzzInitText(f *testing.F) {
	corpus.Add(f)
	for _, s := range []string{
		"tcp.*.x", `a"b`, `a'b`, `\`, "\\n", "a\nb = 1", "\r[[backend]]", "${HOME}", "$${x", "$$${", "}", "\x00\x1b[2J", "\x7f", "\u2028", "\U0001F600", "#", `"""`, "'''", "\xff\xfe",
	} {
		f.Add(s, s, s)
	}
	f.Fuzz(func(t *testing.T, target, series, path string) {
		target, path = strings.ToValidUTF8(target, "?"), strings.ToValidUTF8(path, "?")
		if strings.TrimSpace(target) == "" || strings.Contains(target, "{server}") {
			return // refused before
		}
		m := &match{target: target, servers: 2, maxAge: usualMaxAge, window: usualWindow, others: []string{series, target}}
		m.matched, m.strangers = []string{"s1"}, []string{series}
		m.naming, _ = bestNaming([]string{path + "s1" + path, path + "s2" + path}, []string{"s1", "s2"}, true)
		other := &initBackend{name: "other", everywhere: true, servers: []string{"s1"}, why: "x" + series, found: m}
		d := &draft{
			sockets:  []*initSocket{{address: haproxy.Address{Kind: "unix", Path: "/a"}, info: haproxy.Info{Version: series}}},
			graphite: graphiteFlags{url: "http://127.0.0.1"},
			backends: []*initBackend{{name: "ingest", everywhere: true, servers: []string{"s1", "s2"}, algorithm: series, found: m}, other},
		}
		text := d.text("a\n" + path)
		c, err := config.Parse("f", []byte(text), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if len(c.Backends) != 1 || c.Backends[0].Target != target || c.Backends[0].Mode != config.Observe {
			t.Errorf("%+v\n%s", c.Backends, text)
		}
		if re := c.Backends[0].ServerRegexp; re != nil && re.String() != m.naming.pattern {
			t.Errorf("%q, want %q", re, m.naming.pattern)
		}
		if len(c.HAProxy.Sockets) != 1 || c.Graphite.Username != "" || c.State.File != "" {
			t.Errorf("more than was put there:\n%s", text)
		}
	})
}

func TestWriteOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "weighter.toml")
	if err := writeOnce(path, "one"); err != nil {
		t.Fatal(err)
	}
	if err := writeOnce(path, "two"); err == nil || !strings.Contains(err.Error(), "is there already; nothing was written") {
		t.Errorf("a second time: %v", err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), link); err != nil {
		t.Fatal(err)
	}
	if err := writeOnce(link, "three"); err == nil {
		t.Error("a symbolic link is in the way, and was written through or replaced")
	}
	if err := writeOnce(filepath.Join(dir, "none", "f"), "four"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != "one" {
		t.Errorf("%q, %v", text, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != initMode {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestHintInitSockets(t *testing.T) {
	denied := fmt.Errorf("our user may not open it: %w", fs.ErrPermission)
	if hints := hintInitSockets([]error{denied}); !slices.Contains(hints, doSocket) || len(hints) != 2 || !strings.Contains(hints[1], "as root") {
		t.Errorf("no permission for the file: %q", hints)
	}
	absent := fmt.Errorf("there is no such file: %w", fs.ErrNotExist)
	if hints := hintInitSockets([]error{absent, absent}); !slices.Equal(hints, []string{doSocket, hintInitSocket}) {
		t.Errorf("no such sockets: %q", hints)
	}
	if hints := hintInitSockets([]error{haproxy.ErrPermission}); !slices.Equal(hints, []string{doLevel}) {
		t.Errorf("level operator: %q", hints)
	}
}

// TestInitInterrupted holds that an interrupt ends the search, and that nothing
// is written then.
func TestInitInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(t.TempDir(), "weighter.toml")
	var out strings.Builder
	p := &Program{Stdout: &out, Stderr: &out}
	if code := p.Run(ctx, []string{"init", "--graphite", "http://127.0.0.1:1", "--socket", "/none.sock", "-o", file}); code != exitFailed || !strings.Contains(out.String(), "interrupted") {
		t.Errorf("exit code %d: %s", code, out.String())
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file: %v", err)
	}
}
