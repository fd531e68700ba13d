package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/ingest"
	"github.com/haproxy-weighter/haproxy-weighter/test/memgraphite"
)

// backend is the name of the backend in haproxy.cfg.
const backend = "ingest"

// rig is all that a run starts: ingest servers, HAProxy in front of them, and
// Graphite with the feed that tells it what the servers receive.
type rig struct {
	options  Options
	dir      string
	servers  []*ingest.Server
	process  *haproxyproc.Process
	frontend string // host:port that the clients connect to
	client   *haproxy.Client
	graphite string // URL
	file     string // weighter.toml
	log      *os.File
	warnings *warnings

	cancel  context.CancelFunc // ends the feed
	running sync.WaitGroup
	web     *http.Server // nil with a real Graphite
}

// build starts everything; on an error nothing is left running.
func build(ctx context.Context, o Options) (r *rig, err error) {
	program, err := haproxyproc.FindBinary(o.HAProxy)
	if err != nil {
		return nil, err
	}
	r = &rig{options: o, warnings: new(warnings), cancel: func() {}}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if r.dir, err = os.MkdirTemp(o.TempDir, "haproxy-weighter-demo-"); err != nil {
		return r, err
	}
	if r.log, err = os.Create(filepath.Join(r.dir, "weighter.log")); err != nil {
		return r, err
	}
	for i := range o.Servers {
		s, err := ingest.Listen(fmt.Sprintf("%s-%d", backend, i+1), "127.0.0.1:0")
		if err != nil {
			return r, err
		}
		r.servers = append(r.servers, s)
	}
	if err := r.startHAProxy(ctx, program); err != nil {
		return r, err
	}
	if err := r.startGraphite(); err != nil {
		return r, err
	}
	return r, r.writeConfig()
}

// close ends everything and removes the directory. It may be called on a rig
// that was built in part.
func (r *rig) close() {
	r.cancel()
	if r.web != nil {
		_ = r.web.Close()
	}
	r.running.Wait()
	if r.process != nil {
		r.process.Kill() // nobody is left to drain for
	}
	for _, s := range r.servers {
		s.Stop()
	}
	if r.log != nil {
		_ = r.log.Close()
	}
	if r.dir != "" {
		_ = os.RemoveAll(r.dir)
	}
}

func (r *rig) startHAProxy(ctx context.Context, program string) error {
	port, err := haproxyproc.FreePort()
	if err != nil {
		return err
	}
	dir := filepath.Join(r.dir, "haproxy")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	r.frontend = fmt.Sprintf("127.0.0.1:%d", port)
	r.process, err = haproxyproc.Start(ctx, haproxyproc.Options{Binary: program, Dir: dir, Config: r.haproxyConfig()})
	if err != nil {
		return err
	}
	address, err := haproxy.ParseAddress(r.process.SocketPath)
	if err != nil {
		return err
	}
	r.client = haproxy.NewClient(address, haproxy.Options{Timeout: commandTimeout})
	return nil
}

func (r *rig) haproxyConfig() string {
	return ingest.HAProxyConfig(r.frontend, backend, "roundrobin", 8*clientsPerServer*len(r.servers), startWeight, r.servers)
}

// startGraphite starts the store in memory, unless there is a real one, and
// the feed.
func (r *rig) startGraphite() error {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	feeder := &ingest.Feeder{
		Servers: r.servers,
		Sink:    ingest.Carbon{Address: r.options.Carbon, Timeout: time.Second},
		Report:  func(err error) { r.warnings.add(time.Now(), "feeding Graphite failed: "+err.Error()) },
	}
	r.graphite = r.options.GraphiteURL
	if r.graphite == "" {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		store := memgraphite.New(nil)
		feeder.Sink = storeSink{store}
		r.graphite = "http://" + listener.Addr().String()
		r.web = &http.Server{Handler: store.Handler(), ReadHeaderTimeout: time.Second}
		r.running.Go(func() {
			if err := r.web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				r.warnings.add(time.Now(), "the in-memory Graphite stopped: "+err.Error())
			}
		})
	}
	r.running.Go(func() { feeder.Run(ctx) })
	return nil
}

// storeSink feeds the store in memory as carbon would be fed.
type storeSink struct{ store *memgraphite.Store }

func (s storeSink) Send(_ context.Context, points []ingest.Datapoint) error {
	for _, p := range points {
		s.store.Add(p.Path, p.Value, p.Unix)
	}
	return nil
}

// commandTimeout must be below the interval of one second.
const commandTimeout = 800 * time.Millisecond

// writeConfig writes the file that the loop is configured with.
func (r *rig) writeConfig() error {
	r.file = filepath.Join(r.dir, "weighter.toml")
	text := fmt.Sprintf(`[haproxy]
sockets = [%q]
timeout = %q

[graphite]
url     = %q
timeout = %q

[[backend]]
name     = %q
target   = "aliasByNode(tcp-service.%s-*.datapoints.received, 1)"
interval = "1s"   # thirty times as fast as the default; so are the next two
window   = "10s"
max_age  = "3s"
# All clients come at once, so that the ages of sessions say nothing yet of how
# long they stay; HAProxy's counters do.
sess_limit = 0
`, r.process.SocketPath, commandTimeout, r.graphite, commandTimeout, backend, backend)
	return os.WriteFile(r.file, []byte(text), 0o600)
}

// fleet makes the loop, exactly as the command "run" does from the same file,
// but for the constants of time that are not keys of the file: they are sped
// up like everything else.
func (r *rig) fleet() (*balancer.Fleet, error) {
	c, err := config.Load(r.file)
	if err != nil {
		return nil, err
	}
	for i := range c.Backends {
		timing := &c.Backends[i].Weighting.Timing
		*timing = timing.Scaled(1.0 / speedup)
	}
	return balancer.NewFleet(c, balancer.FleetOptions{Logger: r.logger()})
}

// logger writes to weighter.log and keeps the last warning.
func (r *rig) logger() *slog.Logger {
	return slog.New(noticing{slog.NewTextHandler(r.log, nil), r.warnings})
}

// weights reads the weights in force from HAProxy, in the order of servers;
// -1 where it did not say.
func (r *rig) weights(ctx context.Context) []int {
	weights := make([]int, len(r.servers))
	for i := range weights {
		weights[i] = -1
	}
	state, err := r.client.State(ctx, backend)
	if err != nil {
		return weights
	}
	for i, s := range r.servers {
		for _, have := range state.Servers {
			if have.Name == s.Name() {
				weights[i] = have.Weight
			}
		}
	}
	return weights
}

// idle waits until the clients of the last phase are gone from every server.
func (r *rig) idle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, s := range r.servers {
		if err := s.WaitIdle(ctx); err != nil {
			return err
		}
	}
	return nil
}
