// Package child runs another program for a test or a demo, in a process group of
// its own that is gone, to the last member, when its owner says so or dies.
// It works on Linux only.
package child

import (
	"cmp"
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

// Command says what to run.
type Command struct {
	Name    string // in errors; empty means Program
	Program string
	Args    []string
	Dir     string   // working directory; empty means the caller's
	Env     []string // nil means the caller's
	Log     string   // file that gets what the program prints, after what is there
}

// Process is one program that runs, leader of its own process group. Its
// methods are safe for concurrent use; Signal and Kill take a nil one for a
// process that was never started.
type Process struct {
	Name string
	PID  int
	done chan struct{} // closed when the process is reaped and its group killed
	err  error         // how it exited; read it after done
}

// Start runs a command, and a goroutine that owns it until it is reaped.
func Start(command Command) (*Process, error) {
	log, err := os.OpenFile(command.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(command.Program, command.Args...)
	cmd.Dir, cmd.Env = command.Dir, command.Env
	cmd.Stdout, cmd.Stderr = log, log
	// Pdeathsig: it must not outlive us, even when we are killed. Workers of a
	// HAProxy master see their pipe to it close and exit as well.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c := &Process{Name: cmp.Or(command.Name, command.Program), done: make(chan struct{})}
	started := make(chan error, 1)
	go c.own(cmd, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.Name, err)
	}
	return c, nil
}

// own starts the process and stays until it is reaped. It holds its thread,
// because Pdeathsig fires when the thread that forked ends.
func (c *Process) own(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.done)
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	c.PID = cmd.Process.Pid
	started <- nil
	// See the exit without reaping it: until Wait, the number of the process
	// group is ours and the signal cannot hit a stranger.
	for unix.Waitid(unix.P_PID, c.PID, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	// Workers whose master died: none is the usual case. They hold the sockets
	// until they are gone.
	for {
		_ = syscall.Kill(-c.PID, syscall.SIGKILL)
		if members, err := groupMembers(c.PID); err != nil || len(members) == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	c.err = cmd.Wait()
}

// Done is closed when the process is gone and so is all that it started.
func (c *Process) Done() <-chan struct{} { return c.done }

// Err says how the process exited; nil while it runs.
func (c *Process) Err() error {
	if !c.Exited() {
		return nil
	}
	return c.err
}

// Exited tells whether Done is closed.
func (c *Process) Exited() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Signal sends sig to the whole group.
func (c *Process) Signal(sig syscall.Signal) error {
	if c == nil {
		return errors.New("the process was never started")
	}
	if c.Exited() {
		return fmt.Errorf("%s (process %d) has ended", c.Name, c.PID)
	}
	return syscall.Kill(-c.PID, sig)
}

// Terminate asks for a stop at once; a paused process is woken to hear it.
func (c *Process) Terminate() {
	if c.Exited() {
		return
	}
	_ = syscall.Kill(c.PID, syscall.SIGTERM)
	_ = syscall.Kill(-c.PID, syscall.SIGCONT)
}

// Kill kills the group and waits for the end. Workers go first, so that their
// master can reap them: orphans would be left to init.
func (c *Process) Kill() {
	if c == nil {
		return
	}
	members, _ := groupMembers(c.PID)
	for _, pid := range members {
		if pid != c.PID && !c.Exited() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if len(members) > 1 { // a master without workers exits by itself
		select {
		case <-c.done:
		case <-time.After(time.Second):
		}
	}
	if !c.Exited() {
		_ = syscall.Kill(-c.PID, syscall.SIGKILL)
	}
	<-c.done
}

// Members lists the processes of the group that are not zombies, the leader
// included.
func (c *Process) Members() ([]int, error) { return groupMembers(c.PID) }

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

// Alive tells whether a process, anybody's, exists and is no zombie.
func Alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && statFields(b)[0] != "Z"
}

// Stopped tells whether every thread of a process has taken a SIGSTOP.
func Stopped(pid int) bool {
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
