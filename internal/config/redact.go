package config

import (
	"fmt"
	"log/slog"
	"net/url"
)

// String says which file this is and what it is about, without a secret. It
// is there so that a Config that is printed by mistake gives nothing away.
func (c Config) String() string {
	return fmt.Sprintf("configuration %s: %d sockets, %d backends, Graphite at %s",
		c.File, len(c.HAProxy.Sockets), len(c.Backends), c.graphiteHost())
}

// GoString is String, for the verb %#v.
func (c Config) GoString() string { return c.String() }

// MarshalText is String, for encoders.
func (c Config) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// LogValue is what a log line shows of a Config: no secret.
func (c Config) LogValue() slog.Value {
	sockets := make([]string, len(c.HAProxy.Sockets))
	for i, s := range c.HAProxy.Sockets {
		sockets[i] = s.String()
	}
	backends := make([]string, len(c.Backends))
	for i, b := range c.Backends {
		backends[i] = b.Name
	}
	return slog.GroupValue(
		slog.String("file", c.File),
		slog.Any("sockets", sockets),
		slog.String("graphite", c.graphiteHost()),
		slog.Any("backends", backends),
	)
}

// graphiteHost leaves out the path, which is a key at some services.
func (c Config) graphiteHost() string {
	u, err := url.Parse(c.Graphite.URL)
	if err != nil {
		return "an address that can't be read"
	}
	return u.Scheme + "://" + u.Host
}
