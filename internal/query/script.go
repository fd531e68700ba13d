package query

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/negasus/haproxy-spoe-go/message"

	"github.com/haproxy-weighter/haproxy-weighter/lua"
)

// scriptName is that of the script's counts in Counts.ByMessage: its messages
// can have any name, and HAProxy's side must not choose names of metrics.
const scriptName = "script"

// script has the user's function answer a message that is none of ours. It
// costs what the script costs, and lua.AnswerLimit at most.
func (q *query) script(m *message.Message) {
	t := &q.h.tally.script
	set, printed, err := q.h.answerer.Answer(m.Name, argsOf(m), tables{q.h, q.now})
	t.print(q.h.tally.log, q.now, printed)
	switch {
	case err != nil:
		t.failed(q.h.tally.log, q.now, q.h.answerer, m.Name, err)
		return
	case len(set) == 0:
		t.notFound.Add(1)
	default:
		t.answered.Add(1)
	}
	t.worked(q.h.tally.log, q.now)
	q.as = ""
	for _, v := range set {
		q.set(v.Name, v.Value)
	}
}

// Try asks the script what it sets for one message, and counts and logs nothing.
func (h *Handler) Try(message string, args []lua.Arg) (set []lua.Variable, printed []string, err error) {
	if h.answerer == nil {
		return nil, nil, errors.New("there is no script")
	}
	return h.answerer.Answer(message, args, tables{h, h.now()})
}

// Wait waits for what the script's answers have left to be done: a fraction of
// a second. It must not be called while an answer is being given.
func (h *Handler) Wait() {
	if h.answerer != nil {
		h.answerer.Wait()
	}
}

// argsOf gives the arguments in the order of the message.
func argsOf(m *message.Message) []lua.Arg {
	data := m.KV.Data()
	args := make([]lua.Arg, len(data))
	for i := range data {
		args[i] = lua.Arg{Name: data[i].Name, Value: plain(data[i].Value)}
	}
	return args
}

// plain makes what Lua knows of SPOP's types: whole numbers one type, an
// address its text.
func plain(value any) any {
	switch v := value.(type) {
	case int32:
		return int64(v)
	case uint32:
		return int64(v)
	case int64, bool, string:
		return v
	case uint64:
		return float64(v)
	case net.IP:
		return v.String()
	case []byte:
		return string(v)
	}
	return nil
}

// scriptTally counts the script's answers, and tells when it begins to fail
// and when it works again.
type scriptTally struct {
	kindTally
	told     atomic.Pointer[lua.Answerer] // whose failure has been told; nil: all is good
	failedAt atomic.Int64                 // Unix seconds, of the newest failure

	printing sync.Mutex
	minute   int64 // of the lines printed
	lines    int
}

// quiet is how long a script must not have failed to be called good again: one
// that fails for some messages is told once, not each time. The one that a
// reload brings is told anew, since its failure may be another.
const quiet = time.Minute

func (t *scriptTally) failed(log *slog.Logger, now time.Time, by *lua.Answerer, name string, err error) {
	t.refused.Add(1)
	t.failedAt.Store(now.Unix())
	if t.told.Load() == by || t.told.Swap(by) == by {
		return
	}
	log.Warn("the script fails on an SPOE message", "message", shown(name), "cause", err.Error(),
		"meanwhile", "HAProxy goes on without its variables; this is told once, until the script has not failed for "+quiet.String(),
		"do", "correct spoa.script and reload; haproxy-weighter lua FILE --message NAME tries it beforehand")
}

func (t *scriptTally) worked(log *slog.Logger, now time.Time) {
	told := t.told.Load()
	if told == nil || now.Unix()-t.failedAt.Load() < int64(quiet/time.Second) || !t.told.CompareAndSwap(told, nil) {
		return
	}
	log.Info("the script answers SPOE messages again", "failed_so_far", t.refused.Load())
}

// printsPerMinute keeps a script that prints for each message out of the way.
const printsPerMinute = 20

func (t *scriptTally) print(log *slog.Logger, now time.Time, printed []string) {
	if len(printed) == 0 {
		return
	}
	t.printing.Lock()
	defer t.printing.Unlock()
	if minute := now.Unix() / 60; minute != t.minute {
		t.minute, t.lines = minute, 0
	}
	for _, line := range printed {
		switch t.lines++; {
		case t.lines <= printsPerMinute:
			log.Info("the script prints", "text", line)
		case t.lines == printsPerMinute+1:
			log.Info("the script prints more than is logged", "meanwhile", fmt.Sprintf("the log has %d lines a minute of it", printsPerMinute))
		}
	}
}

