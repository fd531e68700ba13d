package graphiteproc

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// child is one process in its own process group. The goroutine that started
// it waits for it, and is the only one that does.
type child struct {
	name string
	pid  int
	done chan struct{} // closed when the process was waited for

	mu   sync.Mutex
	dead bool // guards kill against a process number that was given away
}

// startChild starts argv with its output appended to logFile.
//
// Pdeathsig is tied to the thread that forks, not to the process, and Go ends
// threads when it likes. So the owner goroutine keeps its thread locked until
// the child is gone.
func startChild(name, dir, logFile string, env, argv []string) (*child, error) {
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, env
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}

	c := &child{name: name, done: make(chan struct{})}
	started := make(chan error, 1)
	go c.own(cmd, out, started)
	if err := <-started; err != nil {
		<-c.done
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return c, nil
}

func (c *child) own(cmd *exec.Cmd, out *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.done)
	defer out.Close()
	if err := cmd.Start(); err != nil {
		c.dead = true
		started <- err
		return
	}
	c.pid = cmd.Process.Pid
	started <- nil
	// Waiting in two steps: the number stays ours until Wait reaps it, so no
	// signal can go to a stranger once dead is set before the reaping.
	waitExited(c.pid)
	c.mu.Lock()
	c.dead = true
	// Whatever the child itself started goes with it.
	_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	_ = cmd.Wait() // it was killed, or its log tells why it ended
	c.mu.Unlock()
}

// signal sends sig to the whole group; nothing happens when it has ended.
func (c *child) signal(sig syscall.Signal) error {
	if c == nil {
		return fmt.Errorf("the process was never started")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return fmt.Errorf("%s (process %d) has ended", c.name, c.pid)
	}
	return syscall.Kill(-c.pid, sig)
}

// kill ends the group and waits until the process has been waited for.
func (c *child) kill() {
	if c == nil {
		return
	}
	_ = c.signal(syscall.SIGKILL) // the error says that it has ended already
	<-c.done
}

func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// waitExited blocks until pid has ended but leaves it to be reaped.
func waitExited(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}
