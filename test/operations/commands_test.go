package operations

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
)

// TestCommands runs each fenced block of the document, as it stands there, on a
// running daemon; only addresses are other ones.
func TestCommands(t *testing.T) {
	t.Parallel()
	s := newScene(t, haproxyConfig("ingest", "roundrobin", ""))
	s.configure(settings{})
	s.start(nil)
	s.settle()
	s.until("the daemon is ready", func() bool { return s.status().Ready })
	s.hands()
	blocks := s.doc.commands
	if len(blocks) != 6 {
		t.Fatalf("this test knows 6 blocks of commands, %s has %d", document, len(blocks))
	}
	look, orders, stop, initial, reload, restart := blocks[0], blocks[1], blocks[2], blocks[3], blocks[4], blocks[5]

	out := s.shell(look)
	for _, want := range []string{"all is well", "backend ingest on", "ingest/s1", "s1 100 -> 64"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in what the first block prints:\n%s", want, out)
		}
	}
	s.shell(orders)
	if c := s.status().Backends[0].Control; !c.Empty() {
		t.Errorf("the orders of the block are not all taken back: %+v", c)
	}
	s.order("mode", "ingest", "observe", "--reason", "test")
	s.shell(initial)
	passed := s.status().Backends[0].Tables[0].Time
	s.until("another pass", func() bool { return s.status().Backends[0].Tables[0].Time.After(passed.Add(time.Second)) })
	if w := s.weight("s1"); w != 100 {
		t.Errorf("weight %d after the initial weights were put back", w)
	}
	s.order("mode", "ingest", "file")
	s.settle()
	s.shell(reload)
	s.until("the reload", func() bool { return s.logs("configuration reloaded") })
	s.shell(restart) // systemd would start it again
	s.until("the end", s.daemon.Exited)
	before := len(s.lines())
	s.start(nil)
	s.hands()
	s.until("the daemon answers", func() bool { return s.status().Ready })
	s.shell(stop)
	s.until("the end", s.daemon.Exited)
	for _, l := range s.lines()[before:] {
		if l.Level != "INFO" || l.Msg == "weights written" {
			t.Errorf("the new start is to move nothing and to find nothing wrong: %+v", l)
		}
	}
	if w := s.weight("s1"); w != 64 {
		t.Errorf("weight %d after the stop", w)
	}
}

// hands puts programs before those of the system's: the daemon's own, with the
// configuration of the scene, and a systemctl that knows the daemon of the
// scene alone.
func (s *scene) hands() {
	s.t.Helper()
	program, err := exec.LookPath("haproxy-weighter")
	if err != nil {
		s.t.Fatal(err)
	}
	for name, text := range map[string]string{
		"haproxy-weighter": fmt.Sprintf("exec %s \"$@\" -f %s\n", program, s.file("weighter.toml")),
		"systemctl": fmt.Sprintf(`
case "$*" in
"reload haproxy-weighter") kill -HUP %[1]d ;;
"restart haproxy-weighter" | "stop haproxy-weighter.socket haproxy-weighter.service") kill -TERM %[1]d ;;
*) echo "systemctl $*" >&2; exit 1 ;;
esac
`, s.daemon.PID),
	} {
		if err := os.MkdirAll(s.file("bin"), 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(s.file("bin/"+name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
}

// shell runs a block of commands.
func (s *scene) shell(block string) string {
	s.t.Helper()
	return shell(s.t, strings.ReplaceAll(block, "/run/haproxy/admin.sock", s.haproxy.SocketPath), s.file("bin"))
}

func shell(t *testing.T, block, bin string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "sh", "-e", "-u")
	c.Stdin = strings.NewReader(block)
	c.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s\nprints\n%s", err, block, out)
	}
	return string(out)
}

// TestInitialWeights holds that the loop of the document puts the initial
// weights back in each version of HAProxy, and leaves a drained server alone.
func TestInitialWeights(t *testing.T) {
	var loop string
	for _, block := range readDocument(t).commands {
		if strings.Contains(block, "weight 100%") {
			loop = block
		}
	}
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		t.Parallel()
		p, err := haproxyproc.Start(t.Context(), haproxyproc.Options{Binary: b.Path, Config: haproxyConfig("other", "roundrobin", "\tserver s5 127.0.0.1:1 weight 30") +
			strings.Replace(haproxyConfig("ingest", "leastconn", "\tserver s5 127.0.0.1:1 weight 30"), "defaults", "defaults again", 1)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Stop)
		ask := func(line string) string {
			answer, err := p.Command(t.Context(), line)
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(answer)
		}
		for _, line := range []string{"ingest/s1 weight 7", "ingest/s2 weight 256", "ingest/s3 weight 0", "ingest/s5 weight 200", "other/s1 weight 9"} {
			ask("set server " + line)
		}
		shell(t, strings.ReplaceAll(loop, "/run/haproxy/admin.sock", p.SocketPath), filepath.Dir(p.SocketPath))
		for server, want := range map[string]string{
			"ingest/s1": "100 ", "ingest/s2": "100 ", "ingest/s3": "0 ", "ingest/s4": "100 ", "ingest/s5": "30 ", "other/s1": "9 ",
		} {
			if got := ask("get weight " + server); !strings.HasPrefix(got, want) {
				t.Errorf("%s: weight %s, want %s", server, got, want)
			}
		}
	})
}
