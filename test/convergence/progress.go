package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// progress tells how far the trials are: a line for each that is finished,
// and on a terminal one that changes every second besides.
type progress struct {
	out      io.Writer
	terminal bool
	total    int // trials
	seconds  int // of a trial
	lanes    int

	mu      sync.Mutex
	done    int
	running map[int]stage // by number of the trial
}

// stage is where a running trial is.
type stage struct {
	seed   uint64
	policy string
	second int
}

func startProgress(o *options) *progress {
	return &progress{
		out: o.progress, terminal: o.terminal, total: o.seeds * len(o.policies), seconds: o.seconds(),
		lanes: min(o.parallel, o.seeds*len(o.policies)), running: make(map[int]stage),
	}
}

// clearLine takes away the line that changes.
const clearLine = "\r\x1b[K"

// second notes that a second of a trial is over.
func (p *progress) second(number int, seed uint64, policy string, second int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[number] = stage{seed, policy, second}
	if !p.terminal {
		return
	}
	var parts []string
	for _, n := range slices.Sorted(maps.Keys(p.running)) {
		s := p.running[n]
		parts = append(parts, fmt.Sprintf("seed %d, %s: %d of %d s", s.seed, s.policy, s.second, p.seconds))
	}
	fmt.Fprintf(p.out, "%s%s; %s", clearLine, strings.Join(parts, " | "), p.leftLocked())
}

// finished notes that a trial is over and what it came to.
func (p *progress) finished(number int, m measured) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.running[number]
	delete(p.running, number)
	p.done++
	if p.terminal {
		fmt.Fprint(p.out, clearLine)
	}
	outcome := "no second counted"
	if m.Seconds > 0 {
		outcome = fmt.Sprintf("max/mean %.3f", m.MaxMean)
	}
	fmt.Fprintf(p.out, "%d of %d: seed %d, %-22s  %s; %s\n", p.done, p.total, s.seed, s.policy, outcome, p.leftLocked())
}

// leftLocked says how long the rest will take. A trial takes a little longer
// than its seconds, to start and to end.
func (p *progress) leftLocked() string {
	const around = 1 // s
	seconds := (p.total - p.done) * (p.seconds + around)
	for _, s := range p.running {
		seconds -= s.second
	}
	left := time.Duration(seconds/cmp.Or(p.lanes, 1)) * time.Second
	if left >= 10*time.Minute {
		left = left.Round(time.Minute)
		return fmt.Sprintf("about %d min left", int(left.Minutes()))
	}
	return fmt.Sprintf("about %d:%02d min left", int(left.Minutes()), int(left.Seconds())%60)
}

// end removes the line that changes.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		fmt.Fprint(p.out, clearLine)
	}
}
