// Package weighting turns the loads of a backend's servers into integer
// weights for HAProxy, and records why each weight is what it is.
//
// It is pure arithmetic: no clock, no I/O, no goroutine. Time is an argument.
// The daemon and the simulator run this same code.
package weighting

import "time"

// Function names a weighting function; the values are those of the
// configuration key "function".
type Function string

// The weighting functions.
const (
	LimitedProportions    Function = "limited-proportions"
	NormalisedExponential Function = "normalised-exponential"
	WaterFill             Function = "water-fill"
	Feedback              Function = "feedback"
	Lua                   Function = "lua" // a user's, see Weigher
)

// Better says which loads are good.
type Better string

// The values of the configuration key "better".
const (
	Lower  Better = "lower"
	Higher Better = "higher"
)

// OnMissing says what a server without data gets once its hold has run out.
type OnMissing string

// The values of the configuration key "on_missing".
const (
	MissingNeutral OnMissing = "neutral" // hold, then count as average
	MissingHold    OnMissing = "hold"    // keep the weight in force for ever
	MissingInitial OnMissing = "initial" // hold, then the initial weight
)

// OnStale says what happens when no server has had data for StaleAfter.
type OnStale string

// The values of the configuration key "on_stale".
const (
	StaleHold    OnStale = "hold"
	StaleInitial OnStale = "initial"
)

// Settings are one backend's keys for weighting. DefaultSettings gives every default.
type Settings struct {
	Function       Function
	LimitingFactor float64 // limited-proportions: > 1
	Aggressiveness float64 // limited-proportions AF, exponent of normalised-exponential: > 0
	Better         Better
	MinWeight      int     // 1..256
	MaxWeight      int     // MinWeight..256
	MaxShare       float64 // times the fair share; > 1. Not used by feedback
	// MaxStep is the largest relative change of an integer weight in one
	// interval: with 0.2 a weight of 100 may go to 80..120, however many passes
	// there are (orders and reloads make some between the usual ones). One unit
	// is always allowed, and MinWeight and MaxWeight come first. 0 turns it off.
	MaxStep    float64
	Deadband   float64 // relative change of a share below which nothing is written
	Quorum     float64 // 0..1: least fraction of servers with fresh data
	OnMissing  OnMissing
	OnStale    OnStale
	StaleAfter time.Duration
	Interval   time.Duration // T, between two passes
	Window     time.Duration // of the render request
	Timing     Timing        // constants of time; the zero value means the documented ones
	// NewWeigher makes what weighs for one controller, for the function Lua.
	NewWeigher func() Weigher
}

// DefaultSettings returns the documented defaults.
func DefaultSettings() Settings {
	return Settings{
		Function: WaterFill, LimitingFactor: 5, Aggressiveness: 2, Better: Lower,
		MinWeight: 4, MaxWeight: 256, MaxShare: 4, Deadband: 0.05, Quorum: 0.5,
		OnMissing: MissingNeutral, OnStale: StaleHold, StaleAfter: 10 * time.Minute,
		Interval: 30 * time.Second, Window: 5 * time.Minute,
	}
}

// Rotation says whether a server takes part in a pass.
type Rotation string

// The states of a server as weighting sees them.
const (
	InRotation Rotation = ""      // up, ready, weight above 0
	Down       Rotation = "down"  // operationally stopped or stopping
	Maint      Rotation = "maint" // the operator, the configuration or DNS said so
	Drain      Rotation = "drain" // forced drain, or weight 0
	Backup     Rotation = "backup"
)

// Server is what a pass knows of one server before it decides.
type Server struct {
	Name          string
	Load          float64       // NaN: no usable data this pass
	LoadTime      time.Time     // stamp of the newest point behind Load
	DataAge       time.Duration // age of the data at the middle of what Load stands for
	Reason        string        // why Load is NaN, in words; empty otherwise
	Capacity      float64       // > 0; 1 when all are equal
	Weight        int           // in force, 0..256
	InitialWeight int           // of the configuration, 0..256
	// Pin is the weight that an operator keeps it at, 1..256; 0: none. Its load
	// counts as any other's, its weight is not worked out, and the others are
	// balanced beside it.
	Pin int
	// Left is the weight that we left in force, where somebody else has set
	// another since: max_step and kept shares go on from it, so that the other
	// one is taken back at once. 0: the weight in force is ours.
	Left     int
	Rotation Rotation
	// Awaited says of a server out of rotation that it was in rotation before
	// HAProxy's reload a moment ago, and that HAProxy has not found it up since:
	// when it comes back it is not cold.
	Awaited  bool
	UpSince  time.Time // last time it came up; zero when longer ago than anyone remembers
	Sessions int       // open now; -1 when unknown
	// Metrics are further values by their names, for a Weigher. Nil when there
	// are none. They shape nothing else.
	Metrics map[string]float64
}

// Input is all that one pass gives to Decide.
type Input struct {
	Now        time.Time
	Servers    []Server      // every server of the backend, any order
	Lifetime   time.Duration // tauhat, the mean connection lifetime; 0 when unknown
	LastChange time.Time     // when weights were last written; zero when never: then the deadband does not count
	// Force says why the weights must be written even inside the deadband (a
	// reload, a second writer); empty when there is no such reason.
	Force string
}

// Reason is one step that shaped a server's weight.
type Reason struct {
	Step   string  `json:"step"` // fixed identifier, e.g. "max_share"
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	Text   string  `json:"text"` // plain words for the operator
}

// Verdict says what a decision wants done.
type Verdict string

// The verdicts.
const (
	Write Verdict = "write" // some weight should change
	Keep  Verdict = "keep"  // the weights in force are good: inside the deadband
	Hold  Verdict = "hold"  // the picture is not good enough to act on
)

// Decision is the result of one pass.
type Decision struct {
	Verdict  Verdict
	Why      string // plain words; always set for Hold
	HoldCode string // fixed identifier of a Hold ("quorum", "all-zero", ...); empty otherwise
	Servers  []ServerDecision

	Fresh       int     // servers in rotation with data
	InService   int     // servers in rotation
	Mean        float64 // load a unit of capacity, over servers with data, as "better" has turned it
	MaxOverMean float64 // highest relative load, 0 when unknown

	Lifetime time.Duration // tauhat used; 0 when unknown, which water-fill replaces by an assumed one
	Delay    time.Duration // d
	Gain     float64       // k: aggressiveness, tauhat/H of water-fill, one pass's answer of feedback
	Function Function
	Printed  []string // what a Weigher has to say
}

// ServerDecision is one server's part of a Decision, in the order of the input.
type ServerDecision struct {
	Name     string
	Relative float64 // load over capacity, over the mean; NaN when unknown
	RawShare float64 // the function's share before any limit, 0..1; 0 for Hold and for a lone server
	Share    float64 // after all limits: what the weights of this decision give, 0..1; 0 when out of rotation
	Weight   int     // what should be in force
	Reasons  []Reason
}
