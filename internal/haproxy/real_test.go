package haproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
)

// smallConfig is a configuration with one backend "rr" that has s1 and s2.
func smallConfig(extra string) string {
	return extra + defaultsConfig + `
backend rr
  balance roundrobin
  server s1 127.0.0.1:9 weight 100
  server s2 127.0.0.1:9 weight 100
`
}

// TestSlotsFull: every slot of the socket and of its backlog is taken.
func TestSlotsFull(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		p := startHAProxy(t, haproxyproc.Options{Binary: b.Path, Config: smallConfig("global\n  stats maxconn 2\n")})
		c := NewClient(socketOf(p), Options{Timeout: 50 * time.Millisecond})
		// Slots first, then the backlog: HAProxy may still be moving connections
		// from there to its slots, so go on until the kernel refuses.
		for range 100 {
			held, err := net.Dial("unix", p.SocketPath)
			if err == nil {
				defer held.Close()
				continue
			}
			if !errors.Is(err, syscall.EAGAIN) {
				t.Fatal(err)
			}
			_, err = c.Info(t.Context())
			if errors.Is(err, ErrTimeout) {
				continue
			}
			if !errors.Is(err, syscall.EAGAIN) || !strings.Contains(err.Error(), "all slots") {
				t.Errorf("error %v", err)
			}
			return
		}
		t.Error("100 connections were taken by a socket with 2 slots")
	})
}

// TestAlgorithms: which algorithms take weights, and that we say so. HAProxy
// calls both kinds of hash by the same name.
func TestAlgorithms(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		byDefault, perLine := "roundrobin", 0
		if b.AtLeast(3, 3) {
			byDefault, perLine = "random", 10
		}
		algorithms := []struct {
			balance string
			name    string
			fixed   bool
			perLine int
		}{
			{"balance roundrobin", "roundrobin", false, 0},
			{"balance leastconn", "leastconn", false, 0},
			{"balance random", "random", false, 10},
			{"balance random(3)", "random", false, 10},
			{"", byDefault, false, perLine},
			{"balance first", "first", false, 0},
			{"balance static-rr", "static-rr", true, 0},
			{"balance source", "source", true, 10},
			{"balance source\n  hash-type consistent", "source", false, 10},
			{"balance hash src\n  hash-type consistent", "hash", false, 10},
		}
		config := defaultsConfig
		for i, a := range algorithms {
			config += fmt.Sprintf("backend b%d\n  %s\n  server s1 127.0.0.1:9 weight 100\n", i, a.balance)
		}
		c := NewClient(socketOf(startHAProxy(t, haproxyproc.Options{Binary: b.Path, Config: config})), Options{})
		for i, a := range algorithms {
			backend := fmt.Sprintf("b%d", i)
			if s := mustState(t, c, backend); s.Algorithm != a.name || s.ChangesPerLine() != a.perLine {
				t.Errorf("%s: algorithm %q, %d changes a line", a.balance, s.Algorithm, s.ChangesPerLine())
			}
			out := mustSet(t, c, backend, Change{"s1", 50})
			if errors.Is(out.Failed["s1"], ErrStaticAlgorithm) != a.fixed || (out.Applied == 1) == a.fixed {
				t.Errorf("%s: outcome %+v", a.balance, out)
			}
		}
	})
}

