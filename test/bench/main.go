// Command bench measures what the program costs and prints it beside what
// HAProxy itself needs.
//
//	go run ./test/bench [-rounds 9] [-idle 60s]
//
// One pass over 100 backends of 100 servers: the render answers are decoded,
// the weights worked out, set in a real HAProxy and read back. The yardstick
// is a bare loop that sends the very same command lines, one connection a
// line, and throws the answers away: time that only HAProxy can save.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

const (
	backends = 100
	servers  = 100
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "pass" {
		if err := pass(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	rounds := flag.Int("rounds", 9, "pairs of measurements")
	idle := flag.Duration("idle", 60*time.Second, "how long the idle daemon is watched; 0 = not")
	program := flag.String("program", "bin/haproxy-weighter", "the daemon whose idle time is measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *rounds, *idle, *program); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// cost is what one pass took.
type cost struct {
	Seconds float64 // from the start of the balancers to the last weight read back
	RSS     int64   // bytes, the process's peak
}

func run(ctx context.Context, rounds int, idle time.Duration, program string) error {
	h, err := haproxyproc.Start(ctx, haproxyproc.Options{Config: haproxyConfig(backends, servers)})
	if err != nil {
		return err
	}
	defer h.Stop()
	render, err := serveRender()
	if err != nil {
		return err
	}
	defer render.close()

	// Two sets of loads in turn, so that each run finds every weight different.
	var lines [2][]string
	for i := range lines {
		record := h.Dir + "/lines"
		if _, err := runPass(ctx, h.SocketPath, render.url(i), record); err != nil {
			return err
		}
		if lines[i], err = readLines(record); err != nil {
			return err
		}
	}
	var ratios, ours, bare []float64
	peak := int64(0)
	for range rounds {
		c, err := runPass(ctx, h.SocketPath, render.url(0), "")
		if err != nil {
			return err
		}
		loop, err := replay(h.SocketPath, lines[1])
		if err != nil {
			return err
		}
		ours, bare, ratios = append(ours, c.Seconds), append(bare, loop), append(ratios, c.Seconds/loop)
		peak = max(peak, c.RSS)
	}
	commands := 0
	for _, l := range lines[1] {
		commands += strings.Count(l, "set server")
	}
	fmt.Printf("one pass over %d servers in %d backends (roundrobin, %d weights set on %d lines), %d rounds\n", backends*servers, backends, commands, len(lines[1]), rounds)
	fmt.Printf("  %-34s %8s %8s %8s\n", "", "min", "median", "max")
	row := func(name, format string, values []float64) {
		slices.Sort(values)
		fmt.Printf("  %-34s "+strings.Repeat(format, 3)+"\n", name, values[0], values[len(values)/2], values[len(values)-1])
	}
	row("weighter, s", " %8.3f", ours)
	row("HAProxy alone, same lines, s", " %8.3f", bare)
	row("ratio, round by round", " %8.2f", ratios)
	fmt.Printf("  %-34s %8.1f\n", "peak memory of the weighter, MiB", float64(peak)/(1<<20))
	if idle <= 0 {
		return nil
	}
	return measureIdle(ctx, program, render, idle)
}

// runPass makes one pass in a process of its own, so that its peak memory is
// its own. With record it also writes down every line sent to HAProxy.
func runPass(ctx context.Context, socket, url, record string) (cost, error) {
	self, err := os.Executable()
	if err != nil {
		return cost{}, err
	}
	cmd := exec.CommandContext(ctx, self, "pass", socket, url, record)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return cost{}, fmt.Errorf("pass: %w", err)
	}
	var c cost
	if err := json.Unmarshal(out.Bytes(), &c); err != nil {
		return cost{}, fmt.Errorf("pass printed %q: %w", out.String(), err)
	}
	c.RSS = cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	return c, nil
}

// replay sends lines to HAProxy, one short connection each, as fast as they go.
func replay(socket string, lines []string) (seconds float64, err error) {
	began := time.Now()
	for _, line := range lines {
		c, err := net.Dial("unix", socket)
		if err != nil {
			return 0, err
		}
		_, err = io.WriteString(c, line)
		if err == nil {
			_, err = io.Copy(io.Discard, c)
		}
		c.Close()
		if err != nil {
			return 0, err
		}
	}
	return time.Since(began).Seconds(), nil
}

func readLines(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return slices.Collect(strings.Lines(string(text))), nil
}

func haproxyConfig(backends, servers int) string {
	var b strings.Builder
	b.WriteString("defaults\n  mode tcp\n  timeout connect 1s\n  timeout client 10s\n  timeout server 10s\n")
	for i := range backends {
		fmt.Fprintf(&b, "backend bench%d\n  balance roundrobin\n", i)
		for j := range servers {
			fmt.Fprintf(&b, "  server node-%d 127.0.0.1:1 weight 100\n", j)
		}
	}
	return b.String() + "\n"
}
