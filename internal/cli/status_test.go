package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

func ptr[T any](v T) *T { return &v }

// goodTable is one of backend in: two servers, the busier one with less weight.
func goodTable(socket string) api.Table {
	row := func(name string, load float64, share float64, weight int) api.Server {
		return api.Server{InRotation: true, Measured: true, Row: balancer.Row{
			Server: name, Load: &load, AgeSeconds: ptr(10.0), Capacity: 1, Share: share, Weight: weight, AppliedWeight: weight,
			InitialWeight: 100, AdminState: "ready", OpState: "running", Sessions: 12, Reasons: []weighting.Reason{},
		}}
	}
	return api.Table{
		Backend: "in", Socket: socket, Time: noon.Add(-20 * time.Second), Algorithm: "roundrobin", Mode: "live",
		Verdict: weighting.Write, Why: "2 of 2 weights change", Changes: 2, Function: weighting.WaterFill, Fresh: 2, InService: 2,
		Mean: 200, Imbalance: 1.5, AgeSeconds: ptr(10.0), LifetimeSeconds: 3600, LifetimeFrom: "sessions", DelaySeconds: 30, Gain: 60,
		MaxAgeSeconds: 90, Better: weighting.Lower, LastChange: ptr(noon.Add(-20 * time.Second)),
		Servers: []api.Server{row("s1", 100, 0.75, 256), row("s2", 300, 0.25, 85)},
	}
}

func goodStatus() *api.Status {
	return &api.Status{
		Version: "1.2.3", PID: 4711, Started: noon.Add(-76 * time.Hour), Ready: true,
		Config: api.Config{File: "/etc/haproxy-weighter/weighter.toml", Loaded: noon.Add(-time.Hour), RestartKeys: []string{}},
		SPOA:   []string{"127.0.0.1:9002"}, Faults: []balancer.Fault{},
		Backends: []api.BackendStatus{{Backend: "in", Mode: "live", IntervalSeconds: 30, Tables: []api.Table{goodTable("unix:/run/a.sock")}}},
	}
}

// badStatus has everything that can be wrong at once, on two HAProxys.
func badStatus() *api.Status {
	s := goodStatus()
	s.Ready = false
	s.Config.ReloadFailed, s.Config.ReloadError = ptr(noon.Add(-12*time.Minute)), "weighter.toml:3: nonsense: is not known"
	s.Config.RestartKeys = []string{"spoa.listen", "admin.listen"}
	s.Faults = []balancer.Fault{
		{Backend: "in", Socket: "unix:/run/b.sock", What: "weights are held", Cause: "only 1 of 2 have data", Meanwhile: "weights stay as they are",
			Do: "see the cause", Since: noon.Add(-5 * time.Minute)},
		{Backend: "in", Key: balancer.FaultFrozen, What: "weights are frozen by an operator", Cause: "frozen by bob", Since: noon},
	}
	held := goodTable("unix:/run/b.sock")
	held.Verdict, held.HoldCode, held.Why, held.Changes, held.Fresh = weighting.Hold, weighting.HoldQuorum, "only 1 of 2 have data", 0, 1
	held.Time = noon.Add(-10 * time.Minute)
	held.Servers[1].Load, held.Servers[1].AgeSeconds = nil, nil
	frozen := goodTable("unix:/run/a.sock")
	frozen.Verdict, frozen.HoldCode, frozen.Why = weighting.Hold, balancer.HoldFrozen, "frozen by bob"
	order := balancer.Order{Reason: "moving racks", Author: "bob", Since: noon.Add(-time.Hour), Until: noon.Add(90 * time.Minute)}
	control := balancer.Control{
		Pins:   map[string]balancer.Pin{"s2": {Order: order, Weight: 7}},
		Freeze: &balancer.Freeze{Order: order},
		Mode:   &balancer.ModeOrder{Order: balancer.Order{Reason: "x\x1b[31m", Author: "eve", Since: noon}, Mode: "observe"},
	}
	frozen.Servers[1].Pin, frozen.Freeze = ptr(control.Pins["s2"]), control.Freeze
	frozen.Servers[1].Weight, frozen.Servers[1].AppliedWeight = 9, 85
	s.Backends[0].Mode, s.Backends[0].Control, s.Backends[0].Tables = "observe", control, []api.Table{frozen, held}
	s.Backends = append(s.Backends, api.BackendStatus{Backend: "out", Mode: "live", IntervalSeconds: 30, Tables: []api.Table{}})
	return s
}

