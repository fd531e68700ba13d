package haproxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Address is where a runtime socket listens. ParseAddress makes one.
type Address struct {
	Kind string // "unix", "abns", "tcp", "master"
	Path string // file path, abstract name, or host:port
}

// The kinds of an Address.
const (
	kindUnix   = "unix"
	kindABNS   = "abns"
	kindTCP    = "tcp"
	kindMaster = "master"
)

// sunPath is the size of sun_path in Linux's sockaddr_un; a file path needs
// one byte of it for the NUL at its end.
const sunPath = 108

const addressForms = "allowed are /path, unix:/path, abns@name, tcp:host:port and master:/path"

// ParseAddress reads "/path", "unix:/path", "abns@name", "tcp:host:port" or
// "master:/path". Its errors name these forms.
func ParseAddress(s string) (Address, error) {
	bad := func(why string) (Address, error) {
		return Address{}, fmt.Errorf("socket address %q: %s; %s", s, why, addressForms)
	}
	kind, path, _ := strings.Cut(s, ":")
	switch {
	case s == "":
		return bad("it is empty")
	case strings.ContainsRune(s, 0):
		return bad("it has a NUL byte in it")
	case strings.HasPrefix(s, "/"):
		kind, path = kindUnix, s
	case strings.HasPrefix(s, "abns@"):
		kind, path = kindABNS, strings.TrimPrefix(s, "abns@")
	case kind == kindABNS || !strings.Contains(s, ":"):
		return bad("this form is not known")
	}
	var why string
	switch kind {
	case kindUnix, kindMaster:
		why = checkPath(path)
	case kindABNS:
		why = checkAbstractName(path)
	case kindTCP:
		why = checkHostPort(path)
	default:
		why = "this form is not known"
	}
	if why != "" {
		return bad(why)
	}
	return Address{Kind: kind, Path: path}, nil
}

func checkPath(path string) string {
	switch {
	case !strings.HasPrefix(path, "/"):
		return "the path must begin with /"
	case len(path) >= sunPath:
		return fmt.Sprintf("the path has %d bytes, a unix socket's path at most %d", len(path), sunPath-1)
	}
	return ""
}

func checkAbstractName(name string) string {
	switch {
	case name == "":
		return "the name is empty"
	case len(name) >= sunPath:
		return fmt.Sprintf("the name has %d bytes, an abstract socket's at most %d", len(name), sunPath-1)
	}
	return ""
}

func checkHostPort(hostPort string) string {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil || host == "" {
		return "after tcp: a host and a port are needed, such as 127.0.0.1:9999"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Sprintf("port %q is not a number from 1 to 65535", port)
	}
	return ""
}

// String gives the form that ParseAddress reads.
func (a Address) String() string {
	if a.Kind == kindABNS {
		return "abns@" + a.Path
	}
	return a.Kind + ":" + a.Path
}

// Warning tells what is dangerous about an address, in words for the
// operator; empty when nothing is.
func (a Address) Warning() string {
	if a.Kind != kindTCP {
		return ""
	}
	host, _, err := net.SplitHostPort(a.Path)
	if err != nil || host == "localhost" {
		return ""
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsLoopback() {
		return ""
	}
	return fmt.Sprintf("%s leaves this machine: HAProxy's runtime socket asks for no password, so whoever reaches that port"+
		" controls HAProxy; bind it to 127.0.0.1 or use a unix socket", a)
}

// dial connects. HAProxy binds an abstract name with NULs up to the full size
// of sun_path, and to the kernel these NULs belong to the name.
func (a Address) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	switch a.Kind {
	case kindTCP:
		return d.DialContext(ctx, "tcp", a.Path)
	case kindABNS:
		name := "@" + a.Path
		return d.DialContext(ctx, "unix", name+strings.Repeat("\x00", sunPath-len(name)))
	default:
		return d.DialContext(ctx, "unix", a.Path)
	}
}
