package config

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/lua"
)

// SPOA is the table [spoa]: the agent that answers HAProxy's SPOE messages.
type SPOA struct {
	Listen         []Listener // empty = no agent
	MaxFrameSize   int        // bytes
	MaxConnections int
	IdleTimeout    time.Duration
	Script         *lua.Script // answers messages that are not ours; nil = they stay unanswered
}

// Listener is where the agent listens.
type Listener struct {
	Network string // "tcp" or "unix", as package net names them
	Address string // host:port, or an absolute path
}

// String gives the form that the file has.
func (l Listener) String() string {
	if l.Network == "unix" {
		return "unix:" + l.Address
	}
	return l.Address
}

const listenForms = `"host:port" such as "127.0.0.1:9002", or "unix:/path"`

// Bounds of max_frame_size, in bytes: SPOP's own, and far above any tune.bufsize.
const (
	leastFrame = 256
	mostFrame  = 16 << 20
)

func readSPOA(t *table) SPOA {
	s := SPOA{
		Listen:         t.listeners("listen"),
		MaxFrameSize:   t.integer("max_frame_size", 16380, leastFrame, mostFrame),
		MaxConnections: t.integer("max_connections", 1024, 1, 1_000_000),
		IdleTimeout:    t.duration("idle_timeout", 5*time.Minute, time.Second, 24*time.Hour),
		Script:         t.answerScript("script"),
	}
	if most := int64(s.MaxFrameSize) * int64(s.MaxConnections); t.given("listen") && most > gibibyte {
		t.caution(t.firstGiven("max_frame_size", "max_connections"),
			"%d connections with frames of %d bytes may hold %s of memory: HAProxy sends none above its tune.bufsize, 16 KiB by default; take less of one of them",
			s.MaxConnections, s.MaxFrameSize, plainSize(most/mebibyte*mebibyte))
	}
	if t.given("listen") {
		return s
	}
	for _, key := range []string{"max_frame_size", "max_connections", "idle_timeout", "script"} {
		if t.given(key) && t.sound(key) {
			t.wrong(key, "has no use without spoa.listen; add that, or remove it")
		}
	}
	return s
}

// listeners reads a list of addresses to listen on, none of them twice.
func (t *table) listeners(key string) []Listener {
	var all []Listener
	for _, e := range t.texts(key, "a list of addresses, each "+listenForms) {
		l, why := parseListener(e.value)
		switch {
		case why != "" && e.value != e.written:
			t.mistake(e.path, e.name, "%q is no address to listen on with its environment variables filled in; allowed: %s", e.written, listenForms)
			continue
		case why != "":
			t.mistake(e.path, e.name, "%q: %s; allowed: %s", e.written, why, listenForms)
			continue
		case slices.Contains(all, l):
			t.mistake(e.path, e.name, "%q is in the list twice; allowed: each address once", e.written)
			continue
		}
		all = append(all, l)
		if host, _, _ := net.SplitHostPort(l.Address); l.Network == "tcp" && !isLoopback(host) {
			t.warn(e.path, e.name, "%s is reached from other machines: SPOE asks for no password, so whoever reaches that port reads loads and can take all of max_connections; use 127.0.0.1, or let a firewall admit HAProxy only", e.written)
		}
	}
	return all
}

// mostSocketPath is what sockaddr_un holds before its closing NUL.
const mostSocketPath = 107

// parseListener says in words what is wrong.
func parseListener(s string) (Listener, string) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		switch {
		case !strings.HasPrefix(path, "/"):
			return Listener{}, "the path must begin with /"
		case strings.ContainsRune(path, 0), len(path) > mostSocketPath:
			return Listener{}, fmt.Sprintf("the path of a unix socket has at most %d bytes, none of them NUL", mostSocketPath)
		}
		return Listener{Network: "unix", Address: path}, ""
	}
	if strings.HasPrefix(s, "/") {
		return Listener{}, "a path is written with unix: before it"
	}
	host, port, err := net.SplitHostPort(s)
	switch {
	case err != nil:
		return Listener{}, "this form is not known"
	case host == "":
		return Listener{}, "a host is missing before the port; all addresses of this machine are 0.0.0.0 or [::]"
	case !isHost(host):
		return Listener{}, fmt.Sprintf("%q is not a host", host)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return Listener{}, fmt.Sprintf("port %q is not a number from 1 to 65535", port)
	}
	return Listener{Network: "tcp", Address: s}, ""
}

// isHost tells whether s can be an address or a host's name.
func isHost(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	return isHAProxyName(s) && !strings.Contains(s, ":")
}
