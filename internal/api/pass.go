package api

import (
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// Pass is the data of one event of /api/v1/events: a table without its
// servers. The rest of the new table is at /api/v1/table/BACKEND.
type Pass struct {
	Backend    string            `json:"backend"`
	Socket     string            `json:"socket"`
	Time       time.Time         `json:"time"` // UTC
	Mode       string            `json:"mode"`
	Verdict    weighting.Verdict `json:"verdict"`
	Why        string            `json:"why"`
	HoldCode   string            `json:"hold_code"`
	Fault      string            `json:"fault"`
	Fresh      int               `json:"fresh"`
	InService  int               `json:"in_service"`
	Mean       float64           `json:"mean"`
	Imbalance  float64           `json:"imbalance"`
	AgeSeconds *float64          `json:"age_seconds"`
	Changes    int               `json:"changes"`
	Frozen     bool              `json:"frozen"`
}

// PassOf gives the event of a pass.
func PassOf(t *balancer.Table) Pass {
	return Pass{
		Backend: t.Backend, Socket: t.Socket, Time: t.Time.UTC(), Mode: t.Mode,
		Verdict: t.Verdict, Why: t.Why, HoldCode: t.HoldCode, Fault: t.Fault,
		Fresh: t.Fresh, InService: t.InService, Mean: t.Mean, Imbalance: t.Imbalance,
		AgeSeconds: ageOf(t), Changes: t.Changes, Frozen: t.Control.Freeze != nil,
	}
}
