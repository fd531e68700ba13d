// Package graphite asks a Graphite render API for series and reads the answer
// without ever taking absence for a number.
//
// The package knows nothing of load balancing. A [Client] turns a [Request]
// into an [Answer]; [Series.Reduce] turns one series into one [Sample], or
// says why it can't.
//
// What counts as an answer is narrow on purpose. A render API says 200 to a
// login page, to a PNG and to a target with a missing bracket, so an answer is
// status 200, content type application/json and a list of series; all else is a
// [RenderError]. An empty list is an answer: it means that nothing matched, or a
// typo, or storage that is down, and never a load of zero. What is wrong with
// one series ([Series.Fault]) never spoils the others.
package graphite

import (
	"crypto/tls"
	"net/http"
	"time"
)

// Config says where the render API is and how to talk to it. Only URL is
// required; each other zero field means the default in its comment.
type Config struct {
	URL         string            // base address with any path prefix; "/render" is appended
	Method      string            // "POST" (default) or "GET"
	Timeout     time.Duration     // one request with its body and its retry; 0 means 5 s
	Header      http.Header       // sent as they are with every request
	Username    string            // Basic authentication when not empty
	Password    string            // goes with Username
	BearerToken string            // Authorization: Bearer when not empty; excludes Username
	TLS         *tls.Config       // nil means the system's roots
	MaxBody     int64             // bytes of an answer after decompression; 0 means 16 MiB
	Hidden      []string          // further words that no error may repeat, from 3 bytes on
	Room        *Room             // bounds the memory of all answers together; nil means no bound
	Transport   http.RoundTripper // nil means an own http.Transport without proxy
	Now         func() time.Time  // nil means time.Now
}

// Request is one question: several targets, one window.
type Request struct {
	Targets []string
	Window  time.Duration // length of the window, whole seconds, > 0
	Until   time.Duration // how long before now the window ends; 0 means now
}

// Answer is what the render API said, decoded.
type Answer struct {
	Series []Series
	// Now is the server's clock (the Date header) when the answer was made;
	// our own clock when the header is missing. Ages are taken against it. To
	// that of an answer that is Repeated the time since then is added.
	Now time.Time
	// ClockSkew is our clock minus the server's; 0 when the header is missing.
	ClockSkew time.Duration
	// Repeated is how long ago the same answer, or a part of it, came first; 0
	// when it is new. What is between us and the server keeps it then.
	Repeated time.Duration

	release func() // nil: nothing to give back
}

// Release makes room for other answers, see Config.Room: nothing of this one,
// its points above all, may be kept afterwards. It does nothing without a room,
// for a nil answer, and the second time.
func (a *Answer) Release() {
	if a != nil && a.release != nil {
		a.release()
	}
}

// Series is one named list of points, oldest first.
type Series struct {
	Name   string
	Fault  string // why nothing of this series may be used; empty when it is sound
	Points []Point
	// OutOfRange counts the points that were numbers which no float64 holds, as
	// graphite-web's 1e9999 for Infinity. They are NaN in Points, like null.
	OutOfRange int
}

// Point is one data point. The stamp is the START of its interval.
type Point struct {
	Unix  int64   // seconds
	Value float64 // NaN when Graphite had null, or a number that no float64 holds
}

// Aggregate names the way from the points of a window to one number.
type Aggregate string

// The aggregates; the values are those of the configuration key "aggregate".
const (
	Last    Aggregate = "last" // the leading edge: newest usable point
	Average Aggregate = "average"
	Median  Aggregate = "median"
	Max     Aggregate = "max"
	Sum     Aggregate = "sum"
)

// Sample is one series reduced to one number.
type Sample struct {
	Value  float64       // finite and >= 0
	Time   time.Time     // stamp of the newest point used
	Age    time.Duration // Answer.Now - Time
	MidAge time.Duration // Answer.Now - middle of the span the value stands for
	Step   time.Duration // smallest distance of neighbouring stamps; 0 with one point
	Points int           // points used
	// SkippedNewest counts unusable points newer than Time.
	SkippedNewest int
}
