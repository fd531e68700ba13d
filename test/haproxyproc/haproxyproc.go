// Package haproxyproc runs a real HAProxy as a child process, for tests and
// for the command "demo": it starts it, waits until its runtime socket
// answers, reloads, restarts, pauses and kills it, and leaves nothing behind.
//
// The package does not import "testing". It works on Linux only.
//
// HAProxy reads two files: a short one made here, which puts a runtime socket
// with level admin at Process.SocketPath, and the caller's. A configuration
// therefore needs no "stats socket" line of its own, but may have more of them.
package haproxyproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/child"
)

// maxSocketPath is the longest path that HAProxy binds: it appends a suffix
// of up to 12 bytes to the path while it does so, and the kernel takes 107.
const maxSocketPath = 94

// Options say what to run.
type Options struct {
	// Binary is HAProxy's program file. Empty means the environment variable
	// HAPROXY_BIN, then haproxy on PATH, then /usr/sbin/haproxy.
	Binary string
	// Dir keeps configuration, log and sockets; it must exist. Empty means a
	// new temporary directory, removed by Stop.
	Dir string
	// Config is the whole haproxy.cfg, without a stats socket.
	Config string
	// MasterWorker runs HAProxy with -W: a master that keeps its process id
	// over reloads, and workers. Otherwise it is one process in the foreground.
	MasterWorker bool
	// Patience is how long Reload, Restart and Stop wait; 0 means 20 s.
	Patience time.Duration
}

// Process is one HAProxy, over all its reloads and restarts. Its methods may
// be called from several goroutines.
type Process struct {
	// SocketPath is the runtime socket, level admin, the same for the whole
	// life of the Process.
	SocketPath string
	// MasterPath is the socket of the master CLI; empty without MasterWorker.
	MasterPath string
	// Dir has configuration (haproxy.cfg) and log (haproxy.log).
	Dir string

	options Options
	binary  string
	remove  []string // directories made here

	mu       sync.Mutex
	children []*child.Process // those that we started and have not seen exit; the last one serves
	log      string           // kept when the log file is removed
}

// Start runs HAProxy and waits until its runtime socket answers. ctx bounds
// that wait only: the process lives until Stop or Kill. When HAProxy exits
// or ctx ends first, the error has HAProxy's log and nothing is left running.
func Start(ctx context.Context, o Options) (*Process, error) {
	binary, err := FindBinary(o.Binary)
	if err != nil {
		return nil, err
	}
	if o.Patience == 0 {
		o.Patience = 20 * time.Second
	}
	p := &Process{options: o, binary: binary}
	if err := p.place(); err != nil {
		p.clean()
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.writeConfig(o.Config); err != nil {
		p.clean()
		return nil, err
	}
	if err := p.startLocked(ctx); err != nil {
		p.clean()
		return nil, err
	}
	return p, nil
}

// TempDir makes an empty directory whose path is short enough for unix
// sockets, which the directories of package testing are not always.
func TempDir() (string, error) { return os.MkdirTemp("/tmp", "hap") }

// place settles the directory and the socket paths.
func (p *Process) place() error {
	p.Dir = p.options.Dir
	if p.Dir == "" {
		dir, err := TempDir()
		if err != nil {
			return err
		}
		p.Dir = dir
		p.remove = append(p.remove, dir)
	}
	sockets, err := filepath.Abs(p.Dir)
	if err != nil {
		return err
	}
	p.Dir = sockets
	if len(filepath.Join(sockets, "master.sock")) > maxSocketPath {
		if sockets, err = TempDir(); err != nil {
			return err
		}
		p.remove = append(p.remove, sockets)
	}
	p.SocketPath = filepath.Join(sockets, "admin.sock")
	if p.options.MasterWorker {
		p.MasterPath = filepath.Join(sockets, "master.sock")
	}
	return nil
}

// clean removes what place made; the log is kept for Log.
func (p *Process) clean() {
	if len(p.remove) > 0 {
		p.log = p.readLog(0)
	}
	for _, dir := range p.remove {
		os.RemoveAll(dir)
	}
	p.remove = nil
}

func (p *Process) file(name string) string { return filepath.Join(p.Dir, name) }

// writeConfig writes both files. The first one's timeout is HAProxy's default.
func (p *Process) writeConfig(config string) error {
	own := fmt.Sprintf("global\n  stats socket %s mode 600 level admin\n  stats timeout 10s\n", p.SocketPath)
	if err := os.WriteFile(p.file("socket.cfg"), []byte(own), 0o600); err != nil {
		return err
	}
	// HAProxy warns about a file that does not end in a newline.
	config = strings.TrimRight(config, "\n") + "\n\n"
	return os.WriteFile(p.file("haproxy.cfg"), []byte(config), 0o600)
}

// arguments is HAProxy's command line without the program.
func (p *Process) arguments() []string {
	a := []string{"-f", p.file("socket.cfg"), "-f", p.file("haproxy.cfg")}
	if p.options.MasterWorker {
		return append([]string{"-W", "-S", p.MasterPath}, a...)
	}
	return append([]string{"-db"}, a...)
}

// startLocked launches HAProxy afresh and waits for its socket.
func (p *Process) startLocked(ctx context.Context) error {
	from := p.logSize()
	c, err := p.launch(p.arguments())
	if err != nil {
		return err
	}
	p.children = []*child.Process{c}
	if err := p.waitNew(ctx, c, from, 0); err != nil {
		p.killLocked()
		return err
	}
	return nil
}

// Reload makes HAProxy read its configuration again, first replacing it by
// config unless that is empty, and waits until a new worker answers. With a
// master that is SIGUSR2, without one a second process started with -sf.
// When HAProxy refuses the configuration, the error has its log and the old
// worker goes on.
func (p *Process) Reload(config string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.mainLocked()
	if c == nil {
		return errors.New("haproxyproc: reload: HAProxy does not run")
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.options.Patience)
	defer cancel()
	old, err := p.answer(ctx)
	if err != nil {
		return fmt.Errorf("haproxyproc: reload: %w", err)
	}
	if config != "" {
		if err := p.writeConfig(config); err != nil {
			return err
		}
	}
	from := p.logSize()
	if p.options.MasterWorker {
		if err := syscall.Kill(c.PID, syscall.SIGUSR2); err != nil {
			return fmt.Errorf("haproxyproc: reload: %w", err)
		}
		return p.waitNew(ctx, c, from, old)
	}
	args := append(p.arguments(), "-sf", fmt.Sprint(c.PID))
	next, err := p.launch(args)
	if err != nil {
		return err
	}
	p.children = append(p.children, next)
	if err := p.waitNew(ctx, next, from, old); err != nil {
		next.Kill()
		p.children = slices.DeleteFunc(p.children, func(c *child.Process) bool { return c == next })
		return err
	}
	return nil
}

// Restart stops HAProxy if it runs, drops all its connections, and starts it
// again on the same sockets. It also revives a killed one.
func (p *Process) Restart() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopLocked()
	if _, err := os.Stat(p.Dir); err != nil {
		return fmt.Errorf("haproxyproc: restart after the temporary directory was removed: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.options.Patience)
	defer cancel()
	return p.startLocked(ctx)
}

// Kill kills every process of HAProxy with SIGKILL and waits until they are
// gone. The sockets' files stay behind, as after a real crash; Restart brings
// HAProxy back, and Stop removes the temporary directory.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killLocked()
}

// Stop ends HAProxy at once with SIGTERM, and with SIGKILL when that does not
// help, and waits until it is gone. It may be called again.
func (p *Process) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopLocked()
	p.clean()
}

