package haproxyconf

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the files of the folders anew")

// TestFolders holds that the folders are what the templates give.
func TestFolders(t *testing.T) {
	want := map[string]string{}
	for _, e := range Examples() {
		files, err := Render(e.Name, Generic())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			want[filepath.Join(e.Name, f.Name)] = f.Text
		}
	}
	if *update {
		for name, text := range want {
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	have := map[string]string{}
	names, err := filepath.Glob("*/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if filepath.Dir(name) == "template" {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		have[name] = string(text)
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("the folders are not what the templates give; run go test ./haproxy-conf -update (-want +have):\n%s", diff)
	}
}

func TestRenderValues(t *testing.T) {
	v := Generic()
	v.Backend, v.Spare, v.Agent, v.Dir = "web", "web-b", "unix@/run/w.sock", "/srv/ha"
	v.StatsSocket, v.LoadMap, v.WeightMap = "", "/srv/ha/l.map", "/srv/ha/w.map"
	for _, e := range Examples() {
		files, err := Render(e.Name, v)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			for _, generic := range []string{"ingest", "spare", "127.0.0.1:9002", "/etc/haproxy", "stats socket", "<no value>"} {
				if strings.Contains(f.Text, generic) {
					t.Errorf("%s/%s still has %q:\n%s", e.Name, f.Name, generic, f.Text)
				}
			}
			if !strings.HasSuffix(f.Text, "\n") {
				t.Errorf("%s/%s does not end with a newline", e.Name, f.Name)
			}
		}
		if e.SPOE && !strings.Contains(files[0].Text, "inside the chroot") {
			t.Errorf("%s: nothing on the chroot beside a unix socket", e.Name)
		}
	}
}

func TestRenderUnknown(t *testing.T) {
	if _, err := Render("nosuch", Generic()); err == nil || err.Error() != `there is no example "nosuch"` {
		t.Errorf("error %v", err)
	}
}
