package ingest

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// defaultBatch keeps hundreds of clients cheap and still gives each server
	// a smooth flow within every second.
	defaultBatch = 250 * time.Millisecond
	// writeTimeout bounds one batch; a peer that takes nothing for so long is broken.
	writeTimeout = 5 * time.Second
	// line is what every datapoint looks like on the wire. What it says does
	// not matter, its length is a usual one.
	line = "app.requests.count 1 1795974168\n"
	// blockLines is the most datapoints that go out in one write.
	blockLines = 2048
)

// Clients plays a plan: each arrival is one TCP connection that sends its
// datapoints in batches and closes at the end of its life. A connection that
// is refused or breaks is counted and not made again, so that every policy
// meets the same clients.
type Clients struct {
	Address string // host:port that all connect to
	Plan    []Arrival
	Batch   time.Duration // time between two writes of a client; 0 means 250 ms

	open, started, finished, refused, broken, sent atomic.Int64
}

// ClientStats counts what became of the clients so far.
type ClientStats struct {
	Open     int64 `json:"open"`     // connected now
	Started  int64 `json:"started"`  // connected ever
	Finished int64 `json:"finished"` // lived to the end of their lifetime
	Refused  int64 `json:"refused"`  // could not connect
	Broken   int64 `json:"broken"`   // lost their connection before the end of their lifetime
	Sent     int64 `json:"sent"`     // datapoints
}

// Stats returns the counts; it may be called while Run runs.
func (c *Clients) Stats() ClientStats {
	return ClientStats{
		Open: c.open.Load(), Started: c.started.Load(), Finished: c.finished.Load(),
		Refused: c.refused.Load(), Broken: c.broken.Load(), Sent: c.sent.Load(),
	}
}

// Run plays the plan from its start and returns when every client has ended,
// or soon after ctx ends; all connections are closed then.
func (c *Clients) Run(ctx context.Context) {
	block := bytes.Repeat([]byte(line), blockLines)
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var running sync.WaitGroup
	defer running.Wait()
	for i, arrival := range c.Plan {
		timer.Reset(time.Until(start.Add(arrival.At)))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		running.Go(func() { c.live(ctx, i, arrival, block) })
	}
}

// batch returns the time between two writes.
func (c *Clients) batch() time.Duration {
	if c.Batch > 0 {
		return c.Batch
	}
	return defaultBatch
}

// live is one client from connect to close.
func (c *Clients) live(ctx context.Context, number int, a Arrival, block []byte) {
	dialer := net.Dialer{Timeout: writeTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", c.Address)
	if err != nil {
		if ctx.Err() == nil {
			c.refused.Add(1)
		}
		return
	}
	defer conn.Close()
	c.started.Add(1)
	c.open.Add(1)
	defer c.open.Add(-1)

	begin := time.Now()
	end := begin.Add(a.Lifetime)
	batch := c.batch()
	// Clients that connect together must not write together for ever.
	next := begin.Add(batch * time.Duration(number%16+1) / 16)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var sent int64
	for {
		last := !next.Before(end)
		if last {
			next = end
		}
		timer.Reset(time.Until(next))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		due := int64(a.Rate*next.Sub(begin).Seconds()) - sent
		if !c.send(conn, due, block) {
			if ctx.Err() == nil {
				c.broken.Add(1)
			}
			return
		}
		if sent += due; last {
			c.finished.Add(1)
			return
		}
		next = next.Add(batch)
	}
}

// send writes n datapoints.
func (c *Clients) send(conn net.Conn, n int64, block []byte) bool {
	for n > 0 {
		part := min(n, blockLines)
		_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := conn.Write(block[:part*int64(len(line))]); err != nil {
			return false
		}
		c.sent.Add(part)
		n -= part
	}
	return true
}
