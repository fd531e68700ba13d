package spoe

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// a case is what the agent answers, and where a new connection goes then.
type route struct {
	name    string
	answers Fixed
	first   []byte            // what the client says
	server  string            // who must answer; "" when HAProxy must close, "s" for any of the first backend, "x" of the second
	log     map[string]string // variables in the log line
}

func routes(t *testing.T, s *Scene, cases []route) {
	t.Helper()
	for _, c := range cases {
		s.Agent.Answer(c.answers)
		server, line := connect(t, s, c.first)
		if server != c.server && (len(c.server) != 1 || !strings.HasPrefix(server, c.server)) {
			t.Errorf("%s: went to server %q, want %q; log %q", c.name, server, c.server, line)
		}
		for name, want := range c.log {
			if got := variable(line, name); got != want {
				t.Errorf("%s: %s=%s in the log, want %s: %q", c.name, name, got, want, line)
			}
		}
	}
}

func TestTCPPick(t *testing.T) {
	onEach(t, Options{Example: "tcp-pick", Handler: Fixed{}}, func(t *testing.T, s *Scene, _ haproxyproc.Binary) {
		routes(t, s, []route{
			{"drawn", Fixed{"weighter-pick": {"server": "s2"}}, nil, "s2", map[string]string{"picked": "s2", "error": "-"}},
			{"another", Fixed{"weighter-pick": {"server": "s3"}}, nil, "s3", map[string]string{"picked": "s3", "error": "-"}},
			{"no answer", Fixed{"weighter-pick": {}}, nil, "s", map[string]string{"picked": "-", "error": "-"}},
			{"not a server", Fixed{"weighter-pick": {"server": "s9"}}, nil, "s", map[string]string{"picked": "s9", "error": "-"}},
		})
	})
}

func TestTCPPickRefusing(t *testing.T) {
	onEach(t, Options{Example: "tcp-pick", Handler: Fixed{"weighter-pick": {"server": "s2"}}},
		func(t *testing.T, s *Scene, _ haproxyproc.Binary) {
			if err := s.Command(t.Context(), "disable health ingest/s2"); err != nil {
				t.Fatal(err)
			}
			s.servers[1].close()
			server, log := connect(t, s, nil)
			if server != "s1" && server != "s3" {
				t.Errorf("picked server s2 refuses, and the connection went to %q; log %q", server, log)
			}
		})
}

func TestChoose(t *testing.T) {
	backend := func(mean int, fresh bool) map[string]any {
		return map[string]any{"load_mean": mean, "load_max": mean + 1, "imbalance": 1100, "fresh": fresh}
	}
	spare := map[string]any{"backend": "spare"}
	onEach(t, Options{Example: "choose", Handler: Fixed{}}, func(t *testing.T, s *Scene, _ haproxyproc.Binary) {
		routes(t, s, []route{
			{"at the limit", Fixed{"weighter-backend": backend(5000, true), "weighter-choose": spare}, nil, "s",
				map[string]string{"load_mean": "5000", "load_max": "5001", "imbalance": "1100", "chosen": "spare", "error": "-"}},
			{"loaded", Fixed{"weighter-backend": backend(5001, true), "weighter-choose": spare}, nil, "x", nil},
			{"loaded, the other more so", Fixed{"weighter-backend": backend(5001, true), "weighter-choose": {"backend": "ingest"}}, nil, "s", nil},
			{"old data", Fixed{"weighter-backend": backend(5001, false), "weighter-choose": spare}, nil, "s", nil},
			{"unknown", Fixed{"weighter-backend": {"fresh": false}, "weighter-choose": spare}, nil, "s", map[string]string{"load_mean": "-"}},
		})
	})
}

func TestShed(t *testing.T) {
	backend := func(mean int, fresh bool) map[string]any {
		return map[string]any{"load_mean": mean, "load_total": 3 * mean, "servers": 3, "best": "s2", "worst": "s3", "fresh": fresh}
	}
	server := func(load int, fresh bool) map[string]any { return map[string]any{"load": load, "fresh": fresh} }
	onEach(t, Options{Example: "shed", Handler: Fixed{}}, func(t *testing.T, s *Scene, _ haproxyproc.Binary) {
		routes(t, s, []route{
			{"below", Fixed{"weighter-backend": backend(5000, true)}, nil, "s",
				map[string]string{"load_mean": "5000", "load_total": "15000", "servers": "3", "best": "s2", "worst": "s3", "best_load": "-", "error": "-"}},
			{"one has room", Fixed{"weighter-backend": backend(20000, true), "weighter-server": server(5000, true)}, nil, "s", map[string]string{"best_load": "5000"}},
			{"all above", Fixed{"weighter-backend": backend(20000, true), "weighter-server": server(5001, true)}, nil, "x", map[string]string{"best_load": "5001"}},
			{"all above the hard limit", Fixed{"weighter-backend": backend(20000, true), "weighter-server": server(10001, true)}, nil, "", map[string]string{"best_load": "10001"}},
			{"old data", Fixed{"weighter-backend": backend(20000, false)}, nil, "s", nil},
			{"best has old data", Fixed{"weighter-backend": backend(20000, true), "weighter-server": server(20000, false)}, nil, "s", nil},
		})
	})
}

