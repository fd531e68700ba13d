package api

import (
	"slices"
	"strings"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

// Trouble is one thing that is wrong, as people are shown it: faults that say
// the same of several backends are one.
type Trouble struct {
	balancer.Fault          // the oldest of them
	Backends       []string // those that have it; empty: it is of no backend in particular
}

// Troubles are what is wrong. Left out are an operator's freeze, which is an
// order, and that HAProxy can't be read for a backend when its socket as a whole
// does not answer.
func Troubles(faults []balancer.Fault) []Trouble {
	var all []Trouble
	for _, f := range faults {
		if f.Key == balancer.FaultFrozen || f.Key == balancer.FaultUnread && socketFault(faults, f.Socket) {
			continue
		}
		i := slices.IndexFunc(all, func(t Trouble) bool { return t.alike(&f) })
		if i < 0 {
			i = len(all)
			all = append(all, Trouble{Fault: f})
		}
		t := &all[i]
		if f.Backend != "" {
			t.Backends = append(t.Backends, f.Backend)
		}
		if f.Since.Before(t.Since) {
			t.Since = f.Since
		}
	}
	return all
}

func socketFault(faults []balancer.Fault, socket string) bool {
	return slices.ContainsFunc(faults, func(f balancer.Fault) bool { return f.Key == balancer.FaultSocket && f.Socket == socket })
}

// alike tells whether a fault is the same thing of another backend.
func (t *Trouble) alike(f *balancer.Fault) bool {
	return t.Backend != "" && f.Backend != "" && t.Key == f.Key && t.Socket == f.Socket && t.What == f.What && t.Cause == f.Cause &&
		t.Meanwhile == f.Meanwhile && t.Do == f.Do
}

// Of tells whether it is about a backend on a socket: also when it is about the
// socket as a whole.
func (t *Trouble) Of(backend, socket string) bool {
	if len(t.Backends) == 0 {
		return t.Socket != "" && t.Socket == socket
	}
	return slices.Contains(t.Backends, backend) && (t.Socket == "" || t.Socket == socket)
}

// Unreads tells whether it is the reason that a table's HAProxy could not be
// read.
func (t *Trouble) Unreads(backend, socket string) bool {
	return (t.Key == balancer.FaultSocket || t.Key == balancer.FaultUnread) && t.Of(backend, socket)
}

// Where names what it is about; empty: the daemon as a whole.
func (t *Trouble) Where() string {
	var parts []string
	switch n := len(t.Backends); n {
	case 0:
	case 1:
		parts = append(parts, "backend "+t.Backends[0])
	default:
		parts = append(parts, "backends "+listNames(t.Backends))
	}
	if t.Socket != "" {
		parts = append(parts, "socket "+t.Socket)
	}
	return strings.Join(parts, ", ")
}
