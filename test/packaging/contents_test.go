package packaging

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The files of both packages, but for those that are copied as they are from
// folders of the repository and for a page a command; those are compared below.
var files = []string{
	"-rw-r----- root haproxy-weighter /etc/haproxy-weighter/weighter.toml",
	"-rw-r--r-- root root /usr/lib/systemd/system/haproxy-weighter.service",
	"-rw-r--r-- root root /usr/lib/systemd/system/haproxy-weighter.socket",
	"-rw-r--r-- root root /usr/lib/sysusers.d/haproxy-weighter.conf",
	"-rw-r--r-- root root /usr/lib/tmpfiles.d/haproxy-weighter.conf",
	"-rw-r--r-- root root /usr/share/bash-completion/completions/haproxy-weighter",
	"-rw-r--r-- root root /usr/share/doc/haproxy-weighter/copyright",
	"-rw-r--r-- root root /usr/share/doc/haproxy-weighter/examples/weighter.toml",
	"-rw-r--r-- root root /usr/share/doc/haproxy-weighter/third-party-licenses.gz",
	"-rw-r--r-- root root /usr/share/fish/vendor_completions.d/haproxy-weighter.fish",
	"-rw-r--r-- root root /usr/share/haproxy-weighter/grafana/haproxy-weighter-graphite.json",
	"-rw-r--r-- root root /usr/share/haproxy-weighter/grafana/haproxy-weighter-prometheus.json",
	"-rw-r--r-- root root /usr/share/haproxy-weighter/prometheus/haproxy-weighter.rules.yml",
	"-rw-r--r-- root root /usr/share/man/man1/haproxy-weighter.1.gz",
	"-rw-r--r-- root root /usr/share/man/man5/weighter.toml.5.gz",
	"-rwxr-xr-x root root /usr/bin/haproxy-weighter",
}

var copied = regexp.MustCompile(`/usr/share/haproxy-weighter/(haproxy-conf|lua)/|/usr/share/man/man1/haproxy-weighter-|/usr/share/doc/haproxy-weighter/(changelog\.gz|docs/)`)

func wanted(more ...string) []string {
	all := slices.Concat(files, more)
	slices.Sort(all)
	return all
}

func TestDebContents(t *testing.T) {
	var got []string
	for line := range strings.Lines(output(t, "dpkg-deb", "-c", built.deb)) {
		f := strings.Fields(line)
		if path := strings.TrimPrefix(f[5], "."); f[0][0] != 'd' && !copied.MatchString(path) {
			got = append(got, fmt.Sprintf("%s %s %s", f[0], strings.ReplaceAll(f[1], "/", " "), path))
		}
	}
	slices.Sort(got)
	want := wanted(
		"-rw-r--r-- root root /usr/share/zsh/vendor-completions/_haproxy-weighter",
		"-rw-r--r-- root root /usr/share/doc/haproxy-weighter/changelog.Debian.gz",
		"-rw-r--r-- root root /usr/share/lintian/overrides/haproxy-weighter",
	)
	for i := range want { // the postinst gives it to its group
		want[i] = strings.Replace(want[i], "root haproxy-weighter /etc", "root root /etc", 1)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("deb: -wanted, +there:", diff)
	}
	if got := output(t, "dpkg-deb", "-I", built.deb, "conffiles"); got != "/etc/haproxy-weighter/weighter.toml\n" {
		t.Errorf("conffiles: %q", got)
	}
	if got := output(t, "dpkg-deb", "-f", built.deb, "Version"); got != version+"-1\n" {
		t.Errorf("version %q", got)
	}
}

func TestRPMContents(t *testing.T) {
	var got []string
	const format = `[%{FILEMODES:perms} %{FILEUSERNAME} %{FILEGROUPNAME} %{FILENAMES}\n]`
	for line := range strings.Lines(output(t, "rpm", "-qp", "--queryformat", format, built.rpm)) {
		if line[0] != 'd' && !copied.MatchString(line) {
			got = append(got, strings.TrimSpace(line))
		}
	}
	slices.Sort(got)
	want := wanted("-rw-r--r-- root root /usr/share/zsh/site-functions/_haproxy-weighter")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("rpm: -wanted, +there:", diff)
	}
	const config = "/etc/haproxy-weighter/weighter.toml cn\n" // configuration, noreplace
	if got := output(t, "rpm", "-qp", "--queryformat", `[%{FILENAMES} %{FILEFLAGS:fflags}\n]`, built.rpm); !strings.Contains(got, config) {
		t.Errorf("flags: wanted %q; all: %s", config, got)
	}
}

