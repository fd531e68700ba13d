package simulate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// EventKind names a disturbance.
type EventKind string

// The disturbances.
const (
	Restart EventKind = "restart" // the server goes down, its clients come again at once, and it comes back empty
	Hot     EventKind = "hot"     // its connections get rates that make it Factor times the mean
	Missing EventKind = "missing" // its series has nulls for a while
	Stuck   EventKind = "stuck"   // its series says 0 for a while
	Storm   EventKind = "storm"   // Factor times the arrivals for a while
	Swing   EventKind = "swing"   // arrivals or rates swing by +-Factor with this period, from At on
)

// Event is one disturbance. Times count from the end of the warm-up.
type Event struct {
	Kind   EventKind
	At     time.Duration
	Server int           // of restart, hot, missing, stuck; from 0
	For    time.Duration // how long; of restart: how long it is down
	Factor float64
	Period time.Duration // of swing
	Rates  bool          // of swing: the rates of all connections swing, not the arrivals
}

// downTime is how long a restarted server is out: about what health checks need.
const downTime = 10 * time.Second

// ParseEvent reads "KIND@AT[,key=value...]", e.g. "restart@1h,server=3" or
// "storm@30m,for=10m,factor=3". Keys: server, for, factor, period, of (arrivals or rates).
func ParseEvent(s string) (Event, error) {
	fail := func(why string) (Event, error) {
		return Event{}, fmt.Errorf("event %q: %s; want for example restart@1h,server=3 or storm@30m,for=10m,factor=3", s, why)
	}
	head, rest, _ := strings.Cut(s, ",")
	kind, at, found := strings.Cut(head, "@")
	if !found {
		return fail("no @ and time")
	}
	e := Event{Kind: EventKind(kind), For: 10 * time.Minute}
	switch e.Kind {
	case Restart:
		e.For = downTime
	case Hot:
		e.Factor = 5
	case Storm:
		e.Factor = 3
	case Swing:
		e.Factor, e.Period = 0.5, 24*time.Hour
	case Missing, Stuck:
	default:
		return fail(fmt.Sprintf("%q is none of restart, hot, missing, stuck, storm, swing", kind))
	}
	var err error
	if e.At, err = time.ParseDuration(at); err != nil {
		return fail(fmt.Sprintf("%q is no time", at))
	}
	for part := range strings.SplitSeq(rest, ",") {
		if part == "" {
			continue
		}
		if err := e.set(part); err != nil {
			return fail(err.Error())
		}
	}
	return e, nil
}

func (e *Event) set(part string) error {
	key, value, _ := strings.Cut(part, "=")
	var err error
	switch key {
	case "server":
		e.Server, err = strconv.Atoi(value)
	case "for":
		e.For, err = time.ParseDuration(value)
	case "factor":
		e.Factor, err = strconv.ParseFloat(value, 64)
	case "period":
		e.Period, err = time.ParseDuration(value)
	case "of":
		if value != "arrivals" && value != "rates" {
			return fmt.Errorf("of=%s, want arrivals or rates", value)
		}
		e.Rates = value == "rates"
	default:
		return fmt.Errorf("%q is none of server, for, factor, period, of", key)
	}
	if err != nil {
		return fmt.Errorf("%s=%s is not a value for it", key, value)
	}
	return nil
}

func (e *Event) check(m *Model) error {
	switch {
	case e.At < 0:
		return fmt.Errorf("event %s: at %v, want 0 or more", e.Kind, e.At)
	case e.Server < 0 || e.Server >= m.Servers:
		return fmt.Errorf("event %s: server %d, want 0..%d", e.Kind, e.Server, m.Servers-1)
	case e.For <= 0 && e.Kind != Hot && e.Kind != Swing:
		return fmt.Errorf("event %s: for %v, want more than 0", e.Kind, e.For)
	case e.Kind == Storm && !(e.Factor >= 1 && e.Factor <= 100):
		return fmt.Errorf("event storm: factor %v, want 1..100", e.Factor)
	case e.Kind == Hot && !(e.Factor > 0 && e.Factor <= 100):
		return fmt.Errorf("event hot: factor %v, want more than 0 and at most 100", e.Factor)
	case e.Kind == Swing && (!(e.Factor >= 0 && e.Factor < 1) || e.Period < time.Minute):
		return fmt.Errorf("event swing: factor %v and period %v, want 0..1 and at least 1m", e.Factor, e.Period)
	}
	return nil
}

// arrivalsFactor is what the events make of the arrival rate at a time after the warm-up.
func (m *Model) arrivalsFactor(seconds float64) float64 {
	factor := 1.0
	for i := range m.Events {
		e := &m.Events[i]
		since := seconds - e.At.Seconds()
		switch {
		case since < 0:
		case e.Kind == Storm && since < e.For.Seconds():
			factor *= e.Factor
		case e.Kind == Swing && !e.Rates:
			factor *= e.wave(since)
		}
	}
	return factor
}

// ratesFactor is what the events make of every connection's rate.
func (m *Model) ratesFactor(seconds float64) float64 {
	factor := 1.0
	for i := range m.Events {
		e := &m.Events[i]
		if since := seconds - e.At.Seconds(); e.Kind == Swing && e.Rates && since >= 0 {
			factor *= e.wave(since)
		}
	}
	return factor
}

func (e *Event) wave(since float64) float64 {
	return 1 + e.Factor*math.Sin(2*math.Pi*since/e.Period.Seconds())
}

// arrivalsPeak is an upper bound of arrivalsFactor.
func (m *Model) arrivalsPeak() float64 {
	peak := 1.0
	for i := range m.Events {
		switch e := &m.Events[i]; {
		case e.Kind == Storm:
			peak *= e.Factor
		case e.Kind == Swing && !e.Rates:
			peak *= 1 + e.Factor
		}
	}
	return peak
}
