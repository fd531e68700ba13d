package metrics

import (
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// snapshot is one table at the time of a scrape.
type snapshot struct {
	*balancer.Table
	now       time.Time
	interval  time.Duration // between two passes; 0 unknown
	known     int           // servers in rotation with a load that is believed
	fresh     int           // those of them whose load is of the last pass, and not of an earlier one
	age       time.Duration // of the newest known load; meaningless without one
	proxy     *dto.LabelPair
	socket    *dto.LabelPair
	ofBackend []*dto.LabelPair // proxy, socket
}

// newSnapshot reads freshness from the rows and not from the last pass: when
// HAProxy can't be read there is no pass, and the loads go on.
func newSnapshot(t *balancer.Table, v *view) *snapshot {
	s := &snapshot{Table: t, now: v.now, proxy: pair("proxy", t.Backend), socket: pair("socket", t.Socket)}
	s.ofBackend = []*dto.LabelPair{s.proxy, s.socket}
	if b := v.backend(t.Backend); b != nil {
		s.interval = b.Interval
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		if !r.Measured() || !r.InRotation() {
			continue
		}
		if age := s.since(*r.AgeSeconds); s.known == 0 || age < s.age {
			s.age = age
		}
		s.known++
		if !r.Earlier {
			s.fresh++
		}
	}
	return s
}

// since is how old now is what had an age when the table was made.
func (s *snapshot) since(ageSeconds float64) time.Duration {
	return time.Duration(ageSeconds*float64(time.Second)) + max(0, s.now.Sub(s.Time))
}

// stale tells whether no load counts any more. Data may pass max_age by an
// interval until the next pass sees that they are too old.
func (s *snapshot) stale() bool {
	return s.InService > 0 && (s.known == 0 || s.age > s.MaxAge+s.interval)
}

// passed tells whether the table is of a pass, and not of a first look at
// HAProxy.
func (s *snapshot) passed() bool { return s.HoldCode != holdStarting }

// balanced tells whether the mean and the imbalance are of the loads that the
// table has.
func (s *snapshot) balanced() bool { return s.fresh > 0 && s.Passed() }

// gauge describes a metric of a backend on one HAProxy, or of one of its
// servers. ok is false when there is no such number now: then there is no series.
type gauge[T any] struct {
	name, help string
	value      func(T) (v float64, ok bool)
}

// backendGauges have the labels proxy and socket.
var backendGauges = []gauge[*snapshot]{
	{"backend_servers", "Servers that HAProxy has in the backend.", func(s *snapshot) (float64, bool) { return float64(len(s.Rows)), true }},
	{"backend_servers_in_service", "Servers in rotation: up, ready, above weight 0 and no backup.", func(s *snapshot) (float64, bool) { return float64(s.InService), true }},
	{"backend_servers_fresh", "Servers in rotation with a load that counted in the last pass.", func(s *snapshot) (float64, bool) { return float64(s.fresh), true }},
	{"backend_servers_foreign", "Servers whose weight the last pass found set by somebody else.", func(s *snapshot) (float64, bool) { return float64(s.Foreign), true }},
	{"backend_load_mean", "Mean load of a unit of capacity over the servers with data.", func(s *snapshot) (float64, bool) { return s.Mean, s.balanced() }},
	{"backend_imbalance_ratio", "Highest load over the mean; 1 is perfect balance.", func(s *snapshot) (float64, bool) { return s.Imbalance, s.balanced() && s.Imbalance > 0 }},
	{"backend_data_age_seconds", "Age of the newest load of any server in rotation.", func(s *snapshot) (float64, bool) { return s.age.Seconds(), s.known > 0 }},
	{"backend_max_age_seconds", "A load older than this does not count (max_age).", func(s *snapshot) (float64, bool) { return s.MaxAge.Seconds(), true }},
	{"backend_interval_seconds", "Time between two passes (interval).", func(s *snapshot) (float64, bool) { return s.interval.Seconds(), s.interval > 0 }},
	{"backend_stale", "Whether no server in rotation has a load that counts.", func(s *snapshot) (float64, bool) { return flag(s.stale()), true }},
	{"backend_observe", "Whether weights are computed and not set (mode observe).", func(s *snapshot) (float64, bool) { return flag(s.Mode == string(config.Observe)), true }},
	{"backend_mode_ordered", "Whether an operator's mode is in place of the file's.", func(s *snapshot) (float64, bool) { return flag(s.Control.Mode != nil), true }},
	{"backend_frozen", "Whether an operator keeps the weights as they are (freeze).", func(s *snapshot) (float64, bool) { return flag(s.Control.Freeze != nil), true }},
	{"backend_pins", "Servers that an operator keeps at a weight (pin).", func(s *snapshot) (float64, bool) { return float64(len(s.Control.Pins)), true }},
	{"backend_connection_lifetime_seconds", "Mean lifetime of connections as the function used it.", func(s *snapshot) (float64, bool) { return s.Lifetime.Seconds(), s.Lifetime > 0 }},
	{"backend_loop_delay_seconds", "Delay from a change of load to weights that answer it.", func(s *snapshot) (float64, bool) { return s.Delay.Seconds(), s.Delay > 0 }},
	{"backend_gain", "Gain of the weighting function.", func(s *snapshot) (float64, bool) { return s.Gain, s.Gain > 0 }},
	{"backend_loop_gain", "Gain times delay over lifetime; high values swing.", func(s *snapshot) (float64, bool) { return s.LoopGain, s.LoopGain > 0 }},
	{"backend_last_pass_timestamp_seconds", "When the last pass decided.", func(s *snapshot) (float64, bool) { return unix(s.Time), s.passed() }},
	{"backend_last_change_timestamp_seconds", "When weights were last written.", func(s *snapshot) (float64, bool) { return unix(s.LastChange), !s.LastChange.IsZero() }},
}

// serverRow is one server of a snapshot.
type serverRow struct {
	*balancer.Row
	of *snapshot
}

// serverGauges have the labels proxy, server and socket. While HAProxy can't be
// read there are only those that do not come from it.
var serverGauges = []gauge[serverRow]{
	{"server_load", "Newest load of the server that is known, as aggregated from Graphite.", func(r serverRow) (float64, bool) {
		if r.Load == nil {
			return 0, false
		}
		return *r.Load, true
	}},
	{"server_load_age_seconds", "Age of the server's load.", func(r serverRow) (float64, bool) {
		if r.AgeSeconds == nil {
			return 0, false
		}
		return r.of.since(*r.AgeSeconds).Seconds(), true
	}},
	{"server_capacity", "Size of the server beside the others.", func(r serverRow) (float64, bool) { return r.Capacity, true }},
	{"server_pinned", "Whether an operator keeps the server at a weight (pin).", func(r serverRow) (float64, bool) { return flag(r.Pin != nil), true }},
	{"server_share_ratio", "Part of the new connections that the server should get.", func(r serverRow) (float64, bool) { return r.Share, !r.of.Unread() }},
	{"server_weight", "Weight in force in HAProxy.", func(r serverRow) (float64, bool) { return float64(r.AppliedWeight), !r.of.Unread() }},
	{"server_computed_weight", "Weight that the last pass wanted.", func(r serverRow) (float64, bool) { return float64(r.Weight), !r.of.Unread() }},
	{"server_initial_weight", "Weight in haproxy.cfg.", func(r serverRow) (float64, bool) { return float64(r.InitialWeight), !r.of.Unread() }},
	{"server_in_rotation", "Whether HAProxy gives the server new connections by its weight.", func(r serverRow) (float64, bool) { return flag(r.InRotation()), !r.of.Unread() }},
}

// unix gives a time as Prometheus has it.
func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// tableFamilies makes the families of all tables.
func (m *Metrics) tableFamilies(v *view) []*dto.MetricFamily {
	snapshots := make([]*snapshot, len(v.tables))
	for i, t := range v.tables {
		snapshots[i] = newSnapshot(t, v)
	}
	var all []*dto.MetricFamily
	for _, g := range backendGauges {
		f := newFamily(dto.MetricType_GAUGE, g.name, g.help, len(snapshots))
		for _, s := range snapshots {
			if value, ok := g.value(s); ok {
				f.add(value, s.ofBackend)
			}
		}
		all = f.addTo(all)
	}
	all = holdFamily(snapshots).addTo(all)
	all = infoFamily(snapshots).addTo(all)
	all = socketsFamily(v).addTo(all)
	all = faultsFamily(v).addTo(all)
	return append(all, serverFamilies(snapshots)...)
}

func serverFamilies(snapshots []*snapshot) []*dto.MetricFamily {
	var rows []serverRow
	var labelled [][]*dto.LabelPair
	for _, s := range snapshots {
		name := "server"
		servers := make([]dto.LabelPair, len(s.Rows))
		pairs := make([]*dto.LabelPair, 0, 3*len(s.Rows))
		for i := range s.Rows {
			servers[i].Name, servers[i].Value = &name, &s.Rows[i].Server
			pairs = append(pairs, s.proxy, &servers[i], s.socket)
			rows = append(rows, serverRow{&s.Rows[i], s})
			labelled = append(labelled, pairs[3*i:3*i+3:3*i+3])
		}
	}
	var all []*dto.MetricFamily
	for _, g := range serverGauges {
		f := newFamily(dto.MetricType_GAUGE, g.name, g.help, len(rows))
		for i, r := range rows {
			if value, ok := g.value(r); ok {
				f.add(value, labelled[i])
			}
		}
		all = f.addTo(all)
	}
	return all
}
