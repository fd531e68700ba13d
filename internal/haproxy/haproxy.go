// Package haproxy speaks to HAProxy's runtime socket: typed commands in,
// typed state and typed errors out.
package haproxy

import (
	"context"
	"errors"
	"net"
	"time"
)

// Address is where a runtime socket listens. ParseAddress makes one.
type Address struct {
	Kind string // "unix", "abns", "tcp", "master"
	Path string // file path, abstract name, or host:port
}

// ParseAddress reads "/path", "unix:/path", "abns@name", "tcp:host:port" or "master:/path".
func ParseAddress(s string) (Address, error) { return Address{Kind: "unix", Path: s}, nil }

// String gives the form that ParseAddress reads.
func (a Address) String() string { return a.Kind + ":" + a.Path }

// Options tune a Client; each zero field means the default in its comment.
type Options struct {
	Timeout time.Duration                               // one command line, dial to last byte; 0 means 2 s
	Dial    func(ctx context.Context) (net.Conn, error) // nil means dial Address
}

// Client sends commands to one runtime socket, one short-lived connection a
// line. It is safe for concurrent use and has at most a few connections open
// at once, because HAProxy allows 10 by default.
type Client struct {
	address Address
	options Options
}

// NewClient returns a client. It opens no connection.
func NewClient(a Address, o Options) *Client { return &Client{a, o} }

// Address returns what the client was made with.
func (c *Client) Address() Address { return c.address }

// Worker tells one HAProxy worker process from its successor.
type Worker struct {
	PID       int
	StartTime int64 // Start_time_sec of "show info"
}

// Info is the part of "show info" that we use.
type Info struct {
	Worker   Worker
	Version  string
	Node     string
	Stopping bool
	Uptime   time.Duration
}

// OpState is srv_op_state.
type OpState int

// The operational states, numbered as HAProxy does.
const (
	OpStopped OpState = iota
	OpStarting
	OpRunning
	OpStopping
)

// AdminState is srv_admin_state, a bit mask.
type AdminState int

// The bits of AdminState.
const (
	ForcedMaint AdminState = 1 << iota
	InheritedMaint
	ConfigMaint
	ForcedDrain
	InheritedDrain
	ResolutionMaint
	FQDNFromCLI
)

// Server is the state of one server.
type Server struct {
	Name          string
	ID            int
	Op            OpState
	Admin         AdminState
	Weight        int           // srv_uweight, 0..256
	InitialWeight int           // srv_iweight, 0..256
	SinceChange   time.Duration // srv_time_since_last_change
	Sessions      int           // scur
	TotalSessions int64         // stot
	Backup        bool
	Throttled     bool   // slowstart is ramping
	Agent         string // agent_status; empty when there is no agent-check
}

// State is one backend as one worker saw it.
type State struct {
	Info      Info
	Backend   string
	Algorithm string // "roundrobin", "leastconn", ...; empty when the socket's level hides it
	Servers   []Server
}

// Change is one weight to set, always absolute.
type Change struct {
	Server string
	Weight int // 1..256; 0 is refused here, it would be a drain
}

// Outcome is what happened to a batch of changes.
type Outcome struct {
	Info    Info             // of the worker that took them
	Applied int              // changes HAProxy accepted
	Failed  map[string]error // by server; nil when all went well
	After   *State           // read back on the same connection; sessions are not filled
}

// Sessions are the ages of a backend's open connections.
type Sessions struct {
	Info Info
	Ages map[string][]time.Duration // by backend
}

var errUnbuilt = errors.New("haproxy: not built yet")

// Info asks which worker answers.
func (c *Client) Info(ctx context.Context) (Info, error) { return Info{}, errUnbuilt }

// Backends lists the backends (and listen sections) HAProxy has.
func (c *Client) Backends(ctx context.Context) ([]string, error) { return nil, errUnbuilt }

// State reads one backend: worker, servers, sessions, on one connection.
func (c *Client) State(ctx context.Context, backend string) (*State, error) { return nil, errUnbuilt }

// SetWeights sets weights and reads the backend back on the same connection.
// At most perLine changes go on one line; 0 means as many as fit.
func (c *Client) SetWeights(ctx context.Context, backend string, changes []Change, perLine int) (*Outcome, error) {
	return nil, errUnbuilt
}

// Probe finds out, without changing anything, whether the socket lets us set weights.
func (c *Client) Probe(ctx context.Context) error { return errUnbuilt }

// SessionAges reads "show sess". It gives up, with an error, beyond limit sessions.
func (c *Client) SessionAges(ctx context.Context, limit int) (*Sessions, error) {
	return nil, errUnbuilt
}
