package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The processors of agent and generator, when there are two.
const (
	generatorCPU = 0
	agentCPU     = 1
	anyCPU       = -1
)

// startOn starts a process on one processor. A child inherits the set of the
// thread that starts it.
func startOn(cmd *exec.Cmd, cpu int) error {
	if cpu == anyCPU || runtime.NumCPU() < 2 {
		return cmd.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	startErr := cmd.Start()
	if err := unix.SchedSetaffinity(0, &before); err != nil {
		return err
	}
	return startErr
}

// agentProcess is an agent that runs.
type agentProcess struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	address string
	remove  string // directory of its unix socket
}

func startAgent(ctx context.Context, kind, network string, cpu int) (*agentProcess, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	a := &agentProcess{}
	address := "127.0.0.1:0"
	if network == "unix" {
		if a.remove, err = os.MkdirTemp("", "benchspoa"); err != nil {
			return nil, err
		}
		address = a.remove + "/socket"
	}
	a.cmd = exec.CommandContext(ctx, program, "agent", kind, network, address)
	a.cmd.Stderr = os.Stderr
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	a.out = bufio.NewReader(out)
	if err := startOn(a.cmd, cpu); err != nil {
		return nil, err
	}
	line, err := a.out.ReadString('\n')
	if err != nil {
		a.stop()
		return nil, fmt.Errorf("the agent %s did not start: %w", kind, err)
	}
	a.address = strings.TrimSpace(line)
	return a, nil
}

func (a *agentProcess) usage() (usage, error) {
	var u usage
	if _, err := io.WriteString(a.in, "usage\n"); err != nil {
		return u, err
	}
	line, err := a.out.ReadBytes('\n')
	if err != nil {
		return u, err
	}
	return u, json.Unmarshal(line, &u)
}

// stop ends the process and waits for it.
func (a *agentProcess) stop() {
	a.in.Close()
	timer := time.AfterFunc(patience, func() { _ = a.cmd.Process.Kill() })
	_ = a.cmd.Wait()
	timer.Stop()
	if a.remove != "" {
		os.RemoveAll(a.remove)
	}
}

// child runs one of our own processes that prints a load.
func child(ctx context.Context, cpu int, args ...string) (load, error) {
	program, err := os.Executable()
	if err != nil {
		return load{}, err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return load{}, err
	}
	if err := startOn(cmd, cpu); err != nil {
		return load{}, err
	}
	var l load
	decodeErr := json.NewDecoder(out).Decode(&l)
	if err := cmd.Wait(); err != nil {
		return load{}, fmt.Errorf("%s: %w", args[0], err)
	}
	return l, decodeErr
}

// turn is one agent's part in a round.
type turn struct {
	load
	used    usage   // the agent's
	haproxy float64 // HAProxy's CPU, nanoseconds
}

func generatorTurn(ctx context.Context, s shape, kind string, length time.Duration) (turn, error) {
	a, err := startAgent(ctx, kind, s.network, agentCPU)
	if err != nil {
		return turn{}, err
	}
	defer a.stop()
	before, err := a.usage()
	if err != nil {
		return turn{}, err
	}
	l, err := child(ctx, generatorCPU, "generate", s.network, a.address, strconv.FormatBool(s.large),
		strconv.Itoa(s.conns), strconv.Itoa(s.window), length.String())
	if err != nil {
		return turn{}, err
	}
	after, err := a.usage()
	if err != nil {
		return turn{}, err
	}
	return turn{load: l, used: after.minus(before)}, nil
}

func (u usage) minus(v usage) usage {
	return usage{u.CPU - v.CPU, u.Mallocs - v.Mallocs, u.Calls - v.Calls}
}