// TestRealSeverity: sockets with numbers and with words before their refusals.
func TestRealSeverity(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		dir, err := haproxyproc.TempDir()
		if err != nil {
			t.Fatal(err)
		}
		defer removeAll(t, dir)
		forms := map[string]string{"number": "[3]: ", "string": "[err]: "}
		global := "global\n"
		for form := range forms {
			global += "  stats socket " + filepath.Join(dir, form) + " mode 600 level admin severity-output " + form + "\n" +
				"  stats socket " + filepath.Join(dir, form+".user") + " mode 600 level user severity-output " + form + "\n"
		}
		static := "\nbackend fixed\n  balance static-rr\n  server s1 127.0.0.1:1 weight 100\n"
		startHAProxy(t, haproxyproc.Options{Binary: b.Path, Dir: dir, Config: smallConfig(global) + static})
		for form, prefix := range forms {
			c := NewClient(Address{Kind: kindUnix, Path: filepath.Join(dir, form)}, Options{})
			out := mustSet(t, c, "rr", Change{"s1", 5}, Change{"nosuch", 6})
			if out.Applied != 1 || !errors.Is(out.Failed["nosuch"], ErrNoServer) || !strings.Contains(out.Failed["nosuch"].Error(), prefix+"No such server.") {
				t.Errorf("%s: outcome %+v", form, out)
			}
			if out := mustSet(t, c, "fixed", Change{"s1", 5}); !errors.Is(out.Failed["s1"], ErrStaticAlgorithm) {
				t.Errorf("%s: outcome of a static algorithm %+v", form, out)
			}
			if s := mustState(t, c, "rr"); len(s.Servers) != 2 {
				t.Errorf("%s: state %+v", form, s)
			}
			if _, err := c.State(t.Context(), "nosuch"); !errors.Is(err, ErrNoBackend) {
				t.Errorf("%s: no backend: %v", form, err)
			}
			if err := c.Probe(t.Context()); err != nil {
				t.Errorf("%s: probe: %v", form, err)
			}
			user := NewClient(Address{Kind: kindUnix, Path: filepath.Join(dir, form+".user")}, Options{})
			if err := user.Probe(t.Context()); !errors.Is(err, ErrPermission) {
				t.Errorf("%s: probe of a user: %v", form, err)
			}
		}
	})
}

// TestLevels: what each level of a stats socket lets us do.
func TestLevels(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		dir, err := haproxyproc.TempDir()
		if err != nil {
			t.Fatal(err)
		}
		defer removeAll(t, dir)
		var global strings.Builder
		global.WriteString("global\n")
		for _, level := range []string{"user", "operator", "admin", "none"} {
			fmt.Fprintf(&global, "  stats socket %s mode 600", filepath.Join(dir, level))
			if level != "none" {
				fmt.Fprintf(&global, " level %s", level)
			}
			global.WriteString("\n")
		}
		startHAProxy(t, haproxyproc.Options{Binary: b.Path, Dir: dir, Config: smallConfig(global.String())})
		for level, want := range map[string]struct {
			algorithm string
			set       error
		}{
			"user":     {"", ErrPermission},
			"operator": {"roundrobin", ErrPermission},
			"none":     {"roundrobin", ErrPermission}, // the default is operator
			"admin":    {"roundrobin", nil},
		} {
			c := NewClient(Address{Kind: kindUnix, Path: filepath.Join(dir, level)}, Options{})
			if s := mustState(t, c, "rr"); s.Algorithm != want.algorithm || len(s.Servers) != 2 {
				t.Errorf("%s: state %+v", level, s)
			}
			out, err := c.SetWeights(t.Context(), "rr", []Change{{"s1", 5}, {"s2", 6}}, 0)
			probe := c.Probe(t.Context())
			if want.set == nil && (err != nil || probe != nil || out.Applied != 2) {
				t.Errorf("%s: %+v, %v, probe %v", level, out, err, probe)
			}
			if want.set != nil && (!errors.Is(err, want.set) || out != nil || !errors.Is(probe, want.set) || !strings.Contains(err.Error(), "level admin")) {
				t.Errorf("%s: %+v, %v, probe %v", level, out, err, probe)
			}
		}
	})
}

func TestAddressKinds(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		port := freePorts(t, 1)[0]
		name := fmt.Sprintf("haproxy-weighter-test-%d", port)
		p := startHAProxy(t, haproxyproc.Options{Binary: b.Path, MasterWorker: true, Config: smallConfig(fmt.Sprintf(
			"global\n  stats socket abns@%s level admin\n  stats socket ipv4@127.0.0.1:%d level admin\n", name, port))})
		for _, text := range []string{
			"unix:" + p.SocketPath, p.SocketPath, "abns@" + name, fmt.Sprintf("tcp:127.0.0.1:%d", port), "master:" + p.MasterPath,
		} {
			a, err := ParseAddress(text)
			if err != nil {
				t.Fatal(err)
			}
			c := NewClient(a, Options{})
			if s := mustState(t, c, "rr"); len(s.Servers) != 2 || s.Algorithm != "roundrobin" {
				t.Errorf("%s: state %+v", text, s)
			}
			out := mustSet(t, c, "rr", Change{"s1", 11}, Change{"nosuch", 1}, Change{"s2", 12})
			if out.Applied != 2 || !errors.Is(out.Failed["nosuch"], ErrNoServer) {
				t.Errorf("%s: outcome %+v", text, out)
			}
			if err := c.Probe(t.Context()); err != nil {
				t.Errorf("%s: probe: %v", text, err)
			}
			if names, err := c.Backends(t.Context()); err != nil || len(names) != 1 {
				t.Errorf("%s: backends %v, %v", text, names, err)
			}
			if s, err := c.SessionAges(t.Context(), 10); err != nil || len(s.Ages) != 0 {
				t.Errorf("%s: sessions %+v, %v", text, s, err)
			}
			command(t, p, "set server rr/s1 weight 100;set server rr/s2 weight 100")
		}
	})
}

