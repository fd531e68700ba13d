package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// measureIdle runs the daemon on one backend of 30 servers at its default
// interval and prints what share of one processor it takes.
func measureIdle(ctx context.Context, program string, render *renderServer, span time.Duration) error {
	h, err := haproxyproc.Start(ctx, haproxyproc.Options{Config: haproxyConfig(1, 30)})
	if err != nil {
		return err
	}
	defer h.Stop()
	file := filepath.Join(h.Dir, "weighter.toml")
	if err := os.WriteFile(file, []byte(configText(h.SocketPath, render.url(0), 1, "30s")), 0o600); err != nil {
		return err
	}
	cmd := exec.Command(program, "run", "-f", file)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	}()
	// The start is not idle: the measurement begins two seconds later.
	if err := pause(ctx, 2*time.Second); err != nil {
		return err
	}
	before, err := processorTime(cmd.Process.Pid)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "watching the idle daemon for %v\n", span)
	if err := pause(ctx, span); err != nil {
		return err
	}
	after, err := processorTime(cmd.Process.Pid)
	if err != nil {
		return err
	}
	fmt.Printf("idle daemon, 30 servers, one pass every 30 s: %.2f %% of one processor over %v\n", 100*(after-before).Seconds()/span.Seconds(), span)
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// processorTime reads user and system time of a process; the kernel counts
// hundredths of a second.
func processorTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, stat)
	}
	total := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return time.Duration(total) * 10 * time.Millisecond, nil
}
