package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/child"
	"github.com/haproxy-weighter/haproxy-weighter/test/faults/front"
	"github.com/haproxy-weighter/haproxy-weighter/test/faults/trace"
	"github.com/haproxy-weighter/haproxy-weighter/test/graphiteproc"
)

// tlsRow has a certificate run out.
func tlsRow() (row, error) {
	authority, sound, err := certificate(time.Now().Add(time.Hour), nil)
	if err != nil {
		return row{}, err
	}
	_, expired, err := certificate(time.Now().Add(-time.Hour), sound)
	if err != nil {
		return row{}, err
	}
	show := func(s *scene, c *tls.Certificate) error {
		s.certificate.Store(c)
		s.graphite.Refuse() // connections that are open have had their handshake
		return s.graphite.Accept()
	}
	return row{
		part: "Graphite", name: "graphite-tls-expired", fault: "its TLS certificate has expired", holds: "weights stay", told: []told{noLoads},
		plan:  plan{ca: authority, certificate: sound},
		begin: func(s *scene, _ context.Context) error { return show(s, expired) },
		end:   func(s *scene, _ context.Context) error { return show(s, sound) },
	}, nil
}

// certificate makes one for 127.0.0.1 that is its own authority, with the key
// of another one unless that is nil.
func certificate(until time.Time, like *tls.Certificate) (authority []byte, c *tls.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if like != nil {
		key = like.PrivateKey.(*ecdsa.PrivateKey)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "graphite"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: until.Add(-24 * time.Hour), NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// clockRows have the daemon's wall clock jump.
func clockRows() []row {
	jumps := func(name, fault string, d time.Duration) row {
		return row{
			part: "daemon", name: name, fault: fault, moves: true, holds: "weights go on: ages are taken against Graphite's clock", told: []told{clocks},
			plan: plan{
				clock: true, tables: "[state]\nfile = \"{dir}/state.json\"\n", prepare: (*scene).watchdog,
				env: []string{"NOTIFY_SOCKET={dir}/notify.sock", "WATCHDOG_USEC=600000"},
			},
			begin: both(func(s *scene, _ context.Context) error { return s.jump(d) }, (*scene).alive),
			end:   both(func(s *scene, _ context.Context) error { return s.jump(0) }, (*scene).alive),
		}
	}
	return []row{
		jumps("clock-forward", "its wall clock jumps an hour forward and back", time.Hour),
		jumps("clock-back", "its wall clock jumps an hour back and forward", -time.Hour),
	}
}

// watchdog listens for signs of life, as systemd does.
func (s *scene) watchdog() error {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.file("notify.sock"), Net: "unixgram"})
	if err != nil {
		return err
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		message := make([]byte, 4096)
		for {
			n, err := conn.Read(message)
			if err != nil {
				return
			}
			if string(message[:n]) == "WATCHDOG=1" {
				s.signs.Add(1)
			}
		}
	})
	s.closers = append(s.closers, func() { conn.Close(); reading.Wait() })
	return nil
}

// alive waits for five signs of life.
func (s *scene) alive(ctx context.Context) error {
	from := s.signs.Load()
	return s.until(ctx, func() (bool, string) {
		have := s.signs.Load() - from
		return have >= 5, fmt.Sprintf("%d signs of life for systemd", have)
	})
}

// stuckRow has a server report zero while it is busy.
func stuckRow() row {
	config := strings.ReplaceAll(haproxyConfig, "127.0.0.1:1 ", "127.0.0.1:{sink} ") + "frontend in\n\tbind 127.0.0.1:{in}\n\tdefault_backend ingest\n"
	config = strings.NewReplacer("timeout client 1s", "timeout client 1h", "timeout server 1s", "timeout server 1h").Replace(config)
	r := answering(front.Answer{Values: map[string]string{"s4": "0"}}, row{
		name: "graphite-stuck-zero", fault: "one server is stuck at 0 while it holds connections", moves: true,
		holds: "after three points its zero is not believed: it keeps its share",
		plan:  plan{prepare: func(s *scene) error { return s.busy(config) }},
		// 100, 100, 200 make 256, 256 and 128; s4 is as before, a third of all.
		during: weights{"s1": 200, "s2": 200, "s3": 128},
		after:  weights{"s1": 64, "s2": 128, "s3": 200}, // s4 comes back slowly
	})
	return r
}

// busy reloads HAProxy with a configuration that takes connections, and opens
// 40 of them.
func (s *scene) busy(config string) error {
	sink, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := sink.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { defer conn.Close(); _, _ = io.Copy(io.Discard, conn) })
		}
	})
	s.closers = append(s.closers, func() {
		sink.Close()
		for _, conn := range s.taken {
			conn.Close()
		}
		s.haproxy.Stop()
		serving.Wait()
	})
	port, err := child.FreePort()
	if err != nil {
		return err
	}
	in := fmt.Sprintf("127.0.0.1:%d", port)
	text := strings.NewReplacer("127.0.0.1:{in}", in, "127.0.0.1:{sink}", sink.Addr().String()).Replace(config)
	if err := s.haproxy.Reload(text); err != nil {
		return err
	}
	for range 40 {
		conn, err := net.DialTimeout("tcp", in, patience)
		if err != nil {
			return err
		}
		s.taken = append(s.taken, conn)
	}
	return nil
}

