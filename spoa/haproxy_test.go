package spoa_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/negasus/haproxy-spoe-go/action"

	"github.com/haproxy-weighter/haproxy-weighter/spoa"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
)

func TestHAProxySetsEveryKindOfVariable(t *testing.T) {
	haproxytest.ForEachVersion(t, setsEveryKindOfVariable)
}

func setsEveryKindOfVariable(t *testing.T, b haproxyproc.Binary) {
	s := newScene(t, b, false, func(answer *action.Actions, r *spoa.Request) error {
		kv := r.Messages[0].KV
		port, _ := kv.Get("port")
		for _, v := range []struct {
			name  string
			value any
		}{
			{"int", 7}, {"negative", -1}, {"least", math.MinInt64}, {"most", math.MaxInt64}, {"large", 1 << 60}, {"true", true}, {"text", "some-text"},
			{"four", net.IPv4(192, 0, 2, 1)}, {"six", netip.MustParseAddr("2001:db8::1")}, {"gone", 1}, {"port", port},
		} {
			answer.SetVar(action.ScopeTransaction, v.name, v.value)
		}
		answer.UnsetVar(action.ScopeTransaction, "gone")
		answer.SetVar(action.ScopeTransaction, "after", "still-set")
		number, _ := kv.Get("number")
		src, _ := kv.Get("src")
		flag, _ := kv.Get("flag")
		if name, _ := kv.Get("name"); name != "ingest" || number != int64(-42) || flag != true || !src.(net.IP).IsLoopback() || r.EngineID == "" {
			return fmt.Errorf("unexpected arguments %v of engine %q", kv.Data(), r.EngineID)
		}
		return nil
	})
	_, port, _ := strings.Cut(s.http, ":")
	want := map[string]string{"int": "7", "negative": "-1", "least": "-9223372036854775808", "most": "9223372036854775807",
		"large": "1152921504606846976", "true": "1", "text": "some-text", "four": "192.0.2.1", "six": "2001:db8::1", "after": "still-set", "port": port}
	if got := s.mustGet(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestHAProxyRoutesTCP(t *testing.T) { haproxytest.ForEachVersion(t, routesTCP) }

func routesTCP(t *testing.T, b haproxyproc.Binary) {
	var mu sync.Mutex
	server := "a"
	s := newScene(t, b, false, func(answer *action.Actions, _ *spoa.Request) error {
		mu.Lock()
		defer mu.Unlock()
		answer.SetVar(action.ScopeTransaction, "server", server)
		return nil
	})
	for _, name := range []string{"a", "b", "b", "a", "a", "b"} {
		mu.Lock()
		server = name
		mu.Unlock()
		if got := s.dial(); got != name {
			t.Errorf("a connection meant for %q reached %q", name, got)
		}
	}
}

func TestHAProxyHealthCheck(t *testing.T) { haproxytest.ForEachVersion(t, healthCheck) }

func healthCheck(t *testing.T, b haproxyproc.Binary) {
	s := newScene(t, b, false, func(*action.Actions, *spoa.Request) error { return nil })
	s.await(spoa.ReasonHealthCheck)
	s.await(spoa.ReasonHealthCheck) // HAProxy has taken in the first one by now
	// With a star in front of L7OK when the next check runs already.
	stat, err := s.haproxy.Command(t.Context(), "show stat spoa 4 -1")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stat, ",UP,") || !strings.Contains(stat, "L7OK,") {
		t.Errorf("HAProxy does not see the agent as up by a check on layer 7:\n%s", stat)
	}
}

// TestHAProxyFailsAtOnce: an answer that cannot be given does not cost the stream
// the timeout, whether there is an empty answer or the connection ends.
func TestHAProxyFailsAtOnce(t *testing.T) { haproxytest.ForEachVersion(t, failsAtOnce) }

func failsAtOnce(t *testing.T, b haproxyproc.Binary) {
	timeout := "1" // what set-on-error says of it
	cases := []struct {
		name    string
		handler spoa.HandlerFunc
		errors  bool // HAProxy sees one
	}{
		{"error", func(*action.Actions, *spoa.Request) error { return errors.New("no table") }, false},
		{"panic", func(*action.Actions, *spoa.Request) error { panic("out") }, false},
		{"too big", func(answer *action.Actions, _ *spoa.Request) error {
			answer.SetVar(action.ScopeTransaction, "int", make([]byte, 20000))
			return nil
		}, false},
		{"fraction", func(answer *action.Actions, _ *spoa.Request) error {
			answer.SetVar(action.ScopeTransaction, "int", 1.5)
			return nil
		}, false},
		{"connection ends", func(*action.Actions, *spoa.Request) error {
			runtime.Goexit()
			return nil
		}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, b, false, c.handler)
			got := s.mustGet()
			if (got["err"] != "") != c.errors || got["err"] == timeout || got["int"] != "" {
				t.Errorf("variables %v", got)
			}
		})
	}
}

