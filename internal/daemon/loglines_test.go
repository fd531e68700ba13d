package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/test/child"
)

// gate is a reader of the log that hangs while it is shut, and refuses lines
// while it is broken.
type gate struct {
	mu     sync.Mutex
	open   *sync.Cond
	shut   bool
	broken error
	got    bytes.Buffer
}

func newGate() *gate {
	g := &gate{}
	g.open = sync.NewCond(&g.mu)
	return g
}

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.shut {
		g.open.Wait()
	}
	if g.broken != nil {
		return 0, g.broken
	}
	return g.got.Write(p)
}

func (g *gate) set(shut bool, broken error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.broken = shut, broken
	g.open.Broadcast()
}

func (g *gate) lines() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Fields(g.got.String())
}

// TestLogLines: lines come out whole and in order; a gap is told where it is,
// once, with its size.
func TestLogLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		l := newLogLines(g, 9, func(n int) []byte { return fmt.Appendf(nil, "lost=%d\n", n) })
		var want []string
		write := func(lines ...string) {
			t.Helper()
			for _, line := range lines {
				if n, err := l.Write([]byte(line + "\n")); n != len(line)+1 || err != nil {
					t.Fatalf("Write: %d, %v", n, err)
				}
			}
			synctest.Wait()
		}
		expect := func(trouble string, lines ...string) {
			t.Helper()
			time.Sleep(logPatience)
			want = append(want, lines...)
			if diff := cmp.Diff(want, g.lines()); diff != "" {
				t.Fatalf("-want +got:\n%s", diff)
			}
			if err := l.trouble(); (err == nil) != (trouble == "") || err != nil && !strings.Contains(err.Error(), trouble) {
				t.Errorf("trouble: %v, want %q", err, trouble)
			}
			synctest.Wait()
		}
		write("a1", "a2", "a3", "a4") // three have room
		go l.run()
		expect("", "a1", "a2", "a3", "lost=1")

		g.set(true, nil)
		write("b1") // under way
		write("b2", "b3", "b4", "b5")
		expect("lines lost so far: 2")
		g.set(false, nil)
		expect("", "b1", "b2", "b3", "lost=2")

		g.set(false, errors.New("no space left on device"))
		write("c1")
		write("c2")
		expect("no space left on device; lines lost so far: 2")
		g.set(false, nil)
		expect("no space left on device") // the look has it tried again
		expect("", "lost=2")

		g.set(true, nil)
		write("d1")
		write("d2")
		if l.end(time.Second) {
			t.Error("end pretends that all is written")
		}
		write("d3") // too late
		g.set(false, nil)
		<-l.ended
		want = append(want, "d1", "d2", "lost=1")
		if diff := cmp.Diff(want, g.lines()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func TestLossLine(t *testing.T) {
	for level, want := range map[slog.Level]string{slog.LevelWarn: "level=WARN msg=\"log lines are lost here\" lines=7", slog.LevelError: ""} {
		if got := string(lossLine("text", level)(7)); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%v: %q", level, got)
		}
	}
}

// A pipe that nobody reads: weights go on, are put back after a reload of
// HAProxy, the status tells, and the end does not wait for it. Once it is read,
// the lines that had waited come, with the number of those lost.
func TestLogThatNobodyReads(t *testing.T) {
	s := newScene(t)
	s.configure(oneToFour, "")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	fill(t, write)
	s.output = write
	s.start()
	s.until("weights are written", func() bool { return s.weight("ingest/s1") == 64 })
	s.until("the status tells", func() bool {
		return slices.ContainsFunc(s.status().Faults, func(f balancer.Fault) bool {
			return f.Key == "log" && strings.Contains(f.Cause, ErrLogUnread.Error())
		})
	})
	if err := s.haproxy.Reload(haproxyConfig); err != nil {
		t.Fatal(err)
	}
	s.until("weights are put back", func() bool { return s.weight("ingest/s1") == 64 })

	var all sync.WaitGroup
	all.Go(func() { _, _ = io.Copy(s.log, read) })
	defer all.Wait()
	defer write.Close()
	s.untilLog(1, "weights written")
	s.untilLog(1, "the log can't be written")
	s.untilLog(1, "the log is written again")
	s.stop()
	s.untilLog(1, "stopped: the weights in force stay as they are")
}

// The daemon ends though nobody reads its last lines, and says so only when it
// has more to tell than that.
func TestEndWithoutReaderOfTheLog(t *testing.T) {
	s := newScene(t)
	s.configure(oneToFour, "")
	g := newGate()
	s.output = g
	s.start()
	s.until("weights are written", func() bool { return s.weight("ingest/s1") == 64 })
	g.set(true, nil)
	defer g.set(false, nil)
	s.stop() // fails the test when Run returns an error

	taken, err := net.Listen("unix", filepath.Join(s.dir, "admin.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if err := Run(t.Context(), s.options()); !errors.Is(err, ErrLogUnread) || !strings.Contains(err.Error(), "admin.listen: can't listen on") {
		t.Errorf("error %v", err)
	}
}

// fill fills a pipe to the last byte.
func fill(t *testing.T, write *os.File) {
	t.Helper()
	raw, err := write.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var full error
	err = raw.Write(func(fd uintptr) bool {
		for full == nil {
			_, full = syscall.Write(int(fd), []byte("\n"))
		}
		return true
	})
	if err != nil || !errors.Is(full, syscall.EAGAIN) {
		t.Fatal(err, full)
	}
}

// runFile, in the environment, makes the test binary a daemon with that
// configuration.
const runFile = "DAEMON_TEST_RUN"

func runAsDaemon(file string) int {
	c, err := config.Load(file)
	if err == nil {
		err = Run(context.Background(), Options{Config: c, Log: os.Stderr})
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// When the reader of standard error dies the daemon goes on.
func TestReaderOfTheLogDies(t *testing.T) {
	s := newScene(t)
	s.configure(oneToFour, "")
	fifo := filepath.Join(s.dir, "stderr")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	process, err := child.Start(child.Command{
		Program: os.Args[0], Env: append(os.Environ(), runFile+"="+s.file), Log: fifo,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer process.Kill()
	s.until("weights are written", func() bool { return s.weight("ingest/s1") == 64 })
	read.Close()
	if err := s.haproxy.Reload(haproxyConfig); err != nil { // which is told
		t.Fatal(err)
	}
	s.until("weights are put back", func() bool { return s.weight("ingest/s1") == 64 })
	s.until("the status tells", func() bool {
		return slices.ContainsFunc(s.status().Faults, func(f balancer.Fault) bool {
			return f.Key == "log" && strings.Contains(f.Cause, syscall.EPIPE.Error())
		})
	})
}
