package haproxy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
)

func inBothModes(t *testing.T, body func(t *testing.T, p *haproxyproc.Process, c *Client)) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		for _, mw := range []bool{false, true} {
			t.Run(fmt.Sprintf("MasterWorker=%v", mw), func(t *testing.T) {
				p := startHAProxy(t, haproxyproc.Options{Binary: b.Path, Config: smallConfig(""), MasterWorker: mw})
				body(t, p, NewClient(socketOf(p), Options{}))
			})
		}
	})
}

func TestReload(t *testing.T) {
	inBothModes(t, func(t *testing.T, p *haproxyproc.Process, c *Client) {
		first := mustSet(t, c, "rr", Change{"s1", 42})
		if err := p.Reload(""); err != nil {
			t.Fatal(err)
		}
		s := mustState(t, c, "rr")
		if diff := cmp.Diff(map[string]int{"s1": 100, "s2": 100}, weights(s)); diff != "" {
			t.Errorf("weights after a reload are those of the configuration (-want +got):\n%s", diff)
		}
		if s.Info.Worker == first.Info.Worker {
			t.Errorf("the worker is %v before and after", s.Info.Worker)
		}
		if out := mustSet(t, c, "rr", Change{"s1", 42}); out.Info.Worker != s.Info.Worker || out.Applied != 1 {
			t.Errorf("outcome %+v", out)
		}
	})
}

// TestOldWorker connects before a reload and talks after it: that connection
// ends at the old worker, and the client must not be content with its answer.
func TestOldWorker(t *testing.T) {
	inBothModes(t, func(t *testing.T, p *haproxyproc.Process, _ *Client) {
		old, err := net.Dial("unix", p.SocketPath)
		if err != nil {
			t.Fatal(err)
		}
		// HAProxy has accepted once another connection is answered.
		command(t, p, "show info")
		before := mustState(t, NewClient(socketOf(p), Options{}), "rr")
		if err := p.Reload(""); err != nil {
			t.Fatal(err)
		}
		var dials int
		c := NewClient(socketOf(p), Options{Dial: func(ctx context.Context) (net.Conn, error) {
			if dials++; dials == 1 {
				return old, nil
			}
			return socketOf(p).dial(ctx)
		}})
		out := mustSet(t, c, "rr", Change{"s1", 42})
		if out.Info.Worker == before.Info.Worker || out.Applied != 1 || dials < 2 {
			t.Errorf("outcome %+v after %d connections", out, dials)
		}
		if w := weights(mustState(t, c, "rr")); w["s1"] != 42 {
			t.Errorf("weights %v", w)
		}
	})
}

func TestRestart(t *testing.T) {
	inBothModes(t, func(t *testing.T, p *haproxyproc.Process, c *Client) {
		before := mustState(t, c, "rr")
		p.Kill()
		_, err := c.State(t.Context(), "rr")
		if !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "nothing listens") {
			t.Errorf("after a crash: %v", err)
		}
		if err := p.Restart(); err != nil {
			t.Fatal(err)
		}
		if after := mustState(t, c, "rr"); after.Info.Worker == before.Info.Worker {
			t.Errorf("the worker is %v before and after", after.Info.Worker)
		}
	})
}

func TestSocketGone(t *testing.T) {
	p := startHAProxy(t, haproxyproc.Options{Config: smallConfig("")})
	p.Stop()
	_, err := NewClient(socketOf(p), Options{}).State(t.Context(), "rr")
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "stats socket "+p.SocketPath) {
		t.Errorf("error %v", err)
	}
}

func TestHung(t *testing.T) {
	inBothModes(t, func(t *testing.T, p *haproxyproc.Process, _ *Client) {
		if err := p.Pause(); err != nil {
			t.Fatal(err)
		}
		c := NewClient(socketOf(p), Options{Timeout: 30 * time.Millisecond})
		for name, call := range map[string]func() error{
			"State":       func() error { _, err := c.State(t.Context(), "rr"); return err },
			"SetWeights":  func() error { _, err := c.SetWeights(t.Context(), "rr", []Change{{"s1", 5}}, 0); return err },
			"Info":        func() error { _, err := c.Info(t.Context()); return err },
			"Backends":    func() error { _, err := c.Backends(t.Context()); return err },
			"Probe":       func() error { return c.Probe(t.Context()) },
			"SessionAges": func() error { _, err := c.SessionAges(t.Context(), 10); return err },
		} {
			if err := call(); !errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), "30ms") {
				t.Errorf("%s: %v, want ErrTimeout", name, err)
			}
		}
		if err := p.Resume(); err != nil {
			t.Fatal(err)
		}
		mustState(t, NewClient(socketOf(p), Options{Timeout: 20 * time.Second}), "rr")
	})
}
