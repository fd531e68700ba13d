// Package e2e runs the program as operators do: the built binary with a
// configuration file, a real HAProxy and a real Graphite.
package e2e

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/test/graphiteproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/logbook"
)

// patience bounds every wait for an event; it is no assertion on speed.
const patience = 60 * time.Second

// program is the binary under test, built once with the race detector.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "weighter-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program = filepath.Join(dir, "haproxy-weighter")
	build := exec.Command("go", "build", "-race", "-o", program, "../../cmd/haproxy-weighter")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	code := 1
	if err := build.Run(); err == nil {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// rig is one HAProxy, one Graphite and what feeds it.
type rig struct {
	t        *testing.T
	dir      string
	haproxy  *haproxyproc.Process
	graphite *graphiteproc.Process
	client   *haproxy.Client
	feed     *feeder
}

func newRig(t *testing.T, haproxyConfig string, habits map[string]habit) *rig {
	t.Helper()
	dir, err := haproxyproc.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	g, err := graphiteproc.Start(ctx, graphiteproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	h, err := haproxyproc.Start(ctx, haproxyproc.Options{Config: haproxyConfig, MasterWorker: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Stop)
	address, err := haproxy.ParseAddress(h.SocketPath)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: dir, haproxy: h, graphite: g, client: haproxy.NewClient(address, haproxy.Options{})}
	r.feed = startFeeder(t, g, habits)
	return r
}

// haproxyConfig has one TCP backend for each of backends, all with the same
// servers. Nothing connects to them, so none of them needs to exist.
func haproxyConfig(backends, servers []string) string {
	var b strings.Builder
	b.WriteString("defaults\n  mode tcp\n  timeout connect 1s\n  timeout client 10s\n  timeout server 10s\n")
	for _, backend := range backends {
		fmt.Fprintf(&b, "backend %s\n  balance roundrobin\n", backend)
		for _, s := range servers {
			fmt.Fprintf(&b, "  server %s 127.0.0.1:1 weight 100\n", s)
		}
	}
	return b.String() + "\n"
}

// weights reads the weights in force.
func (r *rig) weights(backend string) map[string]int {
	r.t.Helper()
	state := r.state(backend)
	weights := make(map[string]int, len(state.Servers))
	for _, s := range state.Servers {
		weights[s.Name] = s.Weight
	}
	return weights
}

func (r *rig) state(backend string) *haproxy.State {
	r.t.Helper()
	state, err := r.client.State(r.t.Context(), backend)
	if err != nil {
		r.t.Fatal(err)
	}
	return state
}

// command types one line at the runtime socket, as an operator would.
func (r *rig) command(line string) {
	r.t.Helper()
	answer, err := r.haproxy.Command(r.t.Context(), line)
	if err != nil || strings.TrimSpace(answer) != "" {
		r.t.Fatalf("%s: %q, %v", line, answer, err)
	}
}

// daemon is the program, running.
type daemon struct {
	t   *testing.T
	cmd *exec.Cmd
	log *log
}

// start writes the configuration and runs the daemon. toml has the tables
// after [haproxy] and [graphite].
func (r *rig) start(toml string) *daemon {
	r.t.Helper()
	file := filepath.Join(r.dir, "weighter.toml")
	text := fmt.Sprintf("[haproxy]\nsockets = [%q]\n\n[graphite]\nurl = %q\ntimeout = \"900ms\"\n\n%s", r.haproxy.SocketPath, r.graphite.URL, toml)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	d := &daemon{t: r.t, cmd: exec.Command(program, "run", "-f", file), log: &log{}}
	d.cmd.Stderr, d.cmd.Stdout = d.log, d.log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := d.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		d.stop()
		if r.t.Failed() {
			r.t.Logf("the daemon's log:\n%s", d.log)
		}
	})
	return d
}

// stop ends the daemon as systemd does and checks that it leaves cleanly.
func (d *daemon) stop() {
	if d.cmd.ProcessState != nil {
		return
	}
	d.cmd.Process.Signal(syscall.SIGTERM)
	if err := d.cmd.Wait(); err != nil {
		d.t.Errorf("the daemon ended with %v", err)
	}
}

// log collects what the daemon prints.
type log struct{ logbook.Book }

// lines returns the lines that contain every one of words.
func (l *log) lines(words ...string) []string {
	var found []string
	for line := range strings.Lines(l.String()) {
		hit := true
		for _, w := range words {
			hit = hit && strings.Contains(line, w)
		}
		if hit {
			found = append(found, line)
		}
	}
	return found
}

// eventually waits until ok says "" and fails with its last answer otherwise.
func eventually(t *testing.T, what string, ok func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		why := ok()
		if why == "" {
			return
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Fatalf("%s: %s", what, why)
		}
	}
}

// same says how two sets of weights differ, "" when they don't.
func same(want, got map[string]int) string {
	var b strings.Builder
	for name, w := range want {
		if got[name] != w {
			fmt.Fprintf(&b, "%s is %d, want %d; ", name, got[name], w)
		}
	}
	return b.String()
}

// proportions is limited-proportions by the published formula, written out
// again so that the daemon is not checked against itself.
func proportions(loads map[string]float64, limit, aggressiveness float64) map[string]int {
	mean := 0.0
	for _, l := range loads {
		mean += l / float64(len(loads))
	}
	inverse, inverseMean := map[string]float64{}, 0.0
	for name, l := range loads {
		inverse[name] = mean / math.Max(l, mean/limit)
		inverseMean += inverse[name] / float64(len(loads))
	}
	raw, highest := map[string]float64{}, 0.0
	for name, q := range inverse {
		raw[name] = math.Max(inverseMean/64, inverseMean+aggressiveness*(q-inverseMean))
		highest = math.Max(highest, raw[name])
	}
	weights := map[string]int{}
	for name, s := range raw {
		weights[name] = int(math.Max(4, math.Round(256*s/highest)))
	}
	return weights
}
