package daemon

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/admin"
	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// Orders and what the loop has left outlive a restart, and a reload of HAProxy
// while nobody is there.
func TestRestartRemembers(t *testing.T) {
	s := newScene(t)
	s.configure(oneToFour, "")
	s.start()
	s.until("weights are written", func() bool { return s.weight("ingest/s1") == 64 })
	s.order("pin", api.Order{Backend: "ingest", Server: "s2", Weight: 7, Reason: "slow disk", ForSeconds: 3600})
	s.until("the pin counts", func() bool { return s.weight("ingest/s2") == 7 })
	s.order("freeze", api.Order{Backend: "ingest", Reason: "change 4711", ForSeconds: 3600})
	s.until("the freeze counts", func() bool { return len(s.status().Faults) > 0 })
	s.stop()

	if err := s.haproxy.Reload(haproxyConfig); err != nil {
		t.Fatal(err)
	}
	if w := s.weight("ingest/s1"); w != 100 {
		t.Fatalf("weight %d after HAProxy's reload", w)
	}
	s.start()
	s.until("the weights are put back", func() bool { return s.weight("ingest/s1") == 64 && s.weight("ingest/s2") == 7 })
	status := s.status()
	control := status.Backends[0].Control
	if control.Pins["s2"].Weight != 7 || control.Freeze == nil || control.Freeze.Reason != "change 4711" || control.Freeze.Author == "" {
		t.Errorf("orders after the restart: %+v", control)
	}
	if s.log.Count("orders of operators from before the restart count") != 1 {
		t.Errorf("nobody is told; log:\n%s", s.log)
	}
	s.order("unfreeze", api.Order{Backend: "ingest"})
	s.order("unpin", api.Order{Backend: "ingest", Server: "s2"})
	s.until("the weights are free again", func() bool { return s.weight("ingest/s2") == 128 })
}

// A state file that can't be used, or written, is told and stops nothing.
func TestStateFileFaults(t *testing.T) {
	s := newScene(t)
	s.configure(oneToFour, "")
	path := filepath.Join(s.dir, "state.json")
	if err := os.WriteFile(path, []byte(`{"version": 1, "contr`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.until("weights are written", func() bool { return s.weight("ingest/s1") == 64 })
	s.untilLog(1, "the state file can't be used")
	s.stop()
	// Where a folder is in the way it can't be written, not even by root.
	for _, err := range []error{os.Remove(path), os.MkdirAll(filepath.Join(path, "x"), 0o700)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.start()
	s.until("the daemon answers", func() bool { code, _ := s.http("control.sock", "GET", "/-/healthy", nil); return code == 200 })
	s.until("there is a table", func() bool { return len(s.status().Backends[0].Tables) == 1 })
	s.order("pin", api.Order{Backend: "ingest", Server: "s1", Weight: 9, Reason: "r", ForSeconds: 60})
	s.until("the pin counts all the same", func() bool { return s.weight("ingest/s1") == 9 })
	s.untilLog(1, "the state file can't be written")
	if faults := s.status().Faults; len(faults) != 1 || !strings.Contains(faults[0].What, "state file") {
		t.Errorf("faults %+v", faults)
	}
	code, text := s.http("control.sock", "POST", "/control/v1/pin",
		api.Order{Backend: "ingest", Server: "s1", Weight: 9, Reason: "r", ForSeconds: 60})
	if code != 200 || !strings.Contains(text, "it ends when haproxy-weighter is restarted: the state file can't be written") {
		t.Errorf("a pin that can't be kept: %d %s", code, text)
	}
	if _, text := s.http("admin.sock", "GET", "/metrics", nil); !strings.Contains(text, `haproxy_weighter_faults{proxy="",socket=""} 1`) {
		t.Error("the fault is not in the metrics")
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	s.order("unpin", api.Order{Backend: "ingest", Server: "s1"})
	s.untilLog(1, "the state file is written again")
}

// Two daemons with one state file would lose each other's orders; the second
// does not start, and leaves all as it is.
func TestStateFileOfAnother(t *testing.T) {
	s := newScene(t)
	s.configure(oneToFour, "")
	s.start()
	s.until("weights are written", func() bool { return s.weight("ingest/s1") == 64 })
	reload := s.reload
	err := Run(t.Context(), s.options())
	s.reload = reload
	if err == nil || !strings.Contains(err.Error(), s.dir+"/state.json is in use by another haproxy-weighter") {
		t.Errorf("error %v", err)
	}
	s.order("pin", api.Order{Backend: "ingest", Server: "s1", Weight: 9, Reason: "r", ForSeconds: 60})
	if text, err := os.ReadFile(filepath.Join(s.dir, "state.json")); err != nil || !strings.Contains(string(text), `"weight": 9`) {
		t.Errorf("the pin was answered and is not in the file: %s, %v", text, err)
	}
}

// A listener that was asked for and can't be had ends the start; a default one
// that can't be had is a fault.
func TestListenersThatCannotBeHad(t *testing.T) {
	s := newScene(t)
	s.configure(oneToFour, "")
	taken, err := net.Listen("unix", filepath.Join(s.dir, "admin.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	err = Run(t.Context(), s.options())
	if err == nil || !strings.Contains(err.Error(), "admin.listen: can't listen on unix:"+s.dir+"/admin.sock") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Lstat(filepath.Join(s.dir, "control.sock")); err == nil {
		t.Error("the control socket is left behind")
	}
}

// systemd is told when the daemon is ready, reloads and ends, and gets signs of
// life in between.
func TestNotify(t *testing.T) {
	s := newScene(t)
	s.configure(oneToFour, "")
	path := filepath.Join(s.dir, "notify.sock")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "300000")
	s.start()
	next := func(want string) {
		t.Helper()
		if err := l.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		for buf := make([]byte, 4096); ; {
			n, err := l.Read(buf)
			if err != nil {
				t.Fatalf("%s never came: %v", want, err)
			}
			if strings.Contains(string(buf[:n]), want) {
				return
			}
		}
	}
	next("READY=1")
	next("WATCHDOG=1")
	next("STATUS=1 backend, all well")
	next("WATCHDOG=1")
	s.hangUp()
	next("RELOADING=1\nMONOTONIC_USEC=")
	next("READY=1")
	s.configure("interval = 3\n", "")
	s.hangUp()
	next("RELOADING=1")
	next("READY=1") // with the old configuration
	s.stop()
	next("STOPPING=1")
}

// A default address that can't be had is no reason not to balance, unless it is
// because another daemon balances already.
func TestDefaultListeners(t *testing.T) {
	s := newScene(t)
	s.configure(oneToFour, "")
	for want, cause := range map[bool]error{true: admin.ErrBusy, false: os.ErrNotExist} {
		d := newDaemon(s.options())
		err := d.optional("admin.control", config.DefaultControl, config.DefaultControl, fmt.Errorf("as it is: %w", cause))
		if refused := err != nil; refused != want || len(d.faults.List()) == 1 == want {
			t.Errorf("%v: refused with %v, faults %+v", cause, err, d.faults.List())
		}
	}
}
