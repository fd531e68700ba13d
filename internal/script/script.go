// Package script makes weighting functions of users' Lua scripts: it is where
// package lua, which knows Lua, and package weighting, which knows weights,
// meet.
package script

import (
	"math"

	"github.com/haproxy-weighter/haproxy-weighter/lua"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// Weighing has the settings of a backend weighed by the function weigh of a
// script. Each controller made of them gets globals of its own. It returns an
// error when the script has no such function.
func Weighing(settings *weighting.Settings, s *lua.Script, backend string) error {
	if err := s.Need("weigh"); err != nil {
		return err
	}
	settings.Function = weighting.Lua
	settings.NewWeigher = func() weighting.Weigher { return &weigher{lua: s.NewWeigher(), backend: backend} }
	return nil
}

// weigher asks a script.
type weigher struct {
	lua     *lua.Weigher
	backend string
}

// Weigh calls the script's function.
func (w *weigher) Weigh(in weighting.WeighInput) (shares []float64, printed []string, err error) {
	return w.lua.Weigh(servers(in.Servers), lua.Backend{
		Name: w.backend, Now: in.Now, Interval: in.Interval, Lifetime: in.Lifetime, Mean: in.Mean, Others: servers(in.Others),
	})
}

func servers(in []weighting.Weighed) []lua.Server {
	out := make([]lua.Server, len(in))
	for i := range in {
		s := &in[i]
		out[i] = lua.Server{
			Name: s.Name, Load: s.Load, Metrics: s.Metrics, Relative: s.Relative, Age: s.DataAge.Seconds(),
			Capacity: s.Capacity, Weight: s.Weight, InitialWeight: s.InitialWeight, Share: s.Share,
			Sessions: s.Sessions, State: stateOf(s.Rotation),
		}
		if math.IsNaN(s.Load) { // then there are no data that could have an age
			out[i].Age = math.NaN()
		}
	}
	return out
}

// stateOf is a word for a rotation.
func stateOf(r weighting.Rotation) string {
	if r == weighting.InRotation {
		return "ready"
	}
	return string(r)
}
