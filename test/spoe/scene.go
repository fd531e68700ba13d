package spoe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	haproxyconf "github.com/haproxy-weighter/haproxy-weighter/haproxy-conf"
	"github.com/haproxy-weighter/haproxy-weighter/spoa"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// Options say which scene to set.
type Options struct {
	Binary  string // HAProxy's program
	Example string // of haproxyconf
	// Handler answers for the agent, which is started; nil starts none.
	Handler spoa.Handler
	// AsShipped keeps the timeouts of the shipped files. Without it HAProxy waits for the agent as long
	// as it takes, so that a busy machine can't make a test fail.
	AsShipped bool
	// Edit changes the rendered files; nil leaves them.
	Edit func(file, text string) string
	// MasterWorker runs HAProxy with a master.
	MasterWorker bool
	// OverHTTP makes servers that speak HTTP.
	OverHTTP bool
}

// Scene is one HAProxy with an example, its servers, its log and the agent.
type Scene struct {
	HAProxy *haproxyproc.Process
	Agent   *Agent
	Values  haproxyconf.Values

	example string
	servers []*server
	logs    *logs
	frontend
	undo []func()
}

// frontend is where clients connect.
type frontend struct{ address string }

// Start sets a scene and waits until HAProxy and its servers are up, and the agent when
// there is one. The caller must Close it.
func Start(ctx context.Context, o Options) (_ *Scene, err error) {
	s := &Scene{Values: haproxyconf.Generic(), example: o.Example}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if err := s.place(o); err != nil {
		return nil, err
	}
	if o.Handler != nil {
		s.Agent = NewAgent(s.Values.Agent, o.Handler)
		s.undo = append(s.undo, s.Agent.Stop)
		if err := s.Agent.Start(); err != nil {
			return nil, err
		}
	}
	config, err := s.write(o)
	if err != nil {
		return nil, err
	}
	s.HAProxy, err = haproxyproc.Start(ctx, haproxyproc.Options{
		Binary: o.Binary, Dir: s.Values.Dir, Config: config, MasterWorker: o.MasterWorker,
	})
	if err != nil {
		return nil, err
	}
	s.undo = append(s.undo, s.HAProxy.Stop)
	return s, s.awaitUp(ctx, o)
}

// place starts servers and log and settles all addresses.
func (s *Scene) place(o Options) error {
	dir, err := haproxyproc.TempDir()
	if err != nil {
		return err
	}
	s.undo = append(s.undo, func() { os.RemoveAll(dir) })
	s.Values.Dir = dir
	s.Values.LoadMap, s.Values.WeightMap = filepath.Join(dir, "load.map"), filepath.Join(dir, "weight.map")
	s.Values.StatsSocket = "" // haproxyproc has one
	s.logs = newLogs(filepath.Join(dir, "haproxy.log"))
	s.Values.Log = logTarget
	for _, list := range [][]haproxyconf.Server{s.Values.Servers, s.Values.SpareServers} {
		for i := range list {
			server, err := startServer(list[i].Name, o.OverHTTP)
			if err != nil {
				return err
			}
			s.servers = append(s.servers, server)
			s.undo = append(s.undo, server.close)
			list[i].Address = server.address()
		}
	}
	ports, err := haproxyproc.FreePorts(2)
	if err != nil {
		return err
	}
	s.address = fmt.Sprintf("127.0.0.1:%d", ports[0])
	s.Values.Bind = s.address
	s.Values.Agent = fmt.Sprintf("127.0.0.1:%d", ports[1])
	return nil
}

// write puts the example's files into the scene's folder and returns haproxy.cfg.
func (s *Scene) write(o Options) (string, error) {
	files, err := haproxyconf.Render(o.Example, s.Values)
	if err != nil {
		return "", err
	}
	for i, f := range files {
		if !o.AsShipped {
			f.Text = relax(f.Text)
		}
		if o.Edit != nil {
			f.Text = o.Edit(f.Name, f.Text)
		}
		files[i] = f
		if err := os.WriteFile(filepath.Join(s.Values.Dir, f.Name), []byte(f.Text), 0o600); err != nil {
			return "", err
		}
	}
	return files[0].Text, nil
}

