package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	haproxyconf "github.com/haproxy-weighter/haproxy-weighter/haproxy-conf"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/test/graphiteproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
)

// claim says how fenced blocks are tried: here, or by another test.
type claim struct {
	document string
	first    string // how the first line of the block begins; empty: all blocks of the document in that language
	language string // with an empty first
	here     func(*testing.T, *block)
	by, mark string // a file of another test, and what in it shows that it does
}

// claims are those of all blocks. One that is new in a document fails TestEveryBlockIsTried
// until it is tried somewhere. g is the Graphite of those that need one.
func claims(g *graphiteproc.Process) []claim {
	inScene := func(t *testing.T, b *block) { inScene(t, b, g) }
	return []claim{
		{document: "CONTRIBUTING.md", first: "make ", here: tryMake},
		{document: "README.md", first: "[haproxy]", here: tryConfig},
		{document: "README.md", first: "make demo", here: tryMake},
		{document: "README.md", first: "make build", here: inScene},
		{document: "docs/getting-started.md", language: "sh", by: "test/scripts/testdata/getting_started.txt", mark: "document docs/getting-started.md"},
		{document: "docs/getting-started.md", language: "text", by: "test/scripts/document_test.go", mark: `d.next(ts, "text", args[0])`},
		{document: "docs/getting-started.md", language: "haproxy", by: "test/scripts/testdata/getting_started.txt", mark: "put haproxy '2. Let it talk to HAProxy'"},
		{document: "docs/install.md", first: "apt install", by: "test/packaging/lifecycle/inside", mark: "rpm --install"},
		{document: "docs/install.md", first: "haproxy-weighter init", here: inScene},
		{document: "docs/install.md", first: "global", here: tryGlobal},
		{document: "docs/install.md", first: "systemctl stop", by: "test/packaging/lifecycle/inside", mark: "--now haproxy-weighter.socket"},
		{document: "docs/json.md", first: "curl -s http", here: inScene},
		{document: "docs/json.md", first: "curl -s --unix-socket", here: inScene},
		{document: "docs/lua.md", first: "global", by: "test/luahaproxy/settings_test.go", mark: "func TestDocumentSnippets("},
		{document: "docs/lua.md", first: "http-request", by: "test/luahaproxy/settings_test.go", mark: "func TestDocumentSnippets("},
		{document: "docs/lua.md", first: "tcp-request", by: "test/luahaproxy/settings_test.go", mark: "func TestDocumentSnippets("},
		{document: "docs/lua.md", first: "use_backend", by: "test/luahaproxy/settings_test.go", mark: "func TestDocumentSnippets("},
		{document: "docs/lua.md", language: "toml", by: "internal/cli/lua_docs_test.go", mark: "func TestLuaDocsConfigurations("},
		{document: "docs/lua.md", language: "lua", by: "internal/cli/lua_docs_test.go", mark: `luaDocs(t, "lua")`},
		{document: "docs/lua.md", first: "spoe-message", here: trySPOE},
		{document: "docs/lua.md", first: "haproxy-weighter plan", here: inScene},
		{document: "docs/lua.md", first: "haproxy-weighter simulate", by: "internal/cli/lua_docs_test.go", mark: "func TestLuaDocsCommands("},
		{document: "docs/metrics.md", first: "scrape_configs", here: tryPrometheus},
		{document: "docs/operations.md", language: "sh", by: "test/operations/commands_test.go", mark: "func TestCommands("},
		{document: "docs/reliability.md", first: "make ", here: tryMake},
		{document: "docs/spoe.md", first: "[spoa]", here: tryConfig},
		{document: "docs/spoe.md", first: "[[backend]]", here: tryConfig},
		{document: "docs/spoe.md", first: "haproxy-weighter haproxy-conf", here: inScene},
		{document: "docs/spoe.md", first: "spoe-message", here: trySPOE},
		{document: "docs/spoe.md", first: "acl known", here: tryRules},
		{document: "docs/spoe.md", first: "http-request", here: tryRules},
		{document: "docs/tuning.md", first: "haproxy-weighter simulate", here: tryAlone},
		{document: "packaging/container/README.md", first: "tar ", by: "test/packaging/container", mark: "--format docker -f container/Containerfile -t haproxy-weighter ."},
		{document: "packaging/container/README.md", first: "gid=", here: tryContainers},
		{document: "packaging/container/README.md", first: "stats socket", here: tryGlobal},
		{document: "packaging/container/README.md", first: "podman exec", here: inScene},
	}
}

func (c *claim) covers(b *block) bool {
	if c.document != b.in.name {
		return false
	}
	if c.first == "" {
		return c.language == b.language
	}
	return strings.HasPrefix(b.first(), c.first)
}

