package cli

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

func orderBy(author, reason string, left time.Duration) balancer.Order {
	o := balancer.Order{Author: author, Reason: reason, Since: noon.Add(-time.Hour)}
	if left > 0 {
		o.Until = noon.Add(left)
	}
	return o
}

// TestOrders has what is sent, what is said, and the way back: before is what
// was in force, after what the daemon says is.
func TestOrders(t *testing.T) {
	none := balancer.Control{}
	pinned := func(weight int, o balancer.Order) balancer.Control {
		return balancer.Control{Pins: map[string]balancer.Pin{"s1": {Order: o, Weight: weight}}}
	}
	frozen := balancer.Control{Freeze: &balancer.Freeze{Order: orderBy("bob", "it's late", 90*time.Minute)}}
	both := pinned(64, orderBy("alice", "r", 30*day))
	both.Freeze = frozen.Freeze
	observed := balancer.Control{Mode: &balancer.ModeOrder{Order: orderBy("bob", "looks wrong", 0), Mode: "observe"}}
	for _, c := range []struct {
		name          string
		args          []string
		before, after balancer.Control
		sent, want    string
	}{
		{"pin", []string{"pin", "in/s1", "64", "--reason", "new kernel", "--for", "1d"}, none, pinned(64, orderBy("alice", "new kernel", day)),
			`{"backend":"in","server":"s1","weight":64,"reason":"new kernel","for_seconds":86400}`, `
in/s1 is pinned at 64 until 2026-07-02 12:00:00 UTC (1d left), by alice: new kernel
undo: haproxy-weighter unpin in/s1 --control SOCKET
`},
		{"pin again", []string{"pin", "in/s1", "7", "--reason", "r", "--for", "2h"}, pinned(64, orderBy("bob", "it's late", 90*time.Minute)), pinned(7, orderBy("alice", "r", 2*time.Hour)),
			`{"backend":"in","server":"s1","weight":7,"reason":"r","for_seconds":7200}`, `
in/s1 is pinned at 7 until 2026-07-01 14:00:00 UTC (2h left), by alice: r
undo: haproxy-weighter pin in/s1 64 --reason 'it'\''s late' --for 90m --control SOCKET
`},
		{"pin in a freeze", []string{"pin", "in/s1", "64", "--reason", "r", "--for", "30d"}, pinned(7, orderBy("bob", "r", 30*day)), both,
			`{"backend":"in","server":"s1","weight":64,"reason":"r","for_seconds":2592000}`, `
in/s1 is pinned at 64 until 2026-07-31 12:00:00 UTC (30d left), by alice: r
in is frozen until 2026-07-01 13:30:00 UTC (1h30m left), by bob: it's late
undo: haproxy-weighter pin in/s1 7 --reason r --for 30d --control SOCKET
`},
		{"unpin", []string{"unpin", "in/s1"}, pinned(64, orderBy("bob", "r", time.Hour)), frozen,
			`{"backend":"in","server":"s1"}`, `
in/s1 is no longer pinned
in is frozen until 2026-07-01 13:30:00 UTC (1h30m left), by bob: it's late
undo: haproxy-weighter pin in/s1 64 --reason r --for 1h --control SOCKET
`},
		{"freeze", []string{"freeze", "in", "--reason", "it's late", "--for", "90m"}, none, frozen,
			`{"backend":"in","reason":"it's late","for_seconds":5400}`, `
in is frozen until 2026-07-01 13:30:00 UTC (1h30m left), by bob: it's late
undo: haproxy-weighter unfreeze in --control SOCKET
`},
		{"unfreeze", []string{"unfreeze", "in"}, frozen, none, `{"backend":"in"}`, `
in is no longer frozen
undo: haproxy-weighter freeze in --reason 'it'\''s late' --for 90m --control SOCKET
`},
		{"mode", []string{"mode", "in", "observe", "--reason", "looks wrong"}, none, observed,
			`{"backend":"in","mode":"observe","reason":"looks wrong"}`, `
in has mode observe until it is taken back, by bob: looks wrong
undo: haproxy-weighter mode in file --control SOCKET
`},
		{"mode of the file", []string{"mode", "in", "file"}, observed, none,
			`{"backend":"in","mode":"file","reason":"back to what the file says"}`, `
in has the mode that the file says
undo: haproxy-weighter mode in observe --reason 'looks wrong' --control SOCKET
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			sent := ""
			socket := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				var answer any = &api.Status{Backends: []api.BackendStatus{{Backend: "out"}, {Backend: "in", Control: c.before}}}
				if r.Method == http.MethodPost {
					body, err := io.ReadAll(r.Body)
					if err != nil {
						t.Error(err)
					}
					if sent = string(body); r.URL.Path != "/control/v1/"+c.args[0] {
						t.Errorf("sent to %s", r.URL.Path)
					}
					answer = &api.Done{Backend: "in", Control: c.after, Warning: "watch\nit"}
				}
				if err := json.NewEncoder(w).Encode(answer); err != nil {
					t.Error(err)
				}
			})
			code, out, stderr := command(t, append(c.args, "--control", socket)...)
			if code != exitGood || stderr != "haproxy-weighter: warning: watch\\nit\n" || sent != c.sent {
				t.Errorf("exit code %d, stderr %q, sent %s", code, stderr, sent)
			}
			if d := cmp.Diff(strings.ReplaceAll(c.want[1:], "SOCKET", socket), out); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// TestOrderRefused has the daemon's own words.
func TestOrderRefused(t *testing.T) {
	socket := fakeDaemon(t, answers{
		"GET /api/v1/status":        goodStatus(),
		"POST /control/v1/unpin":    api.Problem{Error: "there is no backend \"in\" in the configuration in force", Do: "look"},
		"POST /control/v1/unfreeze": api.Problem{Error: "there is no backend"},
	})
	code, out, stderr := command(t, "unpin", "in/s1", "--control", socket)
	if code != exitFailed || out != "" || stderr != "haproxy-weighter: there is no backend \"in\" in the configuration in force\nhaproxy-weighter: hint: look\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, stderr)
	}
	code, _, stderr = command(t, "unfreeze", "in", "--control", socket)
	if code != exitFailed || stderr != "haproxy-weighter: there is no backend\n" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

// TestOrderWithNothingToDo: what was wanted is so, which is good; nothing has
// changed, so there is nothing to undo.
func TestOrderWithNothingToDo(t *testing.T) {
	status := goodStatus()
	status.Backends[0].Control = balancer.Control{Pins: map[string]balancer.Pin{"s1": {Order: orderBy("bob", "r", time.Hour), Weight: 7}}}
	socket := fakeDaemon(t, answers{
		"GET /api/v1/status":     status,
		"POST /control/v1/pin":   api.Done{Backend: "in", NothingToDo: "in/s1 is pinned at 7 already", Control: status.Backends[0].Control},
		"POST /control/v1/unpin": api.Done{Backend: "in", NothingToDo: "in/s2 is not pinned", Control: status.Backends[0].Control},
		"POST /control/v1/mode":  api.Done{Backend: "in", NothingToDo: "in has the mode that the file says"},
	})
	const pinned = "in/s1 is pinned at 7 until 2026-07-01 13:00:00 UTC (1h left), by bob: r\n"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"pin", "in/s1", "7", "--reason", "r", "--for", "1h"}, "nothing to do: in/s1 is pinned at 7 already\n" + pinned},
		{[]string{"unpin", "in/s2"}, "nothing to do: in/s2 is not pinned\n" + pinned},
		{[]string{"mode", "in", "file"}, "nothing to do: in has the mode that the file says\n"},
	} {
		code, out, stderr := command(t, append(c.args, "--control", socket)...)
		if code != exitGood || out != c.want || stderr != "" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", c.args, code, out, stderr)
		}
	}
}

// TestOrderUncertain: when the daemon breaks off, nobody knows whether it has
// taken the order. When it is not there, everybody knows.
func TestOrderUncertain(t *testing.T) {
	socket := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(goodStatus()); err != nil {
			t.Error(err)
		}
	})
	code, out, stderr := command(t, "unfreeze", "in", "--control", socket)
	if code != exitUnreachable || out != "" || !strings.Contains(stderr, hintOrderUncertain) {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, stderr)
	}
	l, err := net.Listen("unix", shortDir(t)+"/c.sock")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, _, stderr := command(t, "unfreeze", "in", "--control", l.Addr().String()); strings.Contains(stderr, hintOrderUncertain) {
		t.Errorf("stderr %q of an order that was not sent", stderr)
	}
}
