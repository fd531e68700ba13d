package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/haproxy-weighter/haproxy-weighter/test/faults/front"
	"github.com/haproxy-weighter/haproxy-weighter/test/faults/trace"
)

// carbonRows are the faults of carbon.
func carbonRows() []row {
	report := plan{tables: "[report]\ncarbon = \"{carbon}\"\ninterval = \"1s\"\n"}
	base := row{part: "carbon", moves: true, holds: "weights go on", plan: report, told: []told{noCarbon}}
	refuses, hangs, resets := base, base, base
	refuses.name, refuses.fault = "carbon-refuses", "refuses connections"
	refuses.begin = func(s *scene, ctx context.Context) error {
		s.carbon.Refuse()
		return s.untilLog(ctx, 1, noCarbon.begin)
	}
	refuses.end = func(s *scene, ctx context.Context) error {
		return errors.Join(s.carbon.Accept(), s.untilLog(ctx, 1, noCarbon.end))
	}
	// What is written to one that hangs lies in buffers: nothing to tell yet.
	hangs.name, hangs.fault, hangs.told = "carbon-hangs", "takes connections and reads nothing", []told{maybe(noCarbon)}
	hangs.begin = func(s *scene, _ context.Context) error { s.carbon.Hang(); return nil }
	hangs.end = func(s *scene, _ context.Context) error { s.carbon.Recover(); return nil }
	// Each line that got out before the reset counts as delivered.
	resets.name, resets.fault, resets.told = "carbon-resets", "resets each connection", []told{maybe(upTo(99, noCarbon))}
	resets.begin = func(s *scene, _ context.Context) error { s.carbon.Reset(); return nil }
	resets.end = func(s *scene, ctx context.Context) error {
		s.carbon.Recover()
		from := s.carbon.Lines()
		return s.until(ctx, func() (bool, string) { return s.carbon.Lines() > from, "no line has reached carbon since" })
	}
	return []row{refuses, hangs, resets}
}

// spoeRows are about who connects to the agent.
func spoeRows() []row {
	base := row{part: "SPOE", moves: true, holds: "weights and all other answers go on"}
	hostile, flood, deaf := base, base, base
	hostile.name, hostile.fault = "spoe-hostile", "peers send garbage, huge lengths and torn frames without end"
	hostile.told = []told{upTo(99, peerClosed)}
	hostile.begin, hostile.end = (*scene).beginHostile, (*scene).endHostile
	flood.name, flood.fault = "spoe-flood", "a peer opens more connections than allowed"
	flood.plan = plan{tables: "", spoa: "max_connections = 40\n"}
	flood.told = []told{upTo(99, told{begin: "too many are open"}), maybe(upTo(99, peerClosed))}
	flood.begin, flood.end = (*scene).beginFlood, (*scene).endFlood
	deaf.name, deaf.fault = "spoe-deaf", "peers ask without end and read no answer"
	deaf.told = []told{maybe(upTo(99, peerClosed))}
	deaf.begin, deaf.end = (*scene).beginDeaf, (*scene).endHostile
	return []row{hostile, flood, deaf}
}

// evil is what hostile peers send.
func evil() [][]byte {
	hello := helloFrame()
	return [][]byte{
		{0xff, 0xff, 0xff, 0xff},
		{0, 0, 0, 0},
		[]byte("GET / HTTP/1.1\r\n\r\n"),
		hello[:len(hello)-3],
		append(append([]byte{}, hello...), 0xff, 0xff, 0xff, 0xf0, 3, 0, 0, 0, 1),
		append(append([]byte{}, hello...), frame(frameNotify, 7, []byte{200, 'a'})...),
		append(append([]byte{}, hello...), frame(frameNotify, 7, append([]byte{1, 'm', 1, 1, 'a', 8}, 0xff, 0xff, 0xff, 0xff, 0x7f))...),
		append(append([]byte{}, hello...), frame(77, 0, nil)...),
		append(append([]byte{}, hello...), hello...),
	}
}

