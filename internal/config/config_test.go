package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the .want files of testdata/bad anew; read every changed line before committing")

const secret = "hunter2-from-the-environment"

// testEnv is the environment of the files in testdata.
func testEnv(name string) (string, bool) {
	v, ok := map[string]string{
		"WEIGHTER_EMPTY":  "",
		"WEIGHTER_SECRET": secret,
		"WEIGHTER_HOST":   "graphite.example.com",
	}[name]
	return v, ok
}

func parseFile(t *testing.T, file string) (*Config, error) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return Parse(file, data, testEnv)
}

func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.toml")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d files in testdata/bad, error %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".toml"), func(t *testing.T) {
			t.Parallel()
			c, err := parseFile(t, file)
			if err == nil {
				t.Fatalf("accepted: %v", c)
			}
			if _, ok := err.(Errors); !ok {
				t.Errorf("error is a %T, not Errors", err)
			}
			got := strings.ReplaceAll(err.Error(), "testdata/bad/", "") + "\n"
			wantFile := strings.TrimSuffix(file, ".toml") + ".want"
			if *update {
				if err := os.WriteFile(wantFile, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(wantFile)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if strings.Contains(got, secret) || strings.Contains(got, "hunter2") {
				t.Error("a secret is in the message")
			}
		})
	}
}
