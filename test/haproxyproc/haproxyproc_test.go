package haproxyproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/haproxy-weighter/haproxy-weighter/test/child"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config(t *testing.T, weight int) string {
	t.Helper()
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`
defaults
  mode tcp
  timeout connect 1s
  timeout client 30s
  timeout server 30s
listen in
  bind 127.0.0.1:%d
  server s1 127.0.0.1:9 weight %d`, port, weight)
}

func start(t *testing.T, o Options) *Process {
	t.Helper()
	p, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

func ask(t *testing.T, p *Process, line string) string {
	t.Helper()
	answer, err := p.Command(t.Context(), line)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func answering(t *testing.T, p *Process) int {
	t.Helper()
	pid, err := p.answer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// gone tells whether no process has this number; the tests' own children are
// reaped, so a zombie of ours counts as being there.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// inEachWay runs body with each version in both modes. Most of what the package
// does hangs on signals, sockets and words of the master, which versions change.
func inEachWay(t *testing.T, body func(t *testing.T, o Options)) {
	t.Helper()
	binaries, err := Binaries()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range binaries {
		for _, mw := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/MasterWorker=%v", b.Version, mw), func(t *testing.T) {
				body(t, Options{Binary: b.Path, Config: config(t, 7), MasterWorker: mw})
			})
		}
	}
}

func TestReload(t *testing.T) {
	inEachWay(t, func(t *testing.T, o Options) {
		p := start(t, o)
		main, worker := p.PID(), answering(t, p)
		if (main == worker) == o.MasterWorker {
			t.Errorf("PID %d, answering %d", main, worker)
		}
		if err := p.Reload(config(t, 9)); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if got := answering(t, p); got == worker {
				t.Errorf("worker %d still answers after the reload", got)
			}
		}
		if got := ask(t, p, "get weight in/s1"); got != "9 (initial 9)\n\n" {
			t.Errorf("weight after reload: %q", got)
		}
		if (p.PID() == main) != o.MasterWorker {
			t.Errorf("PID before %d, after %d", main, p.PID())
		}
	})
}

func TestReloadBadConfig(t *testing.T) {
	inEachWay(t, func(t *testing.T, o Options) {
		p := start(t, o)
		err := p.Reload("listen x\n  bogus keyword\n")
		if err == nil || !strings.Contains(err.Error(), "bogus") {
			t.Fatalf("error = %v, want HAProxy's own words about the bad keyword", err)
		}
		if got := ask(t, p, "get weight in/s1"); got != "7 (initial 7)\n\n" {
			t.Errorf("weight after the refused reload: %q", got)
		}
		if err := p.Reload(config(t, 8)); err != nil {
			t.Errorf("reload with a good configuration: %v", err)
		}
	})
}

func TestRestartAndKill(t *testing.T) {
	inEachWay(t, func(t *testing.T, o Options) {
		p := start(t, o)
		first := p.PID()
		if err := p.Restart(); err != nil {
			t.Fatal(err)
		}
		if !gone(first) || p.PID() == first {
			t.Errorf("first process %d, now %d", first, p.PID())
		}
		workers, err := p.Workers()
		if err != nil || len(workers) != 1 {
			t.Fatalf("workers %v, %v", workers, err)
		}
		p.Kill()
		if p.Running() || !gone(workers[0]) {
			t.Errorf("worker %d is still there after Kill", workers[0])
		}
		if _, err := p.Command(t.Context(), "show info"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("command to a killed HAProxy: %v, want ECONNREFUSED", err)
		}
		if err := p.Restart(); err != nil {
			t.Fatal(err)
		}
		answering(t, p)
	})
}