// beginHostile has eight peers send evil, again and again.
func (s *scene) beginHostile(context.Context) error {
	var stops []func()
	for i := range 8 {
		stops = append(stops, run(func(ctx context.Context) {
			all := evil()
			for n := i; ctx.Err() == nil; n++ {
				conn, err := net.DialTimeout("tcp", s.spoa, time.Second)
				if err != nil {
					continue
				}
				_ = conn.SetDeadline(time.Now().Add(100 * time.Millisecond))
				_, _ = conn.Write(all[n%len(all)])
				_, _ = conn.Read(make([]byte, 256))
				conn.Close()
				pause(ctx, time.Millisecond)
			}
		}))
	}
	s.unhostile = func() {
		for _, stop := range stops {
			stop()
		}
	}
	s.closers = append(s.closers, s.unhostile)
	return nil
}

// beginDeaf has peers that ask and never read.
func (s *scene) beginDeaf(context.Context) error {
	var stops []func()
	for range 4 {
		stops = append(stops, run(s.deaf))
	}
	s.unhostile = func() {
		for _, stop := range stops {
			stop()
		}
	}
	s.closers = append(s.closers, s.unhostile)
	return nil
}

// deaf asks without reading, until it is closed on it; then again.
func (s *scene) deaf(ctx context.Context) {
	q := question(1, "weighter-server", "backend", backend, "server", "s1")
	for ctx.Err() == nil {
		conn, err := dialAgent(ctx, s.spoa)
		if err == nil {
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			err = conn.SetDeadline(time.Time{})
			for err == nil {
				_, err = conn.Write(q)
			}
			stop()
			conn.Close()
		}
		pause(ctx, 100*time.Millisecond)
	}
}

func (s *scene) endHostile(context.Context) error { s.unhostile(); return nil }

// beginFlood opens connections until the agent refuses them, and more.
func (s *scene) beginFlood(ctx context.Context) error {
	for range 100 {
		conn, err := net.DialTimeout("tcp", s.spoa, time.Second)
		if err != nil {
			return err
		}
		s.taken = append(s.taken, conn)
	}
	return s.untilLog(ctx, 1, "too many are open")
}

func (s *scene) endFlood(context.Context) error {
	for _, conn := range s.taken {
		conn.Close()
	}
	return nil
}

// stateRows are about the state file.
func stateRows() []row {
	state := func(prepare func(*scene) error) plan {
		return plan{tables: "[state]\nfile = \"{dir}/state/state.json\"\n", control: true, prepare: prepare}
	}
	with := func(text string) plan {
		return state(func(s *scene) error {
			return errors.Join(os.Mkdir(s.file("state"), 0o700), os.WriteFile(s.file("state/state.json"), []byte(text), 0o600))
		})
	}
	all := []row{
		{
			name: "state-disk-full", fault: "the disk is full", told: []told{noState}, plan: state(smallDisk),
			begin: both((*scene).fillDisk, (*scene).anyOrder), end: both((*scene).freeDisk, (*scene).anyOrder),
		},
		{
			name: "state-read-only", fault: "the file system becomes read-only", told: []told{noState}, plan: state(smallDisk),
			begin: both(remount(unix.MS_RDONLY), (*scene).anyOrder), end: both(remount(0), (*scene).anyOrder),
		},
		{name: "state-torn", fault: "it is torn", told: []told{badState}, begin: nothing, plan: with(`{"version": 1, "contr`)},
		{name: "state-other-version", fault: "it is from another version", told: []told{badState}, begin: nothing, plan: with(`{"version": 2}`)},
		{
			name: "state-future", fault: "it is from the future", begin: nothing, holds: "what it learnt is not believed",
			plan: with(fmt.Sprintf(`{"version":1,"saved":%q,"learnt":[{"backend":"ingest","socket":"unix:/x","time":%q,"weights":{"s1":256}}]}`,
				time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339), time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339))),
		},
		{
			name: "state-lies", fault: "it says that the weights were others", begin: nothing, holds: "the weights in force count",
			plan: with(`{"version":1,"saved":"2020-01-01T00:00:00Z","learnt":[{"backend":"ingest","weights":{"s1":0,"s2":256,"s7":99}}]}`),
		},
	}
	for i := range all {
		all[i].part, all[i].moves = "state file", true
		if all[i].holds == "" {
			all[i].holds = "weights go on"
		}
		if all[i].end == nil {
			all[i].end = nothing
		}
	}
	return all
}