func (p *Process) stopLocked() {
	for _, c := range p.children {
		c.Terminate()
	}
	deadline := time.After(p.options.Patience)
	for _, c := range p.children {
		select {
		case <-c.Done():
		case <-deadline:
			p.killLocked()
			return
		}
	}
	p.children = nil
}

func (p *Process) killLocked() {
	for _, c := range p.children {
		c.Kill()
	}
	p.children = nil
}

func (p *Process) launch(arguments []string) (*child.Process, error) {
	c, err := child.Start(child.Command{Program: p.binary, Args: arguments, Dir: p.Dir, Log: p.file("haproxy.log")})
	if err != nil {
		return nil, fmt.Errorf("haproxyproc: %w", err)
	}
	return c, nil
}

// mainLocked is the child that serves; nil when there is none.
func (p *Process) mainLocked() *child.Process {
	p.children = slices.DeleteFunc(p.children, (*child.Process).Exited)
	if len(p.children) == 0 {
		return nil
	}
	return p.children[len(p.children)-1]
}

// PID is the process that was started: the master with MasterWorker, else
// the one that serves. It is 0 when HAProxy does not run.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.mainLocked(); c != nil {
		return c.PID
	}
	return 0
}

// Running tells whether HAProxy runs.
func (p *Process) Running() bool { return p.PID() != 0 }

// Workers are the processes that carry traffic, old ones that still finish
// after a reload included, in no order.
func (p *Process) Workers() ([]int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.workersLocked()
}

func (p *Process) workersLocked() ([]int, error) {
	p.mainLocked()
	var pids []int
	for _, c := range p.children {
		if !p.options.MasterWorker {
			pids = append(pids, c.PID)
			continue
		}
		members, err := c.Members()
		if err != nil {
			return nil, err
		}
		pids = append(pids, slices.DeleteFunc(members, func(pid int) bool { return pid == c.PID })...)
	}
	return pids, nil
}

// Pause stops the workers with SIGSTOP and returns when they stand: connections are accepted by the
// kernel and nothing answers, as with a hung HAProxy.
func (p *Process) Pause() error {
	if err := p.signalWorkers(syscall.SIGSTOP); err != nil {
		return err
	}
	pids, err := p.Workers()
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(p.options.Patience); ; time.Sleep(time.Millisecond) {
		if !slices.ContainsFunc(pids, func(pid int) bool { return !child.Stopped(pid) }) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("haproxyproc: workers %v do not stop", pids)
		}
	}
}

// Resume lets paused workers go on.
func (p *Process) Resume() error { return p.signalWorkers(syscall.SIGCONT) }

func (p *Process) signalWorkers(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	pids, err := p.workersLocked()
	if err != nil {
		return err
	}
	if len(pids) == 0 {
		return errors.New("haproxyproc: HAProxy does not run")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, s); err != nil {
			return fmt.Errorf("haproxyproc: signal %v to worker %d: %w", s, pid, err)
		}
	}
	return nil
}

// Log is what HAProxy has printed so far.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log != "" {
		return p.log
	}
	return p.readLog(0)
}

func (p *Process) readLog(from int64) string {
	b, err := os.ReadFile(p.file("haproxy.log"))
	if err != nil || int64(len(b)) < from {
		return ""
	}
	return string(b[from:])
}

func (p *Process) logSize() int64 {
	info, err := os.Stat(p.file("haproxy.log"))
	if err != nil {
		return 0
	}
	return info.Size()
}
