package haproxyproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/child"
)

// pollInterval is how often a starting HAProxy is asked whether it is there:
// it offers nothing to wait on in the foreground.
const pollInterval = 10 * time.Millisecond

// Command sends one line to the runtime socket and returns the raw answer. It
// is for setting up a scene by hand; the program itself uses a typed client.
func (p *Process) Command(ctx context.Context, line string) (string, error) {
	return command(ctx, p.SocketPath, line)
}

func command(ctx context.Context, path, line string) (string, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(conn, line+"\n"); err != nil {
		return "", fmt.Errorf("haproxyproc: %q: %w", line, err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return "", fmt.Errorf("haproxyproc: %q: %w", line, err)
	}
	return string(answer), nil
}

// answer asks who answers at the socket: the worker's process id. A worker
// that is stopping is an error, for its successor is about to take over.
func (p *Process) answer(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	info, err := p.Command(ctx, "show info")
	if err != nil {
		return 0, err
	}
	pid := 0
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case key == "Pid":
			if pid, err = strconv.Atoi(value); err != nil {
				return 0, err
			}
		case key == "Stopping" && value != "0":
			return 0, errors.New("haproxyproc: the worker that answered is stopping")
		}
	}
	if pid == 0 {
		return 0, fmt.Errorf("haproxyproc: no Pid in the answer %q", info)
	}
	return pid, nil
}

// waitNew waits until a worker other than old answers. It gives up when c
// exits, when the master reports that loading failed, or when ctx ends.
func (p *Process) waitNew(ctx context.Context, c *child.Process, from int64, old int) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		var refused error
		if text := p.readLog(from); p.MasterPath != "" && loadingFailed(text) {
			refused = fmt.Errorf("haproxyproc: HAProxy refused the configuration: its log: %s", text)
		}
		pid, err := p.answer(ctx)
		if refused != nil || err == nil && pid != old {
			if err = p.masterReady(ctx); err == nil {
				return refused
			}
		}
		select {
		case <-c.Done():
			return fmt.Errorf("haproxyproc: HAProxy exited (%v): its log: %s", c.Err(), p.readLog(from))
		case <-ctx.Done():
			return fmt.Errorf("haproxyproc: HAProxy's socket %s did not answer (%w): last: %v: its log: %s",
				p.SocketPath, ctx.Err(), err, p.readLog(from))
		case <-tick.C:
		}
	}
}

// masterReady asks the master CLI for its processes. After each start of a
// worker the master executes itself anew, and until it has, it may lose a
// SIGUSR2: it is not ready for the next reload before its socket answers.
func (p *Process) masterReady(ctx context.Context) error {
	if p.MasterPath == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	answer, err := command(ctx, p.MasterPath, "show proc;quit")
	if err == nil && !strings.Contains(answer, "worker") {
		err = fmt.Errorf("haproxyproc: the master answers %q to show proc", answer)
	}
	return err
}

// loadingFailed recognises the words of a master whose new worker did not start.
func loadingFailed(log string) bool {
	return strings.Contains(log, "Loading failure!") || strings.Contains(log, "Failed to load worker")
}
