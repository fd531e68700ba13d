package luahaproxy

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
)

// TestMain lets many tests run at once: most of the time they wait for HAProxy
// to try again.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// patience bounds whatever a test waits for.
const patience = 60 * time.Second

// modes are the two ways to load a script.
var modes = []string{"lua-load", "lua-load-per-thread"}

// onEach runs body for every version and both modes. The versions run at the
// same time: most of a test is waiting.
func onEach(t *testing.T, body func(t *testing.T, b haproxyproc.Binary, mode string)) {
	t.Helper()
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		t.Parallel()
		for _, mode := range modes {
			t.Run(mode, func(t *testing.T) { body(t, b, mode) })
		}
	})
}

// script is the path of a shipped file.
func script(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "lua", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// global is the section that loads weighter.lua from an address.
func global(t *testing.T, mode, address string) string {
	t.Helper()
	return fmt.Sprintf(`
global
  nbthread 2
  .if version_atleast(3.1)
    tune.lua.bool-sample-conversion normal
  .endif
  setenv WEIGHTER_ADDRESS %s
  setenv WEIGHTER_PERIOD 100ms
  %s %s
`, address, mode, script(t, "weighter.lua"))
}

const defaults = `
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
`

func start(t *testing.T, o haproxyproc.Options) *haproxyproc.Process {
	t.Helper()
	p, err := haproxyproc.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

// until waits for a condition; why says what was there instead.
func until(t *testing.T, p *haproxyproc.Process, condition func() (ok bool, why string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, why := condition()
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waited too long: %s; HAProxy's log:\n%s", why, p.Log())
		case <-tick.C:
		}
	}
}

// untilLogged waits until a text is in HAProxy's log so many times.
func untilLogged(t *testing.T, p *haproxyproc.Process, text string, times int) {
	t.Helper()
	until(t, p, func() (bool, string) {
		n := strings.Count(p.Log(), text)
		return n >= times, fmt.Sprintf("%q is in the log %d times, want %d", text, n, times)
	})
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func freePorts(t *testing.T, n int) []int {
	t.Helper()
	ports, err := haproxyproc.FreePorts(n)
	if err != nil {
		t.Fatal(err)
	}
	return ports
}
