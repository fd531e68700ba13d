package balancer

import (
	"slices"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// Table is the result of the last pass for one backend on one HAProxy. It is
// immutable once published: readers share it without a lock.
type Table struct {
	Backend   string
	Socket    string    // haproxy.Address in its printed form
	Time      time.Time // when the pass decided
	Worker    haproxy.Worker
	Algorithm string
	Mode      string // "live" or "observe": the one in force
	Control   Control
	Rows      []Row // in HAProxy's order

	Verdict  weighting.Verdict
	Why      string
	HoldCode string
	Fault    string // what failed in this pass, in words; empty when nothing did

	Target    string // as the configuration has it, with {server} and ${NAME} in it
	Aggregate graphite.Aggregate
	Window    time.Duration // of the configuration

	Function     weighting.Function
	Fresh        int // servers in rotation with data that counted in the last pass
	InService    int
	Mean         float64       // load a unit of capacity
	Imbalance    float64       // max over mean; 0 when unknown
	Lifetime     time.Duration // tauhat, mean connection lifetime; 0 unknown
	LifetimeFrom string        // estimator: "sessions", "little" or ""
	Delay        time.Duration // d
	Gain         float64       // k
	LoopGain     float64       // k*d/tauhat, see weighting.Decision.LoopGain; 0 unknown
	Changes      int           // weights written by this pass
	Foreign      int           // weights that this pass found set by somebody else
	MaxAge       time.Duration // of the configuration: a load older than this does not count
	Quorum       float64       // of the configuration
	Better       weighting.Better
	LastChange   time.Time // when weights were last written; zero = not by this process

	Sighting *Sighting // when HAProxy was last read; nil: nobody looks between passes
}

// Row is one server of a Table. Its JSON form is documented and stable.
//
// Load is the newest load that is known. When a pass has no data of the server
// the load of an earlier one stays, with its true age, until that is more than
// max_age: those who read the table go on with it. Weights never come of it.
type Row struct {
	Server        string             `json:"server"`
	Load          *float64           `json:"load"`        // null: none is known
	AgeSeconds    *float64           `json:"age_seconds"` // at the table's time; null: no load
	Earlier       bool               `json:"earlier"`     // the load is of an earlier pass: the last one had no data of the server
	Series        string             `json:"series"`      // where the load is from; empty: no load
	Timestamp     *int64             `json:"timestamp"`   // of the newest data point in it, seconds since 1970, Graphite's clock; null: no load
	Points        int                `json:"points"`      // data points in it
	Capacity      float64            `json:"capacity"`
	Share         float64            `json:"share"`          // 0..1 of the new connections
	Weight        int                `json:"weight"`         // computed
	AppliedWeight int                `json:"applied_weight"` // in force, read back from HAProxy
	WeightBefore  int                `json:"-"`              // in force when the pass began, whoever set it
	InitialWeight int                `json:"initial_weight"`
	AdminState    string             `json:"admin_state"` // "ready", "drain", "maint"
	OpState       string             `json:"op_state"`    // "running", "stopped", ...
	Backup        bool               `json:"backup"`
	Sessions      int                `json:"sessions"`
	Metrics       map[string]float64 `json:"metrics,omitempty"` // further values that a script was given
	Pin           *Pin               `json:"pin"`               // an operator's; null: none
	Reasons       []weighting.Reason `json:"reasons"`
}

// The codes of a hold (Table.HoldCode) beside those of weighting. They are
// stable.
const (
	HoldFrozen   = "frozen"   // an operator keeps the weights as they are
	HoldStarting = "starting" // no pass has been made yet, or none since HAProxy can be read again
	HoldUnread   = "haproxy"  // HAProxy could not be read
	HoldPanic    = "panic"    // a mistake in this program has stopped a pass
)

// Unread tells whether HAProxy could not be read for this table: servers and
// weights are as they were last known.
func (t *Table) Unread() bool { return t.HoldCode == HoldUnread }

// Passed tells whether the table is what a pass that could read HAProxy has
// made of it.
func (t *Table) Passed() bool { return t.HoldCode != HoldStarting && t.HoldCode != HoldUnread }

// DataAge is the age, at the table's time, of the newest load of a server in
// rotation; ok is false when none has one.
func (t *Table) DataAge() (age time.Duration, ok bool) {
	for i := range t.Rows {
		r := &t.Rows[i]
		if r.Load == nil || r.AgeSeconds == nil || !r.InRotation() {
			continue
		}
		if of := time.Duration(*r.AgeSeconds * float64(time.Second)); !ok || of < age {
			age, ok = of, true
		}
	}
	return age, ok
}

// Earlier counts the servers in rotation whose load is of an earlier pass.
func (t *Table) Earlier() int {
	n := 0
	for i := range t.Rows {
		if r := &t.Rows[i]; r.Earlier && r.InRotation() {
			n++
		}
	}
	return n
}

// InRotation tells whether HAProxy gives the server new connections by its
// weight: it is up, ready, above weight 0 and not a backup server.
func (r *Row) InRotation() bool {
	up := r.OpState == haproxy.OpRunning.String() || r.OpState == haproxy.OpStarting.String()
	return up && r.AdminState == haproxy.AdminState(0).Word() && r.AppliedWeight > 0 && !r.Backup
}

// Measured tells whether the row has a load, of the last pass or an earlier
// one, that was believed.
func (r *Row) Measured() bool {
	return r.Load != nil && r.AgeSeconds != nil &&
		!slices.ContainsFunc(r.Reasons, func(w weighting.Reason) bool { return w.Step == weighting.StepStuck })
}
