package operations

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// fileFaults is about the configuration, the state file and the report.
func fileFaults(t *testing.T) {
	ports, err := haproxyproc.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	s := newScene(t, haproxyConfig("ingest", "roundrobin", "backend names\n\tbalance roundrobin\n\tserver s.1 127.0.0.1:1\n\tserver s_1 127.0.0.1:1\n"))
	const state = "[state]\nfile = \"{dir}/state.json\"\n"
	agent := fmt.Sprintf("[spoa]\nlisten = [\"0.0.0.0:%d\"]\n", ports[0])
	report := fmt.Sprintf("[report]\ncarbon = %q\ninterval = \"1s\"\n", s.carbon.Address)
	names := "[[backend]]\nname = \"names\"\ntarget = \"aliasByNode(load.*, 1)\"\ninterval = \"1s\"\n"
	s.graphite.Set(map[string]float64{"s1": 400, "s2": 200, "s3": 100, "s4": 100, "s.1": 5, "s_1": 5})
	s.configure(settings{tables: state + agent + report, backend: names})
	if err := os.WriteFile(s.file("state.json"), []byte(`{"version": 1, "contr`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start(nil)
	s.settle()
	s.begins("the state file can't be used")
	s.begins("configuration: …")
	s.begins("two names would be one series in the report")
	s.fault("the report does not reach carbon", s.carbon.Refuse, func() {
		if err := s.carbon.Accept(); err != nil {
			t.Fatal(err)
		}
	})
	anyOrder := func() { s.order("mode", "ingest", "live", "--reason", "test") }
	s.fault("the state file can't be written", func() {
		for _, err := range []error{os.RemoveAll(s.file("state.json")), os.MkdirAll(s.file("state.json/x"), 0o700)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		anyOrder()
	}, func() {
		if err := os.RemoveAll(s.file("state.json")); err != nil {
			t.Fatal(err)
		}
		anyOrder()
	})
	s.fault("the configuration was not reloaded", func() { s.configure(settings{tables: state + agent + report + "nonsense"}); s.hangUp() }, func() {
		s.configure(settings{
			tables: fmt.Sprintf("[spoa]\nlisten = [\"127.0.0.1:%d\"]\nmax_frame_size = 1024\nmax_connections = 5\nidle_timeout = \"1m\"\n", ports[1]) +
				"[admin]\nlisten = \"off\"\ncontrol = \"off\"\n[state]\nfile = \"{dir}/other.json\"\n[log]\nformat = \"text\"\n" + report,
			backend: names,
		})
		s.hangUp()
	})
	s.read = 0
	s.begins("keys have changed that are read at start only")
	if diff := cmp.Diff(documentedRestartKeys(t, s.doc), s.status().Config.RestartKeys); diff != "" {
		t.Errorf("keys that need a restart (-%s +the program):\n%s", document, diff)
	}
	s.carbon.Refuse()
	s.begins("the report does not reach carbon")
	s.stop()
	s.tells("this program ends while the report does not reach carbon: its last lines are lost")
	if err := s.carbon.Accept(); err != nil { // for the end of the scene
		t.Fatal(err)
	}
}

// documentedRestartKeys are those that the document names.
func documentedRestartKeys(t *testing.T, d *parsed) []string {
	t.Helper()
	_, rest, found := strings.Cut(d.text, "These keys are read at start only")
	if !found {
		t.Fatal("no keys that are read at start only")
	}
	paragraph, _, _ := strings.Cut(rest, "\n\n")
	return inCode(paragraph)
}

// defaultListenFaults has the default addresses of the admin interface taken, or
// not to be had.
func defaultListenFaults(t *testing.T) {
	if taken, err := net.Listen("tcp", "127.0.0.1:9101"); err == nil { // else somebody else has it
		defer taken.Close()
	}
	s := newScene(t, haproxyConfig("ingest", "roundrobin", ""))
	s.configure(settings{tables: fmt.Sprintf("[admin]\ncontrol = %q\n", s.file("control.sock"))})
	s.start([]string{"NOTIFY_SOCKET=" + s.file("nobody.sock"), "WATCHDOG_USEC=often"})
	s.begins("no status page, JSON and metrics")
	s.begins("systemd's watchdog can't be served")
	s.settle()
	s.stop()
	s.read = len(s.lines())
	// Where there is no folder for it; should this machine have one, it is hidden.
	var before []string
	if _, err := os.Stat("/run/haproxy-weighter"); err == nil {
		before = []string{"unshare", "--mount", "sh", "-c", `mount -t tmpfs tmpfs /run && exec "$0" "$@"`}
	}
	s.configure(settings{tables: fmt.Sprintf("[admin]\nlisten = \"unix:%s\"\n", s.file("admin.sock"))})
	s.start(nil, before...)
	s.begins("no control socket: the commands status, explain, history, pin and freeze don't work")
	s.stop()
}

// exits has the program refuse to start.
func exits(t *testing.T) {
	s := newScene(t, haproxyConfig("ingest", "roundrobin", ""))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if err := os.Mkdir(s.file("open"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.file("open"), 0o777); err != nil {
		t.Fatal(err)
	}
	agent := fmt.Sprintf("[spoa]\nlisten = [%q]\n", taken.Addr())
	for message, tables := range map[string]string{
		"nothing was done":                 "[state]\nfiel = \"x\"\n",
		"SPOE agent: can't listen on …":    agent,
		"admin.listen: can't listen on …":  fmt.Sprintf("[admin]\nlisten = %q\ncontrol = \"off\"\n", taken.Addr()),
		"admin.control: can't listen on …": "[admin]\nlisten = \"off\"\ncontrol = \"{dir}/open/c.sock\"\n",
	} {
		s.configure(settings{tables: tables})
		s.exits(message, "run", "-f", s.file("weighter.toml"))
	}
	lock, err := os.Create(s.file(".state.json.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	s.configure(settings{tables: "[state]\nfile = \"{dir}/state.json\"\n"})
	s.exits("is in use by another haproxy-weighter", "run", "-f", s.file("weighter.toml"))
	s.exits("no configuration at …", "run", "-f", s.file("nowhere.toml"))
	s.exits("the daemon can't be reached at …", "status", "--control", s.file("nobody.sock"))
	s.configure(settings{tables: strings.Replace(agent, taken.Addr().String(), "127.0.0.1:1", 1)})
	s.socketActivation(taken.(*net.TCPListener))
}

// exits runs the program, which must say a message and end with the exit code
// of its row.
func (s *scene) exits(message string, args ...string) {
	s.t.Helper()
	code, text := s.run(args...)
	s.exited(message, code, text)
}

func (s *scene) exited(message string, code int, text string) {
	s.t.Helper()
	r := s.row(message)
	if want := regexp.MustCompile(`exit code (\d)`).FindStringSubmatch(r.once); want == nil || want[1] != fmt.Sprint(code) {
		s.t.Errorf("%q: exit code %d, and its row says %s; it printed %s", message, code, r.once, text)
	}
	if !slices.ContainsFunc(strings.Split(text, "\n"), func(l string) bool { return matches(message, l, true) }) {
		s.t.Errorf("it did not print %q but %s", message, text)
	}
	note(&provoked.began, message)
}

// socketActivation hands a listener over as systemd does, which the
// configuration does not name.
func (s *scene) socketActivation(l *net.TCPListener) {
	s.t.Helper()
	file, err := l.File()
	if err != nil {
		s.t.Fatal(err)
	}
	defer file.Close()
	c := exec.Command("sh", "-c", `LISTEN_FDS=1 LISTEN_PID=$$ exec haproxy-weighter run -f "$0"`, s.file("weighter.toml"))
	c.ExtraFiles = []*os.File{file}
	c.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		s.t.Fatal(err)
	}
	s.exited("systemd hands over sockets that spoa.listen does not name", c.ProcessState.ExitCode(), string(out))
}
