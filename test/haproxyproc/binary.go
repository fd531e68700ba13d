package haproxyproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Binary is one HAProxy program.
type Binary struct {
	// Version is what the program says it is, without the packager's part:
	// "2.6.12", or "3.5-dev3".
	Version string
	// Path is the program file, absolute.
	Path string
}

// AtLeast tells whether the program is of that branch or a later one. What
// HAProxy does differs by its version, whatever suite the program is from.
func (b Binary) AtLeast(major, minor int) bool {
	have := numbers(b.Version)
	return slices.Compare(have[:min(2, len(have))], []int{major, minor}) >= 0
}

// numbers is a version to compare by.
func numbers(version string) []int {
	var parts []int
	for _, digits := range regexp.MustCompile(`\d+`).FindAllString(version, -1) {
		n, err := strconv.Atoi(digits)
		if err != nil {
			break // a date or a hash
		}
		parts = append(parts, n)
	}
	return parts
}

// versionsScript is what fills the folder of versions, seen from the repository.
const versionsScript = "test/deps/haproxy-versions"

// suites are the names that versionsScript gives to what it gets on every
// system; 2.6 comes from the system's packages, or from a further one.
var suites = [...]string{"trixie", "sid", "experimental"}

// Binaries lists the HAProxy programs to test with, by version and each
// version once: the installed one and those that test/deps/haproxy-versions
// has put into the folder .cache/haproxy of the repository, or into that which
// the environment variable HAPROXY_VERSIONS_DIR names. With the environment
// variable HAPROXY_BIN it is that program only.
//
// A program that does not run is an error. So is one that is missing (see
// Missing) when the environment variable CI is set.
func Binaries() ([]Binary, error) {
	installed, err := FindBinary("")
	if err != nil {
		return nil, err
	}
	paths := []string{installed}
	if os.Getenv("HAPROXY_BIN") == "" {
		missing, err := Missing()
		if err != nil {
			return nil, err
		}
		if len(missing) > 0 && os.Getenv("CI") != "" {
			return nil, fmt.Errorf("haproxyproc: HAProxy of %s is not in the folder of versions: run %s", strings.Join(missing, ", "), versionsScript)
		}
		cached, err := cachedBinaries()
		if err != nil {
			return nil, err
		}
		paths = append(paths, cached...)
	}
	var binaries []Binary
	for _, path := range paths {
		b, err := askVersion(path)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(binaries, func(have Binary) bool { return have.Version == b.Version }) {
			binaries = append(binaries, b)
		}
	}
	slices.SortFunc(binaries, func(a, b Binary) int { return slices.Compare(numbers(a.Version), numbers(b.Version)) })
	return binaries, nil
}

// Missing names the suites of Debian whose HAProxy Binaries would list if
// test/deps/haproxy-versions had been run; none with HAPROXY_BIN.
func Missing() ([]string, error) {
	if os.Getenv("HAPROXY_BIN") != "" {
		return nil, nil
	}
	cached, err := cachedBinaries()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(suites[:]), func(suite string) bool {
		return slices.ContainsFunc(cached, func(path string) bool { return filepath.Base(filepath.Dir(path)) == suite })
	}), nil
}

// cachedBinaries are the programs in the folder of versions.
func cachedBinaries() ([]string, error) {
	dir := os.Getenv("HAPROXY_VERSIONS_DIR")
	if dir == "" {
		dir = filepath.Join(".cache", "haproxy")
	}
	if !filepath.IsAbs(dir) {
		root, err := repository()
		if err != nil {
			return nil, err
		}
		dir = filepath.Join(root, dir)
	}
	return filepath.Glob(filepath.Join(dir, "*", "haproxy"))
}

// repository is the folder above the working directory that has go.mod: tests
// run in the folder of their package.
func repository() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("haproxyproc: %s is not inside the repository (no go.mod above it)", start)
		}
	}
}

// firstLine is the beginning of the answer to -v.
var firstLine = regexp.MustCompile(`^HAProxy version (\d+\.\d+(?:\.\d+|-dev\d+)?)`)

func askVersion(path string) (Binary, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "-v").CombinedOutput()
	if err != nil {
		return Binary{}, fmt.Errorf("haproxyproc: %s -v: %w: %s (if it is one of further versions: run %s)", path, err, out, versionsScript)
	}
	m := firstLine.FindSubmatch(out)
	if m == nil {
		return Binary{}, fmt.Errorf("haproxyproc: %s is no HAProxy: to -v it answers %q", path, out)
	}
	return Binary{Version: string(m[1]), Path: path}, nil
}

// FindBinary gives HAProxy's program file: binary itself if not empty, else
// the environment variable HAPROXY_BIN, else haproxy on PATH, else
// /usr/sbin/haproxy. The error says what to install.
func FindBinary(binary string) (string, error) {
	if binary == "" {
		binary = os.Getenv("HAPROXY_BIN")
	}
	if binary != "" {
		path, err := exec.LookPath(binary)
		if err != nil {
			return "", fmt.Errorf("haproxyproc: HAProxy is not at %s: %w", binary, err)
		}
		return filepath.Abs(path)
	}
	for _, name := range []string{"haproxy", "/usr/sbin/haproxy"} { // Debian users have no sbin on PATH
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", errors.New("haproxyproc: HAProxy is not installed (no haproxy on PATH or in /usr/sbin): run `apt-get install haproxy`")
}
