package operations

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/haproxy-weighter/haproxy-weighter/test/faults/front"
)

// socketFaults has the runtime socket gone, and answering as it should not.
func socketFaults(t *testing.T) {
	s := newScene(t, "global\n\tstats socket {dir}/operator.sock level operator\n"+haproxyConfig("ingest", "roundrobin", ""))
	s.configure(settings{})
	s.start(nil)
	s.settle()
	listen := func() {
		if err := s.socket.Listen(); err != nil {
			t.Fatal(err)
		}
	}
	good := func() { s.socket.Set(front.Manner{}) }
	const dead, unread = "HAProxy's socket does not answer", "HAProxy can't be read"
	s.socket.Set(front.Manner{Hang: true})
	s.begins(dead)
	s.begins(unread)
	s.causes("no full answer in time")
	good()
	s.ends(unread, dead)
	for _, c := range []struct {
		cause      string
		begin, end func()
	}{
		{"the file is there but nothing listens on it", func() { s.refuse(false) }, listen},
		{"there is no such file", func() { s.refuse(true) }, listen},
		{"HAProxy closed the connection in the middle of its answer, so nothing is taken from it", func() { s.socket.Set(front.Manner{Half: 100}) }, good},
		{"the answers do not fit the commands, so nothing is taken from them", func() { s.socket.Set(front.Manner{Instead: "220 mail.example.com ESMTP\n\n"}) }, good},
	} {
		s.fault(dead, func() { c.begin(); s.causes(c.cause) }, c.end)
	}
	s.fault("weights are not all as they were set", func() {
		s.socket.Set(front.Manner{To: s.file("operator.sock")})
		s.graphite.Set(otherLoads)
		s.causes("this socket may not do that")
	}, good)
	s.configure(settings{sockets: []string{s.haproxy.SocketPath}})
	s.hangUp()
	var taken []net.Conn
	s.fault(dead, func() { taken = s.takeSlots(); s.causes("all slots of HAProxy's socket are busy") }, func() {
		for _, conn := range taken {
			conn.Close()
		}
	})
	s.stop()
}

func (s *scene) refuse(gone bool) {
	s.t.Helper()
	if err := s.socket.Refuse(gone); err != nil {
		s.t.Fatal(err)
	}
}

// takeSlots opens connections to HAProxy's socket until it takes no more.
func (s *scene) takeSlots() (taken []net.Conn) {
	s.t.Helper()
	for {
		conn, err := net.Dial("unix", s.haproxy.SocketPath)
		if errors.Is(err, syscall.EAGAIN) {
			return taken
		}
		if err != nil {
			s.t.Fatal(err)
		}
		taken = append(taken, conn)
	}
}

// reloadFaults has HAProxy reloaded with other configurations.
func reloadFaults(t *testing.T) {
	usual := haproxyConfig("ingest", "roundrobin", "")
	s := newScene(t, usual)
	s.configure(settings{})
	s.start(nil)
	s.settle()
	const static, first, gone = "HAProxy refuses weights", "weights have no effect", "backend not found"
	s.reloadHAProxy(haproxyConfig("ingest", "static-rr", ""))
	s.begins(static)
	s.reloadHAProxy(haproxyConfig("ingest", "first", ""))
	s.ends(static)
	s.begins(first)
	s.reloadHAProxy(usual)
	s.ends(first)
	s.fault(gone, func() { s.reloadHAProxy(haproxyConfig("other", "roundrobin", "")) }, func() { s.reloadHAProxy(usual) })
	s.configure(settings{backend: "sockets = [\"" + s.socket.Path + "\"]"})
	s.hangUp()
	s.fault("backend not found on a socket", func() { s.reloadHAProxy(haproxyConfig("other", "roundrobin", "")) }, func() { s.reloadHAProxy(usual) })
	s.configure(settings{})
	s.hangUp()
	s.until("the weights", func() bool { return s.weight("s1") == 64 })
	s.runtime("set server ingest/s4 weight 0")
	s.until("the drain is seen", func() bool { return s.logs("servers at weight 0 are left alone") })
	s.reloadHAProxy(usual)
	s.begins("servers that were at weight 0 take connections again, since the reload has set their initial weights")
	s.configure(settings{sockets: []string{s.socket.Path, s.haproxy.SocketPath}})
	s.hangUp()
	s.begins("two sockets lead to the same HAProxy")
	s.stop()
}

