package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWarningsOfPermissions: whoever can write the configuration or a script
// sets the weights, and a header may be as secret as a password.
func TestWarningsOfPermissions(t *testing.T) {
	t.Setenv("WEIGHTER_KEY", "k")
	const (
		lua    = "\nfunction = \"lua\"\nscript = \"weigh.lua\"\n"
		header = "[graphite]\nheaders = { X-Api-Key = "
	)
	for _, test := range []struct {
		name                   string
		file, script, folder   fs.FileMode
		header, function, want string
	}{
		{name: "as it should be", file: 0o640, script: 0o644, folder: 0o755, header: header + `"k" }`, function: lua},
		{name: "written header", file: 0o644, script: 0o644, folder: 0o755, header: header + `"k" }`,
			want: "graphite.headers.X-Api-Key: every user of this machine can read"},
		{name: "header from the environment", file: 0o644, script: 0o644, folder: 0o755, header: header + `"${WEIGHTER_KEY}" }`},
		{name: "configuration", file: 0o646, script: 0o644, folder: 0o755, want: "mode of this file: every user of this machine may write to"},
		{name: "script", file: 0o640, script: 0o666, folder: 0o755, function: lua, want: "backend.script: every user of this machine may write to"},
		{name: "folder", file: 0o640, script: 0o644, folder: 0o777, want: "mode of this file: every user of this machine may write to the folder"},
		{name: "folder like /tmp", file: 0o640, script: 0o644, folder: 0o777 | fs.ModeSticky},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder := t.TempDir()
			file, script := filepath.Join(folder, "weighter.toml"), filepath.Join(folder, "weigh.lua")
			text := strings.Replace(Minimal, "[graphite]", orText(test.header, "[graphite]"), 1) + test.function
			if err := errors.Join(
				os.WriteFile(file, []byte(text), 0o600), os.Chmod(file, test.file),
				os.WriteFile(script, []byte("function weigh() return {} end"), 0o600), os.Chmod(script, test.script),
				os.Chmod(folder, test.folder),
			); err != nil {
				t.Fatal(err)
			}
			c, err := Load(file)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range c.Warnings {
				if !strings.HasPrefix(w.Text, "graphite.url begins with http://") {
					got = append(got, w.Key+": "+w.Text)
				}
			}
			if len(got) > 1 || len(got) == 1 && (test.want == "" || !strings.HasPrefix(got[0], test.want)) || len(got) == 0 && test.want != "" {
				t.Errorf("warnings %q, want one that begins with %q", got, test.want)
			}
		})
	}
}

func orText(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// TestWarningOfMemory: frames and connections together must fit into memory.
func TestWarningOfMemory(t *testing.T) {
	for keys, want := range map[string]int{
		"": 0, "max_connections = 20000": 0, "max_frame_size = 16777216": 1, "max_connections = 1000000": 1,
		"max_frame_size = 16777216\nmax_connections = 50": 0,
	} {
		c, err := Parse("weighter.toml", []byte(Minimal+"\n[spoa]\nlisten = [\"127.0.0.1:9002\"]\n"+keys), testEnv)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Warnings) != want {
			t.Errorf("%q: %v, want %d warnings", keys, c.Warnings, want)
		}
	}
}

// TestTargetAsWritten: a target may get a key from the environment, and then
// it is shown without, and its errors are masked.
func TestTargetAsWritten(t *testing.T) {
	text := strings.Replace(Minimal, "tcp-service.*", "${WEIGHTER_SECRET}.*", 1)
	c, err := Parse("weighter.toml", []byte(text), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	b := c.Backends[0]
	if !strings.Contains(b.Target, secret) || strings.Contains(b.TargetWritten, secret) || !strings.Contains(b.TargetWritten, "${WEIGHTER_SECRET}.*") {
		t.Errorf("target %q, as written %q", b.Target, b.TargetWritten)
	}
	if d := cmp.Diff([]string{secret}, c.Graphite.Hidden); d != "" {
		t.Errorf("hidden (-want +got):\n%s", d)
	}
}
