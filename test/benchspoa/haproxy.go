package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// engineFile is the SPOE configuration; %s are more arguments.
const engineFile = `[t]
spoe-agent t
  messages weighter-server
  option var-prefix t
  timeout hello 1s
  timeout idle 30s
  timeout processing 1s
  use-backend spoa
spoe-message weighter-server
  args backend=str(` + asked + `) server=str(server-500)%s
  event on-frontend-http-request

`

// haproxyFile answers by itself, so that no server takes part. %s are port,
// filter and the agent's address.
const haproxyFile = `
global
  nbthread 1
defaults
  timeout connect 1s
  timeout client 30s
  timeout server 30s
frontend f
  mode http
  bind 127.0.0.1:%d
  %s
  http-request return status 200 content-type text/plain lf-string "%%[var(txn.t.weight)] %%[var(txn.t.load)] %%[var(txn.t.best)]"
backend spoa
  mode tcp
  server agent %s`

// haproxyTurn has a HAProxy with one thread ask the agent for each HTTP request.
func haproxyTurn(ctx context.Context, s shape, kind string, length time.Duration) (turn, error) {
	var used func() (usage, error)
	address, filter := "127.0.0.1:9", ""
	dir, err := haproxyproc.TempDir()
	if err != nil {
		return turn{}, err
	}
	defer os.RemoveAll(dir)
	used = func() (usage, error) { return usage{}, nil }
	if kind != kindNone {
		a, err := startAgent(ctx, kind, s.network, anyCPU)
		if err != nil {
			return turn{}, err
		}
		defer a.stop()
		address, used = a.address, a.usage
		file := filepath.Join(dir, "t.spoe")
		if err := os.WriteFile(file, fmt.Appendf(nil, engineFile, moreArguments(s.large)), 0o600); err != nil {
			return turn{}, err
		}
		filter = "filter spoe engine t config " + file
	}
	port, err := haproxyproc.FreePort()
	if err != nil {
		return turn{}, err
	}
	h, err := haproxyproc.Start(ctx, haproxyproc.Options{Dir: dir, Config: fmt.Sprintf(haproxyFile, port, filter, address)})
	if err != nil {
		return turn{}, err
	}
	defer h.Stop()
	before, err := used()
	if err != nil {
		return turn{}, err
	}
	cpu, err := processTime(h.PID())
	if err != nil {
		return turn{}, err
	}
	l, err := child(ctx, anyCPU, "request", strconv.Itoa(port), strconv.Itoa(s.conns), length.String(), strconv.FormatBool(kind != kindNone))
	if err != nil {
		return turn{}, err
	}
	cpuAfter, err := processTime(h.PID())
	if err != nil {
		return turn{}, err
	}
	after, err := used()
	if err != nil {
		return turn{}, err
	}
	return turn{load: l, used: after.minus(before), haproxy: cpuAfter - cpu}, nil
}

// moreArguments make a message of 1 kB.
func moreArguments(large bool) string {
	if !large {
		return ""
	}
	var b strings.Builder
	for i := range 5 {
		fmt.Fprintf(&b, " text%d=str(%s)", i, strings.Repeat("x", 190))
	}
	return b.String() + " port=dst_port src=src"
}

// processTime is the CPU time of all threads of a process, in nanoseconds.
func processTime(pid int) (float64, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseFloat(strings.Fields(string(b))[0], 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// requestMain makes HTTP requests over keep-alive connections: PORT CONNS TIME ANSWERED.
// With ANSWERED true the variables must be there in each response.
func requestMain(args []string) error {
	conns, length := must(strconv.Atoi(args[1])), must(time.ParseDuration(args[2]))
	want := ""
	if args[3] == "true" {
		e := newTable()[asked]
		want = fmt.Sprint(e.weight, " ", e.load, " ", e.best)
	}
	begin := time.Now()
	var all sync.WaitGroup
	errs, counts, latencies := make([]error, conns), make([]int64, conns), make([]histogram, conns)
	for i := range conns {
		all.Go(func() { counts[i], errs[i] = askHTTP("127.0.0.1:"+args[0], begin.Add(length), want, &latencies[i]) })
	}
	all.Wait()
	l := load{Seconds: time.Since(begin).Seconds()}
	var h histogram
	for i, n := range counts {
		if errs[i] != nil {
			return errs[i]
		}
		l.Messages += n
		h.add(&latencies[i])
	}
	l.P50, l.P99, l.P999 = h.quantile(0.5), h.quantile(0.99), h.quantile(0.999)
	return json.NewEncoder(os.Stdout).Encode(l)
}

// askHTTP is one client: it asks until a time and counts.
func askHTTP(address string, until time.Time, want string, latencies *histogram) (n int64, _ error) {
	nc, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	if err := nc.SetDeadline(until.Add(patience)); err != nil {
		return 0, err
	}
	r := bufio.NewReader(nc)
	for begin := time.Now(); begin.Before(until); n++ {
		if _, err := io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			return n, err
		}
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			return n, err
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return n, err
		}
		if want != "" && string(body) != want {
			return n, fmt.Errorf("HAProxy answered %q, want %q", body, want)
		}
		now := time.Now()
		latencies.note(now.Sub(begin))
		begin = now
	}
	return n, nil
}
