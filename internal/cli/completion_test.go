package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

// completions are the words that a shell gets, and the directive behind them.
func completions(t *testing.T, args ...string) (words []string, directive string) {
	t.Helper()
	code, out, _ := command(t, append([]string{"__complete"}, args...)...)
	if code != exitGood {
		t.Errorf("%v: exit code %d", args, code)
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	return slices.Clip(lines[:len(lines)-1]), lines[len(lines)-1]
}

func TestCompletion(t *testing.T) {
	s := goodStatus()
	second := goodTable("unix:/run/b.sock")
	second.Servers[1].Server = "s3"
	s.Backends[0].Tables = append(s.Backends[0].Tables, second)
	s.Backends[0].Control = balancer.Control{Pins: map[string]balancer.Pin{"s2": {}}}
	s.Backends = append(s.Backends, api.BackendStatus{Backend: "internal", Control: balancer.Control{Freeze: &balancer.Freeze{}}, Tables: []api.Table{second}})
	socket := fakeDaemon(t, answers{"GET /api/v1/status": s})
	const done, more = ":4", ":6" // no file names; and no blank behind the word
	for _, c := range []struct {
		args      []string
		want      []string
		directive string
	}{
		{[]string{"status", ""}, []string{"in", "internal"}, done},
		{[]string{"status", "int"}, []string{"internal"}, done},
		{[]string{"status", "in", ""}, []string{}, done},
		{[]string{"explain", ""}, []string{"in/", "internal/"}, more},
		{[]string{"explain", "inte"}, []string{"internal/s1", "internal/s3"}, done},
		{[]string{"explain", "in/"}, []string{"in/s1", "in/s2", "in/s3"}, done},
		{[]string{"pin", "in/s2"}, []string{"in/s2"}, done},
		{[]string{"pin", "in/s2", ""}, []string{}, done},
		{[]string{"pin", "nope/"}, []string{}, done},
		{[]string{"unpin", ""}, []string{"in/s2"}, done},
		{[]string{"freeze", ""}, []string{"in", "internal"}, done},
		{[]string{"unfreeze", ""}, []string{"internal"}, done},
		{[]string{"mode", "in", ""}, []string{"observe", "live", "file"}, done},
		{[]string{"history", "in", "--server", "s"}, []string{"s1", "s2", "s3"}, done},
		{[]string{"history", "--server", ""}, []string{}, done},
		{[]string{"history", "in", "--since", ""}, []string{"30m", "2h", "1d"}, done},
		{[]string{"freeze", "in", "--for", "2"}, []string{"2h"}, done},
	} {
		args := append([]string{c.args[0], "--control", socket}, c.args[1:]...)
		words, directive := completions(t, args...)
		if d := cmp.Diff(c.want, words); d != "" || directive != c.directive {
			t.Errorf("%v: directive %s (-want +got):\n%s", c.args, directive, d)
		}
	}
}

// TestCompletionWithoutDaemon: the configuration has the backends too, and
// nothing at all is no reason for words.
func TestCompletionWithoutDaemon(t *testing.T) {
	dir := shortDir(t)
	file := filepath.Join(dir, "weighter.toml")
	text := "[haproxy]\nsockets = ['/run/haproxy/admin.sock']\n[graphite]\nurl = 'http://127.0.0.1:1'\n[admin]\ncontrol = 'none.sock'\n[[backend]]\nname = 'in'\ntarget = 'x'\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if words, _ := completions(t, "status", "-f", file, ""); !slices.Equal(words, []string{"in"}) {
		t.Errorf("words %q", words)
	}
	if words, directive := completions(t, "explain", "-f", file, ""); !slices.Equal(words, []string{"in/"}) || directive != ":6" {
		t.Errorf("words %q, directive %s", words, directive)
	}
	for _, args := range [][]string{
		{"status", "-f", dir + "/none.toml", ""}, {"explain", "-f", dir + "/none.toml", "x/"}, {"plan", "-f", dir + "/none.toml", ""},
	} {
		code, out, stderr := command(t, append([]string{"__complete"}, args...)...)
		if code != exitGood || out != ":4\n" || strings.Contains(stderr, "haproxy-weighter:") {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, out, stderr)
		}
	}
}

// TestCompletionScripts holds that there is one for each shell.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, out, _ := command(t, "completion", shell); code != exitGood || !strings.Contains(out, "haproxy-weighter") {
			t.Errorf("%s: exit code %d", shell, code)
		}
	}
	if words, _ := completions(t, "help", "un"); !slices.Equal(words, []string{"unfreeze", "unpin"}) {
		t.Errorf("help: %q", words)
	}
}
