package docs

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/haproxy-weighter/haproxy-weighter/internal/cli"
)

// TestMain puts the program on PATH: it is this test binary under another name.
func TestMain(m *testing.M) {
	testscript.Main(checked{m}, map[string]func(){
		"haproxy-weighter": func() { os.Exit(cli.Main("test")) },
	})
}

// checked looks for goroutines that a test has left.
type checked struct{ *testing.M }

// Run runs the tests.
func (c checked) Run() int {
	code := c.M.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