// TestStatusOfHAProxyGone: why nothing can be set is told once.
func TestStatusOfHAProxyGone(t *testing.T) {
	const cause = "no full answer in time"
	s := goodStatus()
	s.Faults = []balancer.Fault{{
		Key: balancer.FaultSocket, Socket: "unix:/run/a.sock", What: "HAProxy's socket does not answer", Cause: cause,
		Meanwhile: "no weight can be set there", Do: "see HAProxy's health", Since: noon.Add(-time.Minute),
	}}
	for _, name := range []string{"in", "out"} {
		held := goodTable("unix:/run/a.sock")
		held.Backend, held.Verdict, held.HoldCode, held.Why, held.Changes = name, weighting.Hold, balancer.HoldUnread, "HAProxy could not be read: "+cause, 0
		if s.Backends[0].Tables = []api.Table{held}; name == "in" {
			s.Backends = append(s.Backends, s.Backends[0])
		}
		s.Faults = append(s.Faults, balancer.Fault{Key: balancer.FaultUnread, Backend: name, Socket: "unix:/run/a.sock", What: "HAProxy can't be read", Cause: cause, Since: noon})
	}
	_, out, _ := command(t, "status", "--control", fakeDaemon(t, answers{"GET /api/v1/status": s}))
	if strings.Count(out, cause) != 1 || !strings.Contains(out, "something is wrong: 1 fault; weights held on ") {
		t.Errorf("status:\n%s", out)
	}
}

