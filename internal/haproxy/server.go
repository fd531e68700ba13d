package haproxy

import (
	"fmt"
	"strings"
	"time"
)

// OpState is srv_op_state.
type OpState int

// The operational states, numbered as HAProxy does.
const (
	OpStopped OpState = iota
	OpStarting
	OpRunning
	OpStopping
)

// String gives HAProxy's word: "stopped", "starting" (in slowstart),
// "running" or "stopping"; "op(N)" for a number that we do not know.
func (o OpState) String() string {
	switch o {
	case OpStopped:
		return "stopped"
	case OpStarting:
		return "starting"
	case OpRunning:
		return "running"
	case OpStopping:
		return "stopping"
	}
	return fmt.Sprintf("op(%d)", int(o))
}

// AdminState is srv_admin_state, a bit mask.
type AdminState int

// The bits of AdminState. ConfigMaint only tells that the server is
// "disabled" in haproxy.cfg: it stays when the server is made ready later.
const (
	ForcedMaint AdminState = 1 << iota
	InheritedMaint
	ConfigMaint
	ForcedDrain
	InheritedDrain
	ResolutionMaint
	FQDNFromCLI
)

var adminNames = [...]string{"forced-maint", "inherited-maint", "config-maint", "forced-drain", "inherited-drain", "resolution-maint", "fqdn-from-cli"}

// Maint tells whether the server is in maintenance, for whatever reason.
func (a AdminState) Maint() bool { return a&(ForcedMaint|InheritedMaint|ResolutionMaint) != 0 }

// Drain tells whether the server is in drain, by itself or by the one it tracks.
func (a AdminState) Drain() bool { return a&(ForcedDrain|InheritedDrain) != 0 }

// Word is the state as "set server ... state" names it: "maint" before
// "drain" before "ready".
func (a AdminState) Word() string {
	switch {
	case a.Maint():
		return "maint"
	case a.Drain():
		return "drain"
	}
	return "ready"
}

// String is Word, followed by the names of the bits when any is set:
// "maint (forced-maint, config-maint)".
func (a AdminState) String() string {
	if a == 0 {
		return a.Word()
	}
	var names []string
	for i, name := range adminNames {
		if a&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if rest := a >> len(adminNames); rest != 0 {
		names = append(names, fmt.Sprintf("%#x", int(rest)<<len(adminNames)))
	}
	return a.Word() + " (" + strings.Join(names, ", ") + ")"
}

// Server is the state of one server.
type Server struct {
	Name          string
	ID            int // srv_id, unique in the backend
	Op            OpState
	Admin         AdminState
	Weight        int           // srv_uweight, 0..256: as set, without the factor of slowstart
	InitialWeight int           // srv_iweight, 0..256
	SinceChange   time.Duration // srv_time_since_last_change; full seconds
	Sessions      int           // scur
	TotalSessions int64         // stot
	Backup        bool
	Throttled     bool   // slowstart is ramping
	Agent         string // agent_status; empty when there is no agent-check
	SRV           string // srvrecord; empty when the server is not made from SRV records
}

// Draining tells whether the server gets no new connections by the operator's
// wish: a drain, or weight 0, which HAProxy treats the same.
func (s Server) Draining() bool { return s.Admin.Drain() || s.Weight == 0 }

// InService tells whether HAProxy would give the server a new connection
// (a backup server: when its turn comes).
func (s Server) InService() bool {
	return (s.Op == OpRunning || s.Op == OpStarting) && !s.Admin.Maint() && !s.Draining()
}

// State is one backend as one worker saw it.
type State struct {
	Info      Info
	Backend   string
	Algorithm string // as "show stat" has it: "roundrobin", "leastconn", ..., but "random" where it says "unknown"; empty when the socket's level hides it
	Servers   []Server
}

// Server finds a server by name.
func (s *State) Server(name string) (Server, bool) {
	for _, srv := range s.Servers {
		if srv.Name == name {
			return srv, true
		}
	}
	return Server{}, false
}

// ChangesPerLine is how many changes one line may well have, for SetWeights:
// 0, as many as fit, where a change costs HAProxy next to nothing, and 10
// where it may rebuild a ring of nodes (random, hashes that may be consistent,
// algorithms that are not known) and hold up traffic for up to a millisecond.
func (s *State) ChangesPerLine() int {
	switch s.Algorithm {
	case "roundrobin", "static-rr", "leastconn", "first":
		return 0
	}
	return 10
}