// TestEveryBlockIsTried finds the claim of each fenced block of each document.
func TestEveryBlockIsTried(t *testing.T) {
	used := map[string]int{}
	all := claims(nil)
	for _, d := range documents(t) {
		for _, s := range d.sections {
			for _, b := range s.blocks {
				n := 0
				for _, c := range all {
					if c.covers(b) {
						n++
						used[c.document+c.first+c.language]++
					}
				}
				if n != 1 {
					t.Errorf("%s:%d: %d tests claim to try this block: %s", d.name, b.line, n, b.first())
				}
			}
		}
	}
	for _, c := range all {
		if used[c.document+c.first+c.language] == 0 {
			t.Errorf("%s has no block %s%s", c.document, c.first, c.language)
		}
		if c.here == nil && !strings.Contains(read(t, c.by), c.mark) {
			t.Errorf("%s: %s does not say %q, so it may no longer try %s%s", c.document, c.by, c.mark, c.first, c.language)
		}
	}
}

// TestBlocks tries those that no other test does.
func TestBlocks(t *testing.T) {
	all := claims(startGraphite(t))
	for _, d := range documents(t) {
		for _, s := range d.sections {
			for _, b := range s.blocks {
				for _, c := range all {
					if c.here == nil || !c.covers(b) {
						continue
					}
					t.Run(fmt.Sprintf("%s/%d", filepath.Base(d.name), b.line), func(t *testing.T) {
						t.Parallel()
						c.here(t, b)
					})
				}
			}
		}
	}
}

// tryMake has make say what it would run.
func tryMake(t *testing.T, b *block) {
	folder := t.TempDir()
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	makePath, err := exec.LookPath("make")
	if err != nil {
		t.Fatal(err)
	}
	program(t, filepath.Join(folder, "make"), `exec `+makePath+` -n --no-print-directory -C `+root+` "$@"`)
	out := shell(t, b.text, t.TempDir(), folder)
	// Each line would run something, flags included.
	for _, flags := range regexp.MustCompile(`_FLAGS="([^"]*)"`).FindAllStringSubmatch(b.text, -1) {
		if !strings.Contains(out, strings.ReplaceAll(flags[1], "'", "")) && !strings.Contains(out, flags[1]) {
			t.Errorf("%q does not reach the program: %s", flags[1], out)
		}
	}
	if lines := strings.Count(b.text, "make"); strings.Count(out, "\n") < lines {
		t.Errorf("%d calls of make would run only: %s", lines, out)
	}
}

// tryConfig reads a part of weighter.toml, with what it lacks.
func tryConfig(t *testing.T, b *block) {
	text := b.text
	for table, rest := range map[string]string{
		"[haproxy]":   "[haproxy]\nsockets = [\"/run/haproxy/admin.sock\"]\n",
		"[graphite]":  "[graphite]\nurl = \"http://graphite.example.com\"\n",
		"[[backend]]": "[[backend]]\nname = \"ingest\"\n",
	} {
		if !strings.Contains(text, table) {
			text = rest + text
		}
	}
	if !strings.Contains(text, "\ntarget") {
		// Keys of the one backend, which is the last table or the first.
		text = strings.Replace(text, "[[backend]]\n", "[[backend]]\ntarget = \"x\"\n", 1)
	}
	if _, err := config.Parse("weighter.toml", []byte(text), os.LookupEnv); err != nil {
		t.Errorf("%v:\n%s", err, text)
	}
}

