// Package packaging tests the packages as they are built: what is in them,
// whether the tools of Debian and of rpm find fault, whether the same commit
// gives the same bytes, and the units. How they live in a booted Debian is
// tested by lifecycle/run, which "make packages-test" calls.
package packaging

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// The version and the time of all packages that are built here.
const (
	version = "1.2.3"
	epoch   = "1700000000"
)

// built is what packaging/build has made, for this machine's architecture.
var built struct {
	dir string // where the packages are
	deb string
	rpm string
	tar string

	sources string // what they were made of: a copy of the repository's files
	root    string // the deb, unpacked
	program string
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "packages")
	if err == nil {
		err = buildAll(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.RemoveAll(dir)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

func buildAll(dir string) error {
	built.dir, built.root, built.sources = filepath.Join(dir, "packages"), filepath.Join(dir, "root"), filepath.Join(dir, "sources")
	if err := copySources(built.sources); err != nil {
		return err
	}
	if err := build(built.sources, built.dir, nil); err != nil {
		return err
	}
	for pattern, file := range map[string]*string{"*.deb": &built.deb, "*.rpm": &built.rpm, "*.tar.gz": &built.tar} {
		found, err := filepath.Glob(filepath.Join(built.dir, pattern))
		if err != nil || len(found) != 1 {
			return fmt.Errorf("%s: found %v, %v; wanted one", pattern, found, err)
		}
		*file = found[0]
	}
	if out, err := exec.Command("dpkg-deb", "-x", built.deb, built.root).CombinedOutput(); err != nil {
		return fmt.Errorf("dpkg-deb: %w: %s", err, out)
	}
	built.program = filepath.Join(built.root, "usr/bin/haproxy-weighter")
	return nil
}

// copySources copies what git knows or would take, as it is now: two builds can
// only be compared when nobody edits a file between them.
func copySources(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	const script = `git -C ../.. ls-files -z --cached --others --exclude-standard |
		tar -C ../.. --null --files-from=- --ignore-failed-read --warning=no-failed-read -c | tar -C "$1" -x`
	if out, err := exec.Command("sh", "-c", script, "sh", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("copying the sources: %w: %s", err, out)
	}
	return nil
}

// build makes the packages of the repository in dir, with more environment.
func build(repository, dir string, environment []string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(repository, "packaging/build"), dir)
	cmd.Env = append(os.Environ(), "VERSION="+version, "SOURCE_DATE_EPOCH="+epoch, "ARCHS="+runtime.GOARCH, "MAINTAINER=")
	cmd.Env = append(cmd.Env, environment...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("packaging/build: %w: %s", err, out)
	}
	return nil
}

// output runs a program and returns what it prints; an exit code other than 0
// fails the test with all that it said.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TZ=UTC")
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, errors.String(), out)
	}
	return string(out)
}
