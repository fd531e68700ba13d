package metrics

import (
	"slices"

	dto "github.com/prometheus/client_model/go"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// The codes of a hold that package balancer gives of itself.
const (
	holdStarting = "starting" // no pass has been made yet
	holdUnread   = "haproxy"  // HAProxy could not be read
	holdPanic    = "panic"    // a mistake of this program stopped the pass
)

// holdCodes are all values of the label "code".
var holdCodes = []string{
	weighting.HoldNoServers, weighting.HoldStale, weighting.HoldQuorum, weighting.HoldAllZero, weighting.HoldTotal,
	weighting.HoldScript, balancer.HoldFrozen, holdStarting, holdUnread, holdPanic, resultOther,
}

// holdCode keeps the label's values a closed set.
func holdCode(s *snapshot) string {
	switch {
	case s.Verdict != weighting.Hold:
		return ""
	case slices.Contains(holdCodes, s.HoldCode):
		return s.HoldCode
	}
	return resultOther
}

// holdFamily has every code of every backend, all 0 but the one in force.
func holdFamily(snapshots []*snapshot) *family {
	f := newFamily(dto.MetricType_GAUGE, "backend_hold", "Whether the weights are held, by the cause.", len(holdCodes)*len(snapshots))
	codes := make([]*dto.LabelPair, len(holdCodes))
	for i, code := range holdCodes {
		codes[i] = pair("code", code)
	}
	for _, s := range snapshots {
		now := holdCode(s)
		for i, code := range holdCodes {
			f.add(flag(code == now), []*dto.LabelPair{codes[i], s.proxy, s.socket})
		}
	}
	return f
}

// infoFamily tells how each backend is balanced.
func infoFamily(snapshots []*snapshot) *family {
	f := newFamily(dto.MetricType_GAUGE, "backend_info", "Always 1; the labels tell HAProxy's balance algorithm and the weighting function.", len(snapshots))
	for _, s := range snapshots {
		f.add(1, []*dto.LabelPair{pair("algorithm", s.Algorithm), pair("function", string(s.Function)), s.proxy, s.socket})
	}
	return f
}

// socketsFamily tells how many HAProxies have each backend of the
// configuration; with 0, nothing is balanced.
func socketsFamily(v *view) *family {
	f := newFamily(dto.MetricType_GAUGE, "backend_sockets", "HAProxies that have the backend.", len(v.backends))
	have := make(map[string]int)
	for _, t := range v.tables {
		have[t.Backend]++
	}
	for _, b := range v.backends {
		f.add(float64(have[b.Name]), labels("proxy", b.Name))
	}
	return f
}

// faultsFamily counts what is wrong now. What concerns a whole socket has an
// empty proxy, and what concerns a backend on every socket an empty socket.
func faultsFamily(v *view) *family {
	open := make(map[feed]int)
	for _, fault := range v.faults {
		open[feed{fault.Backend, fault.Socket}]++
	}
	places := []feed{{}}
	for _, b := range v.backends {
		places = append(places, feed{proxy: b.Name})
	}
	for _, socket := range v.sockets {
		places = append(places, feed{socket: socket})
	}
	for _, t := range v.tables {
		places = append(places, feed{t.Backend, t.Socket})
	}
	for place := range open { // a backend that a HAProxy does not have has no table
		if !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	f := newFamily(dto.MetricType_GAUGE, "faults", "Things that are wrong now, as the log has told them.", len(places))
	for _, place := range places {
		f.add(float64(open[place]), labels("proxy", place.proxy, "socket", place.socket))
	}
	return f
}
