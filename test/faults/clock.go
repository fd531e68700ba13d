package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A wall clock that jumps can't be had from outside: Go asks the kernel without
// a call that could be caught, and the machine's clock is everybody's. So the
// daemon is built with one line more in Go's own time.Now: seconds that a file
// names are added to what it says. The monotonic clock stays as it is, as when
// a real clock is set.

// clockVariable is the file's name in the environment of that build.
const clockVariable = "FAULTS_CLOCK"

// nowBefore is how time.Now begins, and nowAfter what it becomes.
const (
	nowBefore = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	nowAfter  = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n\tsec += Jump.Load()\n"
)

// jumpVariable is added to package time.
const jumpVariable = "\n// Jump is added to the wall clock, in seconds.\nvar Jump atomic.Int64\n"

// reader is added to the daemon: it reads the file all the time.
const reader = `package main

import (
	"os"
	"strconv"
	"strings"
	"time"
)

func init() {
	go func() {
		for ; ; time.Sleep(20 * time.Millisecond) {
			text, err := os.ReadFile(os.Getenv("` + clockVariable + `"))
			if err != nil {
				continue
			}
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
				time.Jump.Store(n)
			}
		}
	}()
}
`

// buildClock builds the daemon with that clock.
func buildClock(ctx context.Context, to string) error {
	root, err := goEnv(ctx, "GOROOT")
	if err != nil {
		return err
	}
	moduleFile, err := goEnv(ctx, "GOMOD")
	if err != nil {
		return err
	}
	file := filepath.Join(root, "src", "time", "time.go")
	source, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text := string(source)
	if strings.Count(text, nowBefore) != 1 || !strings.Contains(text, "\nimport (\n") {
		return fmt.Errorf("time.Now in %s is not written as expected: see nowBefore in clock.go", file)
	}
	text = strings.Replace(text, nowBefore, nowAfter, 1) + jumpVariable
	text = strings.Replace(text, "\nimport (\n", "\nimport (\n\t\"sync/atomic\"\n", 1)
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	changed := map[string]string{
		file: filepath.Join(dir, "time.go"),
		filepath.Join(filepath.Dir(moduleFile), "cmd", "haproxy-weighter", "clock_jump.go"): filepath.Join(dir, "clock_jump.go"),
	}
	overlay, err := json.Marshal(map[string]any{"Replace": changed})
	if err == nil {
		err = errors.Join(
			os.WriteFile(filepath.Join(dir, "time.go"), []byte(text), 0o600),
			os.WriteFile(filepath.Join(dir, "clock_jump.go"), []byte(reader), 0o600),
			os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	}
	if err != nil {
		return err
	}
	return goBuild(ctx, to, "-overlay", filepath.Join(dir, "overlay.json"))
}

func goEnv(ctx context.Context, name string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", name).Output()
	if err != nil {
		return "", fmt.Errorf("go env %s: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// jump sets the daemon's clock ahead, or back when d is negative.
func (s *scene) jump(d time.Duration) error {
	temporary := s.file("clock.new")
	if err := os.WriteFile(temporary, fmt.Append(nil, int64(d/time.Second)), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, s.file("clock"))
}
