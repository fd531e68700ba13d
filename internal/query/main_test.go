package query

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/negasus/haproxy-spoe-go/action"
	"github.com/negasus/haproxy-spoe-go/message"
	"go.uber.org/goleak"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/spoa"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// begin is when the tables of most tests are made.
var begin = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// row is a server in rotation, with a load whose data are ten seconds old.
func row(name string, load float64, weight int) balancer.Row {
	age := 10.0
	return balancer.Row{
		Server: name, Load: &load, AgeSeconds: &age, Capacity: 1, AppliedWeight: weight, Weight: weight,
		AdminState: "ready", OpState: "running",
	}
}

// with changes a row.
func with(r balancer.Row, change func(*balancer.Row)) balancer.Row {
	change(&r)
	return r
}

func silent(r *balancer.Row) { r.Load, r.AgeSeconds = nil, nil }

func aged(seconds float64) func(*balancer.Row) {
	return func(r *balancer.Row) { r.AgeSeconds = &seconds }
}

func table(rows ...balancer.Row) *balancer.Table {
	return &balancer.Table{Backend: "in", Socket: "unix:/a", Time: begin, Rows: rows}
}

// desk is a Handler with what a test turns.
type desk struct {
	*Handler
	t      testing.TB
	mu     sync.Mutex
	now    time.Time
	drawn  uint64
	tables map[string][]*balancer.Table
	log    strings.Builder
}

// newDesk has a backend by each name of tables, max_age 60 s, quorum 0.5.
func newDesk(t testing.TB, tables map[string][]*balancer.Table, change ...func(*Source)) *desk {
	d := &desk{t: t, now: begin, tables: tables}
	o := Options{
		Logger: slog.New(slog.NewTextHandler(d, nil)),
		Now:    func() time.Time { d.mu.Lock(); defer d.mu.Unlock(); return d.now },
		Draw:   func(n uint64) uint64 { return d.drawn % n },
	}
	for name := range tables {
		s := Source{Backend: name, MaxAge: time.Minute, Quorum: 0.5, Tables: func() []*balancer.Table {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.tables[name]
		}}
		for _, f := range change {
			f(&s)
		}
		o.Sources = append(o.Sources, s)
	}
	d.Handler = New(o)
	return d
}

func (d *desk) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.Write(p)
}

func (d *desk) publish(backend string, tables ...*balancer.Table) {
	d.mu.Lock()
	d.tables[backend] = tables
	d.mu.Unlock()
	d.Refresh(backend)
}

// asked is a message: its name, then args as pairs of name and value.
func asked(name string, pairs ...any) *message.Message {
	m := message.AcquireMessage()
	m.Name = name
	for i := 0; i < len(pairs); i += 2 {
		m.KV.Add(pairs[i].(string), pairs[i+1])
	}
	return m
}

// ask answers one frame and prints the variables in the order of the answer.
func (d *desk) ask(messages ...*message.Message) string {
	d.t.Helper()
	var answer action.Actions
	if err := d.ServeSPOE(&answer, &spoa.Request{Messages: messages}); err != nil {
		d.t.Errorf("error %v", err)
	}
	return printed(d.t, answer)
}

// printed shows variables with their types: numbers bare, strings quoted.
func printed(t testing.TB, answer action.Actions) string {
	var all []string
	for _, a := range answer {
		if a.Type != action.TypeSetVar || a.Scope != action.ScopeTransaction {
			t.Errorf("action %+v does not set a variable of scope txn", a)
		}
		switch v := a.Value.(type) {
		case bool, int64:
			all = append(all, fmt.Sprintf("%s=%v", a.Name, v))
		case string:
			all = append(all, fmt.Sprintf("%s=%q", a.Name, v))
		default:
			t.Errorf("%s is a %T", a.Name, v)
		}
	}
	return strings.Join(all, " ")
}
