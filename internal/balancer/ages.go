package balancer

import (
	"context"
	"sync"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// sharedAges is a HAProxy whose session dump all backends share: one dump
// lists the sessions of every backend, so there is one in each dumpEvery and
// not one a backend.
type sharedAges struct {
	DataPlane
	reader ageReader
	keep   time.Duration // how long a dump is good for
	now    func() time.Time

	mu       sync.Mutex // held during a dump: the others wait for its result
	sessions *haproxy.Sessions
	err      error
	limit    int // that the result was asked for with
	at       time.Time
}

func newSharedAges(c *haproxy.Client, backends []config.Backend) *sharedAges {
	keep := dumpEvery(weighting.Timing{})
	for i := range backends {
		keep = min(keep, dumpEvery(backends[i].Weighting.Timing))
	}
	return &sharedAges{DataPlane: c, reader: c, keep: keep, now: time.Now}
}

// SessionAges returns the newest dump, made now when the last one has aged or
// was given up at a lower limit.
func (s *sharedAges) SessionAges(ctx context.Context, limit int) (*haproxy.Sessions, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	good := s.err == nil || limit <= s.limit
	if !s.at.IsZero() && s.now().Sub(s.at) < s.keep && good {
		return s.sessions, s.err
	}
	s.at, s.limit = s.now(), limit
	s.sessions, s.err = s.reader.SessionAges(ctx, limit)
	return s.sessions, s.err
}
