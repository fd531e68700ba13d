// Package metrics has the tests of what monitoring reads: the program beside a
// real HAProxy and a real Graphite, scraped by a real Prometheus. It holds that
// each query of the dashboards and of the alert rules has an answer.
package metrics

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience bounds every wait for an event; it is no assertion on speed.
const patience = 60 * time.Second

// program is the binary under test.
var program string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "weighter-metrics")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "haproxy-weighter")
	build := exec.Command("go", "build", "-o", program, "../../cmd/haproxy-weighter")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
