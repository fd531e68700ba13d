package spoa_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/negasus/haproxy-spoe-go/action"

	"github.com/haproxy-weighter/haproxy-weighter/spoa"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
)

// TestHAProxyIsAnsweredThoughAllPlacesAreTaken: a peer that holds every
// connection that is allowed, and takes each again that it loses, costs HAProxy
// no answer.
func TestHAProxyIsAnsweredThoughAllPlacesAreTaken(t *testing.T) {
	haproxytest.ForEachVersion(t, answeredThoughAllPlacesAreTaken)
}

func answeredThoughAllPlacesAreTaken(t *testing.T, b haproxyproc.Binary) {
	const places = 64
	handler := func(answer *action.Actions, _ *spoa.Request) error {
		answer.SetVar(action.ScopeTransaction, "int", 7)
		return nil
	}
	s := newScene(t, b, false, handler)
	if err := s.agent.server.Close(); err != nil {
		t.Fatal(err)
	}
	s.maxConns = places
	s.startAgent(spoa.HandlerFunc(handler))
	ctx, stop := context.WithCancel(t.Context())
	var hostile, begun sync.WaitGroup
	defer hostile.Wait()
	defer stop()
	begun.Add(places)
	for range places {
		hostile.Go(func() {
			begin := sync.OnceFunc(begun.Done)
			defer begin()
			for ctx.Err() == nil {
				hold(ctx, s.port, begin)
			}
		})
	}
	begun.Wait()
	// HAProxy takes up to two checks of 100 ms to see the new agent.
	for deadline := time.Now().Add(20 * time.Second); s.mustGet()["int"] != "7"; {
		if time.Now().After(deadline) {
			t.Fatal("HAProxy is not answered at all")
		}
	}
	for n := range 50 {
		if set := s.mustGet(); set["int"] != "7" || set["err"] != "" {
			t.Errorf("request %d: variables %v", n, set)
		}
		if got := s.dial(); got != "a" && got != "b" {
			t.Errorf("connection %d reached %q", n, got)
		}
	}
	for { // one at least has given way, or not all places were taken
		select {
		case reason := <-s.closed:
			if reason == spoa.ReasonGaveWay {
				return
			}
		default:
			t.Fatal("nobody had to give way")
		}
	}
}

// hold exchanges HELLOs, says nothing more until it is disconnected, and rests.
func hold(ctx context.Context, port int, begun func()) {
	defer func() {
		pause := time.NewTimer(20 * time.Millisecond)
		defer pause.Stop()
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
	}()
	nc, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	// HAPROXY-HELLO with versions, a frame size and no capabilities.
	body := []byte("\x01\x00\x00\x00\x01\x00\x00" +
		"\x12supported-versions\x08\x032.0" + "\x0emax-frame-size\x03\xfc\xf0\x06" + "\x0ccapabilities\x08\x00")
	if _, err := nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		return
	}
	if _, err := io.ReadFull(nc, make([]byte, 1)); err != nil {
		return
	}
	begun()
	_, _ = io.Copy(io.Discard, nc) // until it is closed on us
}
