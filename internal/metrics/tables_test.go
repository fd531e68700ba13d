package metrics

import (
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

func TestServers(t *testing.T) {
	s := newScene()
	pinned, silent := row("s2", 30, 80), row("s3", 0, 90)
	pinned.Pin = &balancer.Pin{Weight: 80}
	silent.Load, silent.AgeSeconds, silent.AdminState = nil, nil, "drain"
	s.view.tables = []*balancer.Table{table(row("s1", 10, 120), pinned, silent)}
	s.now = start.Add(10 * time.Second)
	const in = `proxy="ingest",server="`
	const on = `",socket="` + socket + `"} `
	s.want(t, "server_load{"+in+"s1"+on+"10\nserver_load{"+in+"s2"+on+"30\n", "server_load")
	s.want(t, "server_load_age_seconds{"+in+"s1"+on+"22.5\nserver_load_age_seconds{"+in+"s2"+on+"22.5\n", "server_load_age_seconds")
	s.want(t, "server_weight{"+in+"s1"+on+"120\nserver_weight{"+in+"s2"+on+"80\nserver_weight{"+in+"s3"+on+"90\n", "server_weight")
	s.want(t, "server_computed_weight{"+in+"s1"+on+"121\nserver_computed_weight{"+in+"s2"+on+"81\nserver_computed_weight{"+in+"s3"+on+"91\n", "server_computed_weight")
	s.want(t, "server_pinned{"+in+"s1"+on+"0\nserver_pinned{"+in+"s2"+on+"1\nserver_pinned{"+in+"s3"+on+"0\n", "server_pinned")
	s.want(t, "server_in_rotation{"+in+"s1"+on+"1\nserver_in_rotation{"+in+"s2"+on+"1\nserver_in_rotation{"+in+"s3"+on+"0\n", "server_in_rotation")

	s.view.tables = []*balancer.Table{table(row("s2", 30, 80))}
	s.want(t, "server_initial_weight{"+in+"s2"+on+"100\n", "server_initial_weight")
}

// ofIngest is a line of a metric of the backend.
func ofIngest(name, value string) string {
	return name + `{proxy="ingest",socket="` + socket + `"} ` + value + "\n"
}

func TestStale(t *testing.T) {
	for _, c := range []struct {
		name   string
		rows   []balancer.Row
		later  time.Duration
		stale  string
		fresh  string
		age    string // empty: none
		change func(*balancer.Table)
	}{
		{name: "fresh", rows: []balancer.Row{row("s1", 1, 10)}, later: 0, stale: "0", fresh: "1", age: "12.5"},
		{name: "until the next pass has had its turn", rows: []balancer.Row{row("s1", 1, 10)}, later: 107 * time.Second, stale: "0", fresh: "1", age: "119.5"},
		{name: "passes have stopped", rows: []balancer.Row{row("s1", 1, 10)}, later: 108 * time.Second, stale: "1", fresh: "1", age: "120.5"},
		{name: "no data", rows: []balancer.Row{without(row("s1", 1, 10))}, stale: "1", fresh: "0"},
		{name: "data of a server in drain only", rows: []balancer.Row{drained(row("s1", 1, 10)), without(row("s2", 1, 10))}, stale: "1", fresh: "0"},
		{name: "no servers in rotation", rows: []balancer.Row{drained(row("s1", 1, 10))}, stale: "0", fresh: "0", change: func(t *balancer.Table) { t.InService = 0 }},
		{
			name: "HAProxy is away, and then the data too: the table still has the count of the last pass",
			rows: []balancer.Row{without(row("s1", 1, 10))}, stale: "1", fresh: "0",
			change: func(t *balancer.Table) { t.Fresh, t.Verdict, t.HoldCode = 1, weighting.Hold, holdUnread },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene()
			made := table(c.rows...)
			if c.change != nil {
				c.change(made)
			}
			s.view.tables, s.now = []*balancer.Table{made}, start.Add(c.later)
			s.want(t, ofIngest("backend_stale", c.stale), "backend_stale")
			s.want(t, ofIngest("backend_servers_fresh", c.fresh), "backend_servers_fresh")
			if c.age == "" {
				s.wantNone(t, "backend_data_age_seconds", "backend_imbalance_ratio", "backend_load_mean")
			} else {
				s.want(t, ofIngest("backend_data_age_seconds", c.age), "backend_data_age_seconds")
				s.want(t, ofIngest("backend_imbalance_ratio", "1.5"), "backend_imbalance_ratio")
			}
		})
	}
}

// TestEarlier: a load of an earlier pass is a load with an age, and not one that
// counted in the last pass.
func TestEarlier(t *testing.T) {
	s := newScene()
	earlier := row("s1", 10, 120)
	earlier.Earlier = true
	made := table(earlier, without(row("s2", 0, 120)))
	made.Verdict, made.HoldCode, made.Fresh = weighting.Hold, weighting.HoldStale, 0
	s.view.tables = []*balancer.Table{made}
	s.want(t, `server_load{proxy="ingest",server="s1",socket="`+socket+"\"} 10\n", "server_load")
	s.want(t, ofIngest("backend_servers_fresh", "0"), "backend_servers_fresh")
	s.want(t, ofIngest("backend_data_age_seconds", "12.5"), "backend_data_age_seconds")
	s.want(t, ofIngest("backend_stale", "0"), "backend_stale")
	s.wantNone(t, "backend_load_mean", "backend_imbalance_ratio")
	s.now = start.Add(108 * time.Second)
	s.want(t, ofIngest("backend_stale", "1"), "backend_stale")
}

