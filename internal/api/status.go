package api

import (
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

// Status is the answer of /api/v1/status: the daemon as a whole.
type Status struct {
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"` // UTC
	Ready   bool      `json:"ready"`   // as /-/ready says
	Config  Config    `json:"config"`
	SPOA    []string  `json:"spoa"` // addresses where the SPOE agent listens; never null
	// Faults are all that is wrong now, those of single backends included; never null.
	Faults   []balancer.Fault `json:"faults"`
	Backends []BackendStatus  `json:"backends"` // in the order of the file; never null
	// Unconfigured are the orders for backends that a reload has taken out of the
	// configuration, by name; never null. They have no effect, unless the backend
	// comes back.
	Unconfigured []Unconfigured `json:"unconfigured"`
}

// Config tells of the configuration in force.
type Config struct {
	File   string    `json:"file"`
	Loaded time.Time `json:"loaded"` // UTC
	// ReloadFailed is when a later reload failed, and ReloadError why: the
	// configuration in force is the one of Loaded. Null and empty: none did.
	ReloadFailed *time.Time `json:"reload_failed"`
	ReloadError  string     `json:"reload_error"`
	// RestartKeys are keys that a reload has found changed and that count only
	// after a restart; never null.
	RestartKeys []string `json:"restart_keys"`
}

// BackendStatus is one backend of the configuration.
type BackendStatus struct {
	Backend         string           `json:"backend"`
	Mode            string           `json:"mode"` // in force: "live" or "observe"
	IntervalSeconds float64          `json:"interval_seconds"`
	Control         balancer.Control `json:"control"` // operators' orders
	Tables          []Table          `json:"tables"`  // one a HAProxy that has the backend, without reasons; never null
}

// Unconfigured is a backend that is not in the configuration, with what
// operators have ordered for it.
type Unconfigured struct {
	Backend string           `json:"backend"`
	Control balancer.Control `json:"control"`
}

// History is the answer of /api/v1/history/BACKEND: what is kept in memory of
// the last 24 hours, oldest first.
type History struct {
	Backend string    `json:"backend"`
	Since   time.Time `json:"since"` // UTC: what came before is not kept
	// Events are what changed: weights written, orders given, faults and holds
	// that began or ended. Never null.
	Events []Event `json:"events"`
	// Series are the loads and weights for charts, one a socket; never null.
	Series []Series `json:"series"`
}

// Event is one thing that happened to a backend.
type Event struct {
	Time   time.Time `json:"time"`   // UTC
	Socket string    `json:"socket"` // empty: all
	Kind   string    `json:"kind"`   // one of the constants below
	Text   string    `json:"text"`   // in words
	// Changes are the weights of an event of kind EventWeights, the largest
	// changes first, at most 12: Text says how many more there were. Else null.
	Changes []WeightChange `json:"changes"`
}

// The kinds of an Event.
const (
	EventWeights = "weights" // weights were written
	EventForeign = "foreign" // somebody else has set weights
	EventOrder   = "order"   // pin, unpin, freeze, unfreeze, mode; or the time of one has passed
	EventHold    = "hold"    // passes began to hold, for the reason in Text
	EventFault   = "fault"   // something else went wrong
	EventGood    = "good"    // passes no longer hold, or nothing is wrong any more
	EventReload  = "reload"  // HAProxy has a new worker
)

// WeightChange is one server's part of an Event.
type WeightChange struct {
	Server string   `json:"server"`
	Before int      `json:"before"`
	After  int      `json:"after"`
	Load   *float64 `json:"load"`
	Text   string   `json:"text"` // the steps that bent the weight; may be empty
}

// Series are the samples of one backend on one socket, all of the same length:
// each pass in the last hour, before that means of some minutes.
type Series struct {
	Socket    string                `json:"socket"`
	Times     []int64               `json:"times"`     // seconds since 1970
	Imbalance []*float64            `json:"imbalance"` // null: unknown
	Loads     map[string][]*float64 `json:"loads"`     // by server; null: no data
	Weights   map[string][]*float64 `json:"weights"`   // in force, by server; null: not there
}

// Order is the body of the requests that change something. They go to the
// control socket only, by POST: /control/v1/pin, unpin, freeze, unfreeze, mode.
// The author is who the peer of the socket is.
type Order struct {
	Backend string `json:"backend"`
	Server  string `json:"server,omitempty"` // pin, unpin
	Weight  int    `json:"weight,omitempty"` // pin: 1 to 256
	Mode    string `json:"mode,omitempty"`   // mode: "live", "observe", or "file" for what the file says
	Reason  string `json:"reason,omitempty"` // pin, freeze, mode: required
	// ForSeconds is how long it counts: required for pin and freeze; 0 with mode
	// means until it is taken back.
	ForSeconds float64 `json:"for_seconds,omitempty"`
}

// Done is the answer to an Order that was carried out, or had nothing to do.
type Done struct {
	Backend string           `json:"backend"`
	Control balancer.Control `json:"control"` // all orders in force now
	// NothingToDo says why the order has changed nothing: all is as it wants it.
	// Empty: it has changed something.
	NothingToDo string `json:"nothing_to_do"`
	Warning     string `json:"warning"` // e.g. the server is in drain, so the pin has no effect; may be empty
}

// Problem is the answer to a request that failed.
type Problem struct {
	Error string `json:"error"` // what is wrong, in words
	Do    string `json:"do"`    // what to do; may be empty
}