// raisedFault has HAProxy reloaded in the middle of a pass, with a server
// drained in the new configuration.
func raisedFault(t *testing.T) {
	usual := haproxyConfig("ingest", "roundrobin", "")
	s := newScene(t, usual)
	g := s.gate()
	s.configure(settings{sockets: []string{g.path}, timeout: "30s"}) // a reload has to fit in
	s.start(nil)
	s.settle()
	var reloaded atomic.Bool
	g.dropping(func(line string) bool {
		if front.IsWrite(line) && reloaded.CompareAndSwap(false, true) {
			if err := s.haproxy.Reload(strings.Replace(usual, "server s1 127.0.0.1:1 weight 100", "server s1 127.0.0.1:1 weight 0", 1)); err != nil {
				t.Error(err)
			}
		}
		return false
	})
	s.graphite.Set(otherLoads)
	s.begins("a server with weight 0 in the new configuration got a weight: HAProxy reloaded in the middle of a pass")
	s.stop()
}

// gate puts a gate before HAProxy's socket.
func (s *scene) gate() *gate {
	s.t.Helper()
	g, err := openGate(s.file("gate.sock"), s.haproxy.SocketPath)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(g.close)
	return g
}

// mapFaults has a map that HAProxy does not load, then one that can't be changed.
func mapFaults(t *testing.T) {
	usual := haproxyConfig("ingest", "roundrobin", "")
	s := newScene(t, usual)
	g := s.gate()
	s.configure(settings{sockets: []string{g.path}, backend: "maps = { load = \"{dir}/load.map\" }"})
	s.start(nil)
	s.settle()
	s.fault("HAProxy has not loaded a map of backend.maps", func() {}, func() {
		if err := os.WriteFile(s.file("load.map"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		s.reloadHAProxy(usual + "frontend ft\n\tbind unix@{dir}/ft.sock\n\ttcp-request connection reject if { str(ingest/s1),map_str_int({dir}/load.map,0) gt 9999 }\n\tdefault_backend ingest\n")
	})
	s.until("the map is filled", func() bool { return strings.Contains(s.runtime("show map "+s.file("load.map")), "ingest/s1 400") })
	noMaps := func(line string) bool { return strings.Contains(line, " map ") }
	s.fault("a map can't be kept up to date", func() { g.dropping(noMaps); s.graphite.Set(otherLoads) }, func() { g.dropping(nil) })
	g.dropping(noMaps)
	s.stop()
	s.begins("loads stay in a map that nobody renews now")
}

// orderFaults has operators and strangers at work.
func orderFaults(t *testing.T) {
	s := newScene(t, haproxyConfig("ingest", "roundrobin", ""))
	s.configure(settings{})
	s.start(nil)
	s.settle()
	s.fault("somebody else has set weights", func() { s.runtime("set server ingest/s1 weight 3") }, func() {})
	s.fault("weights are frozen by an operator",
		func() { s.order("freeze", "ingest", "--reason", "test", "--for", "1h") },
		func() { s.order("unfreeze", "ingest") })
	s.order("pin", "ingest/s2", "7", "--reason", "test", "--for", "1h")
	s.until("the pin counts", func() bool { return s.weight("s2") == 7 })
	s.runtime("set server ingest/s2 state drain")
	const idle = "pins have no effect now"
	s.begins(idle)
	s.runtime("set server ingest/s2 state ready")
	s.ends(idle)
	s.stop()
}

// luaFault has weighter.lua, inside HAProxy, begin before the daemon does.
func luaFault(t *testing.T) {
	script, err := filepath.Abs(filepath.Join(repository, "lua/weighter.lua"))
	if err != nil {
		t.Fatal(err)
	}
	s := newScene(t, "global\n\tsetenv WEIGHTER_ADDRESS unix@{dir}/admin.sock\n\tsetenv WEIGHTER_PERIOD 200ms\n\tlua-load "+script+"\n"+
		haproxyConfig("ingest", "roundrobin", ""))
	s.configure(settings{})
	r := s.row("weighter.lua: no table from …")
	has := func(message string) func() bool {
		return func() bool {
			return slices.ContainsFunc(strings.Split(s.haproxy.Log(), "\n"), func(l string) bool { return matches(message, l, true) })
		}
	}
	s.until("HAProxy's log has it", has(r.message))
	note(&provoked.began, r.message)
	s.start(nil)
	s.until("HAProxy's log has the end of it", has(r.overs[0]))
	note(&provoked.over, r.message)
	s.stop()
}
