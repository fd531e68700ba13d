package packaging

import (
	"context"
	"encoding/csv"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
	"github.com/haproxy-weighter/haproxy-weighter/test/logbook"
	"github.com/haproxy-weighter/haproxy-weighter/test/spoe"
)

// patience is how long anything may take on a busy machine.
const patience = 30 * time.Second

// TestRestartRefusesNothing restarts the program three times on a socket that is
// held open as the socket unit holds it, while connections keep coming through a
// real HAProxy. The agent never refuses HAProxy, every connection gets a server,
// and no call is without an answer but those which are under way in the moment
// when the agent says that it goes: one a client at most. HAProxy waits for as
// long as a start takes here; with the shipped "timeout processing" it would not.
func TestRestartRefusesNothing(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		s := scene(t, b.Path)
		held, err := net.Listen("tcp", s.Values.Agent)
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		file := configure(t, s)
		d := start(t, onSocket(t, held, file))
		defer func() { d.stop(t) }()

		c := connectAll(s)
		defer c.stop()
		const restarts = 3
		for range restarts {
			c.await(t, 20)
			d.stop(t)
			d = start(t, onSocket(t, held, file))
		}
		c.await(t, 20)
		c.stop()
		for _, err := range c.failures {
			t.Error(err)
		}
		for _, v := range c.visits {
			if v.Server == "" {
				t.Errorf("a connection got no server: %+v", v)
			}
		}
		if refused := connectErrors(t, s); refused != 0 {
			t.Errorf("HAProxy could not connect to the agent %d times", refused)
		}
		answered, cut, other := answers(t, s)
		if other > 0 || cut > restarts*parallel || answered < 20*restarts {
			t.Errorf("%d calls answered, %d cut by the end of the agent, %d lost otherwise; HAProxy's log: %s", answered, cut, other, s.HAProxy.Log())
		}
		t.Logf("%d calls answered over %d restarts, %d cut", answered, restarts, cut)
	})
}

// connectErrors asks HAProxy how often a connection to the agent has failed, with
// the times that it then tried again.
func connectErrors(t *testing.T, s *spoe.Scene) int {
	t.Helper()
	stat, err := s.HAProxy.Command(t.Context(), "show stat")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(strings.TrimSpace(strings.TrimPrefix(stat, "# ")))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row[0] != "weighter-agent" || row[1] != "weighter" {
			continue
		}
		sum := 0
		for _, column := range []string{"econ", "wretr"} {
			n, err := strconv.Atoi(row[slices.Index(rows[0], column)])
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		return sum
	}
	t.Fatalf("no server of the agent in %s", stat)
	return 0
}

// answers counts the lines of HAProxy's log: with an answer, cut by the end of
// the agent's connection (256 and more), lost in another way. HAProxy leaves out
// lines when there are thousands a second.
func answers(t *testing.T, s *spoe.Scene) (answered, cut, other int) {
	t.Helper()
	for line := range strings.Lines(read(t, filepath.Join(s.Values.Dir, "haproxy.log"))) {
		_, code, found := strings.Cut(strings.TrimSpace(line), " error=")
		switch {
		case !found:
		case code == "-":
			answered++
		case len(code) == 3 && strings.HasPrefix(code, "25"):
			cut++
		default:
			other++
		}
	}
	return answered, cut, other
}

// TestSocketActivate starts the program with systemd's own tool, which hands the
// socket over as the socket unit does, at the first connection.
func TestSocketActivate(t *testing.T) {
	binaries, err := haproxyproc.Binaries()
	if err != nil {
		t.Fatal(err)
	}
	s := scene(t, binaries[0].Path)
	file := configure(t, s)
	d := start(t, exec.Command("systemd-socket-activate", "--listen="+s.Values.Agent, built.program, "run", "-f", file))
	defer func() { d.stop(t) }()
	c := connectAll(s)
	defer c.stop()
	c.await(t, 20)
	c.stop()
	if answered, cut, other := answers(t, s); answered == 0 || cut+other > 0 {
		t.Errorf("%d calls answered, %d not; the program's log: %s", answered, cut+other, d.log.String())
	}
	if log := d.log.String(); !strings.Contains(log, "SPOE agent listens") {
		t.Errorf("no word of the agent in the log: %s", log)
	}
}

