package luahaproxy

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
)

// serveHTTP answers each request with a text until the test ends.
func serveHTTP(t *testing.T, l net.Listener, text func(get func(header string) string) string) (address string) {
	t.Helper()
	s := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, text(r.Header.Get))
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(l) // ends at Close
	}()
	t.Cleanup(func() { s.Close(); <-served })
	return l.Addr().String()
}

// TestSettings holds what each setting takes, and that the rest is refused when HAProxy loads its
// configuration, with words.
func TestSettings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, value, refused string }{
		{"ADDRESS", "127.0.0.1:9101", ""},
		{"ADDRESS", "[::1]:9101", ""},
		{"ADDRESS", "unix@/run/w.sock", ""},
		{"ADDRESS", "unix:/run/w.sock", ""},
		{"ADDRESS", "/run/w.sock", ""},
		{"ADDRESS", "weighter.example.com:9101", ""},
		{"ADDRESS", "127.0.0.1", `weighter.lua: ADDRESS "127.0.0.1" can't be used; allowed: IP:PORT, [IPv6]:PORT, unix@/PATH`},
		{"ADDRESS", "127.0.0.1:0", "can't be used"},
		{"ADDRESS", "127.0.0.1:65536", "can't be used"},
		{"ADDRESS", "unix@run/w.sock", "can't be used"},
		{"ADDRESS", "http://127.0.0.1:9101", "can't be used"},
		{"PERIOD", "100ms", ""},
		{"PERIOD", "60s", ""},
		{"PERIOD", "5", ""},
		{"PERIOD", "99ms", `weighter.lua: PERIOD "99ms" can't be used; allowed: 100ms to 60s`},
		{"PERIOD", "61s", "can't be used"},
		{"PERIOD", "1m", "can't be used"},
		{"PERIOD", "-1s", "can't be used"},
		{"LIMIT", "65536", ""},
		{"LIMIT", "65535", `weighter.lua: LIMIT "65535" can't be used; allowed: 65536 to 1073741824 (bytes)`},
		{"LIMIT", "4MiB", "can't be used"},
	} {
		t.Run(tt.name+" "+tt.value, func(t *testing.T) {
			for _, b := range binaries(t) {
				out, err := check(t, b, fmt.Sprintf("global\n  setenv WEIGHTER_%s %s\n  lua-load %s\n", tt.name, tt.value, script(t, "weighter.lua")))
				if (err != nil) != (tt.refused != "") || !strings.Contains(out, tt.refused) {
					t.Errorf("%s: %v: %s", b.Version, err, out)
				}
			}
		})
	}
}

// binaries are the oldest and the newest version: of 5.3 and 5.4, and of both ways to give settings.
func binaries(t *testing.T) []haproxyproc.Binary {
	t.Helper()
	all, err := haproxyproc.Binaries()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) > 2 {
		all = []haproxyproc.Binary{all[0], all[len(all)-1]}
	}
	return all
}

// TestArguments: they go before the environment, and 2.6 drops them.
func TestArguments(t *testing.T) {
	t.Parallel()
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		for _, mode := range modes {
			load := "global\n  setenv WEIGHTER_ADDRESS 127.0.0.1:9101\n  " + mode + " " + script(t, "weighter.lua")
			for arguments, refused := range map[string]string{
				" [::1]:9101 1s 100000":          "",
				" nowhere":                       "ADDRESS",
				" 127.0.0.1:9101 never":          "PERIOD",
				" 127.0.0.1:9101 1s much":        "LIMIT",
				" 127.0.0.1:9101 1s 100000 more": "argument",
			} {
				out, err := check(t, b, load+arguments+"\n")
				if !b.AtLeast(3, 0) {
					refused = ""
				}
				if (err != nil) != (refused != "") || !strings.Contains(out, refused) {
					t.Errorf("%s%s: %v: %s", mode, arguments, err, out)
				}
			}
		}
	})
}

