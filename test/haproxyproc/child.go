package haproxyproc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is one process that we started, leader of its own process group.
type child struct {
	pid  int
	done chan struct{} // closed when the process is reaped and its group killed
	err  error         // how it exited; read it after done
}

// launch starts the program and a goroutine that owns it until it is reaped.
func launch(binary string, args []string, dir, logFile string) (*child, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(binary, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = log, log
	// Pdeathsig: HAProxy must not outlive us, even when we are killed. The
	// workers of a master see their pipe to it close and exit as well.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c := &child{done: make(chan struct{})}
	started := make(chan error, 1)
	go c.own(cmd, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("haproxyproc: start %s: %w", binary, err)
	}
	return c, nil
}

// own starts the process and stays until it is reaped. It holds its thread,
// because Pdeathsig fires when the thread that forked ends.
func (c *child) own(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.done)
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	c.pid = cmd.Process.Pid
	started <- nil
	// See the exit without reaping it: until Wait, the number of the process
	// group is ours and the signal cannot hit a stranger.
	for unix.Waitid(unix.P_PID, c.pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	// Workers whose master died: none is the usual case. They hold the sockets
	// until they are gone.
	for {
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
		if members, err := groupMembers(c.pid); err != nil || len(members) == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	c.err = cmd.Wait()
}

func (c *child) exited() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// terminate asks for a stop at once; a paused process is woken to hear it.
func (c *child) terminate() {
	if c.exited() {
		return
	}
	_ = syscall.Kill(c.pid, syscall.SIGTERM)
	_ = syscall.Kill(-c.pid, syscall.SIGCONT)
}

// kill kills the group and waits for the end. Workers go first, so that their
// master can reap them: orphans would be left to init.
func (c *child) kill() {
	members, _ := groupMembers(c.pid)
	for _, pid := range members {
		if pid != c.pid && !c.exited() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if len(members) > 1 { // a master without workers exits by itself
		select {
		case <-c.done:
		case <-time.After(time.Second):
		}
	}
	if !c.exited() {
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	}
	<-c.done
}

// groupMembers lists the processes of a process group that are not zombies.
func groupMembers(group int) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, f := range files {
		b, err := os.ReadFile(f)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // gone since the listing
		}
		if err != nil {
			return nil, err
		}
		fields := statFields(b)
		if len(fields) < 3 || fields[2] != strconv.Itoa(group) || fields[0] == "Z" {
			continue
		}
		pid, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(f, "/proc/"), "/stat"))
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// statFields splits a stat file of /proc from the third field, the state, on:
// "pid (name) state ppid pgrp ...", where the name may contain anything.
func statFields(stat []byte) []string {
	text := string(stat)
	return strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
}

// stopped tells whether every thread of a process has taken a SIGSTOP.
func stopped(pid int) bool {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		if fields := statFields(b); len(fields) > 0 && fields[0] != "T" {
			return false
		}
	}
	return true
}