// realRows are the faults of a real Graphite.
func realRows() []row {
	real := plan{prepare: (*scene).startReal, loads: firstLoads}
	all := []row{
		{
			name: "real-web-dies", fault: "(real) graphite-web is killed and started again", told: []told{noLoads},
			begin: func(s *scene, _ context.Context) error { s.real.KillWeb(); return nil },
			end:   func(s *scene, ctx context.Context) error { return s.real.StartWeb(ctx) },
		},
		{
			name: "real-web-hangs", fault: "(real) graphite-web hangs (SIGSTOP)", told: []told{noLoads},
			begin: func(s *scene, _ context.Context) error { return s.real.PauseWeb() },
			end:   func(s *scene, _ context.Context) error { return s.real.ResumeWeb() },
		},
		{
			name: "real-carbon-dies", fault: "(real) carbon-cache is killed: data end and grow old", told: []told{held, unusable, maybe(noLoads)}, // to start it again makes the real one slow
			least: maxAge + 3*interval,
			begin: func(s *scene, _ context.Context) error { s.real.KillCarbon(); return nil },
			end: func(s *scene, ctx context.Context) error {
				return errors.Join(s.real.StartCarbon(ctx), s.rendered(ctx, secondLoads["s4"], time.Now()))
			},
		},
	}
	for i := range all {
		all[i].part, all[i].plan = "Graphite", real
		if all[i].holds == "" {
			all[i].holds = "weights stay"
		}
	}
	return all
}

// startReal puts a real Graphite behind the front, and feeds it with the loads.
func (s *scene) startReal() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	real, err := graphiteproc.Start(ctx, graphiteproc.Options{NoTags: true})
	if err != nil {
		return err
	}
	s.real = real
	s.closers = append(s.closers, real.Stop)
	s.closers = append(s.closers, run(s.feed))
	if err := s.graphite.Behind(real.URL); err != nil {
		return err
	}
	return s.rendered(ctx, firstLoads["s4"], time.Time{})
}

// rendered waits until the real Graphite has a load of s4 that is newer than a time.
func (s *scene) rendered(ctx context.Context, load float64, than time.Time) error {
	return s.until(ctx, func() (bool, string) {
		points, err := front.Newest(ctx, s.real.URL, "load.s4")
		if err != nil {
			return false, err.Error()
		}
		p := points["load.s4"]
		return p.Value == load && p.At.After(than), fmt.Sprintf("Graphite has the load %v of s4: %v", load, p)
	})
}

// feed sends the loads to carbon once a second.
func (s *scene) feed(ctx context.Context) {
	for ctx.Err() == nil {
		if conn, err := net.DialTimeout("tcp", s.real.CarbonAddr, time.Second); err == nil {
			var lines strings.Builder
			for name, load := range s.graphite.Loads() {
				fmt.Fprintf(&lines, "load.%s %v %d\n", name, load, time.Now().Unix())
			}
			_ = conn.SetDeadline(time.Now().Add(time.Second))
			_, _ = io.WriteString(conn, lines.String())
			conn.Close()
		}
		pause(ctx, time.Second)
	}
}

// manyRow is a daemon with 200 backends of 100 servers.
func manyRow() row {
	const backends, servers = 200, 100
	var config, tables strings.Builder
	config.WriteString(haproxyConfig)
	first, second := loads{}, loads{}
	for name, load := range firstLoads {
		first[name], second[name] = load, secondLoads[name]
	}
	for i := range servers {
		first[fmt.Sprintf("x%d", i)], second[fmt.Sprintf("x%d", i)] = float64(100+i), float64(200-i)
	}
	for b := range backends {
		fmt.Fprintf(&config, "backend b%d\n\tbalance roundrobin\n", b)
		for i := range servers {
			fmt.Fprintf(&config, "\tserver x%d 127.0.0.1:1 weight 100\n", i)
		}
		fmt.Fprintf(&tables, "[[backend]]\nname = \"b%d\"\ntarget = \"aliasByNode(other.*, 1)\"\ninterval = \"20s\"\nwindow = \"60s\"\nmax_age = \"60s\"\n", b)
	}
	return row{
		part: "daemon", name: "many", fault: "has 200 more backends of 100 servers each, while HAProxy is reloaded", moves: true, holds: "weights go on, memory stays small",
		told: []told{ // 20,000 weights are put back at once: on a busy machine some have to wait
			maybe(upTo(999, noHAProxy)), maybe(upTo(9, noSocket)), maybe(upTo(999, badWrite)),
			maybe(upTo(999, unusable)), maybe(upTo(999, held)), maybe(upTo(999, noLoads)),
		},
		plan: plan{
			plain: true, haproxy: config.String(), backend: tables.String(), loads: first,
			rules: func(r *trace.Rules) { r.Resident, r.Descriptors = 256<<20, 128 },
		},
		second: second, firstAgain: first,
		begin: reload(config.String()), end: nothing,
	}
}

// largeRows are the ones that take more than a socket and a reply.
func largeRows() ([]row, error) {
	expired, err := tlsRow()
	all := []row{expired, stuckRow(), manyRow()}
	all = append(all, realRows()...)
	return append(all, clockRows()...), err
}

// clockProgram builds the daemon with the clock that jumps, once.
type clockProgram struct {
	once sync.Once
	path string
	err  error
}

func (c *clockProgram) get(ctx context.Context) (string, error) {
	c.once.Do(func() { c.err = buildClock(ctx, c.path) })
	return c.path, c.err
}

// certificateOf serves what is stored.
func certificateOf(p *atomic.Pointer[tls.Certificate]) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.Load(), nil }
}
