package haproxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// fakeServer plays HAProxy's runtime socket, for faults that a real one does
// not show on demand. It fails the test at any command it does not know.
type fakeServer struct {
	t        *testing.T
	path     string
	listener net.Listener
	done     sync.WaitGroup

	mu       sync.Mutex
	backends []*fakeBackend
	frontend string // a frontend by this name hides the backend's statistics
	info     Info
	denied   bool // level operator
	severity bool
	sessions []string
	lines    []string // received
	// conn, when set, takes over each connection after its line was read.
	conn func(c net.Conn, line string)
}

type fakeBackend struct {
	name      string
	id        int
	algorithm string
	static    bool
	disabled  bool
	servers   []*Server
}

// scene is what both the fake and the real HAProxy have.
func sceneBackends() []*fakeBackend {
	return []*fakeBackend{
		{name: "rr", id: 3, algorithm: "roundrobin", servers: []*Server{
			{Name: "s1", ID: 1, Op: OpRunning, Weight: 100, InitialWeight: 100},
			{Name: "s2", ID: 2, Op: OpRunning, Weight: 50, InitialWeight: 50, Backup: true},
			{Name: "s3", ID: 3, Op: OpStopped, Admin: ForcedMaint | ConfigMaint, Weight: 50, InitialWeight: 50},
			{Name: "s4", ID: 4, Op: OpRunning},
		}},
		{name: "fixed", id: 4, algorithm: "static-rr", static: true, servers: []*Server{
			{Name: "s1", ID: 1, Op: OpRunning, Weight: 100, InitialWeight: 100},
			{Name: "s2", ID: 2, Op: OpRunning, Weight: 50, InitialWeight: 50},
		}},
		{name: "off", id: 5, disabled: true, servers: []*Server{{Name: "s1", Op: OpRunning, Weight: 1, InitialWeight: 1}}},
		{name: "shadow", id: 7, algorithm: "leastconn", servers: []*Server{{Name: "s1", ID: 1, Op: OpRunning, Weight: 7, InitialWeight: 7}}},
		{name: "empty", id: 8, algorithm: "roundrobin"},
	}
}

func newFakeServer(t *testing.T) *fakeServer {
	t.Helper()
	dir, err := haproxyproc.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeAll(t, dir) })
	f := &fakeServer{t: t, path: filepath.Join(dir, "s"), backends: sceneBackends(), frontend: "shadow",
		info: Info{Worker: Worker{PID: 4711, StartTime: 1795981600}, Version: "2.6.12", Node: "lb1"}}
	if f.listener, err = net.Listen("unix", f.path); err != nil {
		t.Fatal(err)
	}
	f.done.Add(1)
	go f.serve()
	t.Cleanup(func() {
		f.listener.Close()
		f.done.Wait()
	})
	return f
}

func (f *fakeServer) address() Address { return Address{Kind: kindUnix, Path: f.path} }

func (f *fakeServer) serve() {
	defer f.done.Done()
	for {
		c, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.done.Add(1)
		go f.handle(c)
	}
}

func (f *fakeServer) handle(c net.Conn) {
	defer f.done.Done()
	defer c.Close()
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		if !errors.Is(err, io.EOF) {
			f.t.Errorf("fake: read %q: %v", line, err)
		}
		return
	}
	f.mu.Lock()
	f.lines = append(f.lines, line)
	takeOver := f.conn
	f.mu.Unlock()
	if takeOver != nil {
		takeOver(c, line)
		return
	}
	io.WriteString(c, f.reply(line))
}

func (f *fakeServer) received() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.lines...)
}

