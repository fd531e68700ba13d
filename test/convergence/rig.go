package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/ingest"
)

const (
	backend     = "ingest" // in haproxy.cfg
	startWeight = 100      // of every server in haproxy.cfg
	// commandTimeout must be below the interval of one second.
	commandTimeout = 800 * time.Millisecond
)

// build starts all that the trial needs but its clients. What it has started
// is ended by close, also when it fails.
func (t *trial) build(ctx context.Context) (err error) {
	if t.log, err = os.Create(filepath.Join(t.dir, "weighter.log")); err != nil {
		return err
	}
	for i := range t.options.servers {
		s, err := ingest.Listen(fmt.Sprintf("%s-%d", backend, i+1), "127.0.0.1:0")
		if err != nil {
			return err
		}
		t.servers = append(t.servers, s)
	}
	port, err := haproxyproc.FreePort()
	if err != nil {
		return err
	}
	t.frontend = fmt.Sprintf("127.0.0.1:%d", port)
	t.process, err = haproxyproc.Start(ctx, haproxyproc.Options{Dir: t.dir, Config: t.haproxyConfig()})
	if err != nil || t.policy.function == "" {
		return err
	}
	return t.buildFleet()
}

// close ends what build has started.
func (t *trial) close() {
	if t.process != nil {
		t.process.Stop()
	}
	for _, s := range t.servers {
		s.Stop()
	}
	if t.log != nil {
		_ = t.log.Close()
	}
}

func (t *trial) haproxyConfig() string {
	return ingest.HAProxyConfig(t.frontend, backend, t.policy.balance, 2*t.options.open(), startWeight, t.servers)
}

// prefix is where the metrics of this trial begin: each trial has its own, so
// that no loop sees what an earlier trial did.
func (t *trial) prefix() string { return fmt.Sprintf("tcp-service-%d", t.number) }

// weighterConfig has defaults wherever the time being compressed allows it.
func (t *trial) weighterConfig() string {
	return fmt.Sprintf(`[haproxy]
sockets = [%q]
timeout = %q

[graphite]
url     = %q
timeout = %q

[[backend]]
name     = %q
target   = "aliasByNode(%s.*.datapoints.received, 1)"
interval = "1s"   # thirty times as fast as the default; so are the next two
window   = "10s"
max_age  = "3s"
function = %q
`, t.process.SocketPath, commandTimeout, t.graphite.URL, commandTimeout, backend, t.prefix(), t.policy.function)
}

// buildFleet makes the loop, exactly as the command "run" does from the same
// file, but for the constants of time that are not keys of the file: they are
// sped up like everything else.
func (t *trial) buildFleet() error {
	file := filepath.Join(t.dir, "weighter.toml")
	if err := os.WriteFile(file, []byte(t.weighterConfig()), 0o600); err != nil {
		return err
	}
	c, err := config.Load(file)
	if err != nil {
		return err
	}
	for i := range c.Backends {
		timing := &c.Backends[i].Weighting.Timing
		*timing = timing.Scaled(1.0 / speedup)
	}
	t.fleet, err = balancer.NewFleet(c, balancer.FleetOptions{Logger: slog.New(slog.NewTextHandler(t.log, nil))})
	return err
}
