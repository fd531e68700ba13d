package luahaproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/internal/query"
	"github.com/haproxy-weighter/haproxy-weighter/spoa"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

const sameSPOE = `[weighter]
spoe-agent weighter-agent
  messages weighter-backend weighter-server
  option var-prefix weighter
  option set-on-error error
  timeout hello 50s
  timeout idle 50s
  timeout processing 50s
  use-backend weighter-agent

spoe-message weighter-backend
  args backend=req.hdr(x-backend) as=str(b)
  event on-frontend-http-request

spoe-message weighter-server
  args backend=req.hdr(x-backend) server=req.hdr(x-server) as=str(s)
  event on-frontend-http-request

`

// sameConfig tells what each of the three says. Lua is asked in all its ways: by a
// converter with BACKEND/SERVER, one with the backend as its argument, and, below, by fetches.
const sameConfig = `
frontend in
  bind 127.0.0.1:%[1]d thread 1
  bind 127.0.0.1:%[7]d thread 2
  filter spoe engine weighter config %[2]s
  http-request set-var(req.server) req.hdr(x-server)
  http-request set-var(txn.id) req.hdr(x-backend),concat(/,req.server)
  http-request return status 200 content-type text/plain lf-string "spoe error=%%[var(txn.weighter.error)] fresh=%%[var(txn.weighter.b_fresh)] load=%%[var(txn.weighter.b_load_mean)] relative=%%[var(txn.weighter.b_imbalance)] best=%%[var(txn.weighter.b_best)]; fresh=%%[var(txn.weighter.s_fresh)] weight=%%[var(txn.weighter.s_weight)] load=%%[var(txn.weighter.s_load)] relative=%%[var(txn.weighter.s_relative)]\nlua error= fresh=%%[req.hdr(x-backend),lua.weighter_fresh] load=%%[req.hdr(x-backend),lua.weighter_load] relative=%%[req.hdr(x-backend),lua.weighter_relative] best=%%[req.hdr(x-backend),lua.weighter_best]; fresh=%%[var(txn.id),lua.weighter_fresh] weight=%%[var(txn.id),lua.weighter_weight] load=%%[var(txn.id),lua.weighter_load] relative=%%[var(txn.id),lua.weighter_relative]\nmap load=%%[var(txn.id),map_str_int(%[3]s)] weight=%%[var(txn.id),map_str_int(%[4]s)]\nlua load=%%[var(txn.id),lua.weighter_load] weight=%%[var(txn.id),lua.weighter_weight]\n" if { path / }
%[5]s
backend weighter-agent
  mode tcp
  option spop-check
  timeout connect 50s
  timeout server 60s
  server weighter 127.0.0.1:%[6]d check inter 50s pool-low-conn 64
`

// samples are tables with one peculiarity each.
func samples() []*balancer.Table {
	drain := func(r *balancer.Row) { r.AdminState = "drain" }
	unknown := func(r *balancer.Row) { r.Load, r.AgeSeconds = nil, nil }
	old := func(r *balancer.Row) { age := 2 * time.Hour.Seconds(); r.AgeSeconds = &age }
	capacity := func(c float64) func(*balancer.Row) { return func(r *balancer.Row) { r.Capacity = c } }
	weight := func(w int) func(*balancer.Row) { return func(r *balancer.Row) { r.AppliedWeight = w } }

	higher := table("higher", row("s1", 10), row("s2", 30), but(row("s3", 80), capacity(2)), but(row("s4", 200), drain))
	higher.Better = weighting.Higher
	strict := table("strict-quorum", row("s1", 1), row("s2", 2), but(row("s3", 3), old))
	strict.Quorum = 1
	lax := table("no-quorum", row("s1", 1), but(row("s2", 2), unknown), but(row("s3", 3), unknown), but(row("s4", 4), unknown))
	lax.Quorum = 0
	unread := table("two-sockets", row("s1", 1), row("s2", 2))
	unread.HoldCode = "haproxy"
	elsewhere := table("drained-elsewhere", but(row("s1", 1), drain), row("s2", 2), but(row("s9", 1), drain))
	gone := table("drained-where-nobody-answers", but(row("s1", 1), drain))
	gone.HoldCode = "haproxy"
	silent := table("all-unread", row("s1", 7), row("s2", 9))
	silent.HoldCode = "haproxy"
	return []*balancer.Table{
		table("plain", but(row("s1", 100.4), capacity(1.5)), but(row("s2", 299.6), weight(7)), row("s3", 500.5)),
		table("halves", row("s1", 0.5), row("s2", 1.5), row("s3", 2.5), row("s4", 0.49999999999999994), row("s5", 4503599627370497.5)),
		table("huge", row("s1", 9e18), row("s2", 9.3e18), row("s3", 1e300), row("s4", 5e-324)),
		table("zeros", row("s1", 0), row("s2", 0)),
		table("drained", but(row("s1", 1), drain), row("s2", 20), row("s3", 30)),
		table("weight-0", but(row("s1", 1), weight(0)), row("s2", 20)),
		table("backup", but(row("s1", 1), func(r *balancer.Row) { r.Backup = true }), row("s2", 20)),
		table("down", but(row("s1", 1), func(r *balancer.Row) { r.OpState = "stopped" }), but(row("s2", 20), func(r *balancer.Row) { r.OpState = "starting" })),
		table("missing", but(row("s1", 1), unknown), row("s2", 20), row("s3", 40)),
		table("stuck", but(row("s1", 0), func(r *balancer.Row) { r.Reasons = []weighting.Reason{{Step: weighting.StepStuck}} }), row("s2", 20), row("s3", 40)),
		table("no-data", but(row("s1", 1), unknown), but(row("s2", 1), unknown)),
		table("stale", but(row("s1", 1), old), but(row("s2", 2), old)),
		table("half-stale", but(row("s1", 1), old), row("s2", 2)),
		table("mostly-stale", but(row("s1", 1), old), but(row("s2", 2), old), row("s3", 3)),
		table("no-capacity", but(row("s1", 10), capacity(0)), but(row("s2", 30), capacity(-2))),
		table("nobody", but(row("s1", 1), drain), but(row("s2", 2), weight(0))),
		table("ties", row("s1", 5), row("s2", 5), row("s3", 6), row("s4", 6)),
		higher, strict, lax,
		unread, table("two-sockets", row("s1", 30), row("s2", 20)),
		table("drained-elsewhere", row("s1", 1), row("s2", 2), row("s3", 3)), table("drained-elsewhere", row("s1", 1)), elsewhere,
		table("drained-everywhere-else", row("s1", 1)), table("drained-everywhere-else", but(row("s1", 1), drain)),
		table("drained-where-nobody-answers", row("s1", 1), row("s2", 2)), gone,
		silent, table("empty"), table("empty-first"), table("empty-first", row("s1", 3)),
	}
}

