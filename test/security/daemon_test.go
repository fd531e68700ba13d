package security

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
)

// echo repeats all that the client has said, as error pages do.
func echo(status int, contentType string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is cut is echoed as far as it came
		user, password, _ := r.BasicAuth()
		text := fmt.Sprintf("Error: %s %s %s %s %s", r.URL, r.Header, body, user+":"+password, "t4rget-k3y")
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Location", "https://elsewhere.example/?"+text)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.Repeat(text+"\n", 3))
	}
}

// TestSecretsStayInside: passwords, tokens and keys are in nothing that the
// daemon or a command prints, sends or keeps, also when Graphite repeats them.
func TestSecretsStayInside(t *testing.T) {
	t.Parallel()
	s := newScene(t, "text")
	for _, h := range []http.HandlerFunc{
		echo(500, "text/html"), echo(403, "text/plain"), echo(302, "text/html"), echo(200, "text/html"), echo(200, "application/json"),
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		s.say(h)
		s.passes(0)
		s.secretless("loads", s.command("loads", "ingest"))
		s.secretless("status", s.command("status", "ingest"))
	}
	s.secretless("check --live", s.command("check", "--live"))
	s.say(loads(map[string]float64{"s1": 100, "s2": 200, "s3": 300, "s4": 400}))
	s.passes(1)
	bad := strings.Replace(s.read(s.file), `interval = "1s"`, `intervall = "${HEADER_SECRET}"`, 1)
	good := s.read(s.file)
	s.write(s.file, bad)
	if err := s.daemon.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.until("the reload has failed", func() bool { return strings.Contains(s.logged(), "intervall") })
	s.secretless("check of a bad file", s.command("check"))
	s.write(s.file, good)
	for _, path := range []string{"/", "/api/v1/status", "/api/v1/table", "/api/v1/history/ingest", "/metrics", "/-/ready", "/nothing"} {
		s.secretless(path, s.get(path))
	}
	s.secretless("events", s.event())
	for _, args := range [][]string{
		{"check", "--json"}, {"check", "--live", "--json"}, {"loads", "ingest", "--json"}, {"plan", "ingest", "--json"}, {"plan", "ingest"},
		{"status", "--json"}, {"explain", "ingest/s1"}, {"explain", "ingest/s1", "--json"}, {"history", "ingest"}, {"history", "ingest", "--json"},
		{"freeze", "ingest", "--for", "1m", "--reason", "x"},
	} {
		s.secretless(strings.Join(args, " "), s.command(args...))
	}
	s.until("a report has come", func() bool { return strings.Contains(s.carbon.String(), "ingest") })
	s.daemon.Terminate()
	<-s.daemon.Done()
	s.secretless("carbon", s.carbon.String())
	s.secretless("state file", s.read(filepath.Join(s.dir, "state.json")))
	s.secretless("log", s.logged())
	if !strings.Contains(s.logged(), "${TARGET_KEY}") && !strings.Contains(s.logged(), "***") {
		t.Error("nothing was masked, so nothing was tried")
	}
}

func (s *scene) secretless(where, text string) {
	s.t.Helper()
	for _, secret := range secrets {
		if i := strings.Index(text, secret); i >= 0 {
			s.t.Errorf("%s: %q is in it: ...%s", where, secret, text[max(0, i-300):min(len(text), i+100)])
		}
	}
}

func (s *scene) read(path string) string {
	s.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func (s *scene) write(path, text string) {
	s.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// forged is text that would be a line of its own, recolour a terminal, or turn
// the direction of what follows.
const forged = "s9\ntime=2026-01-01T00:00:00Z level=ERROR msg=forged\r\x1b[31m\x1b]0;title\x07\u009b2J\u202e\u2028\x7f end"

// TestLogLinesCannotBeForged: names of series, of SPOE messages, paths and
// reasons stay inside their own line, and move no terminal.
func TestLogLinesCannotBeForged(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, format)
			name, err := json.Marshal(forged)
			if err != nil {
				t.Fatal(err)
			}
			body := fmt.Sprintf(`[{"target":%s,"datapoints":[[1,%d]]},{"target":%s,"datapoints":[]},{"target":"s1","datapoints":[[2,%d]]}]`,
				name, time.Now().Unix(), name, time.Now().Unix())
			for _, status := range []int{200, 500} {
				s.say(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(status)
					_, _ = io.WriteString(w, body)
				})
				s.passes(1)
			}
			s.tell(notify(forged, "backend", forged), notify("weighter-backend", "backend", forged), notify("weighter-server."+forged, forged, forged))
			s.get("/" + strings.ReplaceAll(forgedPath, " ", ""))
			s.command("freeze", "ingest", "--for", "1m", "--reason", forged)
			s.until("the message is told", func() bool { return strings.Contains(s.logged(), "SPOE message is not known") })
			s.daemon.Terminate()
			<-s.daemon.Done()
			if !strings.Contains(s.logged(), "forged") {
				t.Fatal("nothing of it was logged, so nothing was tried")
			}
			s.judgeLog(format)
		})
	}
}

const forgedPath = "%0atime=x%20level=ERROR%0d%1b%5b31m"

var textLine = regexp.MustCompile(`^time=20\d\d-[0-9T:.-]+Z level=(DEBUG|INFO|WARN|ERROR) msg=`)

