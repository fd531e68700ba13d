package graphite

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/graphiteproc"
)

// carbonStep is the step of what the tests below store.
const carbonStep = 10

// realCarbon is a Graphite and a sender to its carbon, with what the sender has told.
type realCarbon struct {
	*graphiteproc.Process
	sender *Sender
	render *Client
	told   chan string
}

func startCarbon(t *testing.T, change func(*SenderConfig)) *realCarbon {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p, err := graphiteproc.Start(ctx, graphiteproc.Options{Dir: t.TempDir(), Retentions: fmt.Sprintf("%ds:1h", carbonStep), NoTags: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	r := &realCarbon{Process: p, render: client(t, p.URL), told: make(chan string, 100)}
	r.sender = r.start(t, change)
	return r
}

// start runs a sender to carbon until the test ends.
func (r *realCarbon) start(t *testing.T, change func(*SenderConfig)) *Sender {
	t.Helper()
	address, err := ParseCarbonAddress(r.CarbonAddr)
	if err != nil {
		t.Fatal(err)
	}
	c := SenderConfig{
		Address: address, Jitter: func() float64 { return 0 },
		Lost: func(err error) { r.told <- "lost: " + err.Error() },
		Back: func(o Outage) { r.told <- fmt.Sprintf("back, %d dropped", o.Dropped) },
	}
	change(&c)
	s, err := NewSender(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return s
}

// await waits for the next thing that the sender tells.
func (r *realCarbon) await(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-r.told:
		if !strings.HasPrefix(got, want) {
			t.Fatalf("told %q, want %q", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%q was never told\n%s", want, r.Log())
	}
}

// stepsAgo is a time on a step of the clock.
func stepsAgo(n int64) time.Time {
	return time.Unix((time.Now().Unix()/carbonStep-n)*carbonStep, 0)
}

// read polls until the target gives the points, each "name=value@steps ago".
func (r *realCarbon) read(t *testing.T, target string, now time.Time, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	missing := want
	for {
		answer, err := r.render.Render(ctx, Request{Targets: []string{target}, Window: 59 * time.Minute})
		if err == nil {
			have := make(map[string]bool)
			for _, s := range answer.Series {
				for _, p := range s.Points {
					if !math.IsNaN(p.Value) {
						have[fmt.Sprintf("%s=%v@%d", s.Name, p.Value, (now.Unix()-p.Unix)/carbonStep)] = true
					}
				}
			}
			missing = nil
			for _, w := range want {
				if !have[w] {
					missing = append(missing, w)
				}
			}
			if len(missing) == 0 {
				return
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s never had %d of %d points, such as %s; error %v", target, len(missing), len(want), missing[0], err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func TestRealCarbon(t *testing.T) {
	r := startCarbon(t, func(*SenderConfig) {})
	now := stepsAgo(0)
	send := func(name string, value float64, ago int64) {
		t.Helper()
		if err := r.sender.Send([]Metric{{Name: name, Value: value, Time: now.Add(-time.Duration(ago*carbonStep) * time.Second)}}); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("every form of number", func(t *testing.T) {
		values := []float64{0, 1, 256, 0.25, 1e15, 1e300, 1e-9, 1234567.875, -2}
		var want []string
		for i, v := range values {
			send(fmt.Sprintf("values.v_%d", i), v, 3)
			want = append(want, fmt.Sprintf("values.v_%d=%v@3", i, v))
		}
		r.read(t, "values.*", now, want...)
	})
	t.Run("odd names", func(t *testing.T) {
		var want []string
		for i, text := range []string{"web.1:80", "é ü", "*", "a;b=c", strings.Repeat("long", 80), "-", "age"} {
			name := "odd." + CarbonComponent(text)
			send(name, float64(i), 2)
			want = append(want, fmt.Sprintf("%s=%d@2", name, i))
		}
		send("odd.age.load", 7, 2) // a name that is also the beginning of others
		r.read(t, "odd.*", now, want...)
		r.read(t, "odd.*.load", now, "odd.age.load=7@2")
	})
	t.Run("ten thousand series in a batch", func(t *testing.T) {
		before := r.sender.Stats()
		batch := make([]Metric, 10_000)
		for i := range batch {
			batch[i] = Metric{Name: fmt.Sprintf("big.b%d.s%d.weight", i/100, i%100), Value: float64(i), Time: now.Add(-carbonStep * time.Second)}
		}
		if err := r.sender.Send(batch); err != nil {
			t.Fatal(err)
		}
		// A sum of all would keep graphite-web busy while carbon makes the files.
		r.read(t, "sumSeries(big.*.s7.weight)", now, "sumSeries(big.*.s7.weight)=495700@1")
		r.read(t, "sumSeries(big.b99.*.weight)", now, "sumSeries(big.b99.*.weight)=994950@1")
		if after := r.sender.Stats(); after.Batches != before.Batches+1 || after.Sent != before.Sent+10_000 || after.Failures != before.Failures {
			t.Errorf("before %+v, after %+v", before, after)
		}
	})
	r.testOutages(t, now, send)
	if len(r.told) > 0 {
		t.Errorf("told besides: %s", <-r.told)
	}
	if s := r.sender.Stats(); s.Dropped != 0 || s.Refused != 0 {
		t.Errorf("%+v", s)
	}
}

// testOutages: what is sent while carbon is away arrives with its own time, and
// each outage is told once when it begins and once when it ends.
func (r *realCarbon) testOutages(t *testing.T, now time.Time, send func(name string, value float64, ago int64)) {
	t.Run("stopped and started", func(t *testing.T) {
		r.KillCarbon()
		send("outage.stopped", 1, 9)
		r.await(t, "lost: connecting to carbon: dial tcp "+r.CarbonAddr+": connect: connection refused")
		send("outage.stopped", 2, 8)
		send("outage.stopped", 3, 7)
		if err := r.StartCarbon(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.await(t, "back, 0 dropped")
		send("outage.stopped", 4, 6)
		r.read(t, "outage.stopped", now, "outage.stopped=1@9", "outage.stopped=2@8", "outage.stopped=3@7", "outage.stopped=4@6")
	})
	t.Run("hung", func(t *testing.T) {
		r.sender = r.start(t, func(c *SenderConfig) { c.Timeout = 2 * time.Second })
		if err := r.PauseCarbon(); err != nil {
			t.Fatal(err)
		}
		send("outage.hung", 1, 9)
		r.await(t, "lost: waiting for carbon to read all lines took longer than 2s: it hangs, or is too slow")
		send("outage.hung", 2, 8)
		if err := r.ResumeCarbon(); err != nil {
			t.Fatal(err)
		}
		r.await(t, "back, 0 dropped")
		send("outage.hung", 3, 7)
		r.read(t, "outage.hung", now, "outage.hung=1@9", "outage.hung=2@8", "outage.hung=3@7")
	})
}

// TestRealCarbonBehindTLS puts what hosted services have before a real carbon:
// something that ends TLS.
func TestRealCarbonBehindTLS(t *testing.T) {
	certificate, roots := authority(t)
	r := startCarbon(t, func(*SenderConfig) {})
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			forward(c.(*tls.Conn), r.CarbonAddr)
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	address := CarbonAddress{HostPort: l.Addr().String(), TLS: true}
	now := stepsAgo(0)

	trusting := r.start(t, func(c *SenderConfig) { c.Address, c.TLS = address, &tls.Config{RootCAs: roots} })
	if err := trusting.Send([]Metric{{Name: "tls.s1", Value: 5, Time: now}}); err != nil {
		t.Fatal(err)
	}
	r.read(t, "tls.*", now, "tls.s1=5@0")

	distrusting := r.start(t, func(c *SenderConfig) { c.Address = address })
	if err := distrusting.Send([]Metric{{Name: "tls.s2", Value: 5, Time: now}}); err != nil {
		t.Fatal(err)
	}
	r.await(t, "lost: connecting to carbon: TLS: tls: failed to verify certificate")
}

// forward hands one connection on, with its ends.
func forward(c *tls.Conn, to string) {
	defer c.Close()
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer out.Close()
	if _, err := io.Copy(out, c); err != nil {
		return
	}
	_ = out.(*net.TCPConn).CloseWrite()
	_, _ = io.Copy(c, out)
}

// authority makes a certificate for 127.0.0.1 that vouches for itself.
func authority(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}
