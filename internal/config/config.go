// Package config reads weighter.toml into a checked Config. It is the only
// importer of the TOML library.
//
// A file is read in one go: the library decodes the syntax, locate finds the
// line of every key, and one function a table (readHAProxy, readGraphite, ...)
// asks for each key with its type, default and range. What is wrong is noted
// with its line, and reading goes on, so that one run tells it all.
package config

import (
	"context"
	_ "embed" // for Reference and Minimal
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// Config is a whole configuration, checked, with every default filled in.
type Config struct {
	File     string // as given by the user
	HAProxy  HAProxy
	Graphite graphite.Config // secrets loaded; never print it
	SPOA     SPOA
	Report   Report
	Admin    Admin
	State    State
	Log      Log
	Backends []Backend
	// Warnings are things that work and are unwise all the same, such as a
	// password file that everybody can read. Nil when there are none.
	Warnings []Mistake
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
	Name     string
	Sockets  []haproxy.Address // subset of HAProxy.Sockets; empty = all that have the backend
	Interval time.Duration
	Target   string // may contain {server}
	// TargetWritten is Target as the file has it, with ${NAME} in place of what
	// the environment gives, which may be secret: the form to show. Empty when
	// the two are the same.
	TargetWritten string
	ServerRegexp  *regexp.Regexp // nil = the series name is the server name
	ServerName    string         // replacement for ServerRegexp, e.g. "$1"
	Window        time.Duration
	Until         time.Duration // how long before now the window ends; 0 = now
	Aggregate     graphite.Aggregate
	MaxAge        time.Duration
	Capacity      Capacity
	Mode          Mode
	Maps          Maps
	SessionLimit  int // sess_limit: most sessions a "show sess" may list; 0 turns it off
	// FunctionSet tells whether the file names a function; when not, the
	// function follows HAProxy's balance algorithm (feedback with leastconn).
	FunctionSet bool
	Weighting   weighting.Settings
}

// DefaultFile is where the configuration is looked for when nobody says so.
const DefaultFile = "/etc/haproxy-weighter/weighter.toml"

// Reference is a configuration with every key, its default and its meaning.
//
//go:embed reference.toml
var Reference string

// Minimal is the smallest useful configuration.
//
//go:embed minimal.toml
var Minimal string

// largestFile is far above any configuration that a person wrote.
const largestFile = 4 << 20

// Load is LoadContext without an end before the file's.
func Load(file string) (*Config, error) { return LoadContext(context.Background(), file) }

// LoadContext reads, checks and completes the file, with the environment of
// this process. All mistakes come back in one Errors; a file that can't be read
// is an error of package os, or ctx's when that ends first: a pipe is read too,
// and may be silent.
func LoadContext(ctx context.Context, file string) (*Config, error) {
	data, err := readLimited(ctx, file, largestFile)
	if err != nil {
		return nil, unreadable(file, err)
	}
	var mode fs.FileMode
	if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() { // a pipe is nobody's to read again
		mode = info.Mode()
	}
	return parse(file, data, os.LookupEnv, mode)
}

// unreadable names the file in an error that does not.
func unreadable(file string, err error) error {
	var pathErr *fs.PathError
	switch {
	case errors.As(err, &pathErr):
		return fmt.Errorf("can't read the configuration: %w", err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("reading the configuration %s: %w", file, err)
	}
	return fmt.Errorf("can't read the configuration: %s %w", file, err)
}

// Parse is Load for a file that has been read: file is its name, for messages
// and as the place that relative paths in it start from; env finds environment
// variables as os.LookupEnv does. The files of secrets and certificates that
// the configuration names are read. The error is an Errors.
func Parse(file string, data []byte, env func(string) (string, bool)) (*Config, error) {
	return parse(file, data, env, 0)
}

// parse is Parse for a file of a mode; 0 when that is of no matter.
func parse(file string, data []byte, env lookup, mode fs.FileMode) (*Config, error) {
	data = cutMark(data)
	var values map[string]any
	if _, err := toml.Decode(string(data), &values); err != nil {
		return nil, Errors{syntaxMistake(file, data, err)}
	}
	r := &reader{file: file, mode: mode, env: env, lines: locate(data), flawed: map[string]bool{}}
	r.cautionWritable("", "mode of this file", fileName{path: file, shown: file})
	c := readFile(r.newTable("", "", values))
	r.unknown()
	if len(r.mistakes) > 0 {
		sortMistakes(r.mistakes)
		return nil, r.mistakes
	}
	sortMistakes(r.warnings)
	c.Warnings = r.warnings
	return c, nil
}

// readFile reads the whole file, of which root is the outermost table.
func readFile(root *table) *Config {
	c := &Config{
		File:     root.file,
		HAProxy:  readHAProxy(root.sub("haproxy")),
		Graphite: readGraphite(root.sub("graphite")),
		SPOA:     readSPOA(root.sub("spoa")),
		Report:   readReport(root.sub("report")),
		Admin:    readAdmin(root.sub("admin")),
		State:    readState(root.sub("state")),
		Log:      readLog(root.sub("log")),
	}
	c.Backends = readBackends(root, c)
	c.Graphite.Hidden = root.filledIn
	return c
}
