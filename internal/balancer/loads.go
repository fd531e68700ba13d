package balancer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// serverField stands for a server's name in the key "target".
const serverField = "{server}"

// errNoNames says that a target with {server} can't be asked for yet.
var errNoNames = errors.New("the target contains {server}, and no HAProxy has told its servers' names yet")

// LoadRow is one line of the command "loads". Its JSON form is documented and stable.
// Value, Timestamp and AgeSeconds are those of the newest point when the series
// is not usable but has one.
type LoadRow struct {
	Backend    string   `json:"backend"`
	Series     string   `json:"series"` // empty: a server that no series is for
	Server     string   `json:"server"` // empty: the series gives no server name
	Metric     string   `json:"metric"` // empty: it is the load; else a further value for a script
	Value      *float64 `json:"value"`
	Timestamp  *int64   `json:"timestamp"` // seconds since 1970
	AgeSeconds *float64 `json:"age_seconds"`
	Usable     bool     `json:"usable"`
	Reason     string   `json:"reason"` // why not usable; empty when usable
}

// Loads renders once and says, per series, which server it is for and whether
// it is usable. servers are the names that HAProxy has; nil when not known,
// which is an error for a target with {server} in it.
func Loads(ctx context.Context, r Renderer, b config.Backend, servers []string) ([]LoadRow, error) {
	answer, err := render(ctx, r, &b, servers)
	if err != nil {
		return nil, fmt.Errorf("backend %s: %w", b.Name, err)
	}
	var rows []LoadRow
	seen := make(map[string]bool)
	for _, l := range readLoads(answer, &b) {
		if l.metric == "" {
			seen[l.server] = true
		}
		row := l.row(b.Name)
		if row.Usable && servers != nil && !slices.Contains(servers, l.server) {
			row.Usable, row.Reason = false, fmt.Sprintf("HAProxy has no server %s/%s", b.Name, l.server)
		}
		rows = append(rows, row)
	}
	for _, name := range servers {
		if !seen[name] {
			rows = append(rows, LoadRow{Backend: b.Name, Server: name, Reason: errNoSeries.Error()})
		}
	}
	return rows, nil
}

// render asks for the backend's target, or for one target a server.
func render(ctx context.Context, r Renderer, b *config.Backend, servers []string) (*graphite.Answer, error) {
	targets, err := targetsOf(b.Target, servers)
	if err != nil {
		return nil, err
	}
	return r.Render(ctx, graphite.Request{Targets: targets, Window: b.Window, Until: b.Until})
}

// targetsOf puts each server's name into the target. An answer leaves out what
// matches nothing and keeps no order, so each target is given its server's
// name with alias(), which graphite-web, carbonapi and VictoriaMetrics all know
// and which wins over an alias inside.
func targetsOf(target string, servers []string) ([]string, error) {
	if !strings.Contains(target, serverField) {
		return []string{target}, nil
	}
	if len(servers) == 0 {
		return nil, errNoNames
	}
	targets := make([]string, len(servers))
	for i, name := range servers {
		targets[i] = fmt.Sprintf("alias(%s,%q)", strings.ReplaceAll(target, serverField, name), name)
	}
	return targets, nil
}

// load is what one series says of one server.
type load struct {
	series string
	server string          // empty: the name gives no server
	metric string          // empty: it is the load itself; see metricField
	sample graphite.Sample // meaningless when err is set
	newest *graphite.Point // newest point that has a number, a copy; nil when none has
	age    time.Duration   // of newest
	err    error           // why the sample may not be used
}

var (
	errNoSeries  = errors.New("the answer has no series for this server")
	errNoPattern = errors.New("the series name does not match server_regexp, so it names no server")
)

// readLoads reduces every series of an answer, in the answer's order. Two
// series for one server spoil each other: there is no telling which is right.
func readLoads(answer *graphite.Answer, b *config.Backend) []load {
	loads := make([]load, len(answer.Series))
	first := make(map[string]int, len(answer.Series))
	clashes := make(map[string]error) // one text for all series of a server: they may be many
	for i := range answer.Series {
		loads[i] = readLoad(&answer.Series[i], answer.Now, b)
		name := loads[i].server
		if name == "" {
			continue
		}
		name += metricField + loads[i].metric
		j, twice := first[name]
		if !twice {
			first[name] = i
			continue
		}
		if clashes[name] == nil {
			clashes[name] = fmt.Errorf("two series are for this server, %q and %q: change target or server_regexp so that one is left, for example with sumSeries",
				clip(loads[j].series), clip(loads[i].series))
		}
		loads[j].err, loads[i].err = clashes[name], clashes[name]
	}
	return loads
}

// metricField parts the name of a server from that of a further value of it,
// which a script gets beside the load: "s1/errors". HAProxy has no such names.
const metricField = "/"

func readLoad(s *graphite.Series, now time.Time, b *config.Backend) load {
	l := load{series: s.Name, server: serverOf(s.Name, b)}
	if b.Weighting.Function == weighting.Lua {
		l.server, l.metric, _ = strings.Cut(l.server, metricField)
	}
	for i := len(s.Points) - 1; i >= 0; i-- {
		if !math.IsNaN(s.Points[i].Value) && !math.IsInf(s.Points[i].Value, 0) {
			newest := s.Points[i] // a pointer into Points would keep them all
			l.newest = &newest
			l.age = now.Sub(time.Unix(l.newest.Unix, 0))
			break
		}
	}
	switch {
	case s.Fault != "":
		l.err = errors.New(s.Fault)
	case l.server == "":
		l.err = errNoPattern
	default:
		l.sample, l.err = s.Reduce(b.Aggregate, now, b.MaxAge)
	}
	if v := l.sample.Value; l.err == nil && (math.IsNaN(v) || math.IsInf(v, 0) || v < 0) {
		l.err = fmt.Errorf("%v is not a load: it must be a finite number that is not negative", v)
	} else if l.err == nil && v > weighting.LargestLoad {
		l.err = fmt.Errorf("%g is not a load: some collectors send the largest number there is for unknown", v)
	}
	return l
}

// serverOf maps the name of a series to the name of a server; "" when it names none.
func serverOf(series string, b *config.Backend) string {
	if strings.Contains(b.Target, serverField) || b.ServerRegexp == nil {
		return series // readers of {server} targets get back the alias they gave
	}
	match := b.ServerRegexp.FindStringSubmatchIndex(series)
	if match == nil {
		return ""
	}
	return string(b.ServerRegexp.ExpandString(nil, b.ServerName, series, match))
}

func (l *load) row(backend string) LoadRow {
	row := LoadRow{Backend: backend, Series: l.series, Server: l.server, Metric: l.metric, Usable: l.err == nil}
	if l.err == nil {
		stamp, age := l.sample.Time.Unix(), l.sample.Age.Seconds()
		row.Value, row.Timestamp, row.AgeSeconds = &l.sample.Value, &stamp, &age
		return row
	}
	row.Reason = l.err.Error()
	if l.newest != nil {
		age := l.age.Seconds()
		row.Value, row.Timestamp, row.AgeSeconds = &l.newest.Value, &l.newest.Unix, &age
	}
	return row
}