// random are tables that nobody has thought of.
func random(seed uint64, n int) (all []*balancer.Table) {
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range n {
		t := table(fmt.Sprintf("random-%d", i))
		t.Quorum = float64(r.IntN(11)) / 10
		if r.IntN(3) == 0 {
			t.Better = weighting.Higher
		}
		for s := range 1 + r.IntN(7) {
			row := row(fmt.Sprintf("s%d", s+1), math.Exp(20*r.Float64()-5))
			row.Capacity, row.AppliedWeight = float64(1+r.IntN(40))/10, r.IntN(257)
			age := r.Float64() * 1.3 * time.Hour.Seconds()
			if row.AgeSeconds = &age; r.IntN(6) == 0 {
				row.Load, row.AgeSeconds = nil, nil
			}
			row.AdminState = []string{"ready", "ready", "ready", "drain", "maint"}[r.IntN(5)]
			t.Rows = append(t.Rows, row)
		}
		all = append(all, t)
	}
	return all
}

// startAgent lets the program's own handler answer from tables.
func startAgent(t *testing.T, port int, tables []*balancer.Table) {
	t.Helper()
	o := query.Options{Logger: slog.New(slog.DiscardHandler)}
	byBackend := map[string][]*balancer.Table{}
	for _, x := range tables {
		byBackend[x.Backend] = append(byBackend[x.Backend], x)
	}
	for backend, tables := range byBackend {
		o.Sources = append(o.Sources, query.Source{
			Backend: backend, MaxAge: tables[0].MaxAge, Quorum: tables[0].Quorum,
			HigherIsBetter: tables[0].Better == weighting.Higher,
			Tables:         func() []*balancer.Table { return tables },
		})
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	s, served := &spoa.Server{Handler: query.New(o), Logger: o.Logger}, make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("the agent does not end: %v", err)
		}
		if err := <-served; !errors.Is(err, spoa.ErrServerClosed) {
			t.Errorf("the agent ended: %v", err)
		}
	})
}

// fill puts into HAProxy's maps what the balancer would: the loads that count, rounded,
// and the weights in force.
func fill(t *testing.T, p *haproxyproc.Process, loads, weights string, tables []*balancer.Table) {
	t.Helper()
	address, err := haproxy.ParseAddress(p.SocketPath)
	if err != nil {
		t.Fatal(err)
	}
	edits := map[string][]haproxy.MapEdit{}
	done := map[string]bool{}
	for _, x := range tables {
		if x.Unread() || done[x.Backend] {
			continue // as HAProxy could not be told either
		}
		for i := range x.Rows {
			done[x.Backend] = true
			r := &x.Rows[i]
			key := x.Backend + "/" + r.Server
			edits[weights] = append(edits[weights], haproxy.MapEdit{Op: haproxy.MapAdd, Key: key, Value: int64(r.AppliedWeight)})
			if r.Measured() && *r.AgeSeconds <= x.MaxAge.Seconds() {
				load := int64(math.MaxInt64)
				if *r.Load < math.MaxInt64 {
					load = int64(math.Round(*r.Load))
				}
				edits[loads] = append(edits[loads], haproxy.MapEdit{Op: haproxy.MapAdd, Key: key, Value: load})
			}
		}
	}
	client := haproxy.NewClient(address, haproxy.Options{Timeout: patience})
	for path, e := range edits {
		if out, err := client.EditMap(t.Context(), path, e, 0); err != nil || out.Failed != nil {
			t.Fatalf("%s: %v, %v", path, err, out)
		}
	}
}

