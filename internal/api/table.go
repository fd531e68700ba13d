// Package api has the JSON types that the daemon's listeners send and the
// commands print. Their fields are documented in docs/json.md and stable:
// they keep their names and meanings, and new ones may come beside them.
//
// It also has the words for orders and faults, which the commands and the
// status page share.
package api

import (
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// Table is one backend on one HAProxy, as its last pass left it.
type Table struct {
	Backend         string              `json:"backend"`
	Socket          string              `json:"socket"`
	Time            time.Time           `json:"time"` // UTC
	Algorithm       string              `json:"algorithm"`
	Mode            string              `json:"mode"`
	Verdict         weighting.Verdict   `json:"verdict"`
	Why             string              `json:"why"`
	HoldCode        string              `json:"hold_code"`
	Fault           string              `json:"fault"`
	Target          string              `json:"target"`
	Aggregate       graphite.Aggregate  `json:"aggregate"`
	WindowSeconds   float64             `json:"window_seconds"`
	Function        weighting.Function  `json:"function"`
	Fresh           int                 `json:"fresh"`
	Earlier         int                 `json:"earlier"` // servers in rotation whose load is of an earlier pass
	InService       int                 `json:"in_service"`
	Mean            float64             `json:"mean"`
	Imbalance       float64             `json:"imbalance"`
	AgeSeconds      *float64            `json:"age_seconds"`
	LifetimeSeconds float64             `json:"lifetime_seconds"`
	LifetimeFrom    string              `json:"lifetime_from"`
	DelaySeconds    float64             `json:"delay_seconds"`
	Gain            float64             `json:"gain"`
	LoopGain        float64             `json:"loop_gain"`
	MaxAgeSeconds   float64             `json:"max_age_seconds"` // a load older than this does not count
	Quorum          float64             `json:"quorum"`
	Better          weighting.Better    `json:"better"`
	Changes         int                 `json:"changes"`
	LastChange      *time.Time          `json:"last_change"` // UTC; null: not by this process
	Freeze          *balancer.Freeze    `json:"freeze"`
	ModeOrder       *balancer.ModeOrder `json:"mode_order"`
	OrdersPending   bool                `json:"orders_pending"` // the orders shown are newer than the pass: see SetOrders
	Servers         []Server            `json:"servers"`
}

// Tables is the answer of /api/v1/table.
type Tables struct {
	Tables []Table `json:"tables"` // by backend in the file's order, then by socket; never null
}

// Server is one row of a Table.
type Server struct {
	balancer.Row
	InRotation bool `json:"in_rotation"` // HAProxy gives it new connections by its weight
	Measured   bool `json:"measured"`    // it has a load that was believed
}

// SetOrders puts the orders and the mode in force now in place of those of the
// pass: an order shows at once, though it takes a pass to carry it out. now are
// those that were in force at the time of the call, of the table's backend.
func (t *Table) SetOrders(now balancer.Control, mode string, pending bool) {
	t.Freeze, t.ModeOrder, t.Mode, t.OrdersPending = now.Freeze, now.Mode, mode, pending
	for i := range t.Servers {
		t.Servers[i].Pin = now.PinOf(t.Servers[i].Server)
	}
}

// TableOf gives the JSON form of t. What the rows point to is shared with t,
// which is immutable.
func TableOf(t *balancer.Table) Table {
	e := Table{
		Backend: t.Backend, Socket: t.Socket, Time: t.Time.UTC(), Algorithm: t.Algorithm, Mode: t.Mode,
		Verdict: t.Verdict, Why: t.Why, HoldCode: t.HoldCode, Fault: t.Fault,
		Target: t.Target, Aggregate: t.Aggregate, WindowSeconds: t.Window.Seconds(), Function: t.Function,
		Fresh: t.Fresh, Earlier: t.Earlier(), InService: t.InService, Mean: t.Mean, Imbalance: t.Imbalance,
		LifetimeSeconds: t.Lifetime.Seconds(), LifetimeFrom: t.LifetimeFrom,
		DelaySeconds: t.Delay.Seconds(), Gain: t.Gain, LoopGain: t.LoopGain,
		MaxAgeSeconds: t.MaxAge.Seconds(), Quorum: t.Quorum, Better: t.Better,
		Changes: t.Changes, Freeze: t.Control.Freeze, ModeOrder: t.Control.Mode,
		Servers: make([]Server, len(t.Rows)),
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		e.Servers[i] = Server{Row: *r, InRotation: r.InRotation(), Measured: r.Measured()}
	}
	if !t.LastChange.IsZero() {
		at := t.LastChange.UTC()
		e.LastChange = &at
	}
	e.AgeSeconds = ageOf(t)
	return e
}

// ageOf is the age of the newest load, in seconds; nil when there is none.
func ageOf(t *balancer.Table) *float64 {
	age, ok := t.DataAge()
	if !ok {
		return nil
	}
	seconds := age.Seconds()
	return &seconds
}
