package admin

import (
	"strings"
	"sync"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// firsts remembers which backends have had a first pass that could act: what
// fails later on is a fault, and no reason to be called not ready.
type firsts struct {
	mu   sync.Mutex
	have map[string]bool
}

// note takes up a table.
func (f *firsts) note(t *balancer.Table) {
	if !acted(t) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.have == nil {
		f.have = make(map[string]bool)
	}
	f.have[t.Backend] = true
}

func (f *firsts) of(backend string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.have[backend]
}

// acted tells whether a pass had all that it takes to set weights: it wrote
// them, kept them, or held them with data in hand.
func acted(t *balancer.Table) bool {
	return t.Verdict != weighting.Hold || t.Fresh > 0 && !t.Unread()
}

// lack is what a backend lacks to be ready.
type lack struct {
	backend string // empty: there is none
	why     string
}

func (l lack) String() string {
	if l.backend == "" {
		return l.why
	}
	return "backend " + l.backend + ": " + l.why
}

// unready says in words what is missing; nothing when all backends are ready.
func (s *Server) unready() []lack {
	var lines []lack
	balancers := s.fleet().Balancers()
	if len(balancers) == 0 {
		return []lack{{why: "no backend is balanced yet"}}
	}
	for _, b := range balancers {
		name := b.Config().Name
		if s.mode(b) == config.Observe || s.first.of(name) {
			continue
		}
		why := "no HAProxy has been read yet"
		for _, t := range b.Tables() {
			if acted(t) {
				why = ""
				break
			}
			why = "no pass has had loads yet: " + t.Why
		}
		if why == "" {
			continue
		}
		for _, f := range b.Faults() {
			if !strings.Contains(why, f.Cause) {
				why += "; " + f.What + ": " + f.Cause
			}
		}
		lines = append(lines, lack{backend: name, why: why})
	}
	return lines
}

// mode is the one in force for a backend.
func (s *Server) mode(b *balancer.Balancer) config.Mode {
	return modeWith(b, s.options.Controls.Of(b.Config().Name))
}

func modeWith(b *balancer.Balancer, c balancer.Control) config.Mode {
	if c.Mode != nil {
		return c.Mode.Mode
	}
	if m := b.Config().Mode; m != "" {
		return m
	}
	return config.Live
}
