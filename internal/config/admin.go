package config

import (
	"net"
	"strings"
	"time"
)

// Admin is the table [admin].
type Admin struct {
	Listen  Listener // of the read-only HTTP listener; the zero value: none
	Control string   // path of the control socket; empty: none
}

// State is the table [state].
type State struct {
	File string // path; empty: nothing is kept over a restart
	// MaxAge is how old what the loop has learnt may be at a start, and weights
	// that a reload or a restart of HAProxy has lost when they are put back; for
	// these less than a minute counts as one. Pins and freezes have times of
	// their own.
	MaxAge time.Duration
}

// Defaults of [admin] and [state].
const (
	DefaultAdmin   = "127.0.0.1:9101"
	DefaultControl = "/run/haproxy-weighter/control.sock"
)

func readAdmin(t *table) Admin {
	a := Admin{Control: t.pathOrOff("control", DefaultControl)}
	const allowed = listenForms + `, or "off"`
	v, ok := t.text("listen", allowed)
	switch {
	case !t.given("listen"):
		a.Listen, _ = parseListener(DefaultAdmin)
	case !ok || v.value == "off":
	default:
		l, why := parseListener(v.value)
		switch {
		case why != "" && v.value != v.written:
			t.wrong("listen", "%q is no address to listen on with its environment variables filled in; allowed: %s", v.written, allowed)
			return a
		case why != "":
			t.wrong("listen", "%q: %s; allowed: %s", v.written, why, allowed)
			return a
		}
		a.Listen = l
		if host, _, _ := net.SplitHostPort(l.Address); l.Network == "tcp" && !isLoopback(host) {
			t.caution("listen", "%s is reached from other machines: the listener changes nothing and asks for no password, so whoever reaches that port reads loads, weights and server names; use 127.0.0.1, or let a firewall admit your monitoring only", v.written)
		}
	}
	return a
}

func readState(t *table) State {
	return State{
		File:   t.pathOrOff("file", ""),
		MaxAge: t.duration("max_age", 10*time.Minute, 0, 24*time.Hour),
	}
}

// pathOrOff reads a path, or "off" for none.
func (t *table) pathOrOff(key, fallback string) string {
	const allowed = `a path, or "off"`
	v, ok := t.text(key, allowed)
	switch {
	case !t.given(key):
		return fallback
	case !ok || v.value == "off":
		return ""
	case v.value == "":
		t.wrong(key, "is empty; allowed: %s", allowed)
		return ""
	}
	path := t.beside(v.value)
	if key == "control" && (len(path) > mostSocketPath || strings.ContainsRune(path, 0)) {
		t.wrong(key, "the path of a unix socket has at most %d bytes, none of them NUL; allowed: a shorter one", mostSocketPath)
		return ""
	}
	return path
}
