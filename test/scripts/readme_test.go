package scripts

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/haproxy-weighter/haproxy-weighter/internal/cli"
)

// TestReadme holds that the configuration and the commands of the README work
// as they stand there.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "```toml\n")
	config, _, closed := strings.Cut(rest, "```\n")
	if !found || !closed {
		t.Fatal("README.md has no configuration")
	}
	file := filepath.Join(t.TempDir(), "weighter.toml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := run("check", "-f", file); code != 0 {
		t.Errorf("check of README's configuration: exit code %d: %s", code, out)
	}

	_, commands, found := strings.Cut(string(text), "\n## Commands\n")
	commands, _, closed = strings.Cut(commands, "\n`-f FILE`")
	if !found || !closed {
		t.Fatal("README.md has no table of commands")
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z-]+)").FindAllStringSubmatch(commands, -1)
	if len(rows) < 5 {
		t.Fatalf("README.md's table of commands has %d rows", len(rows))
	}
	for _, row := range rows {
		code, out := run(row[1], "--help")
		if code != 0 || !strings.Contains(out, "haproxy-weighter "+row[1]) {
			t.Errorf("%s --help: exit code %d: %s", row[1], code, out)
		}
	}
}

func run(args ...string) (code int, out string) {
	var b strings.Builder
	p := &cli.Program{Stdout: &b, Stderr: &b}
	code = p.Run(context.Background(), args)
	return code, b.String()
}
