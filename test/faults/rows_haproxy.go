package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/faults/front"
	"github.com/haproxy-weighter/haproxy-weighter/test/faults/trace"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// step is a begin or an end.
type step = func(*scene, context.Context) error

// manner sets how the socket between treats lines.
func manner(m front.Manner) step {
	return func(s *scene, _ context.Context) error { s.socket.Set(m); return nil }
}

// reload reloads HAProxy with another configuration.
func reload(config string) step {
	return func(s *scene, _ context.Context) error { return s.haproxy.Reload(config) }
}

// edited is the usual configuration with replacements.
func edited(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(haproxyConfig) }

// runtime sends commands, each for one server.
func runtime(command string, servers ...string) step {
	return func(s *scene, ctx context.Context) error {
		for _, name := range servers {
			if err := s.order(ctx, name, -1, strings.ReplaceAll(command, "{}", backend+"/"+name)); err != nil {
				return err
			}
		}
		return nil
	}
}

// both does one after the other.
func both(steps ...step) step {
	return func(s *scene, ctx context.Context) error {
		for _, f := range steps {
			if err := f(s, ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

func nothing(*scene, context.Context) error { return nil }

// unreachable is what is told when HAProxy can't be asked; the first is told
// when the second has not said it already.
var unreachable = []told{maybe(noHAProxy), noSocket}

// haproxyRows are the faults of HAProxy.
func haproxyRows() []row {
	all := append(socketRows(), configurationRows()...)
	all = append(all, processRows()...)
	all = append(all, rivalRows()...)
	for i := range all {
		all[i].part = "HAProxy"
		if all[i].holds == "" {
			all[i].holds = "weights stay"
		}
	}
	return all
}

// socketRows are about the runtime socket.
func socketRows() []row {
	return []row{
		{
			name: "haproxy-refuses", fault: "its socket refuses connections", told: unreachable,
			begin: func(s *scene, _ context.Context) error { return s.socket.Refuse(false) },
			end:   func(s *scene, _ context.Context) error { return s.socket.Listen() },
		},
		{
			name: "haproxy-socket-gone", fault: "its socket is deleted", told: unreachable,
			begin: func(s *scene, _ context.Context) error { return s.socket.Refuse(true) },
			end:   func(s *scene, _ context.Context) error { return s.socket.Listen() },
		},
		{
			name: "haproxy-socket-replaced", fault: "its socket is replaced by a plain file", told: unreachable,
			begin: func(s *scene, _ context.Context) error {
				return errors.Join(s.socket.Refuse(true), os.WriteFile(s.socket.Path, nil, 0o600))
			},
			end: func(s *scene, _ context.Context) error { return s.socket.Listen() },
		},
		{
			name: "haproxy-stranger-answers", fault: "another program answers at its socket", told: unreachable,
			begin: manner(front.Manner{Instead: "220 mail.example.com ESMTP\n"}), end: manner(front.Manner{}),
		},
		{
			name: "haproxy-half-answers", fault: "half an answer", told: unreachable,
			begin: manner(front.Manner{Half: 100}), end: manner(front.Manner{}),
		},
		{
			name: "haproxy-half-answers-to-writes", fault: "half an answer to each write", moves: true, told: []told{upTo(9, badWrite)},
			holds: "what came into force is read back", begin: manner(front.Manner{Half: 100, Writes: true}), end: manner(front.Manner{}),
		},
		{
			name: "haproxy-never-answers", fault: "its socket takes commands and never answers", told: unreachable, lasts: 30 * time.Second,
			begin: manner(front.Manner{Hang: true}), end: manner(front.Manner{}),
		},
		{
			name: "haproxy-permissions", fault: "the permission to open its socket is lost", told: unreachable,
			plan:  plan{before: asNobody(), prepare: forNobody},
			begin: func(s *scene, _ context.Context) error { return os.Chmod(s.socket.Path, 0) },
			end:   func(s *scene, _ context.Context) error { return os.Chmod(s.socket.Path, 0o666) },
		},
		{
			name: "haproxy-level-operator", fault: "its socket has the level operator", told: []told{badWrite},
			plan: plan{haproxy: strings.Replace(haproxyConfig, "nbthread 1", "nbthread 1\n\tstats socket {dir}/operator.sock level operator", 1)},
			begin: func(s *scene, _ context.Context) error {
				s.socket.Set(front.Manner{To: s.file("operator.sock")})
				return nil
			},
			end: manner(front.Manner{}),
		},
		slotsRow(),
	}
}

// asNobody are the words before a command that take root's rights away: root
// may open whatever it likes.
func asNobody() []string {
	if os.Geteuid() != 0 {
		return nil
	}
	return []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--pdeathsig=keep"}
}

// forNobody lets a daemon of another user work in the scene.
func forNobody(s *scene) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return errors.Join(os.Chown(s.dir, 65534, 65534), os.Chmod(s.socket.Path, 0o666))
}

// slotsRow takes all connections that HAProxy allows on its sockets.
func slotsRow() row {
	return row{
		name: "haproxy-slots", fault: "others hold all connections of its socket (stats maxconn)", told: unreachable,
		plan: plan{direct: true},
		begin: func(s *scene, _ context.Context) error {
			for {
				conn, err := net.Dial("unix", s.haproxy.SocketPath)
				if errors.Is(err, syscall.EAGAIN) {
					return nil
				}
				if err != nil {
					return err
				}
				s.taken = append(s.taken, conn)
			}
		},
		end: func(s *scene, _ context.Context) error {
			for _, conn := range s.taken {
				conn.Close()
			}
			return nil
		},
	}
}

// configurationRows are about what is in haproxy.cfg.
func configurationRows() []row {
	other := strings.Replace(haproxyConfig, "backend ingest", "backend other", 1)
	empty := haproxyConfig[:strings.Index(haproxyConfig, "\tserver s1")]
	four := []string{"s1", "s2", "s3", "s4"}
	return []row{
		{
			name: "haproxy-backend-removed", fault: "a reload removes the backend, another brings it back", told: []told{noBackend},
			begin: reload(other), end: reload(haproxyConfig), holds: "nothing is written; weights are right when it is back",
		},
		{
			name: "haproxy-no-servers", fault: "a reload leaves the backend without servers, another brings them back",
			told:  []told{maybe(held)},
			begin: reload(empty), end: reload(haproxyConfig), holds: "nothing is written; they come back as new servers, the busiest with less",
			after: weights{"s1": 200, "s2": 200, "s3": 200, "s4": 115},
		},
		{
			name: "haproxy-server-added", fault: "a server is added at run time", moves: true,
			holds:  "the others are weighted; the new one comes up slowly",
			second: loads{"s1": 100, "s2": 100, "s3": 200, "s4": 400, "s5": 100, "s6": 100, "s7": 100, "s8": 200},
			told:   []told{maybe(unusable)},
			begin:  both(runtime("add server {} 127.0.0.1:1 weight 100", "s8"), runtime("set server {} state ready", "s8")),
			during: weights{"s1": 200, "s2": 200, "s3": 128, "s4": 64}, end: runtime("set server {} state maint", "s8"),
		},
		{
			name: "haproxy-server-deleted", fault: "a server is deleted at run time", moves: true,
			holds:  "the others are weighted",
			begin:  both(runtime("set server {} state maint", "s4"), runtime("del server {}", "s4")),
			during: weights{"s1": 200, "s2": 200, "s3": 128}, after: weights{"s1": 64, "s2": 128, "s3": 200},
		},
		{
			name: "haproxy-server-renamed", fault: "a reload renames a server", moves: true, told: []told{maybe(unusable)},
			second: loads{"s1": 100, "s2": 100, "s3": 200, "s9": 400, "s5": 100, "s6": 100, "s7": 100},
			holds:  "the new name is a new server, which comes up slowly",
			begin:  reload(edited("server s4", "server s9")), end: reload(haproxyConfig),
			// s4 and s5 have just come then. Each of the others is at the most that ramps may
			// lift it to, and those two share what is left, until in half a minute their
			// ramps are above that.
			during: weights{"s1": 200, "s2": 200, "s3": 128}, after: weights{"s1": 86, "s2": 173, "s3": 200},
		},
		{
			name: "haproxy-all-maint", fault: "all servers are put into maint, then back", told: []told{held},
			begin: runtime("set server {} state maint", four...), end: runtime("set server {} state ready", four...),
			holds: "they are left alone, and come back as new servers, the busiest with less", after: weights{"s1": 200, "s2": 200, "s3": 200, "s4": 128},
		},
		{
			name: "haproxy-all-drain", fault: "all servers are drained, then back", told: []told{held},
			begin: runtime("set server {} state drain", four...), end: runtime("set server {} state ready", four...),
			holds: "they are left alone, and come back as new servers, the busiest with less", after: weights{"s1": 200, "s2": 200, "s3": 200, "s4": 128},
		},
		{
			name: "haproxy-static", fault: "a reload brings a static algorithm, another takes it back", told: []told{static},
			holds: "nothing is written", begin: reload(edited("balance roundrobin", "balance static-rr")), end: reload(haproxyConfig),
		},
	}
}

// processRows are about HAProxy's processes.
func processRows() []row {
	return []row{
		{
			name: "haproxy-hangs", fault: "hangs (SIGSTOP)", told: unreachable, plan: plan{direct: true}, lasts: 30 * time.Second,
			begin: func(s *scene, _ context.Context) error { return s.haproxy.Pause() },
			end:   func(s *scene, _ context.Context) error { return s.haproxy.Resume() },
		},
		{
			name: "haproxy-killed", fault: "is killed (SIGKILL) and started again", told: unreachable, plan: plan{direct: true},
			holds: "weights are put back",
			begin: func(s *scene, _ context.Context) error { s.haproxy.Kill(); return nil },
			end:   func(s *scene, _ context.Context) error { return s.haproxy.Restart() },
		},
		{
			name: "haproxy-reloads", fault: "is reloaded every second for a minute", holds: "weights are put back each time",
			told: []told{maybe(upTo(99, noHAProxy)), maybe(upTo(99, noSocket)), maybe(upTo(99, badWrite))},
			plan: plan{direct: true}, begin: (*scene).reloads,
		},
		{
			name: "haproxy-reload-in-batch", fault: "is reloaded in the middle of a write", holds: "all weights are right in the new worker",
			told:  []told{maybe(upTo(9, badWrite)), maybe(noHAProxy), maybe(noSocket)},
			begin: (*scene).reloadInBatch,
		},
		{
			name: "haproxy-path-stolen", fault: "a second HAProxy takes the socket's path and dies",
			told: []told{maybe(noHAProxy), noSocket, maybe(noBackend)},
			plan: plan{direct: true}, begin: (*scene).steal, holds: "weights are put back when HAProxy is restarted; a reload does not help",
			end: func(s *scene, _ context.Context) error { return s.haproxy.Restart() },
		},
	}
}

// reloads reloads HAProxy every second; in the short form a few times.
func (s *scene) reloads(ctx context.Context) error {
	n := 3
	if s.profile.full {
		n = 60
	}
	for range n {
		begin := time.Now()
		if err := s.haproxy.Reload(haproxyConfig); err != nil {
			return err
		}
		if err := s.await(ctx, firstWeights, "the weights after a reload"); err != nil {
			return err
		}
		pause(ctx, time.Second-time.Since(begin))
	}
	return nil
}

// reloadInBatch reloads HAProxy when the next write has reached the old worker.
func (s *scene) reloadInBatch(ctx context.Context) error {
	done := make(chan error, 1)
	var once sync.Once
	s.socket.Set(front.Manner{Between: func(line string) {
		if front.IsWrite(line) {
			once.Do(func() { done <- s.haproxy.Reload(haproxyConfig) })
		}
	}})
	s.graphite.Set(secondLoads)
	select {
	case err := <-done:
		s.socket.Set(front.Manner{})
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience):
		return errors.New("the daemon has written nothing")
	}
}

// steal starts a second HAProxy at the path of the first one's socket.
func (s *scene) steal(ctx context.Context) error {
	thief, err := haproxyproc.Start(ctx, haproxyproc.Options{
		Binary: s.binary.Path,
		Config: fmt.Sprintf("global\n\tstats socket %s level admin\ndefaults\n\ttimeout connect 1s\n\ttimeout client 1s\n\ttimeout server 1s\nbackend other\n", s.haproxy.SocketPath),
	})
	if err != nil {
		return err
	}
	thief.Kill()
	thief.Stop()
	// With a master a reload hands the lost socket on, and does not bind the path again.
	if err := syscall.Kill(s.haproxy.PID(), syscall.SIGUSR2); err != nil {
		return err
	}
	return nil
}

// rivalRows are about others that set weights.
func rivalRows() []row {
	return []row{
		{
			name: "haproxy-agent-check", fault: "an agent-check sets a weight every 300 ms", moves: true,
			holds: "it is told; all other weights are right", told: []told{stranger},
			plan:  plan{prepare: (*scene).startAgent, direct: true},
			begin: (*scene).agentFights, end: (*scene).agentRelents, during: weights{"s2": 200, "s3": 128, "s4": 64},
		},
		{
			name: "haproxy-second-weighter", fault: "a second weighter with other settings runs on the same HAProxy", moves: true,
			holds: "it is told; both stay within their limits", told: []told{stranger},
			begin: (*scene).rival, end: (*scene).endRival, during: weights{},
		},
		{
			name: "haproxy-operator", fault: "an operator sets a weight, drains a server, and sets another to 0", moves: true,
			holds: "the weight is taken back, the others are left alone", told: []told{upTo(2, stranger)},
			begin: both(runtime("set server {} weight 17", "s1"), runtime("set server {} state drain", "s2"), runtime("set server {} weight 0", "s3")),
			end:   both(runtime("set server {} state ready", "s2"), runtime("set server {} weight 100", "s3")),
			// s2 and s3 have just come in the end, as in haproxy-server-renamed.
			during: weights{"s1": 200, "s2": 128, "s3": 0, "s4": 64}, after: weights{"s1": 88, "s2": 63, "s3": 63, "s4": 200},
		},
	}
}

// agentConfig has an agent-check on s1.
var agentConfig = edited("server s1 127.0.0.1:1 weight 100", "server s1 127.0.0.1:1 weight 100 agent-check agent-inter 300ms agent-addr 127.0.0.1 agent-port {agent}")

// agentCheck is the program that HAProxy asks.
type agentCheck struct {
	mu     sync.Mutex
	answer string
}

func (s *scene) startAgent() error {
	a := &agentCheck{}
	s.agent = a
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	a.set("up")
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			a.mu.Lock()
			answer := a.answer
			a.mu.Unlock()
			fmt.Fprintf(conn, "%s\n", answer)
			conn.Close()
		}
	})
	s.closers = append(s.closers, func() { l.Close(); serving.Wait() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return err
	}
	return s.haproxy.Reload(strings.ReplaceAll(agentConfig, "{agent}", port))
}

