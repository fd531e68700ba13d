package balancer

import (
	"math"
	"time"
)

// shown is the load of a server for a table that no pass has made; NaN: none.
// It goes by the same limits as a pass.
func (p *plane) shown(picture *picture, server string, now time.Time) float64 {
	if picture == nil {
		return math.NaN()
	}
	l := picture.of(server)
	if l.err != nil || l.sample.Age+now.Sub(picture.received) > p.backend.MaxAge+p.backend.Interval {
		return math.NaN()
	}
	return l.sample.Value
}

// keepLoads leaves to the servers that t has no load of the one that the table
// before has, until it is older than max_age: one answer that Graphite has not
// given does not make data old. Decide is not told of these loads.
func (p *plane) keepLoads(t *Table) {
	old := p.table.Load()
	if old == nil || p.otherLoads {
		p.otherLoads = false
		return
	}
	before := make(map[string]*Row, len(old.Rows))
	for i := range old.Rows {
		before[old.Rows[i].Server] = &old.Rows[i]
	}
	for i := range t.Rows {
		row := &t.Rows[i]
		was, ok := before[row.Server]
		if row.Load != nil || !ok || !was.Measured() {
			continue
		}
		age := *was.AgeSeconds + t.Time.Sub(old.Time).Seconds()
		if age > p.backend.MaxAge.Seconds() {
			continue
		}
		row.Load, row.AgeSeconds, row.Earlier = was.Load, &age, true
		row.Series, row.Timestamp, row.Points = was.Series, was.Timestamp, was.Points
	}
}

// lend gives a row that no pass has seen the load that the newest picture has.
func (p *plane) lend(row *Row, at time.Time) {
	row.fill(p.shown(p.last, row.Server, at), p.last, at)
	row.Earlier = row.Load != nil
}
