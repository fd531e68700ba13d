package graphite

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// The defaults of [SenderConfig].
const (
	DefaultSendTimeout = 20 * time.Second
	DefaultFlush       = 3 * time.Second
	DefaultMaxLines    = 100_000
	DefaultMaxLineAge  = 15 * time.Minute
)

// The waits after a failure grow from leastWait to mostWait.
const (
	leastWait = time.Second
	mostWait  = time.Minute
)

// A connection carries at most mostLines. A receiver that is too slow for as
// many gets fewer at a time, down to leastLines, or it would never have one
// whole batch.
const (
	mostLines  = 10_000
	leastLines = 100
)

// SenderConfig says where metrics go. Only Address is required; each other
// zero field means the default in its comment.
type SenderConfig struct {
	Address  CarbonAddress
	TLS      *tls.Config   // for an Address with TLS; nil means the system's authorities
	Timeout  time.Duration // one batch: connect, write, and see it read; 0 means 20 s
	Flush    time.Duration // for what is left when Run's context ends; 0 means 3 s
	MaxLines int           // most that wait; of more the newest are kept; 0 means 100,000
	MaxAge   time.Duration // what has an older time is not kept; 0 means 15 min
	// Lost is called when a delivery fails that is the first to fail since the
	// last that did not; Back when one succeeds again. Both are called by the
	// goroutine in Run; nil means nobody wants to know.
	Lost func(cause error)
	Back func(Outage)

	Now    func() time.Time                                         // nil means time.Now
	Jitter func() float64                                           // uniform in [0,1); nil means math/rand
	Dial   func(ctx context.Context, addr string) (net.Conn, error) // under TLS; nil means TCP, the name looked up each time
}

// Outage is a time in which nothing could be delivered.
type Outage struct {
	Lasted  time.Duration
	Dropped uint64 // lines given up meanwhile
}

// SenderStats are counters since NewSender, and the state of now.
type SenderStats struct {
	Address  string
	Sent     uint64 // lines that the other side has read
	Dropped  uint64 // lines given up: too many, too old, or left at the end
	Refused  uint64 // metrics that can't be a line: a name, a number, a time
	Batches  uint64 // connections that delivered
	Failures uint64 // connections that did not
	Queued   int    // lines that wait, those on their way included
	Lost     bool   // the newest delivery failed
}

// Sender delivers metrics to one carbon as plaintext lines. Send puts them into
// a bounded queue; Run empties it, with a connection for each batch: connect,
// write, half-close, and read to the end, which is the only way to know that
// carbon has read it all. (To a connection that carbon has left behind, the
// first write succeeds, and is lost.) That carbon has read a line does not say
// that it stores it.
//
// After a failure the lines stay in the queue, with their times, for a later
// connection; carbon may get some twice and keeps the last of each time. A
// Sender is safe for concurrent use.
type Sender struct {
	config SenderConfig
	wake   chan struct{} // holds one
	lines  int           // of the next batch at most; belongs to Run

	mu    sync.Mutex // never held during I/O
	queue queue
	stats SenderStats
}

// NewSender checks config and returns a sender; it does no I/O.
func NewSender(config SenderConfig) (*Sender, error) {
	if config.Address.HostPort == "" {
		return nil, errors.New("graphite: the address of carbon is missing")
	}
	if config.Timeout < 0 || config.Flush < 0 || config.MaxLines < 0 || config.MaxAge < 0 {
		return nil, errors.New("graphite: the bounds of a sender must not be negative")
	}
	config.Timeout = cmp.Or(config.Timeout, DefaultSendTimeout)
	config.Flush = cmp.Or(config.Flush, DefaultFlush)
	config.MaxLines = cmp.Or(config.MaxLines, DefaultMaxLines)
	config.MaxAge = cmp.Or(config.MaxAge, DefaultMaxLineAge)
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Jitter == nil {
		config.Jitter = rand.Float64
	}
	if config.Dial == nil {
		config.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	s := &Sender{config: config, wake: make(chan struct{}, 1), lines: mostLines}
	s.stats.Address = config.Address.String()
	return s, nil
}

// Send queues metrics and returns at once, whatever carbon does. When the
// queue is full, the oldest lines go. A metric that can't be sent is left out
// and counted; the error, which Send may drop, says why for the first of them.
func (s *Sender) Send(metrics []Metric) error {
	var refused error
	good := make([]Metric, 0, len(metrics))
	for i := range metrics {
		if err := metrics[i].check(); err != nil {
			if refused == nil {
				refused = err
			}
			continue
		}
		good = append(good, metrics[i])
	}
	s.mu.Lock()
	s.stats.Refused += uint64(len(metrics) - len(good))
	s.queue.push(good)
	s.trimLocked()
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return refused
}

// Stats returns the counters; it never waits for the network.
func (s *Sender) Stats() SenderStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	stats.Queued = s.queue.len()
	return stats
}

