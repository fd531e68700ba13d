package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

// ErrLogUnread comes with an error of Run when the log's reader has not taken
// all lines: whatever else is written there may have to wait for ever.
var ErrLogUnread = errors.New("nobody reads the log")

const (
	// logRoom is how many bytes of lines wait for the log's reader. A start with
	// hundreds of backends says less than half of it.
	logRoom = 1 << 20
	// logPatience is how long a line may be under way before that is a fault.
	logPatience = 2 * time.Second
	// logEndLimit is how long the end waits for the reader of the last lines.
	logEndLimit = 2 * time.Second
	// logLookEvery is how often it is looked whether the log is read.
	logLookEvery = time.Second
)

// logLines takes log lines and never blocks: a goroutine of its own hands them
// to the writer, which may wait for a reader that hangs. What finds no room in
// between is lost, and counted.
type logLines struct {
	to   io.Writer
	room int                    // bytes
	loss func(lines int) []byte // the line that tells of lost ones; empty: the level does not want it
	now  func() time.Time

	mu      sync.Mutex
	waiting [][]byte  // one element a line
	size    int       // bytes of all lines that are not written yet, waiting or under way
	dropped int       // lines that had no room after those waiting; then all are dropped, so that one gap is told
	lost    int       // lines before those waiting that are lost and not told yet
	since   time.Time // when the write under way began; zero: there is none
	failed  error     // of the newest write; nil: it went well
	ending  bool
	wake    chan struct{} // holds one
	ended   chan struct{}
}

// newLogLines returns one that keeps lines until run writes them.
func newLogLines(to io.Writer, room int, loss func(lines int) []byte) *logLines {
	return &logLines{to: to, room: room, loss: loss, now: time.Now, wake: make(chan struct{}, 1), ended: make(chan struct{})}
}

// Write implements io.Writer for one line, as slog's handlers write them. Its
// error is always nil: nobody could be told.
func (l *logLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending || l.dropped > 0 || l.size+len(line) > l.room {
		l.dropped++
		return len(line), nil
	}
	l.waiting = append(l.waiting, bytes.Clone(line))
	l.size += len(line)
	l.nudge()
	return len(line), nil
}

// nudge has the goroutine look whether there is something to write.
func (l *logLines) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run writes lines until end is called and all are written.
func (l *logLines) run() {
	defer close(l.ended)
	for {
		lines, last := l.take()
		for _, line := range lines {
			l.put(line)
		}
		l.tellLoss()
		if last {
			return
		}
		<-l.wake
	}
}

// take takes all lines that wait; those dropped behind them become lost ones.
func (l *logLines) take() (lines [][]byte, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines = l.waiting
	l.lost += l.dropped
	l.waiting, l.dropped = nil, 0
	return lines, l.ending
}

// put writes one line. One that the writer refuses is lost.
func (l *logLines) put(line []byte) {
	err := l.write(line)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.size -= len(line)
	if err != nil {
		l.lost++
	}
}

// tellLoss writes the line that tells how many are lost. When that fails it is
// tried again with the next lines, or at a nudge.
func (l *logLines) tellLoss() {
	l.mu.Lock()
	lost := l.lost
	l.mu.Unlock()
	if lost == 0 {
		return
	}
	if text := l.loss(lost); len(text) > 0 && l.write(text) != nil {
		return
	}
	l.mu.Lock()
	l.lost -= lost
	l.mu.Unlock()
}

func (l *logLines) write(line []byte) error {
	l.mu.Lock()
	l.since = l.now()
	l.mu.Unlock()
	_, err := l.to.Write(line)
	l.mu.Lock()
	l.since, l.failed = time.Time{}, err
	l.mu.Unlock()
	return err
}

// trouble says why lines do not get out; nil: they do.
func (l *logLines) trouble() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := ""
	if lost := l.lost + l.dropped; lost > 0 {
		count = fmt.Sprintf("; lines lost so far: %d", lost)
	}
	switch {
	case !l.since.IsZero() && l.now().Sub(l.since) >= logPatience:
		return fmt.Errorf("%w since %s%s", ErrLogUnread, l.since.UTC().Format(time.TimeOnly+" UTC"), count)
	case l.failed != nil:
		l.nudge() // to see whether it still is so
		return fmt.Errorf("%w%s", l.failed, count)
	}
	return nil
}

// end has run write what waits and return. It returns false when the writer
// has not taken all within limit; run then ends with the process, or when the
// reader is back.
func (l *logLines) end(limit time.Duration) bool {
	l.mu.Lock()
	l.ending = true
	l.mu.Unlock()
	l.nudge()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-l.ended:
		return true
	case <-timer.C:
		return false
	}
}

// lossLine is what the log gets where lines are missing.
func lossLine(format string, level slog.Leveler) func(lines int) []byte {
	return func(lines int) []byte {
		var line bytes.Buffer
		slog.New(logHandler(&line, format, level)).Warn("log lines are lost here", "lines", lines,
			"meanwhile", "weights went on; status, history and metrics have what they had",
			"do", "see what reads this log: it did not keep up, or refused lines (no space left)")
		return line.Bytes()
	}
}

// watchLog tells for as long as the log's lines do not get out.
func (d *daemon) watchLog(ctx context.Context) error {
	ticker := time.NewTicker(logLookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		d.faults.Set("log", d.lines.trouble(), balancer.Wording{
			What:      "the log can't be written",
			Over:      "the log is written again",
			Meanwhile: fmt.Sprintf("weights go on; up to %d KiB of lines wait for their reader, what is more is lost", logRoom>>10),
			Do:        "see what reads standard error: systemd-journald, a container's log driver or a pipe that hangs, or a full disk",
		})
	}
}
