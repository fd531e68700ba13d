package luahaproxy

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/logbook"
)

// TestDaemon runs the program as it is shipped: Graphite, a pass, its listener, Lua. The oldest and
// the newest HAProxy will do: the other tests' listener behaves as the program's.
func TestDaemon(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "haproxy-weighter")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/haproxy-weighter").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	var load atomic.Int64
	load.Store(40)
	graphite := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		now := time.Now().Unix()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `[{"target": "s1", "datapoints": [[%[1]d, %[2]d], [%[1]d, %[3]d]]}]`, load.Load(), now-11, now-1)
	}))
	t.Cleanup(graphite.Close)

	for _, b := range binaries(t) {
		load.Store(40)
		dir, err := haproxyproc.TempDir()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		ports := freePorts(t, 2)
		address := fmt.Sprintf("127.0.0.1:%d", ports[1])
		if b.AtLeast(3, 2) { // each way of listening, with an old and a new HAProxy
			address = "unix:" + filepath.Join(dir, "w.sock")
		}
		p := start(t, haproxyproc.Options{Binary: b.Path, Config: global(t, "lua-load", address) + defaults +
			fmt.Sprintf(answersConfig, ports[0]) + "backend ingest\n  balance roundrobin\n  server s1 127.0.0.1:1 weight 100\n"})
		config := fmt.Sprintf(`
[haproxy]
sockets = [%q]
[graphite]
url = %q
timeout = "900ms"
[admin]
listen = %q
control = "off"
[[backend]]
name = "ingest"
target = "tcp.*.received"
interval = "1s"
mode = "observe"
`, p.SocketPath, graphite.URL, address)
		file := filepath.Join(dir, "weighter.toml")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		get := client(t, ports[0])
		awaitLoad := func(want int) {
			until(t, p, func() (bool, string) {
				answer := get("/", nil)
				return answer == fmt.Sprintf("fresh=1 load=%d weight=100 best=s1 picked=s1", want), answer
			})
		}
		stop := startDaemon(t, program, file)
		awaitLoad(40)
		load.Store(60)
		awaitLoad(60)
		stop()
		untilLogged(t, p, "weighter.lua: no table from "+address, 1)
		load.Store(80)
		stop = startDaemon(t, program, file)
		awaitLoad(80)
		stop()
	}
}

// startDaemon runs the program until the function that is returned ends it, as systemd does.
func startDaemon(t *testing.T, program, file string) (stop func()) {
	t.Helper()
	out := new(logbook.Book)
	cmd := exec.Command(program, "run", "-f", file)
	cmd.Stderr = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("the program: %v", err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the program ended with %v:\n%s", err, strings.TrimSpace(out.String()))
		}
	})
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("the program's log:\n%s", out)
		}
	})
	return stop
}
