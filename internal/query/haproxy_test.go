package query_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/query"
	"github.com/haproxy-weighter/haproxy-weighter/lua"
	"github.com/haproxy-weighter/haproxy-weighter/spoa"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
)

// engine asks for two backends, a server of each and a choice: all of one
// event, so of one frame.
const engine = `[weighter]
spoe-agent weighter-agent
  messages weighter-pick weighter-server.tcp weighter-server.web weighter-backend weighter-choose own-message failing-message
  option var-prefix weighter
  option set-on-error error
  timeout hello 10s
  timeout idle 30s
  timeout processing 10s
  use-backend weighter-agents
spoe-message weighter-pick
  args backend=str(tcp)
  event on-client-session
spoe-message weighter-server.tcp
  args server=str(s2) backend=str(tcp) as=str(one)
  event on-client-session
spoe-message weighter-server.web
  args as=str(two) backend=str(web) server=str(nosuch)
  event on-client-session
spoe-message weighter-backend
  args backend=str(tcp)
  event on-client-session
spoe-message weighter-choose
  args backends='str("web, tcp")'
  event on-client-session
spoe-message own-message
  args src=src n=int(-5) yes=bool(true) backend=str(tcp) nothing=var(txn.none) str(unnamed)
  event on-client-session
spoe-message failing-message
  args src=src
  event on-client-session

`

const proxies = `
defaults
  mode tcp
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend ft
  bind 127.0.0.1:%d
  filter spoe engine weighter config %s
  default_backend tcp
backend tcp
  balance roundrobin
  use-server %%[var(txn.weighter.server)] if { var(txn.weighter.server) -m found }
  server s1 127.0.0.1:%d weight 100
  server s2 127.0.0.1:%d weight 100
frontend fh
  mode http
  bind 127.0.0.1:%d
  timeout http-request 30s
  filter spoe engine weighter config %s
  http-request set-header x-load %%[var(txn.weighter.one_load)] if { var(txn.weighter.one_load) -m found }
  http-request deny deny_status 429 if { hdr(x-shed) yes } { var(txn.weighter.one_relative) -m int gt 1400 }
  http-request return status 200 content-type text/plain lf-string "%%[var(txn.weighter.one_weight)] %%[req.hdr(x-load)] %%[var(txn.weighter.one_share)] %%[var(txn.weighter.one_relative)] %%[var(txn.weighter.one_fresh)] %%[var(txn.weighter.two_fresh)] %%[var(txn.weighter.two_weight)] %%[var(txn.weighter.imbalance)] %%[var(txn.weighter.best)] %%[var(txn.weighter.backend)] %%[var(txn.weighter.own)] %%[var(txn.weighter.sum)] %%[var(txn.weighter.good)]"
backend weighter-agents
  option spop-check
  timeout connect 5s
  timeout server 60s
  server agent 127.0.0.1:%d check inter 100ms fall 1 rise 1 pool-low-conn 64
`

// namer is a TCP server that says its name and closes.
func namer(t *testing.T, name string) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, name)
			c.Close()
		}
	})
	t.Cleanup(func() { l.Close(); done.Wait() })
	return l.Addr().(*net.TCPAddr).Port
}

func measured(name string, load float64, weight int) balancer.Row {
	age := 1.0
	return balancer.Row{Server: name, Load: &load, AgeSeconds: &age, Capacity: 1, AppliedWeight: weight, AdminState: "ready", OpState: "running"}
}

// ownAnswer says what HAProxy's arguments come to.
const ownAnswer = `
function answer(message, args, tables)
	if message == "failing-message" then error("no") end
	local sum = 0
	for _, s in ipairs(tables.tcp.servers) do sum = sum + s.load end
	local own = {args.src, tostring(args.n), tostring(args.yes), tostring(args.nothing), args[6], tables[args.backend].worst}
	return {own = table.concat(own, "/"), sum = math.floor(sum + 0.5), good = true}
end`

// newHandler answers for tcp, of which s2 has nearly all the weight, and for
// web, which has no data.
func newHandler(t *testing.T) *query.Handler {
	script := filepath.Join(t.TempDir(), "answer.lua")
	if err := os.WriteFile(script, []byte(ownAnswer), 0o644); err != nil {
		t.Fatal(err)
	}
	own, err := lua.Load(script, lua.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tables := func(rows ...balancer.Row) func() []*balancer.Table {
		t := []*balancer.Table{{Time: time.Now(), Rows: rows}}
		return func() []*balancer.Table { return t }
	}
	web := measured("w1", 1, 100)
	web.Load, web.AgeSeconds = nil, nil
	return query.New(query.Options{
		Script: own,
		Logger: slog.New(slog.DiscardHandler),
		Draw:   func(n uint64) uint64 { return n - 1 },
		Sources: []query.Source{
			{Backend: "tcp", MaxAge: time.Hour, Quorum: 0.5, Tables: tables(measured("s1", 100.4, 1), measured("s2", 299.6, 199))},
			{Backend: "web", MaxAge: time.Hour, Quorum: 0.5, Tables: tables(web)},
		},
	})
}

// startAgent serves until the function that is returned is called.
func startAgent(t *testing.T, port int) (stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	s := &spoa.Server{Handler: newHandler(t), Logger: slog.New(slog.DiscardHandler)}
	var done sync.WaitGroup
	done.Go(func() {
		if err := s.Serve(l); !errors.Is(err, spoa.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		done.Wait()
	})
	t.Cleanup(stop)
	return stop
}

func read(t *testing.T, port int) string {
	t.Helper()
	c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	name, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(name)
}

func get(t *testing.T, port int, shed string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), "GET", fmt.Sprintf("http://127.0.0.1:%d/", port), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("x-shed", shed)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// TestRealHAProxy routes TCP connections by a pick and decides on HTTP
// requests by a server's variables; without an agent the traffic goes on.
func TestRealHAProxy(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		ports, err := haproxyproc.FreePorts(3)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "weighter.spoe")
		if err := os.WriteFile(file, []byte(engine), 0o644); err != nil {
			t.Fatal(err)
		}
		config := fmt.Sprintf(proxies, ports[0], file, namer(t, "s1"), namer(t, "s2"), ports[1], file, ports[2])
		stop := startAgent(t, ports[2])
		p, err := haproxyproc.Start(t.Context(), haproxyproc.Options{Binary: b.Path, Config: config})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Stop)
		for range 20 { // roundrobin alone would take turns
			if name := read(t, ports[0]); name != "s2" {
				t.Errorf("a connection went to %s", name)
			}
		}
		const want = "199 300 995 1498 1 0  1498 s1 tcp 127.0.0.1/-5/true/nil/unnamed/s2 400 1"
		if status, body := get(t, ports[1], "no"); status != 200 || body != want {
			t.Errorf("status %d: %q, want %q; log:\n%s", status, body, want, p.Log())
		}
		if status, _ := get(t, ports[1], "yes"); status != 429 {
			t.Errorf("an overloaded server: status %d, want 429", status)
		}

		stop()
		names := map[string]int{}
		for range 20 {
			names[read(t, ports[0])]++
		}
		if names["s1"] == 0 || names["s2"] == 0 || len(names) != 2 {
			t.Errorf("without an agent connections went to %v, want both servers", names)
		}
		if status, body := get(t, ports[1], "yes"); status != 200 || body != "            " {
			t.Errorf("without an agent: status %d, %q", status, body)
		}
		startAgent(t, ports[2])
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			if _, body := get(t, ports[1], "no"); body == want {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("HAProxy does not find the agent again")
			}
		}
	})
}
