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

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// route is what the last passes were, and where a new connection goes then.
type route struct {
	name   string
	tables tables
	first  []byte            // what the client says
	server string            // who must answer; "" when HAProxy must close, "s" for any of the first backend, "x" of the second
	log    map[string]string // variables in the log line
}

func routes(t *testing.T, s *Scene, cases []route) {
	t.Helper()
	for _, c := range cases {
		s.Agent.Answer(c.tables.handler())
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
		stranger := tables{"ingest": {row("s9", 1)}}
		routes(t, s, []route{
			{"one in rotation", tables{"ingest": each(rows(1, 1, 1), only("s2"))}, nil, "s2", map[string]string{"picked": "s2", "error": "-"}},
			{"another", tables{"ingest": each(rows(1, 1, 1), only("s3"))}, nil, "s3", map[string]string{"picked": "s3", "error": "-"}},
			{"no data", tables{"ingest": each(each(rows(1, 1, 1), only("s3")), old)}, nil, "s3", map[string]string{"picked": "s3"}},
			{"none in rotation", tables{"ingest": each(rows(1, 1, 1), only(""))}, nil, "s", map[string]string{"picked": "-", "error": "-"}},
			{"unknown backend", tables{}, nil, "s", map[string]string{"picked": "-", "error": "-"}},
			{"HAProxy has no such server", stranger, nil, "s", map[string]string{"picked": "s9", "error": "-"}},
		})
	})
}

// TestTCPPickRefusing holds that a server that is gone, without HAProxy knowing yet, costs no connection.
func TestTCPPickRefusing(t *testing.T) {
	onEach(t, Options{Example: "tcp-pick", Handler: tables{"ingest": each(rows(1, 1, 1), only("s2"))}.handler()},
		func(t *testing.T, s *Scene, _ haproxyproc.Binary) {
			if err := s.Command(t.Context(), "disable health ingest/s2"); err != nil {
				t.Fatal(err)
			}
			s.servers[1].close()
			server, log := connect(t, s, nil)
			if server != "s1" && server != "s3" || variable(log, "picked") != "s2" {
				t.Errorf("picked server s2 refuses, and the connection went to %q; log %q", server, log)
			}
		})
}

func TestChoose(t *testing.T) {
	spare := []balancer.Row{row("x1", 100), row("x2", 100)}
	onEach(t, Options{Example: "choose", Handler: Fixed{}}, func(t *testing.T, s *Scene, _ haproxyproc.Binary) {
		routes(t, s, []route{
			{"at the limit", tables{"ingest": rows(4000, 5000, 6000), "spare": spare}, nil, "s",
				map[string]string{"load_mean": "5000", "load_max": "6000", "imbalance": "1200", "chosen": "spare", "error": "-"}},
			{"loaded", tables{"ingest": rows(5001, 5001, 5001), "spare": spare}, nil, "x", map[string]string{"load_mean": "5001", "chosen": "spare"}},
			{"loaded, the other more so", tables{"ingest": rows(6000, 6000, 6000), "spare": {row("x1", 7000)}}, nil, "s", map[string]string{"chosen": "ingest"}},
			{"loaded, old data", tables{"ingest": each(rows(6000, 6000, 6000), old), "spare": spare}, nil, "s", map[string]string{"load_mean": "-"}},
			{"loaded, the other's data are old", tables{"ingest": rows(6000, 6000, 6000), "spare": each([]balancer.Row{row("x1", 1)}, old)}, nil, "s", nil},
			{"unknown", tables{}, nil, "s", map[string]string{"load_mean": "-", "error": "-"}},
		})
	})
}

