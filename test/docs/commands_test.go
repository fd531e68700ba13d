package docs

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/cli"
)

var (
	helpFlag  = regexp.MustCompile(`(?m)^ +(?:(-[a-z]), )?(--[a-z-]+)(?: [A-Za-z,/=]+)?  +(.*)$`)
	namedFlag = regexp.MustCompile(`(?:^|[\s\[])(--?[a-zA-Z][a-z-]*)`)
	listed    = regexp.MustCompile(`(?m)^  ([a-z-]+) +[A-Z]`)
)

// command is what the help tells of one: each flag, with its explanation.
type command map[string]string

// help asks the program itself.
func help(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs strings.Builder
	p := &cli.Program{Stdout: &out, Stderr: &errs}
	if code := p.Run(context.Background(), append(args, "--help")); code != 0 {
		t.Fatalf("%v --help: exit code %d: %s", args, code, errs.String())
	}
	return out.String()
}

// commands are all that the program shows, and "" for the program without a command.
func commands(t *testing.T) map[string]command {
	t.Helper()
	_, list, ok := strings.Cut(help(t), "Available Commands:\n")
	list, _, closed := strings.Cut(list, "\n\n")
	if !ok || !closed {
		t.Fatal("the help has no list of commands")
	}
	all := map[string]command{"": flagsOf(help(t))}
	for _, m := range listed.FindAllStringSubmatch(list, -1) {
		all[m[1]] = flagsOf(help(t, m[1]))
	}
	if len(all) < 15 {
		t.Fatalf("only %d commands found", len(all))
	}
	return all
}

func flagsOf(help string) command {
	c := command{}
	_, help, _ = strings.Cut(help, "\nFlags:\n")
	for _, m := range helpFlag.FindAllStringSubmatch(help, -1) {
		c[m[2]] = m[3]
		if m[1] != "" {
			c[m[1]] = m[3]
		}
	}
	return c
}

// TestFlagsAreExplained holds that the help says of each flag what it does.
func TestFlagsAreExplained(t *testing.T) {
	n := 0
	for name, c := range commands(t) {
		for flag, words := range c {
			n++
			if len(strings.Fields(words)) < 2 {
				t.Errorf("%s %s: %q explains nothing", name, flag, words)
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d flags found", n)
	}
}

// TestReadmeHasEveryCommand compares the table of README with the program.
func TestReadmeHasEveryCommand(t *testing.T) {
	// In the order of the table; "unpin" and "unfreeze" are in the rows of what they take back.
	told := map[string]bool{}
	for _, cells := range rows(parse(t, "README.md").section(t, "Commands").text) {
		if len(cells) != 2 || !strings.HasPrefix(cells[0], "`") {
			continue
		}
		told[strings.Fields(spans(cells[0])[0])[0]] = true
		for _, s := range spans(cells[1]) {
			if s == "unpin" || s == "unfreeze" {
				told[s] = true
			}
		}
	}
	known := map[string]bool{}
	for name := range commands(t) {
		if name != "" && name != "help" {
			known[name] = true
		}
	}
	if diff := cmp.Diff(known, told); diff != "" {
		t.Errorf("commands (-in the program +in README.md):\n%s", diff)
	}
}

// TestCommandsExist holds that each command line in a document names a command and flags
// that there are.
func TestCommandsExist(t *testing.T) {
	known := commands(t)
	lines := 0
	for _, d := range documents(t) {
		for _, line := range commandLines(d) {
			words := strings.Fields(line)
			c, ok := known[words[0]]
			if !ok && strings.HasPrefix(words[0], "-") {
				c, ok = known[""], true
			}
			if !ok {
				t.Errorf("%s: %q is no command", d.name, line)
				continue
			}
			lines++
			for _, m := range namedFlag.FindAllStringSubmatch(quotedWords.ReplaceAllString(line, ""), -1) {
				if _, ok := c[m[1]]; !ok {
					t.Errorf("%s: %q: %s has no flag %s", d.name, line, words[0], m[1])
				}
			}
		}
	}
	if lines < 85 {
		t.Errorf("only %d command lines found", lines)
	}
}

var (
	ofProgram = regexp.MustCompile(`(?:^|[\s/(&])haproxy-weighter((?: -f [\w./]+)? (?:[a-z]|-).*)$`)
	// What ends a command, or is none of its arguments.
	tail        = regexp.MustCompile(`\s+[#|>;&)].*$`)
	quotedWords = regexp.MustCompile(`'[^']*'|"[^"]*"`)
)

// commandLines are the command lines of a document, without the name of the program:
// in blocks, in prose behind that name, and in prose without it where it begins with a
// command that is followed by a flag.
func commandLines(d *document) (all []string) {
	known := []string{"check", "demo", "explain", "freeze", "haproxy-conf", "history", "init", "loads", "lua", "mode", "pin", "plan", "run", "simulate", "status", "unfreeze", "unpin"}
	add := func(line string) {
		if line = strings.TrimSpace(tail.ReplaceAllString(line, "")); line != "" {
			all = append(all, line)
		}
	}
	for _, s := range d.sections {
		for _, b := range s.blocks {
			text := strings.ReplaceAll(b.text, "\\\n", " ")
			for line := range strings.Lines(text) {
				if b.language != "sh" || strings.Contains(line, "podman run") || strings.Contains(line, "systemctl") ||
					strings.Contains(line, "podman exec") && !strings.Contains(line, "/usr/bin/") {
					continue
				}
				line, _, _ = strings.Cut(line, " #")
				if m := ofProgram.FindStringSubmatch(strings.TrimSpace(line)); m != nil && isCommand(line) {
					add(lastCommand(m[1]))
				}
			}
		}
		for _, code := range spans(s.heading + "\n" + s.text) {
			words := strings.Fields(code)
			switch {
			case words[0] == "haproxy-weighter" && len(words) > 1:
				add(strings.TrimPrefix(code, "haproxy-weighter "))
			case len(words) > 1 && slices.Contains(known, words[0]) && strings.Contains(code, " --"):
				add(code)
			}
		}
	}
	return all
}

// isCommand leaves out lines in which the name is of a user, a group, a unit or a container.
func isCommand(line string) bool {
	return !regexp.MustCompile(`(^|\s)(usermod|install|adduser|journalctl|podman (kill|build)|apt(-get)?|dnf|tar|cd)\s`).MatchString(line)
}

// lastCommand takes "sudo -u haproxy-weighter" away.
func lastCommand(line string) string {
	if _, rest, ok := strings.Cut(line, "haproxy-weighter "); ok {
		return rest
	}
	return line
}
