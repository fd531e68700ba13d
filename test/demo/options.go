// Package demo shows a real HAProxy being balanced by this program: the same
// long-lived clients are played twice, first under equal weights, then with
// the loop running. It is the whole of the command "demo", and a library so
// that tests can run it.
//
// Time is compressed thirty times: the loop makes a pass every second instead
// of every thirty, and clients stay for twenty seconds instead of ten minutes.
package demo

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Options of Run. The zero value of each field means what its comment says.
type Options struct {
	Seed     uint64
	Servers  int           // 2..50; 0 means 8
	Duration time.Duration // of both phases together, at least 4 s; 0 means 90 s

	// A real Graphite instead of the one in memory: both or none.
	GraphiteURL string // render API
	Carbon      string // host:port of carbon's plaintext listener

	HAProxy string // program; "" means that of $HAPROXY_BIN or the path
	TempDir string // where the run's directory is made; "" means the system's

	Out io.Writer // gets the view or the plain lines, not the result; nil means nobody
	// Screen is asked before each picture of the live view, so that a terminal
	// may change its size. nil means plain lines, one each five seconds.
	Screen func() Screen
}

const (
	defaultServers  = 8
	maxServers      = 50
	defaultDuration = 90 * time.Second
	minDuration     = 4 * time.Second

	// speedup is how much faster than in production everything goes.
	speedup = 30
	// lifetime is the mean time that a client stays: ten minutes, sped up.
	lifetime = 10 * time.Minute / speedup
	// clientsPerServer are connected at once, on average.
	clientsPerServer = 50
	// startWeight is every server's weight in haproxy.cfg.
	startWeight = 100
)

// complete checks o and fills in what is missing.
func (o Options) complete() (Options, error) {
	if o.Servers == 0 {
		o.Servers = defaultServers
	}
	if o.Duration == 0 {
		o.Duration = defaultDuration
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	var wrong []error
	if o.Servers < 2 || o.Servers > maxServers {
		wrong = append(wrong, fmt.Errorf("servers: %d is out of range; allowed: 2 to %d", o.Servers, maxServers))
	}
	if o.Duration < minDuration {
		wrong = append(wrong, fmt.Errorf("duration: %s is too short for two phases; allowed: %s or more", o.Duration, minDuration))
	}
	if (o.GraphiteURL == "") != (o.Carbon == "") {
		wrong = append(wrong, errors.New("graphite and carbon: a real Graphite needs both, the address to read from and the one to send to"))
	}
	if len(wrong) > 0 {
		return o, &OptionsError{errors.Join(wrong...)}
	}
	return o, nil
}

// OptionsError is what Run returns for options that can't be right.
type OptionsError struct{ err error }

func (e *OptionsError) Error() string { return strings.ReplaceAll(e.err.Error(), "\n", "; ") }

// Unwrap returns all that is wrong, joined.
func (e *OptionsError) Unwrap() error { return e.err }

// phaseSeconds is the length of one phase.
func (o Options) phaseSeconds() int { return int(o.Duration / (2 * time.Second)) }

// measuredFrom is how many seconds of each phase don't count: both begin with
// the clients spread evenly by number, and need a while to become what the
// policy makes of them.
func (o Options) measuredFrom() int { return min(15, o.phaseSeconds()/3) }
