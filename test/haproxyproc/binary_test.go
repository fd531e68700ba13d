package haproxyproc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// program writes a file that answers to -v like a HAProxy.
func program(t *testing.T, path, answer string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = -v ] || exit 2\ncat <<'END'\n%s\nEND\n", answer)
	if answer == "" {
		script = "#!/bin/sh\nexit 127\n"
	}
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBinaries(t *testing.T) {
	installed := program(t, filepath.Join(t.TempDir(), "haproxy"), "HAProxy version 3.0.11-1+deb13u4 2026/10/17 - https://haproxy.org/\nStatus: ...")
	t.Setenv("PATH", filepath.Dir(installed)+":/usr/bin:/bin")
	for _, tt := range []struct {
		name  string
		ci    string
		files map[string]string // suite: answer to -v
		want  []string          // version and suite; the installed one is of the suite ""
		err   string
	}{
		{name: "installed only", want: []string{"3.0.11 "}},
		{name: "installed only in CI", ci: "true", err: "trixie, sid, experimental"},
		{
			name: "by version, each once", ci: "true",
			files: map[string]string{
				"experimental": "HAProxy version 3.10.1-1 2027/01/02", "sid": "HAProxy version 3.4.7-1 2026/11/02",
				"trixie": "HAProxy version 3.0.11-1+deb13u4 2026/10/17", "bookworm": "HAProxy version 2.6.12-1+deb12u4 2026/10/17",
			},
			want: []string{"2.6.12 bookworm", "3.0.11 ", "3.4.7 sid", "3.10.1 experimental"},
		},
		{name: "one missing", files: map[string]string{"sid": "HAProxy version 3.4.7-1 2026/11/02"}, want: []string{"3.0.11 ", "3.4.7 sid"}},
		{name: "own build", files: map[string]string{"mine": "HAProxy version 3.5-dev3-a1b2c3d-12 2026/11/02"}, want: []string{"3.0.11 ", "3.5-dev3 mine"}},
		{name: "does not run", files: map[string]string{"sid": ""}, err: "sid/haproxy -v: exit status 127"},
		{name: "something else", files: map[string]string{"sid": "nginx version: nginx/1.22.1"}, err: "is no HAProxy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("HAPROXY_BIN", "")
			t.Setenv("HAPROXY_VERSIONS_DIR", dir)
			t.Setenv("CI", tt.ci)
			want := []Binary{}
			for suite, answer := range tt.files {
				program(t, filepath.Join(dir, suite, "haproxy"), answer)
			}
			for _, w := range tt.want {
				version, suite, _ := strings.Cut(w, " ")
				b := Binary{Version: version, Path: installed}
				if suite != "" {
					b.Path = filepath.Join(dir, suite, "haproxy")
				}
				want = append(want, b)
			}
			got, err := Binaries()
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("%v, error %v, want one with %q", got, err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestBinariesOfOneNamed(t *testing.T) {
	named := program(t, filepath.Join(t.TempDir(), "my-haproxy"), "HAProxy version 3.5-dev3-a1b2c3d-12 2026/11/02")
	t.Setenv("HAPROXY_BIN", named)
	t.Setenv("CI", "true")
	t.Setenv("HAPROXY_VERSIONS_DIR", t.TempDir())
	got, err := Binaries()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Binary{{"3.5-dev3", named}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if missing, err := Missing(); err != nil || len(missing) != 0 {
		t.Errorf("missing %v, %v", missing, err)
	}
}

func TestAtLeast(t *testing.T) {
	for version, want := range map[string]bool{"2.6.12": false, "3.1.99": false, "3.2-dev1": true, "3.2.0": true, "3.10.1": true, "4.0.0": true} {
		if got := (Binary{Version: version}).AtLeast(3, 2); got != want {
			t.Errorf("%s at least 3.2: %v", version, got)
		}
	}
}
