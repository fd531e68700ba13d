package config

import (
	"net"
	"slices"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
)

const socketForms = `"/path", "unix:/path", "abns@name", "tcp:host:port", "master:/path"`

func readHAProxy(t *table) HAProxy {
	t.require("sockets", "a list of runtime sockets, each "+socketForms)
	return HAProxy{
		Sockets: t.sockets("sockets", t.cautionRemote),
		Timeout: t.duration("timeout", 2*time.Second, 100*time.Millisecond, time.Minute),
		Watch:   t.duration("watch", time.Second, 100*time.Millisecond, time.Minute),
	}
}

// sockets reads a list of runtime sockets, none of them twice, and hands each
// to also.
func (t *table) sockets(key string, also func(element, haproxy.Address)) []haproxy.Address {
	var all []haproxy.Address
	for _, e := range t.texts(key, "a list of runtime sockets, each "+socketForms) {
		a, err := haproxy.ParseAddress(e.value)
		switch {
		case err != nil && e.value != e.written:
			t.mistake(e.path, e.name, "%q is no socket address with its environment variables filled in; allowed: %s", e.written, socketForms)
		case err != nil:
			t.mistake(e.path, e.name, "%v", err)
		case slices.Contains(all, a):
			t.mistake(e.path, e.name, "%q is in the list twice; allowed: each socket once", e.written)
		default:
			all = append(all, a)
			also(e, a)
		}
	}
	return all
}

func (t *table) cautionRemote(e element, a haproxy.Address) {
	if w := a.Warning(); w != "" {
		t.warn(e.path, e.name, "%s", w)
	}
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