func (a *agentCheck) set(answer string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = answer
}

// fight has the agent set 50 % of the initial weight of s1.
func (s *scene) agentFights(context.Context) error {
	s.trace.Ordered(trace.Order{From: time.Now(), Server: "s1", Weight: 50})
	s.agent.set("50%")
	return nil
}

func (s *scene) agentRelents(ctx context.Context) error {
	s.agent.set("up")
	return s.untilLog(ctx, 1, stranger.end)
}

// rival runs a second daemon, by its own configuration, straight on HAProxy.
func (s *scene) rival(ctx context.Context) error {
	text, err := os.ReadFile(s.file("weighter.toml"))
	if err != nil {
		return err
	}
	mine := strings.NewReplacer(s.socket.Path, s.haproxy.SocketPath, "aggressiveness = 1.0", "aggressiveness = 2.0",
		"max_weight = 200", "max_weight = 150", "admin.sock\"\ncontrol", "admin2.sock\"\ncontrol", "[spoa]\nlisten = [\""+s.spoa+"\"]", "").Replace(string(text))
	// Whatever moves now may be the other one's doing; what we send is judged still.
	s.trace.Ordered(trace.Order{From: time.Now(), Weight: -1})
	if err := os.WriteFile(s.file("rival.toml"), []byte(strings.Replace(mine, s.file("admin.sock"), s.file("admin2.sock"), 1)), 0o600); err != nil {
		return err
	}
	other, err := startDaemon(s.programs.plain, s.file("rival.toml"), s.file("rival.log"), nil, nil, &trace.Trace{})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, other.kill)
	s.second = other
	return s.untilLog(ctx, 1, stranger.begin)
}

func (s *scene) endRival(ctx context.Context) error {
	err := s.second.terminate()
	if err == nil {
		err = s.passes(ctx, 3)
	}
	return err
}
