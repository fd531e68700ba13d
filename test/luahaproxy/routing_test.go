package luahaproxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/lua"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
)

// namer is a TCP server that says its name and closes.
func namer(t *testing.T, name string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, name+"\n") // a health check may have gone
			c.Close()
		}
	})
	t.Cleanup(func() { l.Close(); done.Wait() })
	return l.Addr().String()
}

// webNamer is an HTTP server that says its name, and what the request had in a header.
func webNamer(t *testing.T, name, header string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveHTTP(t, l, func(get func(string) string) string { return name + " " + get(header) })
}

// connect is one connection through HAProxy; it returns what the server said.
func connect(t *testing.T, port int) string {
	t.Helper()
	c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), patience)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	name, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(name)
}

// shipped is a shipped configuration with our addresses in it, and its other files beside it.
// An address that is not replaced is a mistake of the test.
func shipped(t *testing.T, example string, addresses map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files, err := fs.Glob(lua.ForHAProxy(), "*.lua")
	if err != nil {
		t.Fatal(err)
	}
	more, err := fs.Glob(lua.ForHAProxy(), "haproxy/"+example+"/*")
	if err != nil {
		t.Fatal(err)
	}
	var config string
	for _, name := range append(files, more...) {
		text, err := fs.ReadFile(lua.ForHAProxy(), name)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(name) == "haproxy.cfg" {
			config = string(text)
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range addresses {
		if !strings.Contains(config, from) {
			t.Fatalf("%q is not in the haproxy.cfg of %s", from, example)
		}
		config = strings.ReplaceAll(config, from, to)
	}
	config = strings.ReplaceAll(config, "/etc/haproxy/", dir+"/")
	config = strings.ReplaceAll(config, "log /dev/log local0", "log stdout format raw local0")
	// One thread, so that there is one table to wait for, and no long wait for the next.
	config = strings.Replace(config, "\nglobal\n", "\nglobal\n  nbthread 1\n  setenv WEIGHTER_PERIOD 100ms\n", 1)
	return regexp.MustCompile(`(?m)^.*stats socket.*$`).ReplaceAllString(config, "")
}

// draws is how often each server was drawn.
func draws(n int, draw func() string) map[string]int {
	count := map[string]int{}
	for range n {
		count[draw()]++
	}
	return count
}

// about tells whether a count is within six standard deviations of n*p: once in five hundred
// million times it is not.
func about(count, n int, p float64) bool {
	difference := float64(count) - float64(n)*p
	return difference*difference <= 36*float64(n)*p*(1-p)
}

// TestShippedWeighter runs lua/haproxy/weighter: connections are drawn by weight and never go to a
// server in drain; they go elsewhere while the load is high; sticky clients leave a hot server.
func TestShippedWeighter(t *testing.T) {
	t.Parallel()
	weighed := func(name string, load float64, weight int) balancer.Row {
		return but(row(name, load), func(r *balancer.Row) { r.AppliedWeight = weight })
	}
	drained := but(row("s3", 0), func(r *balancer.Row) { r.AdminState = "drain" })
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		ports := freePorts(t, 2)
		quiet := table("ingest", weighed("s1", 4000, 50), weighed("s2", 3000, 150), drained)
		web := table("web", row("s1", 100), row("s2", 500))
		l := listen(t, quiet, web)
		config := shipped(t, "weighter", map[string]string{
			":8000\n": fmt.Sprintf(":%d\n", ports[0]), "bind :8080": fmt.Sprintf("bind 127.0.0.1:%d", ports[1]),
			"127.0.0.1:9101":   l.address,
			"192.0.2.11:8000 ": namer(t, "s1") + " ", "192.0.2.12:8000 ": namer(t, "s2") + " ", "192.0.2.13:8000 ": namer(t, "s3") + " ",
			"192.0.2.21:8000 ": namer(t, "x1") + " ",
			"192.0.2.11:8080 ": webNamer(t, "s1", "X-Weighter-Best") + " ", "192.0.2.12:8080 ": webNamer(t, "s2", "X-Weighter-Best") + " ",
		})
		p := start(t, haproxyproc.Options{Binary: b.Path, Config: config})
		noWarnings(t, p, b)
		get := client(t, ports[1])
		until(t, p, func() (bool, string) {
			answer := get("/", nil)
			return strings.HasSuffix(answer, " s1"), "not yet the best server: " + answer
		})

		const n = 200
		if got := draws(n, func() string { return connect(t, ports[0]) }); got["s1"]+got["s2"] != n || !about(got["s2"], n, 0.75) {
			t.Errorf("connections went to %v; want a quarter to s1, and none to s3, which is in drain; log:\n%s", got, p.Log())
		}
		// 500 over the mean of 300 is above 1500 thousandths: s2 is left, and s1 is not.
		for server, want := range map[string]int{"s1": 20, "s2": 10} {
			got := draws(20, func() string { return get("/", map[string]string{"cookie": "SERVER=" + server})[:2] })
			if got[server] != want {
				t.Errorf("20 requests with the cookie of %s went to %v, want %d to it", server, got, want)
			}
		}
		l.publish(table("ingest", row("s1", 9000), row("s2", 9000), drained), web)
		until(t, p, func() (bool, string) {
			name := connect(t, ports[0])
			return name == "x1", "overloaded, and yet a connection goes to " + name
		})
	})
}