// smallDisk puts the state file on a file system of its own.
func smallDisk(s *scene) error {
	dir := s.file("state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if os.Geteuid() != 0 { // what needs no root is tested instead: a folder in the way
		return nil
	}
	if err := unix.Mount("faults", dir, "tmpfs", 0, "size=64k,mode=700"); err != nil {
		return fmt.Errorf("mounting a small file system: %w", err)
	}
	s.closers = append(s.closers, func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return nil
}

// fillDisk fills the file system to the last byte.
func (s *scene) fillDisk(context.Context) error {
	if os.Geteuid() != 0 {
		return s.blockState()
	}
	f, err := os.Create(s.file("state/filler"))
	if err != nil {
		return err
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if errors.Is(err, syscall.ENOSPC) {
		return nil
	}
	return err
}

func (s *scene) freeDisk(context.Context) error {
	if os.Geteuid() != 0 {
		return os.RemoveAll(s.file("state/state.json"))
	}
	return os.Remove(s.file("state/filler"))
}

// blockState puts a folder where the state file belongs: not even root can write
// it then. They change places in one step, since the daemon may write meanwhile.
func (s *scene) blockState() error {
	path, folder := s.file("state/state.json"), s.file("state/blocking")
	if err := os.MkdirAll(filepath.Join(folder, "x"), 0o700); err != nil {
		return err
	}
	for tries := 0; ; tries++ {
		err := unix.Renameat2(unix.AT_FDCWD, folder, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
		if err == nil {
			return os.RemoveAll(folder) // the file, now
		}
		if err = os.Rename(folder, path); err == nil || tries > 100 { // there was none
			return err
		}
	}
}

// remount makes the small file system read-only, or takes that back.
func remount(flag uintptr) step {
	return func(s *scene, ctx context.Context) error {
		if os.Geteuid() == 0 {
			// It is busy while the daemon writes the file.
			for tries := 0; ; tries++ {
				err := unix.Mount("faults", s.file("state"), "tmpfs", unix.MS_REMOUNT|flag, "size=64k,mode=700")
				if !errors.Is(err, unix.EBUSY) || ctx.Err() != nil || tries > 5000 {
					return err
				}
				time.Sleep(time.Millisecond)
			}
		}
		if flag == 0 {
			return s.freeDisk(ctx)
		}
		return s.blockState()
	}
}

// anyOrder gives an order that changes nothing: the state file is written at once.
func (s *scene) anyOrder(ctx context.Context) error {
	body, err := json.Marshal(map[string]any{"backend": backend, "mode": "live", "reason": "a test"})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/control/v1/mode", strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := s.unixClient("control.sock").Do(r)
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("an order was answered with %s", answer.Status)
	}
	return nil
}

// daemonRows are about the process itself.
func daemonRows() []row {
	all := []row{
		{
			name: "sighup-storm", fault: "SIGHUP without a pause, with good and bad configurations in turn", moves: true, holds: "weights go on by the last good one",
			told: []told{upTo(150, badReload)}, begin: (*scene).storm, end: nothing,
		},
		{
			name: "sigstop", fault: "is stopped for 5 min (SIGSTOP), then goes on", lasts: 5 * time.Minute, holds: "weights stay, then are right",
			told: []told{maybe(noLoads), maybe(noHAProxy), maybe(noSocket), maybe(unusable), maybe(held), maybe(upTo(9, peerClosed))},
			begin: func(s *scene, _ context.Context) error {
				s.over = s.excused("stopped")
				return s.signal(syscall.SIGSTOP)
			},
			end: func(s *scene, _ context.Context) error { defer s.over(); return s.signal(syscall.SIGCONT) },
		},
		{
			name: "sigstop-reload", fault: "is stopped while HAProxy is reloaded, then goes on", holds: "weights are put back",
			told: []told{maybe(noLoads), maybe(noHAProxy), maybe(noSocket), maybe(unusable), maybe(held), maybe(upTo(9, peerClosed))},
			plan: plan{direct: true},
			begin: func(s *scene, _ context.Context) error {
				s.over = s.excused("stopped")
				return errors.Join(s.signal(syscall.SIGSTOP), s.haproxy.Reload(haproxyConfig))
			},
			end: func(s *scene, _ context.Context) error { defer s.over(); return s.signal(syscall.SIGCONT) },
		},
		{
			name: "killed", fault: "is killed (SIGKILL) and started again", holds: "weights stay, then are right",
			begin: func(s *scene, _ context.Context) error { s.over = s.excused("killed"); s.daemon.kill(); return nil },
			end:   func(s *scene, _ context.Context) error { defer s.over(); return s.start() },
		},
	}
	all = append(all, limitRows()...)
	for i := range all {
		all[i].part = "daemon"
	}
	return all
}

// limitRows are about what the system gives to the process.
func limitRows() []row {
	return []row{
		{
			name: "descriptors", fault: "has no file descriptor left", plan: plan{before: []string{"prlimit", "--nofile=40:40"}, direct: true},
			holds: "weights stay, open SPOE connections are answered",
			told: []told{
				maybe(noLoads), maybe(noHAProxy), upTo(99, told{begin: "HAProxy's socket can't be opened", end: "HAProxy's socket can be opened again"}),
				maybe(upTo(99, peerClosed)),
				{begin: "SPOE connections cannot be accepted", end: "SPOE connections are accepted again"},
			},
			begin: (*scene).takeDescriptors, end: (*scene).endHostile,
		},
		{
			name: "memory", fault: "has 64 MB of memory, while Graphite sends 1 GB and SPOE peers are hostile", holds: "weights stay, and 64 MB are enough",
			plan: plan{plain: true, env: []string{"GOMEMLIMIT=40MiB"}, rules: func(r *trace.Rules) { r.Resident = 64 << 20 }},
			told: []told{noLoads, upTo(99, peerClosed)},
			begin: func(s *scene, ctx context.Context) error {
				s.graphite.Answer(front.Answer{Name: "1 GB", Raw: front.Huge(1 << 30)})
				return s.beginHostile(ctx)
			},
			end: func(s *scene, ctx context.Context) error {
				s.graphite.Answer(front.Answer{})
				return s.endHostile(ctx)
			},
		},
	}
}

// storm sends SIGHUP after SIGHUP.
func (s *scene) storm(ctx context.Context) error {
	n := 30
	if s.profile.full {
		n = 300
	}
	for i := range n {
		broken := ""
		if i%2 == 1 {
			broken = "[[backend"
		}
		if err := s.configure(broken); err != nil {
			return err
		}
		if err := s.signal(syscall.SIGHUP); err != nil {
			return err
		}
		pause(ctx, 30*time.Millisecond)
	}
	if err := s.untilLog(ctx, 1, badReload.begin); err != nil {
		return err
	}
	if err := s.configure(""); err != nil {
		return err
	}
	if err := s.signal(syscall.SIGHUP); err != nil {
		return err
	}
	return s.untilLog(ctx, 1, "configuration reloaded")
}

// takeDescriptors opens connections to the agent, and holds them, until the
// daemon has no descriptor left for anything.
func (s *scene) takeDescriptors(ctx context.Context) error {
	var stops []func()
	for range 60 {
		stops = append(stops, run(func(ctx context.Context) {
			for ctx.Err() == nil {
				if conn, err := dialAgent(ctx, s.spoa); err == nil {
					<-ctx.Done()
					conn.Close()
				}
			}
		}))
	}
	s.unhostile = func() {
		for _, stop := range stops {
			stop()
		}
	}
	s.closers = append(s.closers, s.unhostile)
	return s.untilLog(ctx, 1, "HAProxy's socket can't be opened")
}