// TestCopied compares with the repository what is shipped as it is there.
func TestCopied(t *testing.T) {
	share := filepath.Join(built.root, "usr/share/haproxy-weighter")
	for _, folder := range []struct {
		shipped, source string
		shippedNot      *regexp.Regexp // paths in the repository
	}{
		{"haproxy-conf", "../../haproxy-conf", regexp.MustCompile(`^template/|^testdata/|\.go$`)},
		{"../doc/haproxy-weighter/docs", "../../docs", nil},
		{"lua", "../../lua", regexp.MustCompile(`\.go$|\.want$|^testdata/|^\.`)},
	} {
		want := hashes(t, folder.source, folder.shippedNot)
		if len(want) < 4 {
			t.Fatalf("only %d files in %s", len(want), folder.source)
		}
		if diff := cmp.Diff(want, hashes(t, filepath.Join(share, folder.shipped), nil)); diff != "" {
			t.Errorf("%s: -repository, +package: %s", folder.shipped, diff)
		}
	}
}

// hashes gives the hash of each file below dir, without those whose path
// matches not.
func hashes(t *testing.T, dir string, not *regexp.Regexp) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || not != nil && not.MatchString(path) {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, path))
		all[path] = fmt.Sprintf("%x", sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTarball(t *testing.T) {
	top := strings.TrimSuffix(filepath.Base(built.tar), ".tar.gz")
	listed := output(t, "tar", "-tzf", built.tar)
	for _, file := range []string{
		"haproxy-weighter", "etc/haproxy-weighter/weighter.toml", "usr/share/man/man5/weighter.toml.5.gz",
		"usr/lib/systemd/system/haproxy-weighter.service", "usr/share/haproxy-weighter/lua/weighter.lua",
		"completions/_haproxy-weighter", "container/Containerfile",
	} {
		if !strings.Contains(listed, top+"/"+file+"\n") {
			t.Errorf("no %s in the tar.gz: %s", file, listed)
		}
	}
	for line := range strings.Lines(listed) {
		if !strings.HasPrefix(line, top+"/") {
			t.Errorf("not in the folder %s: %s", top, line)
		}
	}
	// A program that needs nothing of the system is what the container file counts on.
	cmd := exec.CommandContext(t.Context(), "ldd", built.program)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "not a dynamic executable") {
		t.Errorf("the program is not static: %v %s", err, out)
	}
	if got := output(t, built.program, "version"); !strings.HasPrefix(got, "haproxy-weighter "+version+" ") {
		t.Errorf("version: %q", got)
	}
}

func TestChecksums(t *testing.T) {
	out := output(t, "sh", "-c", `cd "$1" && sha256sum --strict --check SHA256SUMS`, "sh", built.dir)
	if got := strings.Count(out, ": OK\n"); got != 3 {
		t.Errorf("%d files in SHA256SUMS, wanted 3: %s", got, out)
	}
}

// TestReproducible builds a copy of the sources elsewhere, in another time zone,
// language, home and umask.
func TestReproducible(t *testing.T) {
	other, packages := filepath.Join(t.TempDir(), "somewhere else"), t.TempDir()
	output(t, "sh", "-c", `umask 077 && cp -R "$1" "$2"`, "sh", built.sources, other)
	cache := strings.TrimSpace(output(t, "go", "env", "GOCACHE"))
	modules := strings.TrimSpace(output(t, "go", "env", "GOMODCACHE"))
	err := build(other, packages, []string{
		"HOME=" + t.TempDir(), "GOCACHE=" + cache, "GOMODCACHE=" + modules, "TZ=Pacific/Auckland", "LANG=de_DE.UTF-8",
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hashes(t, built.dir, nil), hashes(t, packages, nil)); diff != "" {
		t.Errorf("the same sources gave other bytes: %s", diff)
	}
}