// TestShippedRoute runs lua/haproxy/route: what is above the limit goes elsewhere, in proportion.
func TestShippedRoute(t *testing.T) {
	t.Parallel()
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		for _, tt := range []struct {
			load  float64
			spare float64 // part of the connections
		}{{5000, 0}, {10000, 0.5}} {
			ports := freePorts(t, 2)
			startAgent(t, ports[1], []*balancer.Table{table("ingest", row("s1", tt.load), row("s2", tt.load))})
			config := shipped(t, "route", map[string]string{
				"bind :8000": fmt.Sprintf("bind 127.0.0.1:%d", ports[0]), "127.0.0.1:9002": fmt.Sprintf("127.0.0.1:%d", ports[1]),
				"192.0.2.11:8000": namer(t, "s1"), "192.0.2.12:8000": namer(t, "s2"), "192.0.2.21:8000": namer(t, "x1"),
				"timeout connect 100ms": "timeout connect 50s", "inter 1s fall 2": "inter 50s fall 2",
			})
			spoe := regexp.MustCompile(`config (\S+)`).FindStringSubmatch(config)[1]
			patient := strings.NewReplacer("processing 20ms", "processing 50s", "hello 100ms", "hello 50s").Replace(read(t, spoe))
			if err := os.WriteFile(spoe, []byte(patient), 0o600); err != nil {
				t.Fatal(err)
			}
			p := start(t, haproxyproc.Options{Binary: b.Path, Config: config})
			noWarnings(t, p, b)
			const n = 200
			got := draws(n, func() string { return connect(t, ports[0]) })
			if !about(got["x1"], n, tt.spare) {
				t.Errorf("at a load of %v connections went to %v, want the part %v to x1; log:\n%s", tt.load, got, tt.spare, p.Log())
			}
		}
	})
}

// noWarnings checks that a shipped file loads without one, but for what a test can't have: 3.4
// wants no root and a chroot.
func noWarnings(t *testing.T, p *haproxyproc.Process, b haproxyproc.Binary) {
	t.Helper()
	for line := range strings.Lines(p.Log()) {
		if strings.Contains(line, "[WARNING]") && !strings.Contains(line, "HAProxy was started as") {
			t.Errorf("%s: %s", b.Version, line)
		}
	}
}

