package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/child"
	"github.com/haproxy-weighter/haproxy-weighter/test/faults/trace"
)

// daemon is the program under test as a process of its own.
type daemon struct {
	process *child.Process
	log     string // file
	trace   *trace.Trace
	stop    context.CancelFunc // of the watch over what it takes
	watched chan struct{}
}

// startDaemon runs the program with a configuration file. before are words in
// front of the command, such as prlimit with its options.
func startDaemon(program, file, log string, before, env []string, t *trace.Trace) (*daemon, error) {
	command := append(append([]string{}, before...), program, "run", "-f", file)
	p, err := child.Start(child.Command{
		Name: "haproxy-weighter", Program: command[0], Args: command[1:], Log: log,
		Env: append(append(os.Environ(), "GORACE=halt_on_error=1"), env...),
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	d := &daemon{process: p, log: log, trace: t, stop: cancel, watched: make(chan struct{})}
	go func() { defer close(d.watched); d.watch(ctx) }()
	return d, nil
}

// usageEvery is how often it is looked what the process takes.
const usageEvery = 100 * time.Millisecond

func (d *daemon) watch(ctx context.Context) {
	tick := time.NewTicker(usageEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.process.Done():
			return
		case <-tick.C:
		}
		if u, err := usageOf(d.process.PID); err == nil {
			d.trace.Used(u)
		}
	}
}

// usageOf reads what a process takes.
func usageOf(pid int) (trace.Usage, error) {
	u := trace.Usage{At: time.Now()}
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(status)) {
		for _, field := range []struct {
			name string
			to   *int64
		}{{"VmHWM:", &u.Peak}, {"VmRSS:", &u.Resident}} {
			if rest, ok := strings.CutPrefix(line, field.name); ok {
				if _, err := fmt.Sscan(rest, field.to); err != nil {
					return u, err
				}
				*field.to <<= 10
			}
		}
	}
	open, err := os.ReadDir(filepath.Join(dir, "fd"))
	u.Descriptors = len(open)
	return u, err
}

// terminate ends it as systemd does. Anything but a good end is an error.
func (d *daemon) terminate() error {
	d.process.Terminate()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-d.process.Done():
	case <-timer.C:
		_ = d.process.Signal(syscall.SIGQUIT) // its stacks go into the log
		select {
		case <-d.process.Done():
		case <-time.After(5 * time.Second):
		}
		d.kill()
		return fmt.Errorf("it has not ended within %s of a SIGTERM", patience)
	}
	d.kill()
	if err := d.process.Err(); err != nil {
		return fmt.Errorf("it ended with %w", err)
	}
	return nil
}

// kill ends it whatever it does; it may be called again.
func (d *daemon) kill() {
	d.process.Kill()
	d.stop()
	<-d.watched
}

// line is one line of the daemon's log.
type line struct {
	Level, Msg, Cause string
	raw               string
}

// warned tells whether the line is of level WARN or above, or no line of slog's
// at all: a panic, a data race.
func (l *line) warned() bool { return l.Level != "DEBUG" && l.Level != "INFO" }

// count counts the lines with a message.
func count(lines []line, message string) int {
	n := 0
	for _, l := range lines {
		if strings.Contains(l.Msg, message) {
			n++
		}
	}
	return n
}

// lines reads the log.
func (d *daemon) lines() ([]line, error) { return logLines(d.log) }

func logLines(file string) ([]line, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []line
	scan := bufio.NewScanner(bytes.NewReader(data))
	scan.Buffer(nil, 16<<20)
	for scan.Scan() {
		l := line{raw: scan.Text()}
		if json.Unmarshal(scan.Bytes(), &l) != nil || l.Level == "" {
			l.Level, l.Msg = "ERROR", l.raw
		}
		all = append(all, l)
	}
	return all, scan.Err()
}

// tail is the end of the log, for messages.
func (d *daemon) tail() string {
	const most = 6000
	data, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-most):])
}