func TestSNIGroup(t *testing.T) {
	hello := func(name string) []byte { return clientHello(t, name) }
	onEach(t, Options{Example: "sni-group", Handler: Fixed{}}, func(t *testing.T, s *Scene, _ haproxyproc.Binary) {
		routes(t, s, []route{
			{"first", Fixed{"weighter-pick": {"server": "s3"}}, hello("ingest.example.com"), "s3", map[string]string{"backend": "ingest", "picked": "s3"}},
			{"second", Fixed{"weighter-pick": {"server": "x2"}}, hello("Spare.example.com"), "x2", map[string]string{"backend": "spare", "picked": "x2"}},
			{"no answer", Fixed{"weighter-pick": {}}, hello("spare.example.com"), "x", map[string]string{"picked": "-"}},
			{"other name", nil, hello("other.example.com"), "s", map[string]string{"backend": "-", "picked": "-", "error": "-"}},
			{"no TLS", nil, bytes.Repeat([]byte("GET / HTTP/1.0\r\n"), 4), "s", map[string]string{"backend": "-", "error": "-"}},
		})
	})
}

// clientHello is how a TLS client begins that wants the named server.
func clientHello(t *testing.T, name string) []byte {
	t.Helper()
	client, wire := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tls.Client(client, &tls.Config{ServerName: name}).HandshakeContext(t.Context()) // never ends well
	}()
	hello := make([]byte, 4096)
	n, err := wire.Read(hello)
	wire.Close()
	<-done
	client.Close()
	if err != nil {
		t.Fatal(err)
	}
	return hello[:n]
}

func TestHTTPServer(t *testing.T) {
	answer := func(relative int, fresh bool) Fixed {
		return Fixed{"weighter-server": {"weight": 90, "load": 6000, "share": 250, "relative": relative, "fresh": fresh, "age_ms": 1200}}
	}
	o := Options{Example: "http-server", Handler: Fixed{}, OverHTTP: true}
	onEach(t, o, func(t *testing.T, s *Scene, _ haproxyproc.Binary) {
		// At weight 0 s2 gets nothing but what the cookie brings.
		if err := s.Command(t.Context(), "set server ingest/s2 weight 0"); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name     string
			answers  Fixed
			cookie   string
			stays    bool
			relative string // as the server got it
			log      string
		}{
			{"no cookie", nil, "", false, "", "weight=- load=- share=- relative=- age_ms=- error=-"},
			{"cool", answer(1500, true), "s2", true, "1500", "weight=90 load=6000 share=250 relative=1500 age_ms=1200 error=-"},
			{"hot", answer(1501, true), "s2", false, "1501", "weight=90 load=6000 share=250 relative=1501 age_ms=1200 error=-"},
			{"hot, old data", answer(1501, false), "s2", true, "1501", "relative=1501"},
			{"unknown", Fixed{"weighter-server": {"fresh": false}}, "s2", true, "", "relative=-"},
		} {
			s.Agent.Answer(c.answers)
			header := http.Header{"X-Weighter-Relative": {"1"}, "X-Weighter-Load": {"1"}}
			if c.cookie != "" {
				header.Set("Cookie", "SERVER="+c.cookie)
			}
			server, got, log := get(t, s, header)
			if stays := server == "s2"; stays != c.stays {
				t.Errorf("%s: went to %q; log %q", c.name, server, log)
			}
			if got.Get("Got-X-Weighter-Relative") != c.relative {
				t.Errorf("%s: the server got %q, want %q", c.name, got.Get("Got-X-Weighter-Relative"), c.relative)
			}
			if !strings.Contains(log, c.log) {
				t.Errorf("%s: log %q, want %q in it", c.name, log, c.log)
			}
		}
	})
}

func TestMap(t *testing.T) {
	o := Options{Example: "map", OverHTTP: true}
	onEach(t, o, func(t *testing.T, s *Scene, _ haproxyproc.Binary) {
		command := func(format string, args ...any) {
			t.Helper()
			if err := s.Command(t.Context(), fmt.Sprintf(format, args...)); err != nil {
				t.Fatal(err)
			}
		}
		command("set server ingest/s2 weight 0")
		sticky := http.Header{"Cookie": {"SERVER=s2"}}
		visit := func(name, wantLog string, stays bool) {
			t.Helper()
			server, _, log := get(t, s, sticky)
			if (server == "s2") != stays {
				t.Errorf("%s: went to %q; log %q", name, server, log)
			}
			if !strings.Contains(log, wantLog) {
				t.Errorf("%s: log %q, want %q in it", name, log, wantLog)
			}
		}
		visit("empty maps", "load=0 weight=0", true)
		command("add map %s ingest/s2 5000", s.Values.LoadMap())
		command("add map %s ingest/s2 77", s.Values.WeightMap())
		visit("at the limit", "load=5000 weight=77", true)
		command("set map %s ingest/s2 5001", s.Values.LoadMap())
		visit("loaded", "load=5001 weight=77", false)
	})
}

// get makes one HTTP request and reads its line in the log.
func get(t *testing.T, s *Scene, header http.Header) (server string, got http.Header, log string) {
	t.Helper()
	answer, client, err := s.Get(t.Context(), header)
	if err != nil {
		t.Fatalf("%v; HAProxy's log: %s", err, s.HAProxy.Log())
	}
	log, err = s.logs.line(client)
	if err != nil {
		t.Fatalf("%v; HAProxy's log: %s", err, s.HAProxy.Log())
	}
	if diff := cmp.Diff(http.StatusOK, answer.StatusCode); diff != "" {
		t.Fatalf("status: %s; log %q", diff, log)
	}
	return answer.Header.Get("Server-Name"), answer.Header, log
}