func (f *fakeServer) reply(line string) string {
	if len(line) > 8192 || strings.HasSuffix(line, ";\n") || strings.HasPrefix(line, ";") || strings.Contains(line, ";;") {
		f.t.Errorf("fake: a line that no HAProxy should get: %s", cut(line))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var b strings.Builder
	for command := range strings.SplitSeq(strings.TrimSuffix(line, "\n"), ";") {
		b.WriteString(f.run(command))
	}
	return b.String()
}

func (f *fakeServer) refuse(text string) string {
	if f.severity {
		text = "[3]: " + text
	}
	return text + "\n\n"
}

func (f *fakeServer) run(command string) string {
	words := strings.Fields(command)
	switch {
	case command == "show info":
		return f.showInfo()
	case command == "show backend":
		var b strings.Builder
		b.WriteString("# name\n")
		for _, be := range f.backends {
			fmt.Fprintln(&b, be.name)
		}
		return b.String() + "MASTER\nHTTPCLIENT\n<OCSP-UPDATE>\n\n"
	case command == "show sess":
		return strings.Join(append(f.sessions, "\n"), "\n")
	case len(words) == 4 && strings.HasPrefix(command, "show servers state "):
		return f.showServers(words[3])
	case len(words) == 5 && strings.HasPrefix(command, "show stat ") && strings.HasSuffix(command, " 6 -1"):
		return f.showStat(words[2])
	case len(words) == 5 && strings.HasPrefix(command, "set server "):
		return f.setServer(words[2], words[3], words[4])
	}
	f.t.Errorf("fake: command not known: %q", command)
	return ""
}

func (f *fakeServer) showInfo() string {
	stopping := 0
	if f.info.Stopping {
		stopping = 1
	}
	return fmt.Sprintf("Name: HAProxy\nVersion: %s\nNbthread: 2\nPid: %d\nUptime: 0d 0h00m05s\nUptime_sec: %d\nCurrConns: %d\nnode: %s\nStopping: %d\nUnstoppable Jobs: 0\nStart_time_sec: %d\nTainted: 0\n\n",
		f.info.Version, f.info.Worker.PID, int(f.info.Uptime.Seconds()), f.info.Connections, f.info.Node, stopping, f.info.Worker.StartTime)
}

func (f *fakeServer) backend(name string) *fakeBackend {
	for _, be := range f.backends {
		if be.name == name {
			return be
		}
	}
	return nil
}

func (f *fakeServer) showServers(name string) string {
	be := f.backend(name)
	if be == nil {
		return f.refuse("Can't find backend.")
	}
	var b strings.Builder
	b.WriteString("1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight srv_time_since_last_change srvrecord\n")
	for _, s := range be.servers {
		fmt.Fprintf(&b, "%d %s %d %s 127.0.0.1 %d %d %d %d 0 -\n", be.id, be.name, s.ID, s.Name, s.Op, s.Admin, s.Weight, s.InitialWeight)
	}
	return b.String() + "\n"
}

func (f *fakeServer) showStat(which string) string {
	var b strings.Builder
	b.WriteString("# pxname,svname,scur,stot,status,weight,bck,type,sid,throttle,agent_status,algo,last_chk,\n")
	id, _ := strconv.Atoi(which)
	found := which == "-1" || which == f.frontend
	for _, be := range f.backends {
		if which != "-1" && id != be.id && (which != be.name || which == f.frontend) {
			continue
		}
		found = true
		if be.disabled {
			continue
		}
		for _, s := range be.servers {
			backup := 0
			if s.Backup {
				backup = 1
			}
			fmt.Fprintf(&b, "%s,%s,%d,%d,no check,%d,%d,2,%d,,,,\"a \"\"check\"\", with commas\",\n", be.name, s.Name, s.Sessions, s.TotalSessions, s.Weight, backup, s.ID)
		}
		algorithm := be.algorithm
		fmt.Fprintf(&b, "%s,BACKEND,0,0,UP,1,0,1,0,,,%s,,\n", be.name, algorithm)
	}
	if !found {
		return f.refuse("No such proxy.")
	}
	return b.String() + "\n"
}

func (f *fakeServer) setServer(name, what, value string) string {
	if f.denied {
		return f.refuse("Permission denied")
	}
	beName, srvName, ok := strings.Cut(name, "/")
	if !ok {
		return f.refuse("Require 'backend/server'.")
	}
	be := f.backend(beName)
	if be == nil {
		return f.refuse("No such backend.")
	}
	if be.disabled || f.info.Stopping {
		return f.refuse("Proxy is disabled.")
	}
	for _, s := range be.servers {
		if s.Name == srvName {
			return f.change(be, s, what, value)
		}
	}
	return f.refuse("No such server.")
}

func (f *fakeServer) change(be *fakeBackend, s *Server, what, value string) string {
	switch what + " " + value {
	case "state ready":
		s.Admin &^= ForcedMaint | ForcedDrain
		s.Op = OpRunning
		return "\n"
	case "state drain":
		s.Admin = s.Admin&^ForcedMaint | ForcedDrain
		s.Op = OpRunning
		return "\n"
	case "state maint":
		s.Admin |= ForcedMaint
		s.Op = OpStopped
		return "\n"
	}
	n, err := strconv.Atoi(value)
	if what != "weight" || err != nil {
		f.t.Errorf("fake: set server ... %s %s", what, value)
		return ""
	}
	switch {
	case n < 0 || n > 256:
		return f.refuse("Absolute weight can only be between 0 and 256 inclusive.")
	case be.static && n != 0 && n != s.InitialWeight:
		return f.refuse("Backend is using a static LB algorithm and only accepts weights '0%' and '100%'.")
	}
	s.Weight = n
	return "\n"
}
