package spoa

import (
	"sync"
	"time"
)

// complaintInterval is how often one kind of fault is logged at most: whoever
// can connect could fill the disk otherwise.
const complaintInterval = time.Second

// complaint is a kind of fault: a Reason or a Result.
type complaint int

func complaintReason(r Reason) complaint { return complaint(r) }
func complaintResult(r Result) complaint { return complaint(numReasons) + complaint(r) }

// complaints remembers what was logged lately.
type complaints struct {
	mu    sync.Mutex
	kinds [int(numReasons) + int(numResults)]struct {
		last    time.Duration // on Server.now; 0 = never
		skipped int           // since then
	}
}

// complain logs a warning, or only counts it. The number of lines that were left out is in the next one.
func (s *Server) complain(kind complaint, text string, args ...any) {
	now := s.now()
	s.complaints.mu.Lock()
	k := &s.complaints.kinds[kind]
	if k.last != 0 && now-k.last < complaintInterval {
		k.skipped++
		s.complaints.mu.Unlock()
		return
	}
	skipped := k.skipped
	k.last, k.skipped = now, 0
	s.complaints.mu.Unlock()
	if skipped > 0 {
		args = append(args, "more_of_these", skipped)
	}
	s.settings.logger.Warn(text, args...)
}
