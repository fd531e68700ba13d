package report

import (
	"math"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

// appendTable appends what one table says, all but the changes. What is not known
// is left out: in Graphite, no point is the only honest one.
func appendTable(to []graphite.Metric, names *names, t *balancer.Table, stamp, newest time.Time) []graphite.Metric {
	backend := names.backend(t)
	add := func(name string, value float64) {
		if !math.IsNaN(value) && !math.IsInf(value, 0) {
			to = append(to, graphite.Metric{Name: backend + "." + name, Value: value, Time: stamp})
		}
	}
	servers := names.servers(t)
	for i := range t.Rows {
		row := &t.Rows[i]
		if row.Load != nil && !row.Earlier { // an old load must not look like a new one
			add(servers[i]+".load", *row.Load)
		}
		if !t.Unread() { // else it is what HAProxy had when it could be read
			add(servers[i]+".weight", float64(row.AppliedWeight))
		}
	}
	if t.Imbalance > 0 && t.Fresh > 0 && t.Passed() {
		add("imbalance", t.Imbalance)
	}
	if !newest.IsZero() {
		add("age", max(0, stamp.Sub(newest).Round(time.Millisecond).Seconds()))
	}
	return to
}

// newestData tells when the newest data of a table were measured; before, when
// it has none, so that the age goes on to grow.
func newestData(t *balancer.Table, before time.Time) time.Time {
	for i := range t.Rows {
		if s := t.Rows[i].AgeSeconds; s != nil {
			if at := t.Time.Add(-time.Duration(*s * float64(time.Second))); at.After(before) {
				before = at
			}
		}
	}
	return before
}
