package main

import (
	"context"
	"fmt"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/faults/trace"
)

// await waits until the weights of some servers are in force.
func (s *scene) await(ctx context.Context, want weights, what string) error {
	return s.until(ctx, func() (bool, string) {
		now, ok := s.trace.Now()
		if !ok {
			return false, "HAProxy has not answered"
		}
		for name, w := range want {
			if now.Servers[name].Weight != w {
				return false, fmt.Sprintf("%s: %v in force, waited for %v", what, shown(now.Servers), want)
			}
		}
		return true, ""
	})
}

func shown(servers map[string]trace.Server) weights {
	w := make(weights, len(servers))
	for name, s := range servers {
		w[name] = s.Weight
	}
	return w
}

// until polls for a condition, which says in words what is still missing.
func (s *scene) until(ctx context.Context, holds func() (bool, string)) error {
	deadline := time.Now().Add(patience)
	for {
		ok, missing := holds()
		switch {
		case ok:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case s.daemon != nil && s.daemon.process.Exited():
			return fmt.Errorf("the daemon has ended (%v); %s", s.daemon.process.Err(), missing)
		case time.Now().After(deadline):
			return fmt.Errorf("within %s never came true: %s", patience, missing)
		}
		pause(ctx, 5*time.Millisecond)
	}
}

// untilLog waits for a message in the daemon's log, n times.
func (s *scene) untilLog(ctx context.Context, n int, message string) error {
	return s.until(ctx, func() (bool, string) {
		lines, err := s.daemon.lines()
		if err != nil {
			return false, err.Error()
		}
		have := count(lines, message)
		return have >= n, fmt.Sprintf("%d log lines %q of %d", have, message, n)
	})
}

// untilEnded waits until what the log told to begin, it tells to have ended:
// who looks now and then sees the end a moment later.
func (s *scene) untilEnded(ctx context.Context, expected []told) error {
	return s.until(ctx, func() (bool, string) {
		lines, err := s.daemon.lines()
		if err != nil {
			return false, err.Error()
		}
		for _, e := range expected {
			if e.end != "" && !e.parts && count(lines, e.end) < count(lines, e.begin) {
				return false, fmt.Sprintf("the log line %q", e.end)
			}
		}
		return true, ""
	})
}

// judged tells whether the recovery at a time has had its pass.
func (s *scene) judged(at time.Time) bool { return s.trace.PassedAfter(at, interval) }

// passes waits until Graphite has been asked n more times.
func (s *scene) passes(ctx context.Context, n int) error {
	from := s.graphite.Asked()
	return s.until(ctx, func() (bool, string) {
		have := s.graphite.Asked() - from
		return have >= n, fmt.Sprintf("Graphite was asked %d of %d times", have, n)
	})
}