func TestStopLeavesNothing(t *testing.T) {
	inEachWay(t, func(t *testing.T, o Options) {
		p := start(t, o)
		workers, err := p.Workers()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Pause(); err != nil { // a paused HAProxy must stop as well
			t.Fatal(err)
		}
		pids := append(workers, p.PID())
		p.Stop()
		p.Stop()
		for _, pid := range pids {
			if !gone(pid) {
				t.Errorf("process %d of %v is still there", pid, pids)
			}
		}
		if _, err := os.Stat(p.Dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("directory %s: %v", p.Dir, err)
		}
		if err := p.Reload(""); err == nil {
			t.Error("reload of a stopped HAProxy gave no error")
		}
	})
}

func TestPauseResume(t *testing.T) {
	inEachWay(t, func(t *testing.T, o Options) {
		p := start(t, o)
		if err := p.Pause(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := p.Command(ctx, "show info"); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("command to a paused HAProxy: %v", err)
		}
		if err := p.Resume(); err != nil {
			t.Fatal(err)
		}
		answering(t, p)
	})
}

func TestStartFailures(t *testing.T) {
	t.Setenv("HAPROXY_BIN", "")
	dir := t.TempDir()
	for _, tt := range []struct {
		name    string
		options Options
		path    string
		want    string
	}{
		{"bad configuration", Options{Config: "listen x\n  bogus keyword\n"}, "", "bogus"},
		{"bad configuration with a master", Options{Config: "listen x\n  bogus keyword\n", MasterWorker: true}, "", "bogus"},
		{"no directory", Options{Dir: dir + "/nosuch", Config: config(t, 1)}, "", "no such file"},
		{"no such binary", Options{Binary: dir + "/haproxy"}, "", dir + "/haproxy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Start(t.Context(), tt.options)
			if err == nil {
				p.Stop()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q does not contain %q", err, tt.want)
			}
		})
	}
}

func TestStartContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p, err := Start(ctx, Options{Config: config(t, 1)})
	if !errors.Is(err, context.Canceled) {
		if p != nil {
			p.Stop()
		}
		t.Fatalf("error %v, want context.Canceled", err)
	}
}

func TestLongDirectory(t *testing.T) {
	dir := t.TempDir() + "/" + strings.Repeat("x", 100)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p := start(t, Options{Dir: dir, Config: config(t, 3), MasterWorker: true})
	if got := ask(t, p, "get weight in/s1"); got != "3 (initial 3)\n\n" {
		t.Errorf("weight %q", got)
	}
	if !strings.Contains(p.Log(), "worker") {
		t.Errorf("log %q", p.Log())
	}
}

func TestFreePorts(t *testing.T) {
	ports, err := FreePorts(50)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ports)
	if n := len(slices.Compact(ports)); n != 50 {
		t.Errorf("%d distinct ports, want 50", n)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0]))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// TestParentDies proves that HAProxy does not outlive a parent that is killed
// with SIGKILL. The parent is this test binary, run again.
func TestParentDies(t *testing.T) {
	if os.Getenv("HAPROXYPROC_PARENT") != "" {
		p, err := Start(context.Background(), Options{Dir: os.Getenv("HAPROXYPROC_PARENT"), Config: config(t, 1), MasterWorker: true})
		if err != nil {
			t.Fatal(err)
		}
		workers, _ := p.Workers()
		fmt.Println("pids", p.PID(), workers[0])
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestParentDies$")
	cmd.Env = append(os.Environ(), "HAPROXYPROC_PARENT="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var master, worker int
	_, scanErr := fmt.Fscanf(out, "pids %d %d\n", &master, &worker)
	cmd.Process.Kill()
	cmd.Wait()
	if scanErr != nil {
		t.Fatal(scanErr)
	}
	// Who reaps an orphan is not ours to say: ended means gone or a zombie.
	deadline := time.Now().Add(20 * time.Second)
	for _, pid := range []int{master, worker} {
		for child.Alive(pid) {
			if time.Now().After(deadline) {
				syscall.Kill(pid, syscall.SIGKILL)
				t.Fatalf("process %d (master %d, worker %d) outlived its parent", pid, master, worker)
			}
			time.Sleep(pollInterval)
		}
	}
}
