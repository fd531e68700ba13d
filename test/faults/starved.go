package main

import (
	"context"
	"sync/atomic"
	"time"
)

// A machine that lets nobody run makes timeouts expire: what a row shows then
// is the machine. So each run measures how late its own timer comes; one that
// failed on a starved machine is made again.
const (
	beatEvery  = 10 * time.Millisecond
	beatLimit  = 200 * time.Millisecond
	mostRounds = 4
)

// starvation watches the machine until the function it returns is called,
// which tells the longest delay.
func starvation() (worst func() time.Duration) {
	var longest atomic.Int64
	stop := run(func(ctx context.Context) {
		tick := time.NewTicker(beatEvery)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			now := time.Now()
			longest.Store(max(longest.Load(), int64(now.Sub(last)-beatEvery)))
			last = now
		}
	})
	return func() time.Duration { stop(); return time.Duration(longest.Load()) }
}
