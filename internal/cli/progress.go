package cli

import (
	"fmt"
	"sync"
	"time"
)

// progressAfter is how long a command may be silent.
const progressAfter = 2 * time.Second

// progress is one line on a terminal's stderr about what a slow command is
// doing. It shows nothing in the first two seconds, nor off a terminal.
type progress struct {
	p     *Program
	start time.Time
	stop  chan struct{}
	done  chan struct{}

	mu   sync.Mutex
	what string
}

// progress starts a line. The caller must call end.
func (p *Program) progress(what string) *progress {
	g := &progress{p: p, what: what, start: time.Now(), stop: make(chan struct{}), done: make(chan struct{})}
	if !p.isTerminal(p.Stderr) {
		close(g.done)
		return g
	}
	go g.show()
	return g
}

// set changes what the line says.
func (g *progress) set(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.what = what
}

// end removes the line and returns when nothing more will be written.
func (g *progress) end() {
	close(g.stop)
	<-g.done
}

func (g *progress) show() {
	defer close(g.done)
	shown := false
	wait := time.NewTimer(progressAfter)
	defer wait.Stop()
	for {
		select {
		case <-g.stop:
			if shown {
				fmt.Fprint(g.p.Stderr, "\r\x1b[K")
			}
			return
		case <-wait.C:
			g.mu.Lock()
			what := g.what
			g.mu.Unlock()
			fmt.Fprintf(g.p.Stderr, "\r\x1b[K%s ... %s", what, time.Since(g.start).Round(time.Second))
			shown = true
			wait.Reset(time.Second)
		}
	}
}
