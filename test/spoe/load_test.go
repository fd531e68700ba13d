package spoe

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	haproxyconf "github.com/haproxy-weighter/haproxy-weighter/haproxy-conf"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
)

// TestExamplesLoad holds that every version takes the files as they are shipped, with not
// a word about them.
func TestExamplesLoad(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		for _, agent := range []string{"127.0.0.1:9002", "unix@/run/weighter.sock"} {
			for _, e := range haproxyconf.Examples() {
				v := haproxyconf.Generic()
				v.Dir, v.Agent = t.TempDir(), agent
				v.LoadMap, v.WeightMap = filepath.Join(v.Dir, "load.map"), filepath.Join(v.Dir, "weight.map")
				out := load(t, b.Path, e.Name, v)
				for line := range strings.Lines(out) {
					if strings.Contains(line, "WARNING") || strings.Contains(line, "ALERT") {
						t.Errorf("%s: %s", e.Name, out)
						break
					}
				}
			}
		}
	})
}

// TestLoadNotices holds that a mistake would be seen.
func TestLoadNotices(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		v := haproxyconf.Generic()
		v.Dir, v.Bind = t.TempDir(), ":8000 nosuch"
		if out := load(t, b.Path, "choose", v); !strings.Contains(out, "ALERT") {
			t.Errorf("output %q", out)
		}
	})
}

func load(t *testing.T, binary, example string, v haproxyconf.Values) string {
	t.Helper()
	files, err := haproxyconf.Render(example, v)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(v.Dir, f.Name), []byte(f.Text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, "-c", "-f", filepath.Join(v.Dir, files[0].Name)).CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatalf("%s: %v", binary, err)
	}
	return string(out)
}