func without(r balancer.Row) balancer.Row {
	r.Load, r.AgeSeconds = nil, nil
	return r
}

func drained(r balancer.Row) balancer.Row {
	r.AdminState = "drain"
	return r
}

// TestUnread: what HAProxy has is not known while it can't be read.
func TestUnread(t *testing.T) {
	s := newScene()
	unread := table(row("s1", 10, 120))
	unread.Verdict, unread.HoldCode = weighting.Hold, holdUnread
	if !unread.Unread() {
		t.Fatalf("%q is not the code of a table without HAProxy any more", holdUnread)
	}
	s.view.tables = []*balancer.Table{unread}
	s.wantNone(t, "server_weight", "server_computed_weight", "server_initial_weight", "server_share_ratio", "server_in_rotation", "backend_imbalance_ratio")
	s.want(t, `server_load{proxy="ingest",server="s1",socket="`+socket+"\"} 10\n", "server_load")
}

func TestHold(t *testing.T) {
	for code, want := range map[string]string{
		"": "", weighting.HoldQuorum: weighting.HoldQuorum, weighting.HoldScript: weighting.HoldScript, balancer.HoldFrozen: balancer.HoldFrozen, holdStarting: holdStarting,
		"a code of tomorrow": resultOther,
	} {
		s := newScene()
		made := table(row("s1", 10, 120))
		if code != "" {
			made.Verdict, made.HoldCode = weighting.Hold, code
		}
		s.view.tables = []*balancer.Table{made}
		wanted := ""
		for _, each := range holdCodes {
			value := "0"
			if each == want {
				value = "1"
			}
			wanted += `backend_hold{code="` + each + `",proxy="ingest",socket="` + socket + `"} ` + value + "\n"
		}
		s.want(t, wanted, "backend_hold")
	}
}

func TestStarting(t *testing.T) {
	s := newScene()
	first := table(without(row("s1", 0, 100)))
	first.Verdict, first.HoldCode, first.Fresh, first.LastChange = weighting.Hold, holdStarting, 0, time.Time{}
	first.Gain, first.Delay, first.Lifetime, first.LoopGain = 0, 0, 0, 0
	s.view.tables = []*balancer.Table{first}
	s.wantNone(t, "backend_last_pass_timestamp_seconds", "backend_last_change_timestamp_seconds", "backend_gain",
		"backend_loop_gain", "backend_loop_delay_seconds", "backend_connection_lifetime_seconds")
	s.want(t, `server_weight{proxy="ingest",server="s1",socket="`+socket+"\"} 100\n", "server_weight")
}

func TestOrders(t *testing.T) {
	s := newScene()
	made := table(row("s1", 10, 120))
	s.view.tables = []*balancer.Table{made}
	names := []string{"backend_frozen", "backend_mode_ordered", "backend_observe", "backend_pins"}
	s.want(t, ofIngest("backend_frozen", "0")+ofIngest("backend_mode_ordered", "0")+ofIngest("backend_observe", "0")+ofIngest("backend_pins", "0"), names...)
	ordered := *made
	ordered.Mode = string(config.Observe)
	ordered.Control = balancer.Control{
		Pins: map[string]balancer.Pin{"s1": {}, "s9": {}}, Freeze: &balancer.Freeze{}, Mode: &balancer.ModeOrder{Mode: config.Observe},
	}
	s.view.tables = []*balancer.Table{&ordered}
	s.want(t, ofIngest("backend_frozen", "1")+ofIngest("backend_mode_ordered", "1")+ofIngest("backend_observe", "1")+ofIngest("backend_pins", "2"), names...)
}

func TestFaults(t *testing.T) {
	s := newScene()
	s.view.tables = []*balancer.Table{table(row("s1", 10, 120))}
	s.view.faults = []balancer.Fault{
		{What: "state file"}, {Backend: "ingest", What: "graphite"}, {Backend: "ingest", Socket: socket, What: "a"},
		{Backend: "ingest", Socket: socket, What: "b"}, {Backend: "ingest", Socket: "unix:/other", What: "backend not found on a socket"},
	}
	const all = `faults{proxy="",socket=""} 1
faults{proxy="ingest",socket=""} 1
faults{proxy="",socket="` + socket + `"} 0
faults{proxy="ingest",socket="` + socket + `"} 2
faults{proxy="ingest",socket="unix:/other"} 1
`
	s.want(t, all, "faults")
}

// TestNoFleet: a scrape before the daemon has any balancer.
func TestNoFleet(t *testing.T) {
	s := newScene()
	s.view = nil
	s.Rendered("ingest", nil, time.Second)
	s.wantNone(t, "faults", "server_load", "backend_sockets")
	s.want(t, "build_info{goversion=\""+goversion+"\",version=\"1.2.3\"} 1\n", "build_info")
	if body := s.scrape(t, "?name[]=haproxy_weighter_config_last_reload_successful"); len(body) == 0 || len(body) > 300 {
		t.Errorf("one metric was asked for: %s", body)
	}
}

func TestBackendThatNoHAProxyHas(t *testing.T) {
	s := newScene()
	s.want(t, "backend_sockets{proxy=\"ingest\"} 0\n", "backend_sockets")
	s.view.tables = []*balancer.Table{table(row("s1", 1, 1))}
	s.want(t, "backend_sockets{proxy=\"ingest\"} 1\n", "backend_sockets")
}