// TestStrangeSocket: a socket unit and a spoa.listen that differ are an error
// that names both.
func TestStrangeSocket(t *testing.T) {
	binaries, err := haproxyproc.Binaries()
	if err != nil {
		t.Fatal(err)
	}
	s := scene(t, binaries[0].Path)
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	out, err := onSocket(t, other, configure(t, s)).CombinedOutput()
	for _, word := range []string{other.Addr().String(), "spoa.listen", "ListenStream="} {
		if err == nil || !strings.Contains(string(out), word) {
			t.Errorf("ended with %v, without a word of %s: %s", err, word, out)
		}
	}
}

// scene is a HAProxy that asks an agent which is not there yet. Its check of the
// agent is taken out: it would call a slow restart an absent agent.
func scene(t *testing.T, binary string) *spoe.Scene {
	t.Helper()
	s, err := spoe.Start(t.Context(), spoe.Options{
		Binary: binary, Example: "choose",
		Edit: func(_, text string) string { return strings.ReplaceAll(text, "check inter 1s fall 2 rise 1", "") },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// configure writes the program's configuration for the scene, with a Graphite.
func configure(t *testing.T, s *spoe.Scene) string {
	t.Helper()
	graphite := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		now := time.Now().Unix()
		var series []string
		for _, name := range []string{"s1", "s2", "s3", "x1", "x2"} {
			series = append(series, fmt.Sprintf(`{"target": %q, "datapoints": [[5, %d], [5, %d]]}`, name, now-11, now-1))
		}
		fmt.Fprintf(w, "[%s]", strings.Join(series, ","))
	}))
	t.Cleanup(graphite.Close)
	file := filepath.Join(s.Values.Dir, "weighter.toml")
	text := fmt.Sprintf(`
[haproxy]
sockets = [%q]
[graphite]
url = %q
timeout = "900ms"
[spoa]
listen = [%q]
[admin]
listen = "off"
control = "off"
`, s.HAProxy.SocketPath, graphite.URL, s.Values.Agent)
	for _, backend := range []string{s.Values.Backend, s.Values.Spare} {
		text += fmt.Sprintf("[[backend]]\nname = %q\ntarget = \"a.*\"\ninterval = \"1s\"\nmode = \"observe\"\n", backend)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// onSocket is a command that finds the listener as systemd hands it over. The
// shell knows the process's number, which systemd tells too.
func onSocket(t *testing.T, l net.Listener, file string) *exec.Cmd {
	t.Helper()
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"`, "sh", built.program, "run", "-f", file)
	cmd.ExtraFiles = []*os.File{socket}
	return cmd
}

// daemon is the running program.
type daemon struct {
	cmd *exec.Cmd
	log *logbook.Book
}

func start(t *testing.T, cmd *exec.Cmd) *daemon {
	t.Helper()
	d := &daemon{cmd: cmd, log: &logbook.Book{}}
	cmd.Stderr = d.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return d
}

// stop ends it as systemd does; a second call does nothing.
func (d *daemon) stop(t *testing.T) {
	t.Helper()
	if d.cmd.ProcessState != nil {
		return
	}
	kill := time.AfterFunc(patience, func() { _ = d.cmd.Process.Kill() })
	defer kill.Stop()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v; its log: %s", err, d.log.String())
	}
}

// clients connect through HAProxy, one connection after the other each.
type clients struct {
	cancel context.CancelFunc
	all    sync.WaitGroup
	done   atomic.Int64

	mu       sync.Mutex
	visits   []spoe.Visit
	failures []error
}

// parallel is how many clients there are, each with one connection at a time.
const parallel = 4

func connectAll(s *spoe.Scene) *clients {
	ctx, cancel := context.WithCancel(context.Background())
	c := &clients{cancel: cancel}
	for range parallel {
		c.all.Go(func() {
			for ctx.Err() == nil {
				v, err := s.Connect(context.WithoutCancel(ctx), []byte("x\n"))
				c.mu.Lock()
				if err != nil {
					c.failures = append(c.failures, err)
				} else {
					c.visits = append(c.visits, v)
				}
				c.mu.Unlock()
				c.done.Add(1)
			}
		})
	}
	return c
}

// await waits for n more connections to end.
func (c *clients) await(t *testing.T, n int64) {
	t.Helper()
	wanted := c.done.Load() + n
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); c.done.Load() < wanted; {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%d of %d connections within %s", c.done.Load()-wanted+n, n, patience)
		}
	}
}

// stop lets the connections that are open end.
func (c *clients) stop() {
	c.cancel()
	c.all.Wait()
}
