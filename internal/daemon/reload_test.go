package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// With limited-proportions, aggressiveness 1 and no limit in the way, 400 to
// 100 is one to four.
const oneToFour = "function = \"limited-proportions\"\naggressiveness = 1.0\n"

func TestReloadIsAllOrNothing(t *testing.T) {
	s := newScene(t)
	s.configure(oneToFour, "")
	s.start()
	s.until("weights are written", func() bool { return s.weight("ingest/s1") == 64 && s.weight("ingest/s3") == 256 })

	// A file with one mistake changes nothing, though the rest of it would.
	s.configure("function = \"limited-proportions\"\naggressiveness = 2.0\nmax_weight = 300\n", "")
	s.hangUp()
	s.untilLog(1, "the configuration was not reloaded")
	status := s.status()
	if !strings.Contains(status.Config.ReloadError, "max_weight") || status.Config.ReloadFailed == nil {
		t.Errorf("status after a failed reload: %+v", status.Config)
	}
	if w := s.weight("ingest/s1"); w != 64 {
		t.Errorf("weight %d after a failed reload", w)
	}

	// The corrected file: another function, another backend, and keys that are
	// read at start only.
	s.configure("function = \"limited-proportions\"\naggressiveness = 1.0\nmax_weight = 128\n", `
[[backend]]
name = "other"
target = "aliasByNode(load.*, 1)"
interval = "1s"
function = "limited-proportions"
aggressiveness = 1.0
[spoa]
listen = ["127.0.0.1:1"]
`)
	s.hangUp()
	s.until("the new settings count", func() bool { return s.weight("ingest/s3") == 128 && s.weight("ingest/s1") == 64 })
	s.until("the new backend is balanced", func() bool { return s.weight("other/s1") == 128 && s.weight("other/s2") == 256 })
	status = s.status()
	if status.Config.ReloadError != "" || status.Config.ReloadFailed != nil || !slices.Contains(status.Config.RestartKeys, "spoa.listen") {
		t.Errorf("status after a good reload: %+v", status.Config)
	}
	if names := backends(status); !slices.Equal(names, []string{"ingest", "other"}) {
		t.Errorf("backends %v", names)
	}

	// A backend that leaves the file keeps its weights, and its orders, which can
	// still be taken back.
	s.order("freeze", api.Order{Backend: "other", Reason: "r", ForSeconds: 3600})
	s.configure(oneToFour, "")
	s.hangUp()
	s.untilLog(1, "backends are no longer balanced")
	s.untilLog(1, "orders_kept_for=other")
	if left := s.status().Unconfigured; len(left) != 1 || left[0].Backend != "other" || left[0].Control.Freeze == nil {
		t.Errorf("the status does not tell of the freeze: %+v", left)
	}
	s.order("unfreeze", api.Order{Backend: "other"})
	s.until("ingest goes on", func() bool { return s.weight("ingest/s3") == 256 })
	if w := s.weight("other/s1"); w != 128 {
		t.Errorf("weight %d of a backend that is no longer balanced", w)
	}
	if n := s.log.Count("somebody else has set weights"); n != 0 {
		t.Errorf("%d times our own weights were taken for somebody else's; log:\n%s", n, s.log)
	}
	_, text := s.http("admin.sock", "GET", "/metrics", nil)
	for _, want := range []string{`haproxy_weighter_server_weight{proxy="ingest"`, "haproxy_weighter_config_last_reload_successful 1"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	if strings.Contains(text, `proxy="other"`) {
		t.Error("series of a backend that is gone are still there")
	}
}

func backends(s api.Status) []string {
	var names []string
	for _, b := range s.Backends {
		names = append(names, b.Backend)
	}
	return names
}

// Reloads without a pause, good and bad: tables are there all the time, and
// what counts in the end is the last good file.
func TestReloadStorm(t *testing.T) {
	s := newScene(t)
	s.configure(oneToFour, "")
	s.start()
	s.until("weights are written", func() bool { return s.weight("ingest/s1") == 64 })
	for i := range 7 {
		if i%3 == 2 {
			if err := os.WriteFile(s.file, []byte("[haproxy"), 0o600); err != nil {
				t.Fatal(err)
			}
		} else {
			s.configure(oneToFour, "")
		}
		good, bad := s.log.Count("configuration reloaded"), s.log.Count("was not reloaded")
		s.hangUp()
		s.until("the reload is over", func() bool {
			code, text := s.http("admin.sock", "GET", "/api/v1/table/ingest", nil)
			var tables api.Tables
			if err := json.Unmarshal([]byte(text), &tables); code != 200 || err != nil || len(tables.Tables) != 1 || len(tables.Tables[0].Servers) != 4 {
				t.Fatalf("a table is missing during a reload: %d %s %v", code, text, err)
			}
			return s.log.Count("configuration reloaded") > good || s.log.Count("was not reloaded") > bad
		})
	}
	if w := s.weight("ingest/s1"); w != 64 {
		t.Errorf("weight %d", w)
	}
	if n := s.log.Count("somebody else has set weights"); n != 0 {
		t.Errorf("our own weights were taken for somebody else's; log:\n%s", s.log)
	}
}

func TestRestartKeys(t *testing.T) {
	parse := func(more string) *config.Config {
		t.Helper()
		c, err := config.Parse("weighter.toml", []byte(config.Minimal+more), os.LookupEnv)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a := parse("[spoa]\nlisten = [\"127.0.0.1:9002\"]\n")
	b := parse(`
[spoa]
listen = ["127.0.0.1:9003"]
max_frame_size = 1024
max_connections = 5
idle_timeout = "1m"
[admin]
listen = "off"
control = "off"
[state]
file = "/x"
max_age = "1m"
[log]
format = "json"
level = "debug"
[report]
carbon = "127.0.0.1:2003"
`)
	want := []string{
		"spoa.listen", "spoa.max_frame_size", "spoa.max_connections", "spoa.idle_timeout",
		"admin.listen", "admin.control", "state.file", "log.format",
	}
	if diff := cmp.Diff(want, restartKeys(a, b)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if keys := restartKeys(a, a); keys != nil {
		t.Errorf("the same configuration: %v", keys)
	}
}

// A script that does not load is a mistake of the configuration: what was in
// force stays, script included. One that loads is taken up.
func TestReloadOfAScript(t *testing.T) {
	s := newScene(t)
	script := filepath.Join(s.dir, "weigh.lua")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const body = "function weigh(servers, backend)\n\tlocal shares = {}\n\tfor _, s in ipairs(servers) do shares[s.name] = %s end\n\treturn shares\nend\n"
	write(fmt.Sprintf(body, "1"))
	s.configure(fmt.Sprintf("function = \"lua\"\nscript = %q\n", script), "")
	s.start()
	s.until("the daemon answers", func() bool { code, _ := s.http("control.sock", "GET", "/-/healthy", nil); return code == 200 })
	s.until("the script's equal shares count", func() bool {
		table := s.status().Backends[0].Tables
		return len(table) == 1 && table[0].Function == "lua" && table[0].HoldCode == ""
	})
	equal := s.weight("ingest/s1")
	if other := s.weight("ingest/s4"); other != equal {
		t.Fatalf("weights %d and %d of equal shares", equal, other)
	}

	write("function weigh(servers, backend)\n\treturn {\n")
	s.hangUp()
	s.untilLog(1, "the configuration was not reloaded")
	if why := s.status().Config.ReloadError; !strings.Contains(why, "weigh.lua:") {
		t.Errorf("the error %q does not tell the script's line", why)
	}
	if table := s.status().Backends[0].Tables[0]; table.Function != "lua" || table.HoldCode != "" {
		t.Errorf("the old script is not in force: %+v", table)
	}

	write(fmt.Sprintf(body, "s.name == 's1' and 1 or 3"))
	s.hangUp()
	s.until("the new script counts", func() bool { return 3*s.weight("ingest/s1") <= s.weight("ingest/s4")+2 })
}

// One reload a second while Graphite takes longer than that: passes get through
// all the same, and the last file counts.
func TestReloadStormWithASlowGraphite(t *testing.T) {
	s := newScene(t)
	const takes = 1500 * time.Millisecond
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(takes):
			s.store.Handler().ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(slow.Close)
	s.url = slow.URL
	s.configure(oneToFour, "")
	text, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(`timeout = "400ms"`), []byte(`timeout = "10s"`), 1)
	text = bytes.Replace(text, []byte(`interval = "1s"`), []byte(`interval = "11s"`), 1)
	if err := os.WriteFile(s.file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	ended := make(chan struct{})
	var storm sync.WaitGroup
	storm.Go(func() {
		for ticker := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-ended:
				return
			case <-ticker.C:
				select { // as signal.Notify does
				case s.reload <- syscall.SIGHUP:
				default:
				}
			}
		}
	})
	defer storm.Wait()
	defer close(ended)
	s.untilLog(2, "configuration reloaded")
	s.load("s1", 100)
	s.load("s3", 400)
	s.until("the new loads count", func() bool { return s.weight("ingest/s3") < s.weight("ingest/s1") })
}

// A generation has had its chances when each backend was asked about and tried,
// or could not be asked about.
func TestChances(t *testing.T) {
	c := &config.Config{Backends: []config.Backend{{Name: "a"}, {Name: "b"}}}
	all := newChances(c)
	had := func(want bool, when string) {
		t.Helper()
		got := false
		select {
		case <-all.had:
			got = true
		default:
		}
		if got != want {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	all.Passed(&balancer.Table{Backend: "a"})
	all.Rendered("b", errors.New("no answer"), time.Second)
	had(false, "a table of a with the loads from before")
	all.Rendered("a", nil, time.Second)
	all.Passed(&balancer.Table{Backend: "b"})
	had(false, "a was not tried")
	all.Passed(&balancer.Table{Backend: "a"})
	had(true, "all tried")
	all.Passed(&balancer.Table{Backend: "a"})
	all.Rendered("a", errors.New("no answer"), time.Second)
	for _, limits := range []struct{ graphite, haproxy, want time.Duration }{
		{5 * time.Second, 2 * time.Second, 7 * time.Second},
		{100 * time.Millisecond, 100 * time.Millisecond, reloadPause},
		{5 * time.Minute, time.Minute, chanceMost},
	} {
		c.Graphite.Timeout, c.HAProxy.Timeout = limits.graphite, limits.haproxy
		if got := chanceLimit(c); got != limits.want {
			t.Errorf("limit %v for %v and %v, want %v", got, limits.graphite, limits.haproxy, limits.want)
		}
	}
}
