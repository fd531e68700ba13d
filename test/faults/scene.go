package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/child"
	"github.com/haproxy-weighter/haproxy-weighter/test/faults/front"
	"github.com/haproxy-weighter/haproxy-weighter/test/faults/trace"
	"github.com/haproxy-weighter/haproxy-weighter/test/graphiteproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// patience is how long anything may take before a row fails.
const patience = 60 * time.Second

// backend is the one that is weighted in every scene.
const backend = "ingest"

// What the daemon is told, and what must hold therefore.
const (
	minWeight = 8
	maxWeight = 200
	interval  = time.Second
	maxAge    = 5 * time.Second
)

// The loads before and during a fault, and the weights that they make with
// limited-proportions, aggressiveness 1: inverse proportion, the lightest server
// at 256, and max_weight cuts that. The servers out of rotation have loads that
// would raise them, if anybody dared.
var (
	firstLoads    = loads{"s1": 400, "s2": 200, "s3": 100, "s4": 100, "s5": 100, "s6": 100, "s7": 100}
	firstWeights  = weights{"s1": 64, "s2": 128, "s3": 200, "s4": 200}
	secondLoads   = loads{"s1": 100, "s2": 100, "s3": 200, "s4": 400, "s5": 100, "s6": 100, "s7": 100}
	secondWeights = weights{"s1": 200, "s2": 200, "s3": 128, "s4": 64}
)

type (
	loads   = map[string]float64
	weights = map[string]int
)

// haproxyConfig is what HAProxy has: four servers that carry traffic, one that
// a row drains (s5), one in maint (s6) and one at weight 0 (s7).
const haproxyConfig = `
global
	nbthread 1
defaults
	mode tcp
	timeout connect 1s
	timeout client 1s
	timeout server 1s
backend ingest
	balance roundrobin
	server s1 127.0.0.1:1 weight 100
	server s2 127.0.0.1:1 weight 100
	server s3 127.0.0.1:1 weight 100
	server s4 127.0.0.1:1 weight 100
	server s5 127.0.0.1:1 weight 100
	server s6 127.0.0.1:1 weight 100 disabled
	server s7 127.0.0.1:1 weight 0
`

// plan is how a scene is set up; the zero value is the usual one.
type plan struct {
	haproxy     string           // configuration of HAProxy; empty: haproxyConfig
	direct      bool             // the daemon speaks to HAProxy itself, without the socket between
	backend     string           // more keys of the backend
	tables      string           // more tables of the file; {dir} and {carbon} are filled in
	certificate *tls.Certificate // Graphite speaks TLS with it
	ca          []byte           // PEM, with certificate
	clock       bool             // its wall clock can be made to jump
	before      []string
	env         []string
	plain       bool               // without the race detector: limits are those of the program as shipped
	spoa        string             // more keys of [spoa]
	control     bool               // there is a control socket
	poll        time.Duration      // pause between two looks at HAProxy; 0: the observer's
	quiet       bool               // the log has no lines of level debug
	noSPOE      bool               // nobody asks SPOE messages
	settled     weights            // in force before the fault; nil: firstWeights
	loads       loads              // before the fault; nil: firstLoads
	prepare     func(*scene) error // called before the daemon is started
	rules       func(*trace.Rules)
}

// scene is a HAProxy, a Graphite, a carbon, and the daemon between them.
type scene struct {
	plan     plan
	profile  profile
	binary   haproxyproc.Binary
	programs *programs

	dir      string
	trace    *trace.Trace
	rules    trace.Rules
	haproxy  *haproxyproc.Process
	graphite *front.Graphite
	socket   *front.Socket
	carbon   *front.Carbon
	daemon   *daemon
	// For single rows.
	second          *daemon // another one
	taken           []net.Conn
	agent           *agentCheck
	real            *graphiteproc.Process
	signs           atomic.Int64 // of life, for systemd
	certificate     atomic.Pointer[tls.Certificate]
	over, unhostile func()
	prober          *prober
	spoa            string // address of the agent

	unprobe, unobserve func() // end the prober and the observer; nil: not begun
	closers            []func()
}

