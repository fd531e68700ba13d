package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/negasus/haproxy-spoe-go/action"
	libraryagent "github.com/negasus/haproxy-spoe-go/agent"
	"github.com/negasus/haproxy-spoe-go/logger"
	"github.com/negasus/haproxy-spoe-go/message"
	"github.com/negasus/haproxy-spoe-go/request"

	"github.com/haproxy-weighter/haproxy-weighter/spoa"
)

// The agents that are compared.
const (
	kindEcho    = "echo"    // a frame by its length, a fixed ACK: the limit
	kindOurs    = "spoa"    // package spoa
	kindLibrary = "library" // the library's own agent, as its README uses it
	kindNone    = "none"    // HAProxy without an agent
)

// entry is what the handler's table has for a backend.
type entry struct{ weight, load, best any }

// table has 1,000 backends; asked is the one that is asked for.
const asked = "backend-500"

func newTable() map[string]entry {
	table := make(map[string]entry)
	for i := range 1000 {
		table["backend-"+strconv.Itoa(i)] = entry{100 + i%100, 1000 * i, "server-" + strconv.Itoa(i)}
	}
	return table
}

// answer is the handler of both real agents: look up the backend, set three variables.
func answer(table map[string]entry, messages message.Messages, actions *action.Actions) error {
	for _, m := range messages {
		name, _ := m.KV.Get("backend")
		backend, ok := name.(string)
		if !ok {
			return errors.New("no backend")
		}
		e := table[backend]
		actions.SetVar(action.ScopeTransaction, "weight", e.weight)
		actions.SetVar(action.ScopeTransaction, "load", e.load)
		actions.SetVar(action.ScopeTransaction, "best", e.best)
	}
	return nil
}

// agentMain is the process of one agent: KIND NETWORK ADDRESS. It prints its address,
// then answers each line on its standard input with its usage so far, until that ends.
func agentMain(args []string) error {
	l, err := net.Listen(args[1], args[2])
	if err != nil {
		return err
	}
	var served sync.WaitGroup
	stop := func() { l.Close() }
	switch args[0] {
	case kindEcho:
		served.Go(func() { echo(l) })
	case kindLibrary:
		table := newTable()
		a := libraryagent.New(func(r *request.Request) { _ = answer(table, *r.Messages, &r.Actions) }, logger.NewNop())
		served.Go(func() { _ = a.Serve(l) })
	case kindOurs:
		table := newTable()
		s := &spoa.Server{Logger: slog.New(slog.DiscardHandler), Handler: spoa.HandlerFunc(func(actions *action.Actions, r *spoa.Request) error {
			return answer(table, r.Messages, actions)
		})}
		served.Go(func() { _ = s.Serve(l) })
		stop = func() { s.Close() }
	default:
		return fmt.Errorf("there is no agent %q", args[0])
	}
	fmt.Println(l.Addr())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		u, err := ownUsage()
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(u); err != nil {
			return err
		}
	}
	stop()
	served.Wait()
	return nil
}

// usage is what a process has used so far.
type usage struct {
	CPU     int64  // nanoseconds, user and system
	Mallocs uint64 // allocations of heap objects
	Calls   int64  // read and write system calls; waiting for the poller is not in it
}

func ownUsage() (usage, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return usage{}, err
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u := usage{CPU: r.Utime.Nano() + r.Stime.Nano(), Mallocs: m.Mallocs}
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return usage{}, err
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if name == "syscr" || name == "syscw" {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return usage{}, err
			}
			u.Calls += n
		}
	}
	return u, nil
}

// echo answers each frame with the same ACK, apart from the ids, which the
// generator keeps below 240: one byte each. HAProxy's are larger and put in as they come.
func echo(l net.Listener) {
	body := ackBody()
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		go echoConn(nc, body)
	}
}

func echoConn(nc net.Conn, body []byte) {
	defer nc.Close()
	in, out := make([]byte, 64<<10), make([]byte, 0, 64<<10)
	end := 0
	for {
		n, err := nc.Read(in[end:])
		if err != nil {
			return
		}
		end += n
		start := 0
		out = out[:0]
		for end-start >= 4 {
			size := 4 + int(binary.BigEndian.Uint32(in[start:]))
			if size > len(in) || end-start < size {
				break
			}
			out = echoFrame(out, in[start:start+size], body)
			start += size
		}
		end = copy(in, in[start:end])
		if _, err := nc.Write(out); err != nil {
			return
		}
	}
}

func echoFrame(out, in, body []byte) []byte {
	if in[4] == typeHello {
		return append(out, agentHello()...)
	}
	if in[4] != typeNotify {
		return out
	}
	ids := idsOf(in[9:])
	out = binary.BigEndian.AppendUint32(out, uint32(5+len(ids)+len(body)))
	out = append(out, typeAck, 0, 0, 0, 1)
	out = append(out, ids...)
	return append(out, body...)
}

// idsOf cuts the two variable-length integers off b.
func idsOf(b []byte) []byte {
	n := 0
	for range 2 {
		if n++; b[n-1] >= 240 {
			for n++; b[n-1] >= 128; n++ {
			}
		}
	}
	return b[:n]
}
