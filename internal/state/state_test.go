package state

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/test/corpus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func example() Content {
	at := time.Date(2026, 3, 1, 2, 3, 4, 0, time.UTC)
	order := balancer.Order{Reason: "slow disk", Author: "alice", Since: at, Until: at.Add(time.Hour)}
	return Content{
		Version: version, Saved: at,
		Controls: map[string]balancer.Control{"ingest": {
			Pins:   map[string]balancer.Pin{"s1": {Order: order, Weight: 12}},
			Freeze: &balancer.Freeze{Order: order},
			Mode:   &balancer.ModeOrder{Order: order, Mode: "observe"},
		}},
		Learnt: []balancer.Learnt{{
			Backend: "ingest", Socket: "/run/haproxy/admin.sock", Time: at, Worker: haproxy.Worker{PID: 7, StartTime: 9},
			Weights: map[string]int{"s1": 12, "s2": 0}, LastChange: at, Lifetime: time.Hour, LifetimeFrom: "sessions",
		}},
	}
}

func TestWhatIsSavedIsLoaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	if c, err := Load(path); err != nil || len(c.Controls) != 0 {
		t.Errorf("a file that is not there gives %+v, %v", c, err)
	}
	for range 2 { // the second one replaces the first
		if err := Save(path, example()); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(example(), got); diff != "" {
		t.Errorf("-saved +loaded:\n%s", diff)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if files, _ := os.ReadDir(filepath.Dir(path)); len(files) != 1 {
		t.Errorf("%d files are left in the folder", len(files))
	}
}

// A file that can't be used is told, kept aside, and never half used.
func TestFilesThatCannotBeUsed(t *testing.T) {
	sound, err := os.ReadFile(save(t, example()))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ text, want string }{
		"empty":           {"", "unexpected end"},
		"torn":            {string(sound[:len(sound)/2]), "unexpected end"},
		"not ours":        {"[haproxy]\n", "invalid character"},
		"another version": {`{"version": 2}`, "version 2, and this program reads version 1"},
		"no version":      {`{}`, "version 0"},
		"pin at 0":        {`{"version":1,"controls":{"b":{"pins":{"s":{"weight":0}}}}}`, `"b"/"s" has weight 0`},
		"pin at 257":      {`{"version":1,"controls":{"b":{"pins":{"s":{"weight":257}}}}}`, "allowed: 1 to 256"},
		"mode":            {`{"version":1,"controls":{"b":{"mode":{"mode":"off"}}}}`, `mode of "b" is "off"`},
		"weight learnt":   {`{"version":1,"learnt":[{"backend":"b","weights":{"s":-1}}]}`, `"b"/"s" is -1`},
		"weights":         {`{"version":1,"learnt":[{"backend":"b","weights":null}]}`, `the weights learnt for "b" are missing`},
		"lifetime":        {`{"version":1,"learnt":[{"backend":"b","lifetime":-1}]}`, "negative"},
		"wrong type":      {`{"version":1,"learnt":3}`, "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.json")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := Load(path)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want one of %s with %q", err, path, test.want)
			}
			if diff := cmp.Diff(Content{}, c); diff != "" {
				t.Errorf("something of it is used:\n%s", diff)
			}
			if kept, err := os.ReadFile(path + ".bad"); err != nil || string(kept) != test.text {
				t.Errorf("kept aside: %q, %v", kept, err)
			}
			if _, err := Load(path); err != nil {
				t.Errorf("the next start: %v", err)
			}
		})
	}
}

