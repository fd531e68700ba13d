package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/test/graphiteproc"
)

// luaDocs gives the code of one language in docs/lua.md, "Inside the weighter".
func luaDocs(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/lua.md")
	if err != nil {
		t.Fatal(err)
	}
	_, inside, ok := strings.Cut(string(text), "\n## Inside the weighter\n")
	if !ok {
		t.Fatal("docs/lua.md has no part Inside the weighter")
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(inside, -1) {
		blocks = append(blocks, m[1])
	}
	if len(blocks) == 0 {
		t.Fatalf("docs/lua.md has no code of %s", language)
	}
	return blocks
}

// luaDocsFolder has the scripts of docs/lua.md under the names that they give
// themselves, the examples, and a recorded table.
func luaDocsFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range luaDocs(t, "lua") {
		name, _, ok := strings.Cut(strings.TrimPrefix(text, "-- "), ":")
		if !ok || !strings.HasSuffix(name, ".lua") {
			t.Fatalf("a script begins with its name: %q", text)
		}
		put(name, text)
	}
	for name, as := range map[string]string{"canary.json": "table.json", "worst-of-two.lua": "worst-of-two.lua"} {
		text, err := os.ReadFile(luaExamples + name)
		if err != nil {
			t.Fatal(err)
		}
		put(as, string(text))
	}
	return folder
}

const luaHead = "[haproxy]\nsockets = [\"/run/none.sock\"]\n[graphite]\nurl = \"http://127.0.0.1:9\"\n"

func TestLuaDocsConfigurations(t *testing.T) {
	folder := luaDocsFolder(t)
	for _, text := range luaDocs(t, "toml") {
		if !strings.Contains(text, "[[backend]]") {
			text += "[[backend]]\nname = \"ingest\"\ntarget = \"x\"\n"
		}
		if _, err := config.Parse(filepath.Join(folder, "weighter.toml"), []byte(luaHead+text), os.LookupEnv); err != nil {
			t.Errorf("%s\n%v", text, err)
		}
	}
}

// TestLuaDocsCommands runs each command that needs no live backend.
func TestLuaDocsCommands(t *testing.T) {
	blocks := luaDocs(t, "sh")
	t.Chdir(luaDocsFolder(t))
	ran := 0
	for _, block := range blocks {
		for line := range strings.Lines(block) {
			args := strings.Fields(strings.TrimPrefix(line, "haproxy-weighter "))
			if strings.Contains(line, "plan ingest") || strings.Contains(line, "weigh.lua --backend") {
				continue
			}
			var out, errs strings.Builder
			p := &Program{Stdout: &out, Stderr: &errs}
			if code := p.Run(t.Context(), args); code != exitGood || out.Len() == 0 {
				t.Errorf("%s: exit code %d, stderr %s", line, code, errs.String())
			}
			ran++
		}
	}
	if ran < 4 {
		t.Errorf("%d commands", ran)
	}
}

// TestLuaDocsTargets asks a real Graphite for the target with further values,
// and for the one that needs no script.
func TestLuaDocsTargets(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	g, err := graphiteproc.Start(ctx, graphiteproc.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	now := time.Now().Unix()
	var feed strings.Builder
	for i, server := range []string{"s1", "s2"} {
		fmt.Fprintf(&feed, "servers.%s.cpu.percent %d %d\nservers.%[1]s.disk.percent %[4]d %[3]d\n", server, 10+i, now, 80+i)
	}
	if err := g.Send(ctx, feed.String()); err != nil {
		t.Fatal(err)
	}
	folder := luaDocsFolder(t)
	conf := func(name, backend string) string {
		file := filepath.Join(folder, name)
		text := strings.Replace(luaHead, "http://127.0.0.1:9", g.URL, 1) + backend
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	var script, plain string
	for _, text := range luaDocs(t, "toml") {
		if strings.Contains(text, "/disk") {
			script = conf("script.toml", text)
		}
	}
	text, err := os.ReadFile("../../docs/lua.md")
	if err != nil {
		t.Fatal(err)
	}
	if target := regexp.MustCompile("`(groupByNode.*)`").FindStringSubmatch(string(text)); target != nil {
		plain = conf("plain.toml", "[[backend]]\nname = \"ingest\"\ntarget = '"+target[1]+"'\n")
	}
	waitLoads(ctx, t, script, map[string]float64{"s1/": 10, "s2/": 11, "s1/disk": 80, "s2/disk": 81})
	waitLoads(ctx, t, plain, map[string]float64{"s1/": 80, "s2/": 81})
}

// waitLoads waits until the command "loads" gives what is wanted, by server and
// metric: new metrics show after about a second, not all at once.
func waitLoads(ctx context.Context, t *testing.T, file string, want map[string]float64) {
	t.Helper()
	for {
		var out, errs strings.Builder
		p := &Program{Stdout: &out, Stderr: &errs}
		p.Run(ctx, []string{"loads", "ingest", "--json", "-f", file})
		got := map[string]float64{}
		var rows []balancer.LoadRow
		if err := json.Unmarshal([]byte(out.String()), &rows); err == nil {
			for _, r := range rows {
				if r.Usable {
					got[r.Server+"/"+r.Metric] = *r.Value
				}
			}
		}
		if maps.Equal(got, want) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("got %v, want %v: %s%s", got, want, out.String(), errs.String())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
