// Package config reads weighter.toml into a checked Config. It is the only
// importer of the TOML library.
package config

import (
	"errors"
	"log/slog"
	"regexp"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// Config is a whole configuration, checked, with every default filled in.
type Config struct {
	File     string // as given by the user
	HAProxy  HAProxy
	Graphite graphite.Config // secrets loaded; never print it
	Log      Log
	Backends []Backend
}

// HAProxy is the table [haproxy].
type HAProxy struct {
	Sockets []haproxy.Address
	Timeout time.Duration // of one command line
	Watch   time.Duration // how often a reload or restart is looked for
}

// Log is the table [log].
type Log struct {
	Format string // "text" or "json"
	Level  slog.Level
}

// Mode says whether a backend's weights are really set.
type Mode string

// The values of the key "mode".
const (
	Live    Mode = "live"
	Observe Mode = "observe"
)

// Capacity is the key "capacity": how the servers' sizes relate.
type Capacity struct {
	Kind  string             // "equal", "initial-weight" or "table"
	Table map[string]float64 // by server, > 0; a server that is not named counts 1
}

// Backend is one [[backend]] table.
type Backend struct {
	Name         string
	Sockets      []haproxy.Address // subset of HAProxy.Sockets; empty = all that have the backend
	Interval     time.Duration
	Target       string         // may contain {server}
	ServerRegexp *regexp.Regexp // nil = the series name is the server name
	ServerName   string         // replacement for ServerRegexp, e.g. "$1"
	Window       time.Duration
	Until        time.Duration // how long before now the window ends; 0 = now
	Aggregate    graphite.Aggregate
	MaxAge       time.Duration
	Capacity     Capacity
	Mode         Mode
	SessionLimit int // sess_limit: most sessions a "show sess" may list; 0 turns it off
	// FunctionSet tells whether the file names a function; when not, the
	// function follows HAProxy's balance algorithm (feedback with leastconn).
	FunctionSet bool
	Weighting   weighting.Settings
}

// Load reads, checks and completes the file. All mistakes come back in one Errors.
func Load(file string) (*Config, error) { return nil, errors.New("config: not built yet") }
