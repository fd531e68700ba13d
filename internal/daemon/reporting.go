package daemon

import (
	"context"
	"sync/atomic"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/metrics"
	"github.com/haproxy-weighter/haproxy-weighter/internal/report"
)

// reporting runs the reporter in force, and another one after a reload that
// changes [report].
type reporting struct {
	current atomic.Pointer[report.Reporter] // nil: nothing is reported
	changed chan struct{}                   // holds one
}

// use puts another reporter in force; nil for none.
func (r *reporting) use(next *report.Reporter) {
	if r.current.Swap(next) == next {
		return
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// passed tells the reporter in force of a pass.
func (r *reporting) passed(t *balancer.Table) {
	if now := r.current.Load(); now != nil {
		now.Passed(t)
	}
}

// run runs the reporter in force until ctx ends. A reporter that is replaced
// sends what it still has while the next one is at work already.
func (r *reporting) run(ctx context.Context) error {
	var last chan error // of the reporter that was replaced; nil: none
	for {
		select { // what is loaded next is the newest: the first one is not begun twice
		case <-r.changed:
		default:
		}
		now := r.current.Load()
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		if now != nil {
			go func() { ended <- now.Run(running) }()
		} else {
			ended <- nil
		}
		select {
		case <-r.changed:
			stop()
		case <-ctx.Done():
			stop()
		}
		if last != nil {
			<-last
		}
		if ctx.Err() != nil {
			return <-ended
		}
		if r.current.Load() == now { // asked for again, or it was the first one
			<-ended
			continue
		}
		last = ended
	}
}

// stats adds up what all senders count.
func (r *reporting) stats() (metrics.CarbonStats, bool) {
	now := r.current.Load()
	if now == nil {
		return metrics.CarbonStats{}, false
	}
	return carbonStats(now.Stats()), true
}

func carbonStats(all []graphite.SenderStats) metrics.CarbonStats {
	var sum metrics.CarbonStats
	for _, s := range all {
		sum.Sent += s.Sent
		sum.Dropped += s.Dropped
		sum.Refused += s.Refused
		sum.Batches += s.Batches
		sum.Failures += s.Failures
		sum.Queued += s.Queued
		if s.Lost {
			sum.Failing++
		}
	}
	return sum
}