// TestLuacheck holds that the scripts are clean, and have no globals but HAProxy's.
func TestLuacheck(t *testing.T) {
	path, err := exec.LookPath("luacheck")
	if err != nil {
		t.Fatalf("%v: get it with test/deps/install luacheck", err)
	}
	dir := filepath.Join("..", "..", "lua")
	scripts, err := filepath.Glob(filepath.Join(dir, "*.lua"))
	if err != nil || len(scripts) < 2 {
		t.Fatalf("scripts %v, %v", scripts, err)
	}
	cmd := exec.CommandContext(t.Context(), path, "--no-color", ".", "--include-files", "*.lua")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	broken := filepath.Join(t.TempDir(), "broken.lua")
	if err := os.WriteFile(broken, []byte("answer = core.msleep(1)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(t.Context(), path, "--no-color", "--config", filepath.Join(dir, ".luacheckrc"), broken)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "non-standard global variable 'answer'") {
		t.Errorf("a global passes: %v: %s", err, out)
	}
}

const document = "../../docs/lua.md"

// inside is the part of the document about HAProxy.
func inside(t *testing.T) string {
	t.Helper()
	part, _, ok := strings.Cut(read(t, document), "\n## Inside the weighter")
	if !ok {
		t.Fatal("docs/lua.md has no part about the weighter")
	}
	return part
}

// TestDocumentSnippets runs every piece of haproxy.cfg in docs/lua.md.
func TestDocumentSnippets(t *testing.T) {
	t.Parallel()
	var sections, lines strings.Builder
	for _, m := range regexp.MustCompile("(?s)```haproxy\n(.*?)```").FindAllStringSubmatch(inside(t), -1) {
		if strings.HasPrefix(m[1], "global\n") {
			sections.WriteString(m[1])
			continue
		}
		for line := range strings.Lines(m[1]) {
			switch {
			case strings.HasPrefix(line, "use-server"), strings.HasPrefix(line, "tcp-request"):
				continue // of a backend, below
			case strings.Contains(line, "lua.route_backend"):
				line = strings.TrimSuffix(line, "\n") + " if { path /route }\n"
			}
			lines.WriteString("  " + line)
		}
	}
	if strings.Count(sections.String(), "global") != 1 || strings.Count(lines.String(), "\n") < 6 {
		t.Fatalf("the document has other snippets than this test knows: %s%s", sections.String(), lines.String())
	}
	var backend strings.Builder
	for line := range strings.Lines(inside(t)) {
		if strings.HasPrefix(line, "use-server") || strings.HasPrefix(line, "tcp-request") {
			backend.WriteString("  " + line)
		}
	}
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		l := listen(t, numbered(300))
		port := freePorts(t, 1)[0]
		config := strings.NewReplacer("global\n", "global\n  setenv WEIGHTER_PERIOD 100ms\n", "127.0.0.1:9101", l.address, "/etc/haproxy/weighter.lua", script(t, "weighter.lua")).Replace(sections.String())
		config += "  lua-load " + script(t, "route.lua") + "\n" + defaults + fmt.Sprintf("frontend in\n  bind 127.0.0.1:%d\n", port) + lines.String() +
			"  default_backend ingest\nbackend ingest\n" + backend.String() +
			"  server s1 " + webNamer(t, "s1", "X-Load-S1") + "\n  server s2 " + webNamer(t, "s2", "X-Load-S1") +
			"\nbackend spare\n  server x1 " + webNamer(t, "x1", "X-Load") + "\n"
		p := start(t, haproxyproc.Options{Binary: b.Path, Config: config})
		noWarnings(t, p, b)
		get := client(t, port)
		// The mean, (300 + 1000000) / 2, is above the limit of the snippet.
		until(t, p, func() (bool, string) { answer := get("/", nil); return answer == "x1 500150", answer })
		l.publish(table("ingest", row("s1", 30), row("s2", 50)))
		until(t, p, func() (bool, string) {
			answer := get("/", nil)
			return answer == "s1 30" || answer == "s2 30", answer
		})
	})
}

// TestDocumentSettings holds that the document and the script have the same defaults and ranges.
func TestDocumentSettings(t *testing.T) {
	text, code := inside(t), read(t, script(t, "weighter.lua"))
	rows := regexp.MustCompile("(?m)^\\| `(WEIGHTER_[A-Z]+)` \\| (\\d) \\| `([^`]+)` \\|").FindAllStringSubmatch(text, -1)
	if len(rows) != 3 {
		t.Fatalf("%d settings are told", len(rows))
	}
	for _, m := range rows {
		if want := fmt.Sprintf("setting(%s, %q, %q)", m[2], m[1], m[3]); !strings.Contains(code, want) {
			t.Errorf("%s is not in the script", want)
		}
	}
	for _, m := range regexp.MustCompile(`lua\.(weighter_[a-z]+)`).FindAllStringSubmatch(text, -1) {
		name := strings.TrimPrefix(m[1], "weighter_")
		if !strings.Contains(code, `"`+name+`"`) && !strings.Contains(code, `"`+m[1]+`"`) {
			t.Errorf("lua.%s is told, and the script does not register it", m[1])
		}
	}
}