func TestMasterSocketOverReload(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		p := startHAProxy(t, haproxyproc.Options{Binary: b.Path, MasterWorker: true, Config: smallConfig("")})
		c := NewClient(Address{Kind: kindMaster, Path: p.MasterPath}, Options{})
		before := mustSet(t, c, "rr", Change{"s1", 7})
		if err := p.Reload(""); err != nil {
			t.Fatal(err)
		}
		after := mustSet(t, c, "rr", Change{"s2", 8})
		if before.Info.Worker == after.Info.Worker || weights(after.After)["s1"] != 100 {
			t.Errorf("before %+v, after %+v", before, after)
		}
	})
}

// TestMasterSocketWrittenAsUnix: a likely mistake gets its own words.
func TestMasterSocketWrittenAsUnix(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		p := startHAProxy(t, haproxyproc.Options{Binary: b.Path, MasterWorker: true, Config: smallConfig("")})
		c := NewClient(Address{Kind: kindUnix, Path: p.MasterPath}, Options{Timeout: 300 * time.Millisecond})
		_, err := c.State(t.Context(), "rr")
		if !errors.Is(err, ErrUnknownCommand) || !strings.Contains(err.Error(), "master:/path") {
			t.Errorf("error %v", err)
		}
	})
}

func TestManyServersWithLongNames(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		var servers strings.Builder
		name := func(i int) string { return fmt.Sprintf("a-rather-long-server-name.of-some-department:%04d", i) }
		for i := range 200 {
			fmt.Fprintf(&servers, "  server %s 127.0.0.1:9 weight 100\n", name(i))
		}
		p := startHAProxy(t, haproxyproc.Options{Binary: b.Path, Config: smallConfig("") + servers.String()})
		tt := &target{}
		tt.count(socketOf(p), Options{})
		var changes []Change
		for i := range 200 {
			changes = append(changes, Change{name(i), 1 + i})
		}
		out := mustSet(t, tt.Client, "rr", changes...)
		if out.Applied != 200 || out.Failed != nil || len(out.After.Servers) != 202 {
			t.Errorf("applied %d, failed %v", out.Applied, out.Failed)
		}
		if n := tt.dials.Load(); n < 2 || n > 4 {
			t.Errorf("%d connections", n)
		}
		for i, s := range out.After.Servers[2:] {
			if s.Name != name(i) || s.Weight != 1+i {
				t.Fatalf("server %d is %+v", i, s)
			}
		}
	})
}

func TestDynamicServers(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		p := startHAProxy(t, haproxyproc.Options{Binary: b.Path, Config: smallConfig("")})
		c := NewClient(socketOf(p), Options{})
		command(t, p, "add server rr/new 127.0.0.1:9 weight 30")
		s := mustState(t, c, "rr")
		if srv, ok := s.Server("new"); !ok || srv.Weight != 30 || srv.Admin.Word() != "maint" {
			t.Errorf("added server %+v", srv)
		}
		if out := mustSet(t, c, "rr", Change{"new", 60}, Change{"s1", 50}); out.Applied != 1 || !errors.Is(out.Failed["new"], ErrTakenOut) {
			t.Errorf("outcome %+v", out)
		}
		command(t, p, "set server rr/new state ready")
		if out := mustSet(t, c, "rr", Change{"new", 60}, Change{"s1", 51}); out.Applied != 2 {
			t.Errorf("outcome %+v", out)
		}
		command(t, p, "set server rr/new state maint;del server rr/new")
		out := mustSet(t, c, "rr", Change{"new", 61}, Change{"s1", 52})
		if out.Applied != 1 || !errors.Is(out.Failed["new"], ErrNoServer) {
			t.Errorf("outcome %+v", out)
		}
		if s := mustState(t, c, "rr"); len(s.Servers) != 2 {
			t.Errorf("servers %+v", s.Servers)
		}
	})
}

