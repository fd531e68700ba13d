package spoe

import (
	"log/slog"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/query"
	"github.com/haproxy-weighter/haproxy-weighter/spoa"
)

// tables are the last passes of backends: the program's own handler answers
// from them, at a time that stands still.
type tables map[string][]balancer.Row

const maxAge = 90 * time.Second

func (x tables) handler() spoa.Handler {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	o := query.Options{Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler)}
	for name, rows := range x {
		table := &balancer.Table{Backend: name, Time: now, Rows: rows}
		o.Sources = append(o.Sources, query.Source{
			Backend: name, MaxAge: maxAge, Quorum: 0.5,
			Tables: func() []*balancer.Table { return []*balancer.Table{table} },
		})
	}
	return query.New(o)
}

// row is a server in rotation with weight 100 and data that are 1.2 s old.
func row(name string, load float64) balancer.Row {
	age := 1.2
	return balancer.Row{
		Server: name, Load: &load, AgeSeconds: &age, Capacity: 1, Weight: 100, AppliedWeight: 100,
		AdminState: "ready", OpState: "running",
	}
}

// rows are the three servers of the first backend.
func rows(s1, s2, s3 float64) []balancer.Row {
	return []balancer.Row{row("s1", s1), row("s2", s2), row("s3", s3)}
}

// each changes rows.
func each(all []balancer.Row, change func(*balancer.Row)) []balancer.Row {
	for i := range all {
		change(&all[i])
	}
	return all
}

// old makes data that count no more.
func old(r *balancer.Row) {
	age := (maxAge + time.Second).Seconds()
	r.AgeSeconds = &age
}

// only takes all servers but one out, in the ways that there are.
func only(name string) func(*balancer.Row) {
	return func(r *balancer.Row) {
		switch {
		case r.Server == name:
		case r.Server == "s1":
			r.AdminState = "drain"
		default:
			r.AppliedWeight = 0
		}
	}
}
