package weighting

import (
	"fmt"
	"math"
	"testing"
	"time"
)

var start = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)

// rig is a backend with a controller: pass makes one pass an interval later,
// with new data points, and puts the weights into force when told to.
type rig struct {
	t       *testing.T
	c       *Controller
	in      Input
	step    time.Duration
	observe bool // do not put weights into force
}

// newRig starts with one server for each load, all of capacity 1 and weight 100.
func newRig(t *testing.T, s Settings, loads ...float64) *rig {
	r := &rig{t: t, c: NewController(s), step: s.Interval, in: Input{Now: start, Lifetime: time.Hour}}
	for i, l := range loads {
		r.in.Servers = append(r.in.Servers, Server{
			Name: fmt.Sprintf("s%d", i), Load: l, Capacity: 1,
			Weight: 100, InitialWeight: 100, Sessions: 10,
		})
	}
	return r
}

func (r *rig) server(i int) *Server { return &r.in.Servers[i] }

func (r *rig) pass() *Decision {
	r.t.Helper()
	r.in.Now = r.in.Now.Add(r.step)
	for i := range r.in.Servers {
		r.server(i).LoadTime = r.in.Now.Add(-10 * time.Second)
		r.server(i).DataAge = 15 * time.Second
	}
	d := r.c.Decide(r.in)
	check(r.t, r.in, d)
	if d.Verdict == Write && !r.observe {
		r.in.LastChange = r.in.Now
		for i := range r.in.Servers {
			r.server(i).Weight = d.Servers[i].Weight
		}
	}
	return d
}

// passes makes n passes and returns the last decision.
func (r *rig) passes(n int) (d *Decision) {
	r.t.Helper()
	for range n {
		d = r.pass()
	}
	return d
}

// tester is what check needs of testing.T and rapid.T.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
}

// check holds what is true of every decision.
func check(t tester, in Input, d *Decision) {
	t.Helper()
	if len(d.Servers) != len(in.Servers) {
		t.Errorf("%d servers in, %d out", len(in.Servers), len(d.Servers))
		return
	}
	if (d.Verdict == Hold) != (d.HoldCode != "") || d.Why == "" {
		t.Errorf("verdict %q, hold code %q, why %q", d.Verdict, d.HoldCode, d.Why)
	}
	shares, inRotation := 0.0, 0
	for i, s := range d.Servers {
		given := in.Servers[i]
		if s.Name != given.Name {
			t.Errorf("server %d is %q, was %q", i, s.Name, given.Name)
		}
		if given.Rotation != InRotation || given.Weight <= 0 {
			if s.Weight != given.Weight || s.Share != 0 {
				t.Errorf("%s is out of rotation, weight %d became %d, share %v", s.Name, given.Weight, s.Weight, s.Share)
			}
			continue
		}
		inRotation++
		shares += s.Share
		if d.Verdict != Write && s.Weight != given.Weight {
			t.Errorf("%s: verdict %s changes weight %d to %d", s.Name, d.Verdict, given.Weight, s.Weight)
		}
		if s.Weight < 1 {
			t.Errorf("%s: weight %d", s.Name, s.Weight)
		}
		if len(s.Reasons) == 0 && d.HoldCode != HoldNoServers {
			t.Errorf("%s: no reasons", s.Name)
		}
		for _, r := range s.Reasons {
			if finite(r.Before) != r.Before || finite(r.After) != r.After || r.Step == "" || r.Text == "" {
				t.Errorf("%s: reason %+v", s.Name, r)
			}
		}
	}
	if inRotation > 0 && math.Abs(shares-1) > 1e-9 {
		t.Errorf("shares sum to %v", shares)
	}
	for _, v := range []float64{d.Mean, d.MaxOverMean, d.Gain, d.LoopGain()} {
		if finite(v) != v || v < 0 {
			t.Errorf("mean %v, max over mean %v, gain %v, loop gain %v", d.Mean, d.MaxOverMean, d.Gain, d.LoopGain())
		}
	}
}

// reason returns the first reason of a step; nil when there is none.
func (d *Decision) reason(i int, step string) *Reason {
	for j := range d.Servers[i].Reasons {
		if r := &d.Servers[i].Reasons[j]; r.Step == step {
			return r
		}
	}
	return nil
}

func weightsOf(d *Decision) []int {
	var w []int
	for _, s := range d.Servers {
		w = append(w, s.Weight)
	}
	return w
}

// settings returns the defaults with another function and short windows.
func settings(f Function) Settings {
	s := DefaultSettings()
	s.Function = f
	s.Window = time.Minute
	return s
}