// newScene starts everything and waits until the first weights are in force.
// The scene must be closed whatever the error is.
func newScene(ctx context.Context, p plan, b haproxyproc.Binary, programs *programs, profile profile) (*scene, error) {
	s := &scene{plan: p, binary: b, programs: programs, profile: profile, trace: &trace.Trace{}}
	if err := s.place(ctx); err != nil {
		return s, err
	}
	if p.prepare != nil {
		if err := p.prepare(s); err != nil {
			return s, err
		}
	}
	if err := s.configure(""); err != nil {
		return s, err
	}
	s.observe()
	if err := s.start(); err != nil {
		return s, err
	}
	return s, s.await(ctx, or(p.settled, firstWeights), "the first weights")
}

// place starts all but the daemon.
func (s *scene) place(ctx context.Context) error {
	dir, err := haproxyproc.TempDir()
	if err != nil {
		return err
	}
	s.dir = dir
	s.closers = append(s.closers, func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // a daemon of another user
		return err
	}
	config := haproxyConfig
	if s.plan.haproxy != "" {
		config = strings.ReplaceAll(s.plan.haproxy, "{dir}", dir)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if s.haproxy, err = haproxyproc.Start(ctx, haproxyproc.Options{Binary: s.binary.Path, Config: config, MasterWorker: true}); err != nil {
		return err
	}
	s.closers = append(s.closers, s.haproxy.Stop)
	if strings.Contains(config, "server s5 ") {
		if err := s.order(ctx, "s5", -1, "set server ingest/s5 state drain"); err != nil {
			return err
		}
	}
	if s.socket, err = front.NewSocket(filepath.Join(dir, "between.sock"), s.haproxy.SocketPath, backend, s.trace); err != nil {
		return err
	}
	s.closers = append(s.closers, s.socket.Close)
	var show func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	if s.plan.certificate != nil {
		s.certificate.Store(s.plan.certificate)
		show = certificateOf(&s.certificate)
	}
	if s.graphite, err = front.NewGraphite(s.trace, show); err != nil {
		return err
	}
	s.closers = append(s.closers, s.graphite.Close)
	s.graphite.Noted = func(target string) bool { return strings.Contains(target, "(load.") }
	s.graphite.Set(or(s.plan.loads, firstLoads))
	if s.carbon, err = front.NewCarbon(); err != nil {
		return err
	}
	s.closers = append(s.closers, s.carbon.Close)
	port, err := child.FreePort()
	s.spoa = fmt.Sprintf("127.0.0.1:%d", port)
	return err
}

func (s *scene) file(name string) string { return filepath.Join(s.dir, name) }

// configure writes the daemon's configuration; broken is put at its end.
func (s *scene) configure(broken string) error {
	socket := s.socket.Path
	if s.plan.direct {
		socket = s.haproxy.SocketPath
	}
	control := "off"
	if s.plan.control {
		control = s.file("control.sock")
	}
	graphite, level := "", "debug"
	if s.plan.quiet {
		level = "info"
	}
	if s.plan.ca != nil {
		if err := os.WriteFile(s.file("ca.pem"), s.plan.ca, 0o644); err != nil {
			return err
		}
		graphite = fmt.Sprintf("ca_file = %q\n", s.file("ca.pem"))
	}
	tables := strings.NewReplacer("{dir}", s.dir, "{carbon}", s.carbon.Address).Replace(s.plan.tables)
	text := fmt.Sprintf(`
[haproxy]
sockets = [%q]
watch = "200ms"
timeout = "1500ms"
[graphite]
url = %q
timeout = "900ms"
%s[spoa]
listen = [%q]
%s[admin]
listen = "unix:%s/admin.sock"
control = %q
[log]
format = "json"
level = %q
%s
[[backend]]
name = %q
target = "aliasByNode(load.*, 1)"
interval = %q
window = "10s"
max_age = %q
min_weight = %d
max_weight = %d
function = "limited-proportions"
aggressiveness = 1.0
%s
%s
`, socket, s.graphite.URL, graphite, s.spoa, s.plan.spoa, s.dir, control, level, tables, backend, interval, maxAge, minWeight, maxWeight, s.plan.backend, broken)
	return os.WriteFile(s.file("weighter.toml"), []byte(text), 0o644)
}

// observe begins to look on.
func (s *scene) observe() {
	s.rules = trace.Rules{
		Min: minWeight, Max: maxWeight, Quorum: 0.5, MaxAge: maxAge, Interval: interval,
		Grace: 700 * time.Millisecond, Largest: 1e300, SPOEGap: 2 * time.Second, Wire: !s.plan.direct,
		Resident: s.profile.resident, Descriptors: 64,
	}
	if s.plan.rules != nil {
		s.plan.rules(&s.rules)
	}
	observer := &trace.Observer{Socket: s.haproxy.SocketPath, Backend: backend, Every: s.plan.poll, Trace: s.trace}
	s.unobserve = run(observer.Run)
	if !s.plan.noSPOE {
		s.prober = &prober{address: s.spoa, every: 20 * time.Millisecond, trace: s.trace, out: map[string]bool{"s6": true, "s7": true}}
		s.unprobe = run(s.prober.run)
	}
}

// run runs f until the function it returns is called, which waits for its end
// and may be called again.
func run(f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	return func() { cancel(); running.Wait() }
}

// start starts the daemon.
func (s *scene) start() (err error) {
	program := s.programs.checked
	if s.plan.plain {
		program = s.programs.plain
	}
	if s.plan.clock {
		if program, err = s.programs.clock.get(context.Background()); err != nil {
			return err
		}
	}
	env := []string{clockVariable + "=" + s.file("clock")}
	for _, e := range s.plan.env {
		env = append(env, strings.ReplaceAll(e, "{dir}", s.dir))
	}
	s.daemon, err = startDaemon(program, s.file("weighter.toml"), s.file("daemon.log"), s.plan.before, env, s.trace)
	return err
}

// command sends a line to HAProxy.
func (s *scene) command(ctx context.Context, line string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, err := s.haproxy.Command(ctx, line)
	return strings.TrimSpace(answer), err
}

// order sends a line that touches a server, and notes that it was us. weight
// is what it sets; -1: something else than a weight.
func (s *scene) order(ctx context.Context, server string, weight int, line string) error {
	from := time.Now()
	answer, err := s.command(ctx, line)
	s.trace.Ordered(trace.Order{From: from, To: time.Now(), Server: server, Weight: weight})
	if err == nil && answer != "" && !strings.Contains(answer, "New server registered") && !strings.Contains(answer, "Server deleted") {
		err = fmt.Errorf("%s: %s", line, answer)
	}
	return err
}

// excused notes that the daemon can't answer until the function it returns is called.
func (s *scene) excused(why string) (over func()) {
	from := time.Now()
	return func() { s.trace.Excuse(trace.Still{From: from, To: time.Now(), Why: why}) }
}

// signal sends a signal to the daemon.
func (s *scene) signal(sig syscall.Signal) error { return s.daemon.process.Signal(sig) }

// mostBreaches are told of one row.
const mostBreaches = 20

// finish ends the daemon in good order and says what was wrong. killed is how
// often it was killed before.
func (s *scene) finish(expected []told, killed int) error {
	if s.unprobe != nil {
		s.unprobe()
	}
	var errs []error
	if err := s.daemon.terminate(); err != nil {
		errs = append(errs, err)
	}
	s.unobserve() // to the end: a daemon that stops moves nothing
	lines, err := s.daemon.lines()
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	errs = append(errs, checkLog(lines, expected, killed)...)
	breaches := s.trace.Judge(s.rules)
	for i, b := range breaches {
		if i == mostBreaches {
			errs = append(errs, fmt.Errorf("and %d more breaches", len(breaches)-i))
			break
		}
		errs = append(errs, errors.New(b.String()))
	}
	if s.prober != nil {
		answers, _, wrong := s.prober.result()
		if answers == 0 {
			errs = append(errs, errors.New("no SPOE message was answered"))
		}
		for _, w := range wrong {
			errs = append(errs, fmt.Errorf("a wrong SPOE answer: %s", w))
		}
	}
	if size := s.trace.Size(); size.States == 0 {
		errs = append(errs, errors.New("nothing was observed"))
	}
	return errors.Join(errs...)
}

// close ends what is left.
func (s *scene) close() {
	for _, stop := range []func(){s.unprobe, s.unobserve} {
		if stop != nil {
			stop()
		}
	}
	if s.daemon != nil {
		s.daemon.kill()
	}
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
}
