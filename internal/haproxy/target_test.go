package haproxy

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func removeAll(t *testing.T, dir string) {
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// target is a HAProxy with the scene of sceneConfig, the real one or the fake.
type target struct {
	*Client
	dials  atomic.Int32 // connections that Client has opened
	run    func(line string) string
	shadow bool // a frontend and a backend have the same name
}

// count makes c count its connections.
func (tt *target) count(a Address, o Options) {
	dial := a.dial
	o.Dial = func(ctx context.Context) (net.Conn, error) {
		tt.dials.Add(1)
		return dial(ctx)
	}
	tt.Client = NewClient(a, o)
}

// onBoth runs one body against the fake and against each version of real HAProxy.
func onBoth(t *testing.T, body func(t *testing.T, tt *target)) {
	t.Run("fake", func(t *testing.T) {
		f := newFakeServer(t)
		tt := &target{run: f.reply, shadow: true}
		tt.count(f.address(), Options{})
		body(t, tt)
	})
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		p := startHAProxy(t, haproxyproc.Options{Binary: b.Path, Config: sceneConfig(t, b)})
		tt := &target{run: func(line string) string { return command(t, p, line) }, shadow: mayShadow(b)}
		tt.count(socketOf(p), Options{})
		body(t, tt)
	})
}

const defaultsConfig = `
defaults
  mode tcp
  timeout connect 1s
  timeout client 30s
  timeout server 30s
`

// mayShadow tells whether a frontend may have the name of a backend: from 3.3
// on HAProxy refuses such a configuration.
func mayShadow(b haproxyproc.Binary) bool { return !b.AtLeast(3, 3) }

// sceneConfig is the configuration that sceneBackends imitates.
func sceneConfig(t *testing.T, b haproxyproc.Binary) string {
	t.Helper()
	ports := freePorts(t, 2)
	frontend := "shadow"
	if !mayShadow(b) {
		frontend = "shadow-in"
	}
	return defaultsConfig + fmt.Sprintf(`
frontend in
  bind 127.0.0.1:%d
  default_backend rr
backend rr
  balance roundrobin
  server s1 127.0.0.1:9 weight 100
  server s2 127.0.0.1:9 weight 50 backup
  server s3 127.0.0.1:9 weight 50 disabled
  server s4 127.0.0.1:9 weight 0
backend fixed
  balance static-rr
  server s1 127.0.0.1:9 weight 100
  server s2 127.0.0.1:9 weight 50
backend off
  disabled
  server s1 127.0.0.1:9
frontend %s
  bind 127.0.0.1:%d
  default_backend shadow
backend shadow
  balance leastconn
  server s1 127.0.0.1:9 weight 7
backend empty
  balance roundrobin
`, ports[0], frontend, ports[1])
}

func freePorts(t *testing.T, n int) []int {
	t.Helper()
	ports, err := haproxyproc.FreePorts(n)
	if err != nil {
		t.Fatal(err)
	}
	return ports
}

func startHAProxy(t *testing.T, o haproxyproc.Options) *haproxyproc.Process {
	t.Helper()
	p, err := haproxyproc.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

func socketOf(p *haproxyproc.Process) Address { return Address{Kind: kindUnix, Path: p.SocketPath} }

// command sends a line by hand, past the client under test.
func command(t *testing.T, p *haproxyproc.Process, line string) string {
	t.Helper()
	answer, err := p.Command(t.Context(), strings.TrimSuffix(line, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return answer
}