func save(t *testing.T, c Content) string {
	path := filepath.Join(t.TempDir(), "state.json")
	if err := Save(path, c); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPathsThatAreNoStateFile(t *testing.T) {
	folder := t.TempDir()
	pipe := filepath.Join(folder, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	open := save(t, example())
	if err := os.Chmod(open, 0o622); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{folder: "not a regular file", pipe: "not a regular file", open: "may be written by others"} {
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	// The next Save would have taken its place.
	if _, err := os.Stat(open + ".bad"); err != nil {
		t.Errorf("what others may write is not kept aside: %v", err)
	}
}

// A file of another user is none of ours, whatever its mode.
func TestOnlyOurOwnFileIsTrusted(t *testing.T) {
	for _, test := range []struct {
		owner uint32
		self  int
		want  bool
	}{{998, 998, true}, {0, 998, true}, {0, 0, true}, {1000, 998, false}, {998, 0, false}} {
		if got := trusted(test.owner, test.self); got != test.want {
			t.Errorf("a file of uid %d for uid %d: %v", test.owner, test.self, got)
		}
	}
	if os.Geteuid() != 0 {
		return // only root can give a file away
	}
	path := save(t, example())
	if err := os.Chown(path, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "uid 12345") {
		t.Errorf("a file of uid 12345: %v", err)
	}
}

// A save that fails leaves the old file, and nothing beside it.
func TestSaveThatFails(t *testing.T) {
	path := save(t, example())
	if err := Save(filepath.Join(filepath.Dir(path), "nowhere", "state.json"), example()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	target := filepath.Join(t.TempDir(), "state.json")
	if err := os.MkdirAll(filepath.Join(target, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Save(target, example()); err == nil {
		t.Error("a folder was replaced")
	}
	if files, _ := os.ReadDir(filepath.Dir(target)); len(files) != 1 {
		t.Errorf("%d files are left beside it", len(files)-1)
	}
}

// Orders are written before they are answered, weights a second after they were
// set, what passes learn every ten seconds, and all of it at the end.
func TestKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.json")
		var saves atomic.Int64
		k := NewKeeper(path, example, func(err error) {
			if err != nil {
				t.Error(err)
			}
			saves.Add(1)
		})
		done := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { k.Run(ctx); close(done) }()
		step := func(want int64, what string) {
			t.Helper()
			synctest.Wait()
			if n := saves.Load(); n != want {
				t.Errorf("%s: %d saves, want %d", what, n, want)
			}
		}
		k.Ordered()
		if n := saves.Load(); n != 1 {
			t.Errorf("an order was answered after %d saves", n)
		}
		for range 30 {
			k.Passed(false)
			synctest.Wait()
		}
		step(1, "passes")
		time.Sleep(learntEvery)
		step(2, "ten seconds after the first pass")
		k.Passed(false)
		synctest.Wait()
		k.Passed(true)
		k.Passed(false)
		time.Sleep(weightEvery)
		step(3, "a second after weights were set")
		time.Sleep(time.Hour)
		step(3, "an hour of nothing")
		cancel()
		<-done
		step(4, "the end")
		begin := time.Now()
		if k.Ordered(); time.Since(begin) > 0 {
			t.Error("an order waits for who has ended")
		}
		if c, err := Load(path); err != nil || !c.Saved.Equal(time.Now()) {
			t.Errorf("saved at %v, %v", c.Saved, err)
		}
	})
}

// A disk that hangs keeps no order from being answered.
func TestOrdersDoNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := make(chan struct{})
		k := NewKeeper(filepath.Join(t.TempDir(), "state.json"), func() Content { <-disk; return example() }, func(error) {})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { k.Run(ctx); close(done) }()
		for range 2 { // the second one does not even begin
			begin := time.Now()
			if k.Ordered(); time.Since(begin) != orderLimit {
				t.Errorf("an order was answered after %s", time.Since(begin))
			}
		}
		close(disk)
		cancel()
		<-done
	})
}

// Two processes never have one file, and what a killed one has left of a write
// goes with the next start.
func TestClaim(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "state[1].json")
	release, err := Claim(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Claim(path); err == nil || !strings.Contains(err.Error(), "another haproxy-weighter") {
		t.Errorf("a second claim: %v", err)
	}
	for _, name := range []string{".state[1].json.123", ".state[1].json.old", ".state1.json.5", "state[1].json", ".state[1].json."} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	release()
	if release, err = Claim(path); err != nil {
		t.Fatal(err)
	}
	release()
	var left []string
	files, _ := os.ReadDir(folder)
	for _, f := range files {
		left = append(left, f.Name())
	}
	want := []string{".state1.json.5", ".state[1].json.", ".state[1].json.lock", ".state[1].json.old", "state[1].json"}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("-want +left:\n%s", diff)
	}
	if release, err = Claim(filepath.Join(folder, "nowhere", "state.json")); err != nil {
		t.Errorf("where no file can be made: %v", err)
	}
	release()
}

// FuzzDecode: a file is refused as a whole, or what is taken can be written and
// read again as the same.
func FuzzDecode(f *testing.F) {
	corpus.Add(f)
	f.Add([]byte(`{"version":1,"controls":{"b":{"pins":{"s":{"weight":5}},"mode":{"mode":"live"}}},"learnt":[{"weights":{"s":1}}]}`))
	f.Add([]byte(`{"version":1,"saved":"x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decode("state.json", data)
		if err != nil {
			if diff := cmp.Diff(Content{}, c); diff != "" {
				t.Error(diff)
			}
			return
		}
		for _, control := range c.Controls {
			for _, p := range control.Pins {
				if p.Weight < 1 || p.Weight > 256 {
					t.Errorf("pin at %d", p.Weight)
				}
			}
		}
		again, err := json.Marshal(c)
		if err != nil {
			t.Fatalf("%q is taken, and can't be written: %v", data, err)
		}
		c2, err := decode("state.json", again)
		if diff := cmp.Diff(c, c2); diff != "" || err != nil {
			t.Errorf("%q is read again from %s with %v, -want +got:\n%s", data, again, err, diff)
		}
	})
}

// TestPeek holds that a look at a file that can't be used leaves it in its place.
func TestPeek(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	if c, err := Peek(path); err != nil || !c.Saved.IsZero() {
		t.Errorf("no file: %+v, %v", c, err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Peek(path); err == nil {
		t.Error("half a file is no error")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "{" {
		t.Errorf("the file is %q now, %v", text, err)
	}
	want := Content{Saved: time.Unix(1000, 0).UTC(), Controls: map[string]balancer.Control{"b": {Pins: map[string]balancer.Pin{"s": {Weight: 7}}}}}
	if err := Save(path, want); err != nil {
		t.Fatal(err)
	}
	if c, err := Peek(path); err != nil || c.Controls["b"].Pins["s"].Weight != 7 || !c.Saved.Equal(want.Saved) {
		t.Errorf("%+v, %v", c, err)
	}
}
