package spoe

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/logbook"
)

// TestDaemon runs the program as it is shipped: Graphite, a pass, the agent or
// the maps, HAProxy, a connection.
func TestDaemon(t *testing.T) {
	program := filepath.Join(t.TempDir(), "haproxy-weighter")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/haproxy-weighter").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	var load atomic.Int64 // of each server of the first backend; the second one's have 100
	graphite := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		render(w, r.FormValue("target"), load.Load())
	}))
	defer graphite.Close()

	onEach(t, Options{Example: "choose", AsShipped: true}, func(t *testing.T, s *Scene, b haproxyproc.Binary) {
		load.Store(6000)
		d := startDaemon(t, program, s, graphite.URL)
		awaitVisit(t, s, "the agent's first answer", "x", "load_mean=6000")
		load.Store(1000)
		awaitVisit(t, s, "an answer from a later pass", "s", "load_mean=1000")
		d.stop()
		// The agent has said that it goes, or the check finds that it is gone.
		awaitVisit(t, s, "no answer", "s", "load_mean=-")
	})
	onEach(t, Options{Example: "tcp-pick"}, func(t *testing.T, s *Scene, _ haproxyproc.Binary) {
		load.Store(1000)
		leaveForS1(t, s)
		d := startDaemon(t, program, s, graphite.URL)
		defer d.stop()
		awaitVisit(t, s, "the first pick", "s1", "picked=s1")
		for _, out := range []struct{ how, back string }{
			{"set server ingest/s1 state drain", "set server ingest/s1 state ready"},
			{"set server ingest/s1 weight 0", "set server ingest/s1 weight 256"},
		} {
			command(t, s, out.how)
			awaitNoPick(t, s, out.how, "s1")
			command(t, s, out.back)
			awaitVisit(t, s, out.back, "s1", "picked=s1")
		}
	})
	onEach(t, Options{Example: "map", AsShipped: true, OverHTTP: true}, func(t *testing.T, s *Scene, _ haproxyproc.Binary) {
		load.Store(6000)
		d := startDaemon(t, program, s, graphite.URL)
		defer d.stop()
		for deadline := time.Now().Add(patience); ; {
			_, _, log := get(t, s, http.Header{"Cookie": {"SERVER=s2"}})
			if strings.Contains(log, " load=6000 weight=100") {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the map has no load; last log line %q; the program's log:\n%s", log, d.log.String())
			}
		}
	})
}

// render answers as Graphite does, for a target that names a backend.
func render(w http.ResponseWriter, target string, load int64) {
	servers := []string{"s1", "s2", "s3"}
	if strings.Contains(target, "spare") {
		servers, load = []string{"x1", "x2"}, 100
	}
	now := time.Now().Unix()
	var series []string
	for _, name := range servers {
		series = append(series, fmt.Sprintf(`{"target": %q, "tags": {}, "datapoints": [[%d, %d], [%d, %d]]}`, name, load, now-11, load, now-1))
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, "[%s]", strings.Join(series, ", "))
}

// leaveForS1 leaves next to nothing for the other servers by weight: a row of
// picks without s1 is no chance then.
func leaveForS1(t *testing.T, s *Scene) {
	t.Helper()
	command(t, s, "set server ingest/s1 weight 256")
	command(t, s, "set server ingest/s2 weight 1")
	command(t, s, "set server ingest/s3 weight 1")
}

func command(t *testing.T, s *Scene, line string) {
	t.Helper()
	if err := s.Command(t.Context(), line); err != nil {
		t.Fatal(err)
	}
}

// awaitNoPick connects until ten picks in a row are of other servers, long
// before the next pass.
func awaitNoPick(t *testing.T, s *Scene, what, server string) {
	t.Helper()
	others := 0
	for deadline := time.Now().Add(patience); others < 10; {
		_, log := connect(t, s, nil)
		switch picked := variable(log, "picked"); picked {
		case server:
			others = 0
		case "-":
			t.Fatalf("%s: nothing is picked; log %q", what, log)
		default:
			others++
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %s is still picked; last log line %q", what, server, log)
		}
	}
}

// awaitVisit connects until a connection goes to a server that begins so, with those words in its
// log line. Every connection must get some server.
func awaitVisit(t *testing.T, s *Scene, what, server, words string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		got, log := connect(t, s, nil)
		if got == "" {
			t.Fatalf("%s: a connection got no server; log %q", what, log)
		}
		if strings.HasPrefix(got, server) && strings.Contains(log, words) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: no connection with %q went to %q; last to %q, log %q", what, words, server, got, log)
		}
	}
}

// daemon is the program, running.
type daemon struct {
	t   *testing.T
	cmd *exec.Cmd
	log *logbook.Book
}

func startDaemon(t *testing.T, program string, s *Scene, graphite string) *daemon {
	t.Helper()
	config := fmt.Sprintf(`
[haproxy]
sockets = [%q]
[graphite]
url = %q
timeout = "900ms"
[spoa]
listen = [%q]
`, s.HAProxy.SocketPath, graphite, s.Values.Agent)
	interval := "1s"
	if s.example == "tcp-pick" {
		interval = "1h" // what passes find is found in other tests
	}
	for _, backend := range []string{s.Values.Backend, s.Values.Spare} {
		config += fmt.Sprintf("[[backend]]\nname = %q\ntarget = \"aliasByNode(tcp.%s.*.received, 2)\"\ninterval = %q\nmode = \"observe\"\n", backend, backend, interval)
		if backend == s.Values.Backend && s.example == "map" {
			config += fmt.Sprintf("maps = { load = %q, weight = %q }\n", s.Values.LoadMap, s.Values.WeightMap)
		}
		if s.example != "choose" {
			break // the others have one backend
		}
	}
	file := filepath.Join(s.Values.Dir, "weighter.toml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	d := &daemon{t: t, cmd: exec.CommandContext(ctx, program, "run", "-f", file), log: new(logbook.Book)}
	d.cmd.Stderr = d.log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the program's log:\n%s", d.log.String())
		}
		if d.cmd.ProcessState == nil {
			_ = d.cmd.Process.Kill()
			_ = d.cmd.Wait()
		}
	})
	return d
}

// stop ends the program as systemd does.
func (d *daemon) stop() {
	d.t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		d.t.Fatal(err)
	}
	if err := d.cmd.Wait(); err != nil {
		d.t.Errorf("the program ended with %v", err)
	}
}