// TestStatusOfEarlierLoads: what stays for those who ask is not called fresh.
func TestStatusOfEarlierLoads(t *testing.T) {
	s := goodStatus()
	table := &s.Backends[0].Tables[0]
	table.Fresh, table.Earlier, table.Servers[1].Earlier = 1, 1, true
	_, out, _ := command(t, "status", "--control", fakeDaemon(t, answers{"GET /api/v1/status": s}))
	for _, want := range []string{" 1/2, 1 earlier ", "\nin without usable load: s2\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

// TestStatusOfOrders has those that the last pass did not know, and those of
// backends that are not in the configuration.
func TestStatusOfOrders(t *testing.T) {
	s := goodStatus()
	s.Backends[0].Control.Freeze = &balancer.Freeze{Order: orderBy("bob", "r", time.Hour)}
	s.Backends[0].Tables[0].OrdersPending = true
	s.Unconfigured = []api.Unconfigured{{Backend: "gone", Control: balancer.Control{Pins: map[string]balancer.Pin{"s1": {Order: orderBy("eve", "x", 0), Weight: 5}}}}}
	socket := fakeDaemon(t, answers{"GET /api/v1/status": s})
	code, out, _ := command(t, "status", "--check", "--control", socket)
	want := strings.ReplaceAll(`
in: the orders have changed since the last pass; the next one is under way and takes them up
in is frozen until 2026-07-01 13:00:00 UTC (1h left), by bob: r
  undo: haproxy-weighter unfreeze in --control SOCKET

gone is not in the configuration: its orders have no effect, and count again if it comes back
gone/s1 is pinned at 5 until it is taken back, by eve: x
  undo: haproxy-weighter unpin gone/s1 --control SOCKET
`, "SOCKET", socket)
	if code != exitGood || !strings.HasSuffix(out, want) {
		t.Errorf("exit code %d; status:\n%s\nwant at the end:%s", code, out, want)
	}
	if _, out, _ = command(t, "status", "in", "--control", socket); strings.Contains(out, "gone") {
		t.Errorf("status of another backend:\n%s", out)
	}
	thawed := goodStatus()
	last := &thawed.Backends[0].Tables[0]
	last.Verdict, last.HoldCode, last.Why, last.OrdersPending = weighting.Hold, balancer.HoldFrozen, "frozen by bob", true
	_, out, _ = command(t, "status", "in", "--control", fakeDaemon(t, answers{"GET /api/v1/status": thawed}))
	if !strings.Contains(out, "was frozen") || strings.Contains(out, "bob") {
		t.Errorf("after a freeze, before the next pass:\n%s", out)
	}
	code, _, stderr := command(t, "status", "gone", "--control", socket)
	if code != exitFailed || !strings.Contains(stderr, `no backend "gone"`) || !strings.Contains(stderr, "status without BACKEND shows them") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	if _, out, _ = command(t, "__complete", "unpin", "--control", socket, ""); !strings.Contains(out, "gone/s1\n") {
		t.Errorf("names for unpin:\n%s", out)
	}
}

func TestStatus(t *testing.T) {
	good := fakeDaemon(t, answers{"GET /api/v1/status": goodStatus()})
	bad := fakeDaemon(t, answers{"GET /api/v1/status": badStatus()})
	for _, c := range []struct {
		name   string
		socket string
		args   []string
		code   int
		want   string
	}{
		{"good", good, nil, exitGood, `
all is well: 1 backend, 2 servers; highest load 1.50 times the mean (in)
haproxy-weighter 1.2.3, process 4711, up 3d4h (since 2026-06-28 08:00:00 UTC)
configuration /etc/haproxy-weighter/weighter.toml, loaded 1h ago (2026-07-01 11:00:00 UTC)
SPOE agent on 127.0.0.1:9002

backend  mode  last pass  verdict        max/mean  fresh  data age  function    gain  last change  orders
in       live  20s ago    set 2 weights      1.50    2/2       30s  water-fill    60  20s ago      -
`},
		{"one backend", good, []string{"in", "--check"}, exitGood, `
all is well: 1 backend, 2 servers; highest load 1.50 times the mean (in)
haproxy-weighter 1.2.3, process 4711, up 3d4h (since 2026-06-28 08:00:00 UTC)
configuration /etc/haproxy-weighter/weighter.toml, loaded 1h ago (2026-07-01 11:00:00 UTC)
SPOE agent on 127.0.0.1:9002

backend  mode  last pass  verdict        max/mean  fresh  data age  function    gain  last change  orders
in       live  20s ago    set 2 weights      1.50    2/2       30s  water-fill    60  20s ago      -

backend in on unix:/run/a.sock: balance roundrobin
server  load  data age  load/mean  share  weight  initial  admin  state    sessions  pin
s1       100       30s       0.50  75.0%     256      100  ready  running        12  -
s2       300       30s       1.50  25.0%      85      100  ready  running        12  -
last pass: 2 of 2 weights change
mean connection lifetime 1h0m0s (from the ages of open sessions), delay 30s, gain 60
how a weight came about: haproxy-weighter explain in/s1 --control SOCKET
`},
		{"bad", bad, []string{"--check"}, exitFailed, `
something is wrong: 1 fault; reload failed; no table of out; weights held on in; not ready
haproxy-weighter 1.2.3, process 4711, up 3d4h (since 2026-06-28 08:00:00 UTC), not ready: not every backend has had a good pass yet
configuration /etc/haproxy-weighter/weighter.toml, loaded 1h ago (2026-07-01 11:00:00 UTC)
changed in the file, and in force only after a restart: spoa.listen, admin.listen
SPOE agent on 127.0.0.1:9002

the configuration could not be reloaded (for 12m)
  cause      weighter.toml:3: nonsense: is not known
  meanwhile  the one that was loaded 2026-07-01 11:00:00 UTC stays in force
  do         haproxy-weighter check -f /etc/haproxy-weighter/weighter.toml tells all mistakes; correct them and reload again

weights are held (backend in, socket unix:/run/b.sock, for 5m)
  cause      only 1 of 2 have data
  meanwhile  weights stay as they are
  do         see the cause

backend  socket            mode     last pass  verdict            max/mean  fresh  data age  function    gain  last change  orders
in       unix:/run/a.sock  observe  20s ago    frozen                 1.50    2/2       30s  water-fill    60  20s ago      frozen, mode observe, 1 pin
in       unix:/run/b.sock  observe  10m ago    held: quorum           1.50    1/2    10m10s  water-fill    60  20s ago      frozen, mode observe, 1 pin
out      -                 live     -          no HAProxy has it         -      -         -  -              -  -            -

in is frozen until 2026-07-01 13:30:00 UTC (1h30m left), by bob: moving racks
  undo: haproxy-weighter unfreeze in --control SOCKET
in has mode observe until it is taken back, by eve: x\x1b[31m
  undo: haproxy-weighter mode in file --control SOCKET
in/s2 is pinned at 7 until 2026-07-01 13:30:00 UTC (1h30m left), by bob: moving racks
  undo: haproxy-weighter unpin in/s2 --control SOCKET
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, stderr := command(t, append(append([]string{"status"}, c.args...), "--control", c.socket)...)
			if code != c.code || stderr != "" {
				t.Errorf("exit code %d, stderr %q", code, stderr)
			}
			want := strings.ReplaceAll(c.want[1:], "SOCKET", c.socket)
			if d := cmp.Diff(want, out); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
	if code, _, stderr := command(t, "status", "--control", bad); code != exitGood {
		t.Errorf("without --check: exit code %d, %s", code, stderr)
	}
}

// TestStatusServers has the columns that a healthy server leaves alone.
func TestStatusServers(t *testing.T) {
	socket := fakeDaemon(t, answers{"GET /api/v1/status": badStatus()})
	_, out, _ := command(t, "status", "in", "--control", socket)
	for _, want := range []string{
		"\ns2       300       30s       1.50  25.0%  85, wanted 9      100  ready  running        12  7 (bob)\n",
		"\ns2         -         -          -  25.0%      85      100  ready  running        12  -\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no line %q in:\n%s", want, out)
		}
	}
	if strings.Contains(out, "no HAProxy has it") || strings.Contains(out, "no table of out") {
		t.Errorf("backend out was not asked for:\n%s", out)
	}
}

func TestVerdictCell(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*api.Table)
		want   cell
	}{
		{"written", func(*api.Table) {}, cell{"set 2 weights", green}},
		{"kept", func(t *api.Table) { t.Verdict = weighting.Keep }, cell{"weights are good", green}},
		{"pinned as it is", func(t *api.Table) { t.Changes = 0 }, cell{"weights are good", green}},
		{"not taken", func(t *api.Table) { t.Changes, t.Servers[0].Weight = 0, 1 }, cell{"not set: 1 weight", red}},
		{"observed", func(t *api.Table) { t.Changes, t.Mode = 0, "observe" }, cell{text: "would set weights"}},
		{"held", func(t *api.Table) { t.Verdict = weighting.Hold }, cell{"held", red}},
	} {
		table := goodTable("x")
		c.change(&table)
		if got := verdictCell(&table); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestStatusHead has the lines above the table, each fault alone.
func TestAlarms(t *testing.T) {
	for want, change := range map[string]func(*api.Status){
		"":                   func(*api.Status) {},
		"1 fault":            func(s *api.Status) { s.Faults = []balancer.Fault{{What: "x"}} },
		"reload failed":      func(s *api.Status) { s.Config.ReloadFailed = &noon },
		"not ready":          func(s *api.Status) { s.Ready = false },
		"no table of in":     func(s *api.Status) { s.Backends[0].Tables = nil },
		"weights held on in": func(s *api.Status) { s.Backends[0].Tables[0].Verdict = weighting.Hold },
		"1 fault; reload failed": func(s *api.Status) {
			s.Faults, s.Config.ReloadFailed = []balancer.Fault{{What: "x"}}, &noon
		},
	} {
		s := goodStatus()
		change(s)
		if got := strings.Join(alarms(s), "; "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	starting := goodStatus()
	starting.Ready = false
	starting.Backends[0].Tables[0].Verdict, starting.Backends[0].Tables[0].HoldCode = weighting.Hold, balancer.HoldStarting
	if got := strings.Join(alarms(starting), "; "); got != alarmNotReady {
		t.Errorf("just started: %q", got)
	}
	frozen := goodStatus()
	frozen.Faults = []balancer.Fault{{Key: balancer.FaultFrozen}}
	frozen.Backends[0].Tables[0].Verdict, frozen.Backends[0].Tables[0].HoldCode = weighting.Hold, balancer.HoldFrozen
	if got := alarms(frozen); got != nil {
		t.Errorf("a freeze is an order, not %q", got)
	}
}
