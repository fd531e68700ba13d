package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLintian: every override is named and explained in the file itself.
func TestLintian(t *testing.T) {
	out := output(t, "lintian", "--no-cfg", "--allow-root", "--tag-display-limit", "0", "--fail-on", "error,warning", built.deb)
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "N:") {
			t.Error(line)
		}
	}
}

func TestRPMLint(t *testing.T) {
	output(t, "rpm", "-K", built.rpm)
	out := output(t, "rpmlint", "--config", "../../packaging/rpm/rpmlint.toml", built.rpm)
	if !strings.Contains(out, "1 packages and 0 specfiles checked; 0 errors, 0 warnings") {
		t.Error(out)
	}
	requires := strings.Fields(output(t, "rpm", "-qp", "--requires", built.rpm))
	requires = slices.DeleteFunc(requires, func(r string) bool { return strings.HasPrefix(r, "rpmlib(") })
	if diff := cmp.Diff([]string{"/bin/sh", "shadow-utils"}, requires); diff != "" {
		t.Error("requires: -wanted, +there:", diff)
	}
	scripts := output(t, "rpm", "-qp", "--scripts", built.rpm)
	for _, kind := range []string{"preinstall", "postinstall", "preuninstall", "postuninstall"} {
		if !strings.Contains(scripts, kind+" scriptlet (using /bin/sh):\n") {
			t.Errorf("no %s scriptlet: %s", kind, scripts)
		}
	}
}

func TestScriptsParse(t *testing.T) {
	scripts, err := filepath.Glob("../../packaging/*/p[or][es]*")
	if err != nil || len(scripts) != 7 {
		t.Fatalf("found %v, %v; wanted 3 of the deb and 4 of the rpm", scripts, err)
	}
	for _, script := range scripts {
		output(t, "dash", "-n", script)
	}
	output(t, "bash", "-n", filepath.Join(built.root, "usr/share/bash-completion/completions/haproxy-weighter"))
}

// commandName is the name at the beginning of a line of the list of commands.
var commandName = regexp.MustCompile(`(?m)^  ([a-z-]+) +[A-Z]`)

// TestManualPages: every command has a page, and no page has a fault that the
// readers of Debian and of BSD find.
func TestManualPages(t *testing.T) {
	help := output(t, built.program, "help")
	_, help, _ = strings.Cut(help, "Available Commands:")
	help, _, _ = strings.Cut(help, "Flags:")
	want := []string{"haproxy-weighter.1.gz"}
	for _, m := range commandName.FindAllStringSubmatch(help, -1) {
		if m[1] != "help" { // says what the pages say
			want = append(want, "haproxy-weighter-"+m[1]+".1.gz")
		}
	}
	if len(want) < 8 {
		t.Fatalf("only %v in %s", want, help)
	}
	var got []string
	folder := filepath.Join(built.root, "usr/share/man")
	pages, err := filepath.Glob(folder + "/man[15]/*.gz")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if filepath.Base(filepath.Dir(page)) == "man1" {
			got = append(got, filepath.Base(page))
		}
		plain := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(page), ".gz"))
		if err := os.WriteFile(plain, []byte(output(t, "gzip", "-dc", page)), 0o600); err != nil {
			t.Fatal(err)
		}
		if out := said(t, "mandoc", "-T", "lint", plain); out != "" {
			t.Error(out)
		}
		if out := said(t, "man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", plain); out != "" {
			t.Error(out)
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("pages: -wanted, +there:", diff)
	}
}

// said returns the complaints of a reader of manual pages: mandoc's on standard
// output, man's on standard error.
func said(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MANROFFSEQ=", "MANWIDTH=80")
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if name == "mandoc" {
		return string(out) + errors.String()
	}
	if err != nil || len(out) == 0 {
		t.Fatalf("%s: %v %s", name, err, errors.String())
	}
	return errors.String()
}
