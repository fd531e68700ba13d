package admin

import (
	"net/http"
	"strings"
	"testing"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

// An order that changes nothing says so, and nothing else hears of it: no event,
// no line in the log.
func TestOrdersWithNothingToDo(t *testing.T) {
	s := newSite(t, haproxyOf("ingest", 3), loadsOf(3), quick())
	s.listen()
	s.balance()
	s.passed()
	for _, o := range []struct{ kind, body, want string }{
		{"unpin", `{"backend":"ingest","server":"s1"}`, "ingest/s1 is not pinned"},
		{"unfreeze", `{"backend":"ingest"}`, "ingest is not frozen"},
		{"mode", `{"backend":"ingest","mode":"file","reason":"r"}`, "ingest has the mode that the file says"},
		{"pin", `{"backend":"ingest","server":"s1","weight":42,"reason":"r","for_seconds":3600}`, ""},
		{"pin", `{"backend":"ingest","server":"s1","weight":42,"reason":"r","for_seconds":3600}`, "ingest/s1 is pinned at 42 already"},
		{"freeze", `{"backend":"ingest","reason":"r","for_seconds":3600}`, ""},
		{"freeze", `{"backend":"ingest","reason":"r","for_seconds":3600}`, "ingest is frozen already"},
		{"mode", `{"backend":"ingest","mode":"observe","reason":"r"}`, ""},
		{"mode", `{"backend":"ingest","mode":"observe","reason":"r"}`, "ingest has mode observe by such an order already"},
	} {
		a := s.order(o.kind, o.body)
		if a.status != http.StatusOK {
			t.Fatalf("%s %s: %d %s", o.kind, o.body, a.status, a.body)
		}
		if d := decoded[api.Done](t, a); d.NothingToDo != o.want {
			t.Errorf("%s %s: nothing to do: %q, want %q", o.kind, o.body, d.NothingToDo, o.want)
		}
	}
	events := 0
	for _, e := range s.history.Of("ingest").Events {
		if e.Kind == api.EventOrder {
			events++
		}
	}
	if n := s.log.Count(`msg="order of an operator" `); n != 3 || events != 3 {
		t.Errorf("%d events and %d lines of three orders; log:\n%s", events, n, s.log)
	}
}

// An order shows at once, on the page and in JSON, though the pass that carries
// it out waits for Graphite.
func TestOrdersShowAtOnce(t *testing.T) {
	s := newSite(t, haproxyOf("ingest", 3), loadsOf(3), quick())
	s.listen()
	s.balance()
	s.passed()
	first := func() api.Table { return decoded[api.Tables](t, s.get("/api/v1/table/ingest")).Tables[0] }
	s.do(func() { // Graphite does not answer meanwhile
		for _, o := range []struct{ kind, body string }{
			{"pin", `{"backend":"ingest","server":"s1","weight":42,"reason":"r","for_seconds":3600}`},
			{"freeze", `{"backend":"ingest","reason":"r","for_seconds":3600}`},
			{"mode", `{"backend":"ingest","mode":"observe","reason":"r"}`},
		} {
			if a := s.order(o.kind, o.body); a.status != http.StatusOK {
				t.Fatalf("%s: %+v", o.kind, a)
			}
		}
		table := first()
		if p := table.Servers[0].Pin; p == nil || p.Weight != 42 || table.Freeze == nil || table.ModeOrder == nil || table.Mode != "observe" || !table.OrdersPending {
			t.Errorf("the table does not show the orders: %+v", table)
		}
		if got := decoded[api.Status](t, s.get("/api/v1/status")).Backends[0].Tables[0]; got.Servers[0].Pin == nil || !got.OrdersPending {
			t.Errorf("the status does not: %+v", got)
		}
		page := s.get("/").body
		for _, want := range []string{api.WordsPending, "ingest is frozen</b> until ", "ingest has mode observe</b> until it is taken back, by ", `<span class="badge note">pinned</span>`} {
			if !strings.Contains(page, want) {
				t.Errorf("the page does not show %q", want)
			}
		}
	})
	s.until("a pass has taken them up", func() bool { return !first().OrdersPending })
	if table := first(); table.HoldCode != balancer.HoldFrozen || table.Mode != "observe" {
		t.Errorf("%+v", table)
	}
	s.do(func() {
		if a := s.order("unpin", `{"backend":"ingest","server":"s1"}`); a.status != http.StatusOK {
			t.Fatalf("unpin: %+v", a)
		}
		if a := s.order("unfreeze", `{"backend":"ingest"}`); a.status != http.StatusOK || !strings.Contains(s.get("/").body, "Held by a freeze in the last pass.") {
			t.Errorf("unfreeze: %+v", a)
		}
		if table := first(); table.Servers[0].Pin != nil || !table.OrdersPending || strings.Contains(s.get("/").body, `<span class="badge note">pinned</span>`) {
			t.Errorf("the pin is still shown: %+v", table)
		}
	})
}
