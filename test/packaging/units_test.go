package packaging

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

const units = "../../packaging/systemd/"

// TestUnitsVerify: systemd knows every key and value in them. It also wants the
// program to be there.
func TestUnitsVerify(t *testing.T) {
	dir := t.TempDir()
	for _, unit := range []string{"haproxy-weighter.service", "haproxy-weighter.socket"} {
		text := strings.ReplaceAll(read(t, units+unit), "/usr/bin/haproxy-weighter", built.program)
		if err := os.WriteFile(filepath.Join(dir, unit), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, unit := range []string{"haproxy-weighter.service", "haproxy-weighter.socket"} {
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", "--recursive-errors=no", filepath.Join(dir, unit)).CombinedOutput()
		if err != nil || strings.Contains(string(out), "haproxy-weighter") {
			t.Errorf("%s: %v: %s", unit, err, out)
		}
	}
}

// TestUser: sysusers makes the user of it.
func TestUser(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o700); err != nil {
		t.Fatal(err)
	}
	output(t, "systemd-sysusers", "--root="+root, absolute(t, units+"sysusers.conf"))
	line := regexp.MustCompile(`(?m)^haproxy-weighter:x:\d+:\d+:haproxy-weighter daemon:/var/lib/haproxy-weighter:/usr/sbin/nologin$`)
	if users := read(t, filepath.Join(root, "etc/passwd")); !line.MatchString(users) {
		t.Errorf("no user as wanted: %s", users)
	}
}

// TestUnitSecurity holds the unit to the score that docs/install.md tells.
func TestUnitSecurity(t *testing.T) {
	const most = 1.2
	out := output(t, "systemd-analyze", "security", "--no-pager", "--offline=true", fmt.Sprintf("--threshold=%.0f", most*10), units+"haproxy-weighter.service")
	m := regexp.MustCompile(`Overall exposure level for haproxy-weighter.service: ([0-9.]+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no score in %s", out)
	}
	if want := "scores " + m[1] + " "; !strings.Contains(read(t, "../../docs/install.md"), want) {
		t.Errorf("docs/install.md does not say %q", want)
	}
}

// TestUnitNeverBindsHAProxy: whatever happens to us, HAProxy's unit is left alone.
func TestUnitNeverBindsHAProxy(t *testing.T) {
	for line := range strings.Lines(read(t, units+"haproxy-weighter.service")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if strings.HasPrefix(key, "#") || !strings.Contains(value, "haproxy.service") {
			continue
		}
		if key != "After" {
			t.Errorf("%s: only After= may name HAProxy's unit", line)
		}
	}
}

// TestPathsOfUnit: what the unit makes is where the program looks by default.
func TestPathsOfUnit(t *testing.T) {
	service, socket := read(t, units+"haproxy-weighter.service"), read(t, units+"haproxy-weighter.socket")
	if got := filepath.Dir(config.DefaultControl); got != "/run/haproxy-weighter" || !strings.Contains(service, "\nRuntimeDirectory=haproxy-weighter\n") {
		t.Errorf("the control socket is in %s", got)
	}
	if !strings.Contains(service, config.DefaultFile+" ") {
		t.Errorf("the condition does not look at %s", config.DefaultFile)
	}
	example := regexp.MustCompile(`(?m)^#listen = \["(127[0-9.:]+)"\]`).FindStringSubmatch(config.Reference)
	if example == nil || !strings.Contains(socket, "\nListenStream="+example[1]+"\n") {
		t.Errorf("ListenStream= is not spoa.listen of the reference, %v", example)
	}
}

// TestShippedConfig: as it is shipped the file has nothing but comments, and
// with its "#" taken away it is a good one.
func TestShippedConfig(t *testing.T) {
	shipped := read(t, "../../packaging/weighter.toml")
	for line := range strings.Lines(shipped) {
		if line != "\n" && !strings.HasPrefix(line, "#") {
			t.Errorf("in force: %s", line)
		}
	}
	keys := regexp.MustCompile(`(?m)^#(\[|[a-z])`).ReplaceAllString(shipped, "$1")
	if _, err := config.Parse("weighter.toml", []byte(keys), os.LookupEnv); err != nil {
		t.Errorf("with its lines in force: %v", err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}
