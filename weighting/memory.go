package weighting

import (
	"math"
	"time"
)

const (
	trustPoints = 2    // data points before a server that was lost counts again
	stuckPoints = 3    // data points of zero, with sessions open, before zero is not believed
	holdWindows = 3    // render windows that a server without data keeps its weight
	coldCap     = 0.1  // cap of a server that has just come, in fair shares
	returnCap   = 1    // cap of a server whose data have just come back
	tinyTotal   = 0.01 // part of the usual total below which a total is not believed
	usualPasses = 5    // passes before a total is usual
)

// memory is what a Controller remembers of one server between passes.
type memory struct {
	pass int // of the last sight, to forget servers that are gone

	// Data.
	stamp      time.Time     // of the newest data point seen
	points     int           // distinct data points since the last gap
	missingFor time.Duration // without data while others had some, of the time in which somebody looked
	lost       bool          // missingFor outlasted the hold; ends after trustPoints
	zeros      int           // distinct data points of zero with many sessions open
	shown      bool          // has had a load above zero, or is empty because it has just come
	seen       int           // distinct data points at all, up to stuckPoints
	kept       float64       // share that it keeps while it has no data; 0: none
	keptAmong  int           // servers in rotation when kept was taken

	// Pin.
	pin      int // the weight; 0: none
	pinSum   int // of all weights when it was set, pins in place
	pinAmong int // servers in rotation then

	// Ramp.
	out   bool      // was out of rotation
	since time.Time // joined the sums then; zero: before anyone remembers
	start float64   // cap at since

	stepFrom int // weight in force when the step of max_step in hand began; 0: none

	// Feedback.
	asked     int // weight that should be in force by our last word; 0: none
	tracked   bool
	log       float64
	prevError float64
}

// enter notes that the server is in rotation. A server that joins after the
// first pass is cold; at the first pass nobody knows, and weights in force
// must not be flattened by a restart of this process.
func (m *memory) enter(now time.Time, known bool) {
	if m.out || !known {
		*m = memory{pass: m.pass, since: now, start: coldCap, shown: true}
	}
}

// look takes the data of one pass: usable or not, and whether enough others
// have data for a gap to be this server's own.
func (m *memory) look(s *Server, now time.Time, usable, sighted bool, elapsed, hold time.Duration) {
	if !usable {
		m.points = 0
		if sighted {
			m.missingFor += elapsed
		}
		m.lost = m.lost || m.missingFor >= hold
		return
	}
	if m.fresh(s, now) {
		m.points = min(m.points+1, trustPoints)
	}
	if m.lost && m.points >= trustPoints {
		m.lost = false
		m.since, m.start = now, returnCap
	}
	if !m.lost {
		m.missingFor = 0
	}
}

// fresh tells whether the server's data point is not the one of the last pass.
func (m *memory) fresh(s *Server, now time.Time) bool { return !m.stampOf(s, now).Equal(m.stamp) }

func (m *memory) stampOf(s *Server, now time.Time) time.Time {
	if s.LoadTime.IsZero() {
		return now
	}
	return s.LoadTime
}

// cold returns the server's cap as a multiple of its fair share: +Inf when it
// is not cold. It rises linearly from 0.1 (from 1 for a server whose data are
// back after it counted as average) to maxShare over the ramp.
func (m *memory) cold(upSince, now time.Time, ramp time.Duration, maxShare float64) float64 {
	limit := math.Inf(1)
	rise := func(since time.Time, start float64) {
		if age := max(now.Sub(since), 0); !since.IsZero() && age < ramp {
			limit = min(limit, start+(maxShare-start)*float64(age)/float64(ramp))
		}
	}
	rise(upSince, coldCap)
	rise(m.since, m.start)
	return limit
}

// usualTotal is a slow average of the total load.
type usualTotal struct {
	mean     float64
	passes   int
	last     time.Time
	lowSince time.Time // zero when the last total was plausible
}

// skip leaves out a time in which nobody looked.
func (u *usualTotal) skip(blind time.Duration) {
	u.last = u.last.Add(blind)
	if !u.lowSince.IsZero() {
		u.lowSince = u.lowSince.Add(blind)
	}
}

// plausible tells whether total is at least 1 % of the usual one, and learns
// from it if so. A low level that lasts for patience without a break becomes
// the new usual one, so that a hold ends by itself; adopted says that this
// has happened now. A total of zero is not shown to plausible: it breaks the
// low level, because what comes after an outage of the measuring may be low
// and partial for a while. A total that comes before least is over teaches
// nothing: it is hardly another one, and passes may come in bursts.
func (u *usualTotal) plausible(total float64, now time.Time, timeConstant, patience, least time.Duration) (ok, adopted bool) {
	if u.passes >= usualPasses && total < tinyTotal*u.mean {
		if u.lowSince.IsZero() {
			u.lowSince = now
		}
		if now.Sub(u.lowSince) < patience {
			return false, false
		}
		*u, adopted = usualTotal{}, true
	}
	u.lowSince = time.Time{}
	gone := now.Sub(u.last)
	if u.passes > 0 && gone >= 0 && gone < least {
		return true, adopted
	}
	u.passes++
	elapsed := max(gone, 0)
	// The first passes average plainly; the exponential average follows.
	part := max(1/float64(u.passes), -math.Expm1(-float64(elapsed)/float64(timeConstant)))
	if u.passes == 1 {
		part = 1
	}
	u.mean += part * (total - u.mean)
	u.last = now
	return true, adopted
}
