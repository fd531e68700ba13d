package admin

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/test/corpus"
)

// orderChild, when set, makes the test binary send one order to the socket
// that it names, so that another user can be its author.
const orderChild = "ADMIN_TEST_CONTROL"

// self is the user that the tests run as.
func self(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return u.Username
}

func TestOrders(t *testing.T) {
	s := newSite(t, haproxyOf("ingest", 3), loadsOf(3), quick())
	s.listen()
	s.balance()
	s.passed()
	by := self(t)
	done := func(kind, body string) api.Done {
		t.Helper()
		a := s.order(kind, body)
		if a.status != http.StatusOK {
			t.Fatalf("%s %s: %d %s", kind, body, a.status, a.body)
		}
		return decoded[api.Done](t, a)
	}

	d := done("pin", `{"backend":"ingest","server":"s2","weight":42,"reason":" new kernel ","for_seconds":7200}`)
	pin := d.Control.Pins["s2"]
	if pin.Weight != 42 || pin.Reason != "new kernel" || pin.Author != by || pin.Until.Sub(pin.Since).Hours() != 2 || d.Warning != "" {
		t.Errorf("pin: %+v", d)
	}
	s.until("the pin is in force", func() bool {
		row := s.fleet.Tables()[0].Rows[1]
		return row.Server == "s2" && row.AppliedWeight == 42 && row.Pin != nil
	})
	if d = done("unpin", `{"backend":"ingest","server":"s2"}`); !d.Control.Empty() {
		t.Errorf("unpin: %+v", d)
	}
	if d = done("freeze", `{"backend":"ingest","reason":"moving racks","for_seconds":60}`); d.Control.Freeze == nil || d.Control.Freeze.Author != by {
		t.Errorf("freeze: %+v", d)
	}
	s.until("the freeze is in force", func() bool { return s.fleet.Tables()[0].HoldCode == balancer.HoldFrozen })
	faults := s.fleet.Faults()
	if len(faults) != 1 || faults[0].Key != balancer.FaultFrozen {
		t.Errorf("a freeze is told as %+v, and the page looks for %q", faults, balancer.FaultFrozen)
	}
	if page := s.get("/").body; !strings.Contains(page, "haproxy-weighter unfreeze ingest") || strings.Contains(page, "1 fault now") {
		t.Error("the page does not show the freeze as an order")
	}
	if d = done("unfreeze", `{"backend":"ingest"}`); d.Control.Freeze != nil {
		t.Errorf("unfreeze: %+v", d)
	}
	if d = done("mode", `{"backend":"ingest","mode":"observe","reason":"loads look wrong"}`); d.Control.Mode == nil || !d.Control.Mode.Until.IsZero() {
		t.Errorf("mode: %+v", d)
	}
	s.until("the mode is in force", func() bool { return s.fleet.Tables()[0].Mode == "observe" })
	if got := decoded[api.Status](t, s.get("/api/v1/status")).Backends[0]; got.Mode != "observe" || got.Control.Mode == nil {
		t.Errorf("status %+v", got)
	}
	if d = done("mode", `{"backend":"ingest","mode":"file","reason":"they are right"}`); d.Control.Mode != nil {
		t.Errorf("mode file: %+v", d)
	}

	var texts []string
	for _, e := range s.history.Of("ingest").Events {
		if e.Kind == api.EventOrder {
			texts = append(texts, e.Text)
		}
	}
	want := []string{
		"s2 pinned at 42 by " + by + " for 2h: new kernel", "s2 unpinned by " + by,
		"frozen by " + by + " for 1m: moving racks", "unfrozen by " + by,
		"mode set to observe by " + by + ": loads look wrong", "mode set to what the file says by " + by + ": they are right",
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	wantLine := `level=INFO msg="order of an operator" order=pin backend=ingest server=s2 weight=42 author=` + by + ` reason="new kernel" for=2h`
	if !strings.Contains(s.log.String(), wantLine) {
		t.Errorf("no line %s in the log:\n%s", wantLine, s.log)
	}
}

// Orders for a backend that a reload has taken out of the configuration are
// shown and can be taken back, and no others given.
func TestOrdersLeftOver(t *testing.T) {
	s := newSite(t, haproxyOf("ingest", 3), loadsOf(3), quick())
	s.listen()
	if err := s.controls.Pin("gone", "s1", balancer.Pin{Weight: 5}); err != nil {
		t.Fatal(err)
	}
	const undo = "<code>haproxy-weighter unpin gone/s1</code>"
	left := decoded[api.Status](t, s.get("/api/v1/status")).Unconfigured
	if len(left) != 1 || left[0].Backend != "gone" || left[0].Control.Pins["s1"].Weight != 5 {
		t.Errorf("status has %+v", left)
	}
	for _, path := range []string{"/", "/?backend=ingest"} {
		if page := s.get(path).body; !strings.Contains(page, "gone is not in the configuration: ") || !strings.Contains(page, undo) {
			t.Errorf("%s does not show the orders", path)
		}
	}
	for _, o := range []struct {
		kind, body string
		want       int
	}{
		{"pin", `{"backend":"gone","server":"s1","weight":42,"reason":"r","for_seconds":60}`, http.StatusNotFound},
		{"unpin", `{"backend":"gone","server":"s2"}`, http.StatusOK}, // nothing to do
		{"unpin", `{"backend":"gone","server":"s1"}`, http.StatusOK},
		{"unpin", `{"backend":"gone","server":"s1"}`, http.StatusNotFound},
	} {
		if a := s.order(o.kind, o.body); a.status != o.want {
			t.Errorf("%s %s: %d %s, want %d", o.kind, o.body, a.status, a.body, o.want)
		}
	}
	if a := s.get("/api/v1/status"); !strings.Contains(a.body, `"unconfigured":[]`) || strings.Contains(s.get("/").body, undo) {
		t.Errorf("the order is still shown: %s", a.body)
	}
}

func TestOrdersRefused(t *testing.T) {
	s := newSite(t, haproxyOf("ingest", 12), loadsOf(12), quick())
	s.listen()
	unread := s.order("pin", `{"backend":"ingest","server":"s1","weight":1,"reason":"x","for_seconds":60}`)
	if unread.status != http.StatusConflict || !strings.Contains(unread.body, "HAProxy has not been read yet") {
		t.Errorf("before HAProxy is read: %+v", unread)
	}
	s.balance()
	s.passed()
	long := strings.Repeat("x", mostReason+1)
	for _, c := range []struct {
		kind, body string
		status     int
		words      string
	}{
		{"drain", `{}`, 404, "freeze, mode, pin, unfreeze and unpin"},
		{"pin", ``, 400, "no order"},
		{"pin", `[]`, 400, "no order"},
		{"pin", `null`, 400, "backend is missing"},
		{"pin", `{"backend":"ingest","server":"s1","weight":1,"reason":"x","for_seconds":60}{}`, 400, "follows"},
		{"pin", `{"backend":"ingest","server":"s1","wieght":1,"reason":"x","for_seconds":60}`, 400, "unknown field"},
		{"pin", `{"backend":"ingest","server":"s1","weight":"1","reason":"x","for_seconds":60}`, 400, "no order"},
		{"pin", `{"backend":"ingest","server":"s1","weight":1.5,"reason":"x","for_seconds":60}`, 400, "no order"},
		{"pin", `{"server":"s1","weight":1,"reason":"x","for_seconds":60}`, 400, "backend is missing"},
		{"pin", `{"backend":"ingest","weight":1,"reason":"x","for_seconds":60}`, 400, "server is missing"},
		{"pin", `{"backend":"ingest","server":"s1","reason":"x","for_seconds":60}`, 400, "allowed: 1 to 256"},
		{"pin", `{"backend":"ingest","server":"s1","weight":257,"reason":"x","for_seconds":60}`, 400, "allowed: 1 to 256"},
		{"pin", `{"backend":"ingest","server":"s1","weight":-1,"reason":"x","for_seconds":60}`, 400, "allowed: 1 to 256"},
		{"pin", `{"backend":"ingest","server":"s1","weight":1,"for_seconds":60}`, 400, "reason is missing"},
		{"pin", `{"backend":"ingest","server":"s1","weight":1,"reason":"  ","for_seconds":60}`, 400, "reason is missing"},
		{"pin", `{"backend":"ingest","server":"s1","weight":1,"reason":"a\nb","for_seconds":60}`, 400, "can't be printed (U+000A)"},
		{"pin", `{"backend":"ingest","server":"s1","weight":1,"reason":"\u202egnp","for_seconds":60}`, 400, "can't be printed (U+202E)"},
		{"pin", "{\"backend\":\"ingest\",\"server\":\"s1\",\"weight\":1,\"reason\":\"\xff\",\"for_seconds\":60}", 400, "can't be printed"},
		{"pin", `{"backend":"ingest","server":"s1","weight":1,"reason":"` + long + `","for_seconds":60}`, 400, "501 bytes"},
		{"pin", `{"backend":"ingest","server":"s1","weight":1,"reason":"x"}`, 400, "for_seconds is missing"},
		{"pin", `{"backend":"ingest","server":"s1","weight":1,"reason":"x","for_seconds":0.5}`, 400, "30 days"},
		{"pin", `{"backend":"ingest","server":"s1","weight":1,"reason":"x","for_seconds":-60}`, 400, "30 days"},
		{"pin", `{"backend":"ingest","server":"s1","weight":1,"reason":"x","for_seconds":1e300}`, 400, "30 days"},
		{"pin", `{"backend":"ingest","server":"s1","weight":1,"reason":"x","for_seconds":1e999}`, 400, "no order"},
		{"pin", `{"backend":"ingest","server":"s1","weight":1,"mode":"live","reason":"x","for_seconds":60}`, 400, "pin takes no mode"},
		{"pin", `{"backend":"imgest","server":"s1","weight":1,"reason":"x","for_seconds":60}`, 404, "did you mean ingest? There are the backends ingest"},
		{"pin", `{"backend":"ingest","server":"S111","weight":1,"reason":"x","for_seconds":60}`, 404, "did you mean one of s11, "},
		{"unpin", `{"backend":"ingest","server":"S111"}`, 404, "did you mean one of s11, "},
		{"unpin", `{"backend":"ingest","server":"s1","for_seconds":60}`, 400, "unpin takes no time"},
		{"freeze", `{"backend":"ingest","server":"s1","reason":"x","for_seconds":60}`, 400, "for the whole backend"},
		{"freeze", `{"backend":"ingest","weight":3,"reason":"x","for_seconds":60}`, 400, "takes no weight"},
		{"freeze", `{"backend":"ingest","reason":"x"}`, 400, "for_seconds is missing"},
		{"freeze", `{"backend":"ingest","for_seconds":60}`, 400, "reason is missing"},
		{"mode", `{"backend":"ingest","reason":"x"}`, 400, "allowed: live, observe, and file"},
		{"mode", `{"backend":"ingest","mode":"off","reason":"x"}`, 400, "allowed: live, observe, and file"},
		{"mode", `{"backend":"ingest","mode":"observe"}`, 400, "reason is missing"},
		{"mode", `{"backend":"ingest","mode":"file","reason":"x","for_seconds":60}`, 400, "takes no time"},
		{"mode", `{"backend":"ingest","mode":"live","reason":"x","pad":"` + strings.Repeat("x", mostOrder) + `"}`, 413, "65536"},
	} {
		a := s.order(c.kind, c.body)
		p := decoded[api.Problem](t, a)
		if a.status != c.status || !strings.Contains(p.Error+" "+p.Do, c.words) {
			t.Errorf("%s %.120s: %d %s; want %d with %q", c.kind, c.body, a.status, a.body, c.status, c.words)
		}
	}
	for _, c := range []struct {
		method, path, kind string
		status             int
	}{
		{http.MethodGet, "/control/v1/freeze", "application/json", 405},
		{http.MethodPut, "/control/v1/freeze", "application/json", 405},
		{http.MethodPost, "/control/v1/freeze", "text/plain", 415},
		{http.MethodPost, "/control/v1/freeze", "", 415},
		{http.MethodPost, "/control/v1/", "application/json", 404},
		{http.MethodPost, "/api/v1/table", "application/json", 405},
		{http.MethodGet, "/api/v1/status", "", 200},
		{http.MethodGet, "/", "", 200},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, "http://control"+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.kind != "" {
			r.Header.Set("Content-Type", c.kind)
		}
		if a := s.send(r); a.status != c.status {
			t.Errorf("%s %s as %q: %d, want %d", c.method, c.path, c.kind, a.status, c.status)
		}
	}
	if orders := s.controls.All(); len(orders) != 0 {
		t.Errorf("in force all the same: %+v", orders)
	}
}

func TestOrderWarnings(t *testing.T) {
	b := quick()
	b.Weighting.MinWeight, b.Weighting.MaxWeight = 10, 200
	s := newSite(t, haproxyOf("ingest", 4)+"\tserver spare 127.0.0.1:20100 backup\n", loadsOf(4), b)
	for _, command := range []string{"set server ingest/s1 state drain", "set server ingest/s2 state maint", "set server ingest/s3 weight 0"} {
		if _, err := s.haproxy.Command(t.Context(), command); err != nil {
			t.Fatal(err)
		}
	}
	s.listen()
	s.balance()
	s.passed()
	socket := "unix:" + s.haproxy.SocketPath
	out := func(server, state string) string {
		return server + " is " + state + " on " + socket + ", so the pin has no effect there before it takes connections again"
	}
	pin := func(server string, weight int, want string) {
		t.Helper()
		d := decoded[api.Done](t, s.order("pin", fmt.Sprintf(`{"backend":"ingest","server":%q,"weight":%d,"reason":"x","for_seconds":60}`, server, weight)))
		if d.Warning != want || d.Control.Pins[server].Weight != weight {
			t.Errorf("pin of %s at %d: %+v, want the warning %q", server, weight, d, want)
		}
	}
	pin("s1", 50, out("s1", "in drain"))
	pin("s2", 50, out("s2", "in maintenance"))
	pin("s3", 50, out("s3", "at weight 0, which is a drain"))
	pin("spare", 50, out("spare", "a backup server"))
	pin("s4", 5, "the weight is outside of min_weight and max_weight (10 to 200): the pin goes before them")
	pin("s4", 50, "")
	decoded[api.Done](t, s.order("mode", `{"backend":"ingest","mode":"observe","reason":"x"}`))
	pin("s4", 60, "the backend is in observe mode, so no weights are written anyway")
	decoded[api.Done](t, s.order("mode", `{"backend":"ingest","mode":"live","reason":"x"}`))
	f := decoded[api.Done](t, s.order("freeze", `{"backend":"ingest","reason":"x","for_seconds":60}`)).Control.Freeze
	pin("s4", 70, "the backend is frozen by "+f.Author+" until "+f.Until.UTC().Format("2006-01-02T15:04:05Z")+", so nothing is written before")
}

// TestOrderWarningOfAStaticAlgorithm holds that the warning knows the fault by
// the words that the balancer uses.
func TestOrderWarningOfAStaticAlgorithm(t *testing.T) {
	s := newSite(t, strings.Replace(haproxyOf("ingest", 2), "roundrobin", "static-rr", 1), loadsOf(2), quick())
	s.listen()
	s.balance()
	s.passed()
	d := decoded[api.Done](t, s.order("pin", `{"backend":"ingest","server":"s1","weight":50,"reason":"x","for_seconds":60}`))
	if !strings.HasPrefix(d.Warning, "HAProxy refuses weights: balance static-rr") {
		t.Errorf("warning %q", d.Warning)
	}
}

// TestAuthorIsThePeer holds that an order's author is the user at the other
// end, whatever the order says.
func TestAuthorIsThePeer(t *testing.T) {
	if path := os.Getenv(orderChild); path != "" {
		(&site{t: t, control: path}).order("freeze", `{"backend":"ingest","reason":"x","for_seconds":60}`)
		return
	}
	s := newSite(t, haproxyOf("ingest", 1), loadsOf(1), quick())
	s.listen()
	s.balance()
	s.passed()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAuthorIsThePeer$")
	cmd.Env = append(os.Environ(), orderChild+"="+s.control)
	want := self(t)
	if os.Geteuid() == 0 { // can be somebody else, who has no name
		want = "uid 3999999999"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 3999999999, Gid: 0}}
		open(t, s.control, cmd)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if f := s.controls.Of("ingest").Freeze; f == nil || f.Author != want {
		t.Errorf("freeze %+v, want one by %s", f, want)
	}
}

