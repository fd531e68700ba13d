package lua

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// write puts files into a new folder, "main.lua" among them, and returns the
// path of that one.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(folder, "main.lua")
}

// load loads a script of one file, which must be sound.
func load(t testing.TB, text string) *Script {
	t.Helper()
	s, err := Load(write(t, map[string]string{"main.lua": text}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// patient is a clock that goes by work and not by time: each look at it is 25
// microseconds later, however long the machine took.
func patient() func() time.Time {
	now := time.Unix(1_700_000_000, 0)
	return func() time.Time {
		now = now.Add(25 * time.Microsecond)
		return now
	}
}
