package weighting

import (
	"math"
	"strconv"
)

// The steps of a Reason, in the order in which they can shape a weight. These
// identifiers are stable. Read together they are enough to work the weight out
// by hand.
const (
	StepRotation  = "rotation"   // out of rotation: the weight is never touched
	StepCapacity  = "capacity"   // the capacity given is unusable: counts as 1
	StepLoad      = "load"       // load -> load over capacity
	StepBetter    = "better"     // higher is better: value -> load
	StepStuck     = "stuck-zero" // reports zero while it holds many sessions
	StepMissing   = "missing"    // no data that count: what it counts as
	StepRelative  = "relative"   // load over capacity -> over the mean
	StepLifetime  = "lifetime"   // connection lifetime unknown: an assumed one is used
	StepFunction  = "function"   // relative load -> raw share, on the function's own scale
	StepShare     = "share"      // raw share -> share, 0..1
	StepMaxShare  = "max_share"  // share cut to max_share times its fair share
	StepCold      = "cold"       // share cut because the server has just come
	StepRamp      = "ramp"       // share above the cold limit, so that servers busier than most are not flooded
	StepRest      = "rest"       // share changed by what others may not take, or must keep
	StepWeight    = "weight"     // share times the scale -> integer weight
	StepMinWeight = "min_weight" // weight raised
	StepMaxWeight = "max_weight" // weight cut
	StepRescale   = "rescale"    // weight of a server that keeps its share changes with the scale
	StepMaxStep   = "max_step"   // weight moved only part of the way
	StepDeadband  = "deadband"   // weight in force kept: the change is too small
	StepHold      = "hold"       // weight in force kept: see Decision.Why
	StepStale     = "on_stale"   // nothing has data for too long: initial weight
)

// The codes of a Hold (Decision.HoldCode). They are stable.
const (
	HoldNoServers = "no-servers"        // no server in rotation
	HoldStale     = "stale"             // no server in rotation has data
	HoldQuorum    = "quorum"            // too few servers have data
	HoldAllZero   = "all-zero"          // every load is zero
	HoldTotal     = "implausible-total" // total load under 1 % of the usual
	HoldScript    = "script"            // the user's function failed, or said nothing usable
)

// words builds one text after another in the same buffer.
type words struct{ b []byte }

func (w *words) s(s string) *words {
	w.b = append(w.b, s...)
	return w
}

// f adds a number for people: six significant digits.
func (w *words) f(v float64) *words {
	w.b = strconv.AppendFloat(w.b, v, 'g', 6, 64)
	return w
}

// short adds a number that nobody calculates with.
func (w *words) short(v float64) *words {
	unit := 100.0
	switch {
	case v >= 100:
		unit = 1
	case v >= 10:
		unit = 10
	}
	w.b = strconv.AppendFloat(w.b, math.Round(v*unit)/unit, 'f', -1, 64)
	return w
}

func (w *words) i(v int) *words {
	w.b = strconv.AppendInt(w.b, int64(v), 10)
	return w
}

// end returns the text and starts the next one.
func (w *words) end() string {
	s := string(w.b)
	w.b = w.b[:0]
	return s
}