// open lets another user reach the socket's folder and the test's program.
func open(t *testing.T, socket string, cmd *exec.Cmd) {
	t.Helper()
	folder := t.TempDir()
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path = folder + "/program"
	if err := os.WriteFile(cmd.Path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{socket[:strings.LastIndex(socket, "/")], folder} {
		for ; path != os.TempDir() && path != "/"; path = path[:strings.LastIndex(path, "/")] {
			if err := os.Chmod(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd.Dir = "/"
}

func TestAuthorNeedsAUnixSocket(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if by, err := author(withPeer(t.Context(), a)); err == nil {
		t.Errorf("the author of a pipe is %q", by)
	}
}

func FuzzDecodeOrder(f *testing.F) {
	corpus.Add(f)
	for _, body := range []string{
		`{"backend":"ingest","server":"s1","weight":42,"reason":"new kernel","for_seconds":7200}`,
		`{"backend":"ingest","mode":"file","reason":"x"}`, `{"backend":"ingest"}`, `{"BACKEND":"a","backend":"b"}`, `{"for_seconds":1e308}`, `{`, `null`, ``,
	} {
		for kind := range rules {
			f.Add(kind, []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		rule, known := rules[kind]
		if !known {
			return
		}
		o, err := decodeOrder(kind, body)
		if err != nil {
			return
		}
		if o.Backend == "" || len(o.Reason) > mostReason || strings.ContainsAny(o.Reason, "\n\r\x00\x1b") || rule.reason && o.Reason == "" ||
			o.ForSeconds != 0 && (o.ForSeconds < leastFor.Seconds() || o.ForSeconds > mostFor.Seconds()) || rule.lasts && o.ForSeconds == 0 ||
			rule.weight && (o.Weight < 1 || o.Weight > 256) || !rule.weight && o.Weight != 0 || rule.server != (o.Server != "") ||
			rule.mode && o.Mode != string(config.Live) && o.Mode != string(config.Observe) && o.Mode != modeOfFile {
			t.Fatalf("%s %q is taken as %+v", kind, body, o)
		}
		again, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if o2, err := decodeOrder(kind, again); err != nil || o2 != o {
			t.Fatalf("%s %q: %+v, and again %+v, %v", kind, body, o, o2, err)
		}
	})
}
