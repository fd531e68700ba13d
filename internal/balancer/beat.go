package balancer

import (
	"sync/atomic"
	"time"
)

// beat is when a loop has last come round. The time is kept whole: its
// monotonic part does not jump when somebody sets the clock.
type beat struct{ at atomic.Pointer[time.Time] }

func (b *beat) now(t time.Time) { b.at.Store(&t) }

// stuckSlack is what a loop may take beyond all its deadlines: on a busy
// machine a pass over thousands of servers takes a while.
const stuckSlack = time.Minute

// Stuck names the loops that have not come round for longer than all their
// deadlines together, which only a fault of this program can bring about. It
// is empty while all is well, and before Run.
func (f *Fleet) Stuck(now time.Time) []string {
	var stuck []string
	for _, b := range f.balancers {
		// The loop rests up to 1.1 intervals after a pass of at most this length;
		// the planes wait for its pictures.
		limit := 2*b.options.Backend.Interval + max(renderLimit, b.options.Backend.Interval) + stuckSlack
		if late(&b.beat, now, limit) {
			stuck = append(stuck, "backend "+b.options.Backend.Name)
		}
		for _, p := range b.planes {
			servers := 0
			if t := p.table.Load(); t != nil {
				servers = len(t.Rows)
			}
			if late(&p.beat, now, limit+2*readLimit+2*writeLimit(servers)) {
				stuck = append(stuck, "backend "+b.options.Backend.Name+" on "+p.socket)
			}
		}
	}
	return stuck
}

func late(b *beat, now time.Time, limit time.Duration) bool {
	at := b.at.Load()
	return at != nil && now.Sub(*at) > limit
}