// sink accepts connections and holds them; say, if any, is sent to each.
func sink(t *testing.T, say string) (port int, accepted <-chan net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ch := make(chan net.Conn, 100)
	var conns []net.Conn
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if say != "" {
				io.WriteString(c, say)
				c.Close()
				continue
			}
			conns = append(conns, c)
			ch <- c
		}
	})
	t.Cleanup(func() {
		l.Close()
		done.Wait()
		for _, c := range conns {
			c.Close()
		}
	})
	return l.Addr().(*net.TCPAddr).Port, ch
}

func TestSessions(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		server, accepted := sink(t, "")
		port := freePorts(t, 1)[0]
		p := startHAProxy(t, haproxyproc.Options{Binary: b.Path, Config: defaultsConfig + fmt.Sprintf(`
listen in
  bind 127.0.0.1:%d
  server s1 127.0.0.1:%d
  server s2 127.0.0.1:9 backup
`, port, server)})
		for range 3 {
			c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			<-accepted
		}
		c := NewClient(socketOf(p), Options{})
		s, err := c.SessionAges(t.Context(), 3)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Ages) != 1 || len(s.Ages["in"]) != 3 || s.Unknown != 0 {
			t.Errorf("sessions %+v", s)
		}
		for _, age := range s.Ages["in"] {
			if age < 0 || age > time.Minute {
				t.Errorf("age %v", age)
			}
		}
		if _, err := c.SessionAges(t.Context(), 2); !errors.Is(err, ErrTooManySessions) {
			t.Errorf("3 sessions with a limit of 2: %v", err)
		}
		state := mustState(t, c, "in")
		if srv := state.Servers[0]; srv.Sessions != 3 || srv.TotalSessions != 3 {
			t.Errorf("s1 = %+v", srv)
		}
		if srv := state.Servers[1]; srv.Sessions != 0 || !srv.Backup {
			t.Errorf("s2 = %+v", srv)
		}
	})
}

// stateWhen reads the state until want holds for server s1.
func stateWhen(t *testing.T, c *Client, backend string, want func(Server) bool) Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		s := mustState(t, c, backend)
		srv, ok := s.Server("s1")
		if ok && want(srv) {
			return srv
		}
		select {
		case <-ctx.Done():
			t.Fatalf("still %+v", srv)
		case <-tick.C:
		}
	}
}

func TestSlowstartAndAgent(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		server, _ := sink(t, "")
		agent, _ := sink(t, "up\n")
		p := startHAProxy(t, haproxyproc.Options{Binary: b.Path, Config: defaultsConfig + fmt.Sprintf(`
backend slow
  balance roundrobin
  server s1 127.0.0.1:%d weight 100 check inter 100ms slowstart 60s
backend agent
  server s1 127.0.0.1:%d weight 100 agent-check agent-port %d agent-inter 100ms
`, server, server, agent)})
		c := NewClient(socketOf(p), Options{})
		command(t, p, "disable server slow/s1")
		stateWhen(t, c, "slow", func(s Server) bool { return s.Admin.Maint() && s.Op == OpStopped && !s.Throttled })
		command(t, p, "enable server slow/s1")
		s := stateWhen(t, c, "slow", func(s Server) bool { return s.Throttled })
		if s.Op != OpStarting || s.Weight != 100 || !s.InService() {
			t.Errorf("server in slowstart: %+v", s)
		}
		if out := mustSet(t, c, "slow", Change{"s1", 60}); out.Applied != 1 {
			t.Errorf("a weight set during slowstart: %+v", out)
		}
		if s.Agent != "" {
			t.Errorf("agent of a server without one: %q", s.Agent)
		}
		stateWhen(t, c, "agent", func(s Server) bool { return s.Agent == "L7OK" })
	})
}

func TestWeightZeroEverywhere(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		p := startHAProxy(t, haproxyproc.Options{Binary: b.Path, Config: smallConfig("")})
		c := NewClient(socketOf(p), Options{})
		command(t, p, "set server rr/s1 weight 0;set server rr/s2 weight 0")
		for _, s := range mustState(t, c, "rr").Servers {
			if s.Weight != 0 || s.InitialWeight != 100 || !s.Draining() || s.InService() || s.Admin.Word() != "ready" {
				t.Errorf("server %+v", s)
			}
		}
	})
}