// client makes requests to one port, on connections that end with the test.
func client(t *testing.T, port int) func(path string, header map[string]string) string {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := &http.Client{Transport: transport, Timeout: patience}
	return func(path string, header map[string]string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range header {
			r.Header.Set(name, value)
		}
		answer, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
}

// fetchRules tell of each id by fetches, whose arguments stand in haproxy.cfg.
func fetchRules(ids []string) string {
	var rules strings.Builder
	for _, id := range ids {
		backend, server, _ := strings.Cut(id, "/")
		fmt.Fprintf(&rules, "  http-request return status 200 content-type text/plain lf-string \"lua error= fresh=%%[lua.weighter_fresh(%[1]s)] load=%%[lua.weighter_load(%[1]s)] relative=%%[lua.weighter_relative(%[1]s)] best=%%[lua.weighter_best(%[1]s)]; fresh=%%[lua.weighter_fresh(%[1]s,%[2]s)] weight=%%[lua.weighter_weight(%[1]s,%[2]s)] load=%%[lua.weighter_load(%[1]s,%[2]s)] relative=%%[str(%[2]s),lua.weighter_relative(%[1]s)]\" if { path /%[1]s/%[2]s }\n", backend, server)
	}
	return rules.String()
}

// TestSameAnswers holds that Lua answers as SPOE does, and as the maps do, from
// the same tables.
func TestSameAnswers(t *testing.T) {
	onEach(t, func(t *testing.T, b haproxyproc.Binary, mode string) {
		tables := append(samples(), random(1, 12)...)
		var ids []string
		unread := map[string]bool{}
		for _, x := range tables {
			unread[x.Backend] = x.Unread()
			for _, r := range x.Rows {
				ids = append(ids, x.Backend+"/"+r.Server)
			}
			ids = append(ids, x.Backend+"/nosuch")
		}
		ids = append(ids, "nosuch/s1")
		slices.Sort(ids)
		ids = slices.Compact(ids)

		dir := t.TempDir()
		spoe, loads, weights := filepath.Join(dir, "w.spoe"), filepath.Join(dir, "load.map"), filepath.Join(dir, "weight.map")
		for path, text := range map[string]string{spoe: sameSPOE, loads: "# empty\n", weights: "# empty\n"} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		ports := freePorts(t, 3)
		startAgent(t, ports[1], tables)
		l := listen(t, tables...)
		config := global(t, mode, l.address) + defaults + fmt.Sprintf(sameConfig, ports[0], spoe, loads, weights, fetchRules(ids), ports[1], ports[2])
		p := start(t, haproxyproc.Options{Binary: b.Path, Config: config})
		fill(t, p, loads, weights, tables)
		threads := []func(string, map[string]string) string{client(t, ports[0]), client(t, ports[2])}
		for _, get := range threads {
			until(t, p, func() (bool, string) {
				text := get("/plain/s1", nil)
				return strings.Contains(text, "fresh=1"), text
			})
		}
		for i, id := range ids {
			get := threads[i%len(threads)]
			backend, server, _ := strings.Cut(id, "/")
			lines := strings.Split(get("/", map[string]string{"x-backend": backend, "x-server": server}), "\n")
			if len(lines) < 4 || !strings.Contains(lines[0], "error= fresh=") {
				t.Fatalf("%s: %q; log:\n%s", id, lines, p.Log())
			}
			spoe := strings.TrimPrefix(lines[0], "spoe ")
			if diff := cmp.Diff(spoe, strings.TrimPrefix(lines[1], "lua ")); diff != "" {
				t.Errorf("%s: converters (-SPOE +Lua):\n%s", id, diff)
			}
			if diff := cmp.Diff(spoe, strings.TrimPrefix(get("/"+id, nil), "lua ")); diff != "" {
				t.Errorf("%s: fetches (-SPOE +Lua):\n%s", id, diff)
			}
			if !unread[backend] {
				if diff := cmp.Diff(strings.TrimPrefix(lines[2], "map "), strings.TrimPrefix(lines[3], "lua ")); diff != "" {
					t.Errorf("%s: (-map +Lua):\n%s", id, diff)
				}
			}
		}
	})
}