// TestHAProxyReload: no request loses its answer while HAProxy reloads under
// load, and the old worker's connections end in good order.
func TestHAProxyReload(t *testing.T) { haproxytest.ForEachVersion(t, reload) }

func reload(t *testing.T, b haproxyproc.Binary) {
	s := newScene(t, b, true, func(answer *action.Actions, _ *spoa.Request) error {
		answer.SetVar(action.ScopeTransaction, "int", 7)
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var total sync.WaitGroup
	for range 4 {
		total.Add(1)
		clients.Go(func() {
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
			for n := 0; ctx.Err() == nil; n++ {
				set, err := s.get(client)
				if err != nil {
					t.Errorf("request %d: %v", n, err)
				} else if set["int"] != "7" || set["err"] != "" {
					// A stream of the old worker whose agent connection it has cut; any
					// other error, above all a timeout, is ours.
					if set["err"] != "256" {
						t.Errorf("request %d: variables %v", n, set)
					}
				}
				if n == 20 {
					total.Done()
				}
			}
		})
	}
	total.Wait()
	for range 2 {
		if err := s.haproxy.Reload(""); err != nil {
			t.Error(err)
		}
		if set := s.mustGet(); set["int"] != "7" {
			t.Errorf("after a reload: variables %v", set)
		}
	}
	stop()
	clients.Wait()
	s.haproxy.Stop()
	if err := s.agent.server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	close(s.closed)
	for reason := range s.closed {
		switch reason {
		case spoa.ReasonPeerClosed, spoa.ReasonHealthCheck, spoa.ReasonShutdown:
		default:
			t.Errorf("a connection of HAProxy's ended because of %v", reason)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered == 0 || s.unanswered != 0 {
		t.Errorf("%d answers, %d without what the handler said", s.answered, s.unanswered)
	}
}

// TestHAProxySurvivesRestartOfTheAgent: Shutdown under load fails no request, and a new agent
// on the same port is used.
func TestHAProxySurvivesRestartOfTheAgent(t *testing.T) {
	haproxytest.ForEachVersion(t, survivesRestartOfTheAgent)
}

func survivesRestartOfTheAgent(t *testing.T, b haproxyproc.Binary) {
	handler := func(value int) spoa.HandlerFunc {
		return func(answer *action.Actions, _ *spoa.Request) error {
			answer.SetVar(action.ScopeTransaction, "int", value)
			return nil
		}
	}
	s := newScene(t, b, false, handler(1))
	if set := s.mustGet(); set["int"] != "1" {
		t.Fatalf("variables %v", set)
	}
	transport := &http.Transport{}
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	ctx, stop := context.WithCancel(t.Context())
	warm := make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() {
		defer transport.CloseIdleConnections()
		for n := 0; ctx.Err() == nil; n++ {
			if set, err := s.get(client); err != nil || set["err"] == "1" {
				t.Errorf("request %d: variables %v, %v", n, set, err)
			}
			if n == 50 {
				close(warm)
			}
		}
	})
	<-warm
	if err := s.agent.server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	s.startAgent(handler(2))
	s.await(spoa.ReasonHealthCheck)
	stop()
	load.Wait()
	for timeout := time.Now().Add(20 * time.Second); ; {
		set := s.mustGet()
		if set["int"] == "2" {
			return
		}
		if time.Now().After(timeout) {
			t.Fatalf("the new agent is not used: variables %v", set)
		}
	}
}