// tables is all backends, as a script sees them.
type tables struct {
	h   *Handler
	now time.Time
}

// Get gives a backend by its name; nil when there is none, or no table of it.
func (t tables) Get(name string) any {
	b, ok := t.h.backends[name]
	if !ok {
		return nil
	}
	x := b.index.Load()
	if x == nil {
		return nil
	}
	return backendView{x, t.now, x.fresh(t.now)}
}

// Len is the number of backends in the configuration.
func (t tables) Len() int { return len(t.h.names) }

// At gives a backend in the order of the configuration.
func (t tables) At(i int) (string, any) { return t.h.names[i], t.Get(t.h.names[i]) }

// fields are the names that a view has, in their order.
type fields []string

func (f fields) at(i int, get func(string) any) (string, any) { return f[i], get(f[i]) }

// backendView is one backend of a table.
type backendView struct {
	x     *index
	now   time.Time
	fresh bool
}

var backendFields = fields{
	"name", "fresh", "age", "load_mean", "load_max", "load_total", "imbalance", "best", "worst", "servers",
}

// Len is the number of fields.
func (b backendView) Len() int { return len(backendFields) }

// At gives a field.
func (b backendView) At(i int) (string, any) { return backendFields.at(i, b.Get) }

// Get gives a field. Those about loads are nil unless the backend is fresh.
func (b backendView) Get(name string) any {
	switch name {
	case "name":
		return b.x.name
	case "fresh":
		return b.fresh
	case "age":
		return ageAt(b.x.dataAt, b.now)
	case "servers":
		return serversView{b.x, b.now}
	}
	if !b.fresh {
		return nil
	}
	sum := &b.x.sums
	switch name {
	case "load_mean":
		return sum.total / float64(sum.measured)
	case "load_max":
		return sum.max
	case "load_total":
		return sum.total
	case "imbalance":
		return positive(sum.imbalance)
	case "best":
		return b.named(sum.best)
	case "worst":
		return b.named(sum.worst)
	}
	return nil
}

func ageAt(at, now time.Time) any {
	if at.IsZero() {
		return nil
	}
	return max(0, now.Sub(at)).Seconds()
}

func (b backendView) named(server string) any {
	if server == "" || !b.x.mayName(b.now) {
		return nil
	}
	return server
}

func positive(v float64) any {
	if v > 0 {
		return v
	}
	return nil
}

// serversView is the servers of a backend, in HAProxy's order.
type serversView struct {
	x   *index
	now time.Time
}

// Len is the number of servers.
func (s serversView) Len() int { return len(s.x.table.Rows) }

// At gives a server by its place.
func (s serversView) At(i int) (string, any) {
	name := s.x.table.Rows[i].Server
	return name, s.Get(name)
}

// Get gives a server by its name; nil when there is none.
func (s serversView) Get(name string) any {
	server, ok := s.x.byName[name]
	if !ok {
		return nil
	}
	return serverView{s.x, server, !server.freshUntil.IsZero() && !s.now.After(server.freshUntil), s.now}
}

// serverView is one server.
type serverView struct {
	x     *index
	s     *server
	fresh bool
	now   time.Time
}

var serverFields = fields{
	"name", "fresh", "age", "load", "relative", "weight", "share", "capacity", "initial_weight", "sessions", "admin_state", "op_state", "in_rotation",
}

// Len is the number of fields.
func (v serverView) Len() int { return len(serverFields) }

// At gives a field.
func (v serverView) At(i int) (string, any) { return serverFields.at(i, v.Get) }

// Get gives a field. Load and relative are nil unless the server is fresh.
func (v serverView) Get(name string) any {
	r := v.s.row
	switch name {
	case "name":
		return r.Server
	case "fresh":
		return v.fresh
	case "age":
		return ageAt(v.s.dataAt, v.now)
	case "load":
		if v.fresh {
			return *r.Load
		}
	case "relative":
		if v.fresh && v.x.sums.mean > 0 {
			return v.x.sums.of(r) / v.x.sums.mean
		}
	case "weight":
		return r.AppliedWeight
	case "share":
		if !r.InRotation() {
			return 0
		}
		return float64(r.AppliedWeight) / float64(v.x.sums.weight)
	case "capacity":
		return r.Capacity
	case "initial_weight":
		return r.InitialWeight
	case "sessions":
		if r.Sessions >= 0 {
			return r.Sessions
		}
	case "admin_state":
		return r.AdminState
	case "op_state":
		return r.OpState
	case "in_rotation":
		return r.InRotation()
	}
	return nil
}
