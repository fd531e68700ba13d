package security

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haproxy-weighter/haproxy-weighter/internal/admin"
	"github.com/haproxy-weighter/haproxy-weighter/internal/state"
)

// TestLinksInThePlaceOfOurFiles: a link at a path of ours leads to nothing
// being written, replaced or opened to others.
func TestLinksInThePlaceOfOurFiles(t *testing.T) {
	folder := t.TempDir()
	victim := filepath.Join(folder, "victim")
	for name, link := range map[string]func(to, path string) error{"symbolic": os.Symlink, "hard": os.Link} {
		for kind, try := range map[string]func(path string) error{
			"state file": func(path string) error { return state.Save(path, state.Content{}) },
			"control socket": func(path string) error {
				l, err := admin.ListenControl(t.Context(), path)
				if err == nil {
					l.Close()
					return errors.New("it listens in the place of somebody's file")
				}
				return nil
			},
			"mode of a socket": func(path string) error {
				if admin.SetSocketMode(path, 0o666) == nil {
					return errors.New("it has set a mode")
				}
				return nil
			},
		} {
			path := filepath.Join(folder, name+" "+kind)
			if err := errors.Join(os.WriteFile(victim, []byte("untouched"), 0o600), link(victim, path), try(path)); err != nil {
				t.Errorf("%s link, %s: %v", name, kind, err)
			}
			info, err := os.Stat(victim)
			text, readErr := os.ReadFile(victim)
			if err := errors.Join(err, readErr); err != nil || string(text) != "untouched" || info.Mode().Perm() != 0o600 {
				t.Errorf("%s link, %s: the file is %q, %v, %v", name, kind, text, info.Mode(), err)
			}
		}
	}
}

// TestStateFileOfAnotherWriter: what others may write is not obeyed.
func TestStateFileOfAnotherWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	pins := `{"version":1,"controls":{"ingest":{"pins":{"s1":{"weight":256}}}}}`
	for mode, want := range map[os.FileMode]string{0o666: "may be written by others", 0o620: "may be written by others", 0o644: ""} {
		if err := errors.Join(os.WriteFile(path, []byte(pins), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		c, err := state.Load(path)
		refused := err != nil && strings.Contains(err.Error(), want) && len(c.Controls) == 0
		if want != "" && !refused || want == "" && (err != nil || len(c.Controls) != 1) {
			t.Errorf("mode %v: %+v, %v", mode, c, err)
		}
	}
}