// TestServerAddedAtRunTime: names come from the table, so a server that haproxy.cfg does not have
// is drawn too.
func TestServerAddedAtRunTime(t *testing.T) {
	onEach(t, func(t *testing.T, b haproxyproc.Binary, mode string) {
		port := freePorts(t, 1)[0]
		l := listen(t, table("ingest", row("s1", 1)))
		p := start(t, haproxyproc.Options{Binary: b.Path, Config: global(t, mode, l.address) + strings.Replace(defaults, "http", "tcp", 1) + fmt.Sprintf(`
frontend in
  bind 127.0.0.1:%d
  default_backend ingest
backend ingest
  balance roundrobin
  tcp-request content lua.weighter_pick ingest
  use-server %%[var(txn.weighter.server)] if { var(txn.weighter.server) -m found }
  server s1 %s
`, port, namer(t, "s1"))})
		if name := connect(t, port); name != "s1" {
			t.Fatalf("a connection went to %q", name)
		}
		for _, command := range []string{"add server ingest/s9 " + namer(t, "s9"), "set server ingest/s9 state ready"} {
			if answer, err := p.Command(t.Context(), "experimental-mode on; "+command); err != nil || strings.Contains(answer, "rror") {
				t.Fatalf("%s: %q, %v", command, answer, err)
			}
		}
		l.publish(table("ingest", but(row("s1", 1), func(r *balancer.Row) { r.AdminState = "drain" }), row("s9", 1)))
		until(t, p, func() (bool, string) { // both threads draw s9
			got := draws(8, func() string { return connect(t, port) })
			return got["s9"] == 8, fmt.Sprint(got)
		})
	})
}

// TestReload: a new worker has its own table at once, the old one ends, and no connection is lost.
func TestReload(t *testing.T) {
	onEach(t, func(t *testing.T, b haproxyproc.Binary, mode string) {
		port := freePorts(t, 1)[0]
		l := listen(t, numbered(5))
		p := start(t, haproxyproc.Options{
			Binary: b.Path, MasterWorker: true,
			Config: global(t, mode, l.address) + defaults + fmt.Sprintf(answersConfig, port),
		})
		for range 2 {
			until(t, p, func() (bool, string) {
				answer := client(t, port)("/", nil)
				return strings.Contains(answer, "fresh=1 load=5 "), answer
			})
			if err := p.Reload(""); err != nil {
				t.Fatal(err)
			}
		}
		until(t, p, func() (bool, string) {
			workers, err := p.Workers()
			return err == nil && len(workers) == 1, fmt.Sprintf("workers %v, %v", workers, err)
		})
		answer := client(t, port)
		until(t, p, func() (bool, string) { return strings.Contains(answer("/", nil), "fresh=1 load=5 "), answer("/", nil) })
	})
}

// TestChroot: over TCP, and by a path inside the jail.
func TestChroot(t *testing.T) {
	t.Parallel()
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		jail, err := haproxyproc.TempDir()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(jail) })
		tcp := listen(t, numbered(6))
		unix := listenOn(t, "unix", filepath.Join(jail, "w.sock"), numbered(6))
		for _, address := range []string{tcp.address, "unix@/w.sock"} {
			port := freePorts(t, 1)[0]
			config := global(t, "lua-load", address) + "  chroot " + jail + "\n" + defaults + fmt.Sprintf(answersConfig, port)
			p := start(t, haproxyproc.Options{Binary: asRoot(t, b.Path), Config: config})
			get := client(t, port)
			until(t, p, func() (bool, string) {
				answer := get("/", nil)
				return strings.Contains(answer, "fresh=1 load=6 "), address + ": " + answer
			})
		}
		if unix.requests("GET") == 0 {
			t.Error("the path inside the jail was not used")
		}
	})
}

// asRoot is a program that runs another as root, of a namespace of its own when we are not root:
// HAProxy may change its root directory then.
func asRoot(t *testing.T, program string) string {
	t.Helper()
	if os.Getuid() == 0 {
		return program
	}
	wrapper := filepath.Join(t.TempDir(), "haproxy")
	if err := os.WriteFile(wrapper, []byte("#!/bin/sh\nexec unshare --map-root-user "+program+" \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return wrapper
}

// check runs haproxy -c on a section global and returns what it says.
func check(t *testing.T, b haproxyproc.Binary, global string) (string, error) {
	t.Helper()
	config := global + defaults + "frontend in\n  bind 127.0.0.1:1\n"
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, b.Path, "-c", "-f", file).CombinedOutput()
	return string(out), err
}