func (s *scene) judgeLog(format string) {
	s.t.Helper()
	for line := range strings.Lines(s.logged()) {
		line = strings.TrimSuffix(line, "\n")
		if format == "json" {
			var record struct{ Level, Msg string }
			if err := json.Unmarshal([]byte(line), &record); err != nil || record.Level == "" || strings.HasPrefix(record.Msg, "forged") {
				s.t.Errorf("not a record: %q, %v", line, err)
			}
		} else if !textLine.MatchString(line) || strings.Contains(line, "msg=forged") && strings.HasPrefix(line, "time=2026-01-01") {
			s.t.Errorf("not a line of ours: %q", line)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			s.t.Errorf("characters that are not printed in %q", line)
		}
	}
}

// TestALyingGraphiteMovesWeightsOnly: at a real HAProxy, with a lie a pass,
// weights stay within min_weight and max_weight, and what an operator has taken
// out is as he left it.
func TestALyingGraphiteMovesWeightsOnly(t *testing.T) {
	t.Parallel()
	s := newScene(t, "text")
	first := s.servers()
	for i := range 6 {
		lie, fed := map[string]float64{"zero": 0, "maint": 0, "drained": 0, "nobody": 1}, fmt.Sprint("s", i%4+1)
		for j := range 4 {
			lie[fmt.Sprint("s", j+1)] = 1e9
		}
		lie[fed] = 0.001
		s.say(loads(lie))
		s.until(fed+" is fed", func() bool { return s.servers()[fed] == "0 256" })
		now := s.servers()
		for _, name := range []string{"zero", "maint", "drained"} {
			if now[name] != first[name] {
				t.Errorf("%s was %q, is %q", name, first[name], now[name])
			}
		}
		for j := range 4 {
			var state, weight int
			name := fmt.Sprint("s", j+1)
			if _, err := fmt.Sscan(now[name], &state, &weight); err != nil || state != 0 || weight < 4 || weight > 256 {
				t.Errorf("%s: %q, %v", name, now[name], err)
			}
		}
	}
}

// TestFileModesWithoutUmask: whatever the umask, what the daemon makes is open
// to whom it should be.
func TestFileModesWithoutUmask(t *testing.T) {
	t.Parallel()
	s := newScene(t, "text")
	s.command("freeze", "ingest", "--for", "1m", "--reason", "x")
	s.until("the state is saved", func() bool { _, err := os.Stat(filepath.Join(s.dir, "state.json")); return err == nil })
	s.daemon.Terminate() // saves once more
	got := make(map[string]fs.FileMode)
	note := func() {
		files, err := os.ReadDir(s.dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if info, err := f.Info(); err == nil { // sockets go while we look
				got[f.Name()] = info.Mode()
			}
		}
	}
	note()
	<-s.daemon.Done()
	note()
	want := map[string]fs.FileMode{
		"control.sock": fs.ModeSocket | 0o660, "spoe.sock": fs.ModeSocket | 0o666, "state.json": 0o600,
		"log": 0o600, "password": 0o600, "weighter.toml": 0o600, // the test's own
	}
	for name, mode := range got {
		if strings.HasPrefix(name, ".state.json.") { // on its way to be the state file
			name = "state.json"
		}
		if want[name] != mode {
			t.Errorf("%s has mode %v, want %v", name, mode, want[name])
		}
	}
	if _, made := got["state.json"]; !made {
		t.Errorf("there are only %v", got)
	}
}

// TestSlowClientsEndAndKeepNobodyOut: a client that stops in the middle of a
// request is cut off by each listener, and others are answered meanwhile.
func TestSlowClientsEndAndKeepNobodyOut(t *testing.T) {
	t.Parallel()
	s := newScene(t, "text")
	var open []net.Conn
	for _, to := range []struct{ network, address, says string }{
		{"tcp", s.admin, "GET / HTTP/1.1\r\nHo"}, {"unix", filepath.Join(s.dir, "control.sock"), "POST /control/v1/freeze HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"},
		{"tcp", s.spoe, "\x00\x00"}, {"unix", filepath.Join(s.dir, "spoe.sock"), "\x00\x00\x01\x00\x01"},
	} {
		for range 20 {
			conn, err := net.Dial(to.network, to.address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, to.says); err != nil {
				t.Fatal(err)
			}
			open = append(open, conn)
		}
	}
	s.get("/api/v1/status")
	s.command("status")
	s.tell(notify("weighter-backend", "backend", "ingest"))
	for _, conn := range open {
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: still open after %s: %v", conn.RemoteAddr(), patience, err)
		}
	}
}

// TestAdminListenerTellsNoOtherSite: by another name (DNS rebinding) or from
// another site's page nothing is read, and nothing but reading is possible.
func TestAdminListenerTellsNoOtherSite(t *testing.T) {
	t.Parallel()
	s := newScene(t, "text")
	for name, c := range map[string]struct {
		method string
		header map[string]string
		status int
	}{
		"another name":  {http.MethodGet, map[string]string{"Host": "evil.example"}, http.StatusMisdirectedRequest},
		"another site":  {http.MethodGet, map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors", "Origin": "http://evil.example"}, http.StatusForbidden},
		"an order":      {http.MethodPost, map[string]string{"Content-Type": "application/json"}, http.StatusMethodNotAllowed},
		"a simple form": {http.MethodPost, map[string]string{"Content-Type": "text/plain", "Origin": "null"}, http.StatusMethodNotAllowed},
		"itself":        {http.MethodGet, nil, http.StatusOK},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+s.admin+"/api/v1/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range c.header {
			r.Header.Set(key, value)
		}
		r.Host = c.header["Host"]
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != c.status || answer.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d, %v", name, answer.StatusCode, answer.Header)
		}
	}
	if orders := s.get("/api/v1/status"); strings.Contains(orders, `"author"`) {
		t.Errorf("something was ordered: %s", orders)
	}
}