func (s *Sender) trimLocked() {
	s.stats.Dropped += uint64(s.queue.trim(s.config.MaxLines, s.config.Now().Add(-s.config.MaxAge)))
}

// Run delivers until ctx ends and what is left has been tried once more, for
// SenderConfig.Flush at most. Then it returns nil. It may run once at a time.
func (s *Sender) Run(ctx context.Context) error {
	work, stop := outlast(ctx, s.config.Flush)
	defer stop()
	var out outage
	for ctx.Err() == nil {
		s.empty(work, &out)
		s.rest(ctx, out.failures)
	}
	s.empty(work, &out)
	s.mu.Lock()
	s.stats.Dropped += uint64(s.queue.clear())
	s.mu.Unlock()
	return nil
}

// empty delivers batches until none is left or one fails.
func (s *Sender) empty(ctx context.Context, out *outage) {
	for ctx.Err() == nil && s.waiting() && s.attempt(ctx, out) {
	}
}

// outlast gives a context that ends d after ctx.
func outlast(ctx context.Context, d time.Duration) (context.Context, func()) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	timer := time.AfterFunc(time.Hour, cancel)
	timer.Stop() // until ctx ends
	detach := context.AfterFunc(ctx, func() { timer.Reset(d) })
	return late, func() {
		detach()
		timer.Stop()
		cancel()
	}
}

// rest waits: without failures for something to send, after some for the time
// to try again, whatever is queued meanwhile.
func (s *Sender) rest(ctx context.Context, failures int) {
	if failures == 0 {
		select {
		case <-ctx.Done():
		case <-s.wake:
		}
		return
	}
	timer := time.NewTimer(s.backOff(failures))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// backOff is 1..2 s after the first failure, doubled with each, 30..60 s at last.
func (s *Sender) backOff(failures int) time.Duration {
	most := min(leastWait<<min(failures, 10), mostWait)
	return most/2 + time.Duration(s.config.Jitter()*float64(most/2))
}

// outage is what Run knows of the failures in a row.
type outage struct {
	failures int
	since    time.Time
	dropped  uint64 // SenderStats.Dropped when it began
}

func (s *Sender) waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trimLocked()
	return s.queue.len() > 0
}

// attempt makes one connection with the oldest lines, and tells whether they
// were delivered.
func (s *Sender) attempt(ctx context.Context, out *outage) bool {
	s.mu.Lock()
	batch, mark := s.queue.oldest(s.lines)
	s.mu.Unlock()
	sent, err := s.deliver(ctx, batch)

	s.mu.Lock()
	if err == nil {
		s.stats.Sent += uint64(s.queue.drop(mark)) // what was given up on its way stays given up
		s.stats.Batches++
	} else {
		s.stats.Failures++
	}
	s.stats.Lost = err != nil
	dropped := s.stats.Dropped
	s.mu.Unlock()

	switch {
	case err == nil:
		s.lines = min(2*s.lines, mostLines)
		if out.failures > 0 && s.config.Back != nil {
			s.config.Back(Outage{Lasted: s.config.Now().Sub(out.since), Dropped: dropped - out.dropped})
		}
		*out = outage{}
	case out.failures == 0:
		*out = outage{since: s.config.Now(), dropped: dropped}
		if s.config.Lost != nil {
			s.config.Lost(err)
		}
	}
	if err != nil {
		out.failures++
		if sent {
			s.lines = max(min(s.lines, len(batch))/2, leastLines)
		}
	}
	return err == nil
}