// tryPrometheus has Prometheus' own tool read a part of its configuration.
func tryPrometheus(t *testing.T, b *block) {
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	write(t, file, b.text)
	if out, err := exec.CommandContext(t.Context(), "promtool", "check", "config", file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// tryAlone runs commands that need nothing but the program.
func tryAlone(t *testing.T, b *block) {
	if out := shell(t, b.text, t.TempDir(), ""); strings.Count(out, "\n") < 3 {
		t.Errorf("it prints only: %s", out)
	}
}

// tryGlobal has each HAProxy read lines of the section global.
func tryGlobal(t *testing.T, b *block) {
	// Here may be no group of that name.
	text := strings.ReplaceAll(b.text, " group haproxy ", " ")
	if !strings.HasPrefix(text, "global\n") {
		text = "global\n" + text
	}
	haproxytest.ForEachVersion(t, func(t *testing.T, h haproxyproc.Binary) {
		checkHAProxy(t, h, t.TempDir(), text)
	})
}

// tryRules has each HAProxy read rules that use variables: those about servers stand in a
// backend, the others in a frontend, as in the examples that are shipped.
func tryRules(t *testing.T, b *block) {
	var front, back string
	for line := range strings.Lines(b.text) {
		if strings.HasPrefix(line, "use-server") {
			back += "  " + line
		} else {
			front += "  " + line
		}
	}
	haproxytest.ForEachVersion(t, func(t *testing.T, h haproxyproc.Binary) {
		folder := t.TempDir()
		write(t, filepath.Join(folder, "load.map"), "")
		front := strings.ReplaceAll(front, "/etc/haproxy/weighter-load.map", filepath.Join(folder, "load.map"))
		checkHAProxy(t, h, folder, plainDefaults+"frontend in\n  bind 127.0.0.1:8000\n"+front+"  default_backend ingest\nbackend ingest\n"+back+
			"  server s1 192.0.2.1:80\nbackend spare\n  server s1 192.0.2.2:80\n")
	})
}

const plainDefaults = "defaults\n  mode http\n  log 127.0.0.1:514 local0\n  timeout connect 1s\n  timeout client 1s\n  timeout server 1s\n"

// trySPOE has each HAProxy read messages in place of that of the first example.
func trySPOE(t *testing.T, b *block) {
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^spoe-message (\S+)$`).FindAllStringSubmatch(b.text, -1) {
		names = append(names, m[1])
	}
	example := filepath.Join(repository, "haproxy-conf", haproxyconf.Examples()[0].Name)
	spoe, err := os.ReadFile(filepath.Join(example, "weighter.spoe"))
	if err != nil {
		t.Fatal(err)
	}
	agent, _, ok := strings.Cut(string(spoe), "\nspoe-message")
	cfg, err := os.ReadFile(filepath.Join(example, "haproxy.cfg"))
	if err != nil || !ok || len(names) == 0 {
		t.Fatal(err, ok, names)
	}
	agent = regexp.MustCompile(`(?m)^  messages .*$`).ReplaceAllString(agent, "  messages "+strings.Join(names, " "))
	haproxytest.ForEachVersion(t, func(t *testing.T, h haproxyproc.Binary) {
		folder := t.TempDir()
		write(t, filepath.Join(folder, "weighter.spoe"), agent+"\n"+b.text)
		checkHAProxy(t, h, folder, strings.ReplaceAll(string(cfg), "/etc/haproxy/", folder+"/"))
	})
}

// checkHAProxy has a HAProxy check a configuration: no error, and no warning either.
func checkHAProxy(t *testing.T, h haproxyproc.Binary, folder, text string) {
	t.Helper()
	file := filepath.Join(folder, "haproxy.cfg")
	write(t, file, text)
	out, err := exec.CommandContext(t.Context(), h.Path, "-c", "-f", file).CombinedOutput()
	if err != nil || strings.Contains(string(out), "[WARNING]") {
		t.Errorf("%v: %s\n%s", err, out, text)
	}
}

// tryContainers compares how containers are started with what the image and the program
// want: a registry would be needed to start them.
func tryContainers(t *testing.T, b *block) {
	file := read(t, "packaging/container/Containerfile")
	user := regexp.MustCompile(`(?m)^USER (\d+):(\d+)$`).FindStringSubmatch(file)
	if user == nil {
		t.Fatal("the container file names no user")
	}
	for _, want := range []string{
		"/haproxy-run:/run/haproxy ", ":/etc/haproxy-weighter:ro ", ":/var/lib/haproxy-weighter ",
		"--tmpfs /run/haproxy-weighter:mode=0750,uid=" + user[1] + ",gid=" + user[2] + " ", "--group-add $gid ", "--network container:haproxy ",
	} {
		if !strings.Contains(strings.ReplaceAll(b.text, "\\\n", " "), want) {
			t.Errorf("no %q in\n%s", want, b.text)
		}
	}
	for key, path := range map[string]string{"control": "/run/haproxy-weighter/", "file": "/var/lib/haproxy-weighter/", "sockets": "/run/haproxy/"} {
		if !regexp.MustCompile(`(?m)^#?` + key + ` = \W+` + path).MatchString(config.Reference) {
			t.Errorf("reference.toml has %s elsewhere than in %s", key, path)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-n")
	cmd.Stdin = strings.NewReader(b.text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// program writes a shell script that can be run.
func program(t *testing.T, file, text string) {
	t.Helper()
	write(t, file, "#!/bin/sh\n"+text+"\n")
	if err := os.Chmod(file, 0o700); err != nil {
		t.Fatal(err)
	}
}

// shell runs a block of commands in a folder, all of which must succeed; programs in the
// folder bin go before those of the system.
func shell(t *testing.T, text, folder, bin string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-u", "-c", text)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	if bin != "" {
		cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"))
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s\nprints\n%s", err, text, out)
	}
	return string(out)
}