// relax makes HAProxy patient with the agent.
func relax(text string) string {
	return strings.NewReplacer(
		"timeout processing 20ms", "timeout processing 50s",
		"timeout hello 100ms", "timeout hello 50s",
		"timeout connect 100ms", "timeout connect 50s",
		"timeout idle 30s", "timeout idle 50s",
	).Replace(text)
}

// awaitUp waits until the checks of all servers have passed: a server counts as up
// before its first check, and may yet fail it.
func (s *Scene) awaitUp(ctx context.Context, o Options) error {
	backends := []string{s.Values.Backend}
	if o.Handler != nil && o.Example != "map" {
		backends = append(backends, agentBackend)
	}
	for _, backend := range backends {
		if err := s.Await(ctx, backend, checkPassed); err != nil {
			return err
		}
	}
	return nil
}

// serverState is what Await looks at, from a line of "show servers state".
type serverState struct{ op, checkResult string }

// The numbers are those of HAProxy's srv_op_state and srv_check_result
// (management.txt, "show servers state").
func checkPassed(s serverState) bool { return s.op == "2" && s.checkResult == "3" }
func down(s serverState) bool        { return s.op == "0" }

// Await waits until all servers of a backend are in the state wanted.
func (s *Scene) Await(ctx context.Context, backend string, wanted func(serverState) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		answer, err := s.HAProxy.Command(ctx, "show servers state "+backend)
		if err == nil && all(answer, wanted) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("servers of %s: %w; last %q, %v; HAProxy's log: %s", backend, ctx.Err(), answer, err, s.HAProxy.Log())
		case <-tick.C:
		}
	}
}

// all tells whether there are servers and every one is as wanted.
func all(answer string, wanted func(serverState) bool) bool {
	servers := 0
	for line := range strings.Lines(answer) {
		f := strings.Fields(line)
		if len(f) < 13 || f[0] == "#" {
			continue
		}
		servers++
		if !wanted(serverState{op: f[5], checkResult: f[11]}) {
			return false
		}
	}
	return servers > 0
}

// Command sends one command to HAProxy and expects no answer.
func (s *Scene) Command(ctx context.Context, line string) error {
	answer, err := s.HAProxy.Command(ctx, line)
	if err == nil && strings.TrimSpace(answer) != "" {
		err = errors.New(strings.TrimSpace(answer))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", line, err)
	}
	return nil
}

// Close ends everything. It may be called once.
func (s *Scene) Close() {
	for i := len(s.undo) - 1; i >= 0; i-- {
		s.undo[i]()
	}
}

// Visit is one connection through HAProxy.
type Visit struct {
	Server string        // who answered; empty when HAProxy closed it
	Took   time.Duration // from the dial to the server's first line
	client string        // our host:port
}

// Connect makes a TCP connection, says first, waits for the name of the server, and closes.
func (f frontend) Connect(ctx context.Context, first []byte) (Visit, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	start := time.Now()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", f.address)
	if err != nil {
		return Visit{}, err
	}
	defer c.Close()
	if err := c.SetDeadline(start.Add(patience)); err != nil {
		return Visit{}, err
	}
	v := Visit{client: c.LocalAddr().String()}
	if _, err := c.Write(first); err != nil {
		return v, err
	}
	name, err := bufio.NewReader(c).ReadString('\n')
	v.Took = time.Since(start)
	v.Server = strings.TrimSuffix(name, "\n")
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		err = nil // closed by HAProxy
	}
	return v, err
}

// Log waits for the log line of a visit.
func (s *Scene) Log(v Visit) (string, error) { return s.logs.line(v.client) }

// Get makes an HTTP request on a connection of its own and returns the answer, whose
// body is empty, and our address.
func (f frontend) Get(ctx context.Context, header http.Header) (*http.Response, string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", f.address)
	if err != nil {
		return nil, "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.address+"/", nil)
	if err != nil {
		return nil, "", err
	}
	r.Header = header
	r.Close = true
	if err := r.Write(c); err != nil {
		return nil, "", err
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), r)
	if err != nil {
		return nil, "", err
	}
	return answer, c.LocalAddr().String(), answer.Body.Close()
}

// agentBackend is the agent's backend in the examples.
const agentBackend = "weighter-agent"