func TestShed(t *testing.T) {
	onEach(t, Options{Example: "shed", Handler: Fixed{}}, func(t *testing.T, s *Scene, _ haproxyproc.Binary) {
		routes(t, s, []route{
			{"below", tables{"ingest": rows(5000, 4900, 5100)}, nil, "s",
				map[string]string{"load_mean": "5000", "load_total": "15000", "servers": "3", "best": "s2", "worst": "s3", "best_load": "-", "error": "-"}},
			{"one has room", tables{"ingest": rows(9000, 5000, 9000)}, nil, "s", map[string]string{"best": "s2", "best_load": "5000"}},
			{"all above", tables{"ingest": rows(5001, 9000, 20000)}, nil, "x", map[string]string{"best": "s1", "best_load": "5001", "worst": "s3"}},
			{"all at the hard limit", tables{"ingest": rows(10000, 20000, 20000)}, nil, "x", nil},
			{"all above the hard limit", tables{"ingest": rows(10001, 20000, 20000)}, nil, "", map[string]string{"best_load": "10001"}},
			{"old data", tables{"ingest": each(rows(20000, 20000, 20000), old)}, nil, "s", map[string]string{"load_mean": "-", "error": "-"}},
		})
	})
}

func TestSNIGroup(t *testing.T) {
	both := tables{"ingest": each(rows(1, 1, 1), only("s3")), "spare": {row("x2", 1)}}
	hello := func(name string) []byte { return clientHello(t, name) }
	onEach(t, Options{Example: "sni-group", Handler: Fixed{}}, func(t *testing.T, s *Scene, _ haproxyproc.Binary) {
		routes(t, s, []route{
			{"first", both, hello("ingest.example.com"), "s3", map[string]string{"backend": "ingest", "picked": "s3"}},
			{"second", both, hello("Spare.example.com"), "x2", map[string]string{"backend": "spare", "picked": "x2"}},
			{"no answer", tables{}, hello("spare.example.com"), "x", map[string]string{"picked": "-"}},
			{"other name", both, hello("other.example.com"), "s", map[string]string{"backend": "-", "picked": "-", "error": "-"}},
			{"no TLS", both, bytes.Repeat([]byte("GET / HTTP/1.0\r\n"), 4), "s", map[string]string{"backend": "-", "error": "-"}},
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
	// s2 has weight 90 of 360 and the load given of 12000.
	web := func(load float64) []balancer.Row {
		all := rows((12000-load)/2, load, (12000-load)/2)
		for i, weight := range []int{180, 90, 90} {
			all[i].AppliedWeight = weight
		}
		return all
	}
	onEach(t, Options{Example: "http-server", Handler: Fixed{}, OverHTTP: true}, func(t *testing.T, s *Scene, _ haproxyproc.Binary) {
		// At weight 0 s2 gets nothing but what the cookie brings.
		if err := s.Command(t.Context(), "set server ingest/s2 weight 0"); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name   string
			tables tables
			cookie string
			stays  bool
			load   string // as the server got it
			log    string
		}{
			{"no cookie", tables{"ingest": web(8000)}, "", false, "", "weight=- load=- share=- relative=- age_ms=- error=-"},
			{"cool", tables{"ingest": web(6000)}, "s2", true, "6000", "weight=90 load=6000 share=250 relative=1500 age_ms=1200 error=-"},
			{"hot", tables{"ingest": web(6008)}, "s2", false, "6008", "weight=90 load=6008 share=250 relative=1502 age_ms=1200 error=-"},
			{"hot, old data", tables{"ingest": each(web(8000), old)}, "s2", true, "", "weight=90 load=- share=250 relative=- age_ms=91000 error=-"},
			{"unknown server", tables{"ingest": {row("s1", 1)}}, "s2", true, "", "weight=- load=- share=- relative=- age_ms=- error=-"},
		} {
			s.Agent.Answer(c.tables.handler())
			header := http.Header{"X-Weighter-Relative": {"1"}, "X-Weighter-Load": {"1"}}
			if c.cookie != "" {
				header.Set("Cookie", "SERVER="+c.cookie)
			}
			server, got, log := get(t, s, header)
			if stays := server == "s2"; stays != c.stays {
				t.Errorf("%s: went to %q; log %q", c.name, server, log)
			}
			if got.Get("Got-X-Weighter-Load") != c.load {
				t.Errorf("%s: the server got the load %q, want %q", c.name, got.Get("Got-X-Weighter-Load"), c.load)
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
		command("add map %s ingest/s2 5000", s.Values.LoadMap)
		command("add map %s ingest/s2 77", s.Values.WeightMap)
		visit("at the limit", "load=5000 weight=77", true)
		command("set map %s ingest/s2 5001", s.Values.LoadMap)
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
