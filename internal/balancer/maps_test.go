package balancer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
	"github.com/haproxy-weighter/haproxy-weighter/test/logbook"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// fakeMaps is a MapPlane for what a real HAProxy can't show at will.
type fakeMaps struct {
	mu      sync.Mutex
	worker  haproxy.Worker
	entries []haproxy.MapEntry
	err     error  // every call fails with it
	before  func() // called once before the next edit, with the lock held
	single  bool   // a delete takes out one of several, as with 3.4
	reads   int
	edits   []haproxy.MapEdit
	hung    chan struct{} // closed when a call hangs; nil means none does
}

func (f *fakeMaps) Map(ctx context.Context, path string) (*haproxy.Map, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	if f.hung != nil {
		close(f.hung)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if f.err != nil {
		return nil, f.err
	}
	return &haproxy.Map{Info: haproxy.Info{Worker: f.worker}, Path: path, Entries: append([]haproxy.MapEntry(nil), f.entries...)}, nil
}

func (f *fakeMaps) EditMap(_ context.Context, _ string, edits []haproxy.MapEdit, perLine int) (*haproxy.MapOutcome, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.before != nil {
		f.before()
		f.before = nil
	}
	if f.err != nil {
		return &haproxy.MapOutcome{}, f.err
	}
	if perLine < 1 {
		panic("no bound for a line")
	}
	out := &haproxy.MapOutcome{Info: haproxy.Info{Worker: f.worker}, Failed: map[string]error{}}
	for _, e := range edits {
		f.edits = append(f.edits, e)
		f.edit(e, out)
	}
	return out, nil
}

func (f *fakeMaps) edit(e haproxy.MapEdit, out *haproxy.MapOutcome) {
	var rest []haproxy.MapEntry
	found := 0
	for _, old := range f.entries {
		if old.Key == e.Key {
			found++
			if e.Op == haproxy.MapDelete && (found == 1 || !f.single) {
				continue
			}
			if e.Op == haproxy.MapSet {
				old.Value = fmt.Sprint(e.Value)
			}
		}
		rest = append(rest, old)
	}
	switch {
	case e.Op == haproxy.MapAdd:
		rest = append(rest, haproxy.MapEntry{Key: e.Key, Value: fmt.Sprint(e.Value)})
	case found == 0:
		out.Failed[e.Key] = haproxy.ErrNoKey
	case found > 1 && e.Op == haproxy.MapSet:
		panic("HAProxy 2.6 may crash on a set of a key that is there twice")
	}
	f.entries = rest
}

func (f *fakeMaps) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, e := range f.entries {
		all = append(all, e.Key+"="+e.Value)
	}
	return strings.Join(all, " ")
}

// take returns the edits since the last call.
func (f *fakeMaps) take() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, e := range f.edits {
		all = append(all, fmt.Sprintf("%s %s %d", e.Op, e.Key, e.Value))
	}
	f.edits = nil
	return strings.Join(all, ", ")
}

// keeper is a mapKeeper of the load map, driven by hand.
func keeper(f *fakeMaps) (*mapKeeper, *logbook.Book) {
	log := &logbook.Book{}
	o := &Options{
		Backend: config.Backend{Name: "in", MaxAge: time.Minute, Maps: config.Maps{Load: "/load.map"}},
		Now:     func() time.Time { return at(10) },
	}
	return newMapKeeper(f, o, slog.New(slog.NewTextHandler(log, nil))), log
}

func at(seconds int) time.Time { return time.Unix(1_800_000_000+int64(seconds), 0) }

// loaded is a table made at second 10 with loads of age 0.
func loaded(w haproxy.Worker, loads map[string]float64) *Table {
	t := &Table{Backend: "in", Time: at(10), Worker: w}
	for _, name := range []string{"s1", "s2", "s3"} {
		r := Row{Server: name, AppliedWeight: 7}
		if load, ok := loads[name]; ok {
			r.Load, r.AgeSeconds = &load, new(float64)
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

func TestMapGetsWhatChanged(t *testing.T) {
	for _, single := range []bool{false, true} {
		t.Run(fmt.Sprintf("single=%v", single), func(t *testing.T) { mapGetsWhatChanged(t, single) })
	}
}

func mapGetsWhatChanged(t *testing.T, single bool) {
	one := haproxy.Worker{PID: 1}
	f := &fakeMaps{single: single, worker: one, entries: []haproxy.MapEntry{{Key: "in/gone", Value: "3"}, {Key: "other/s1", Value: "4"}, {Key: "in/s1", Value: "5"}}}
	k, log := keeper(f)
	step := func(what string, table *Table, wantEdits, wantMap string) {
		t.Helper()
		k.bring(t.Context(), k.files[0], table)
		if got := f.take(); got != wantEdits {
			t.Errorf("%s: edits %q, want %q", what, got, wantEdits)
		}
		if got := f.text(); got != wantMap {
			t.Errorf("%s: map %q, want %q", what, got, wantMap)
		}
	}
	step("the first table", loaded(one, map[string]float64{"s1": 5.4, "s2": 1.5}), "del in/gone 0, add in/s2 2", "other/s1=4 in/s1=5 in/s2=2")
	step("nothing new", loaded(one, map[string]float64{"s1": 5.3, "s2": 1.6}), "", "other/s1=4 in/s1=5 in/s2=2")
	step("one load", loaded(one, map[string]float64{"s1": 6, "s2": 2}), "set in/s1 6", "other/s1=4 in/s1=6 in/s2=2")
	step("one lost, one new, one huge", loaded(one, map[string]float64{"s2": 1e30, "s3": 0}), "del in/s1 0, set in/s2 9223372036854775807, add in/s3 0",
		"other/s1=4 in/s2=9223372036854775807 in/s3=0")
	stale := loaded(one, map[string]float64{"s2": 1, "s3": 0})
	stale.Time = at(10 - 61)
	step("all too old by now", stale, "del in/s2 0, del in/s3 0", "other/s1=4")
	stuck := loaded(one, map[string]float64{"s2": 1, "s3": 0})
	stuck.Rows[2].Reasons = []weighting.Reason{{Step: weighting.StepStuck}}
	step("a zero that is not believed", stuck, "add in/s2 1", "other/s1=4 in/s2=1")
	if f.reads != 1 {
		t.Errorf("the map was read %d times", f.reads)
	}

	two := haproxy.Worker{PID: 2}
	f.worker, f.entries = two, []haproxy.MapEntry{{Key: "in/s2", Value: "words"}, {Key: "in/s1", Value: "1"}, {Key: "in/s1", Value: "1"}}
	if single {
		step("a reload", loaded(two, map[string]float64{"s1": 1, "s2": 1}), "del in/s2 0, del in/s1 0, add in/s2 1", "in/s1=1 in/s2=1")
	} else {
		step("a reload", loaded(two, map[string]float64{"s1": 1, "s2": 1}), "del in/s2 0, del in/s1 0, add in/s1 1, add in/s2 1", "in/s1=1 in/s2=1")
	}
	f.before = func() { f.entries = nil }
	step("cleared by hand", loaded(two, map[string]float64{"s1": 1, "s2": 2}), "set in/s2 2, add in/s1 1, add in/s2 2", "in/s1=1 in/s2=2")
	three := haproxy.Worker{PID: 3}
	f.before = func() { f.worker, f.entries = three, []haproxy.MapEntry{{Key: "in/s3", Value: "9"}} }
	wantEdits, wantMap := "add in/s3 3, del in/s3 0, add in/s1 1, add in/s2 2, add in/s3 3", "in/s1=1 in/s2=2 in/s3=3"
	if single {
		wantEdits, wantMap = "add in/s3 3, del in/s3 0, add in/s1 1, add in/s2 2", "in/s3=3 in/s1=1 in/s2=2"
	}
	step("a reload in between", loaded(two, map[string]float64{"s1": 1, "s2": 2, "s3": 3}), wantEdits, wantMap)
	if log.Count("level=WARN") > 0 {
		t.Errorf("warnings:\n%s", log)
	}
}

func TestMapFaultsAreToldOnce(t *testing.T) {
	w := haproxy.Worker{PID: 1}
	f := &fakeMaps{worker: w, err: fmt.Errorf("read a map: %w", haproxy.ErrNoMap)}
	k, log := keeper(f)
	bring := func() { k.bring(t.Context(), k.files[0], loaded(w, map[string]float64{"s1": 1})) }
	bring()
	bring()
	if log.Count("HAProxy has not loaded a map of backend.maps") != 1 || log.Count("map_str_int(/load.map,0)") != 1 {
		t.Errorf("log:\n%s", log)
	}
	f.err = nil
	bring()
	bring()
	f.err = errors.New("no answer")
	k.bring(t.Context(), k.files[0], loaded(w, map[string]float64{"s1": 2}))
	k.bring(t.Context(), k.files[0], loaded(w, map[string]float64{"s1": 3}))
	f.err = nil
	bring()
	for _, line := range []string{"HAProxy has loaded the map", "a map can't be kept up to date", "the map is up to date again"} {
		if log.Count(line) != 1 {
			t.Errorf("%q is there %d times:\n%s", line, log.Count(line), log)
		}
	}
	if f.text() != "in/s1=1" {
		t.Errorf("map %q", f.text())
	}
}

// TestMapHangDelaysNoPass: weights go on while the maps' connection hangs.
func TestMapHangDelaysNoPass(t *testing.T) {
	f := newFake("s1", "s2")
	hung := &fakeMaps{hung: make(chan struct{})}
	backend := quick()
	backend.Name, backend.Interval, backend.Maps.Weight = "ingest", 20*time.Millisecond, "/w.map"
	b := New(Options{
		Backend: backend, Renderer: newGraphite(map[string]float64{"load.s1": 1, "load.s2": 2}),
		Planes: []Plane{{Socket: "unix:/a", DataPlane: f, Maps: hung}}, Logger: slog.New(slog.DiscardHandler),
	})
	tables := make(chan *Table, 1)
	b.Notify(func() {
		if all := b.Tables(); len(all) > 0 {
			replace(tables, all[0])
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = b.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	<-hung.hung
	var seen []time.Time
	for len(seen) < 4 {
		if table := <-tables; len(seen) == 0 || table.Time != seen[len(seen)-1] {
			seen = append(seen, table.Time)
		}
	}
}

// mapped is a haproxy.cfg whose frontend answers with what the maps say.
func mapped(t *testing.T, load, weight string) (cfg, url string) {
	t.Helper()
	port, err := haproxyproc.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	cfg = proxy(t, "roundrobin", "s1", "s2", "s3", "s4") + fmt.Sprintf(`frontend reader
  mode http
  bind 127.0.0.1:%d
  http-request return status 200 content-type text/plain lf-string "%%[str(ingest/s1),map_str_int(%s,-1)] %%[str(ingest/s2),map_str_int(%s,-1)] %%[str(ingest/s1),map_str_int(%s,-1)]"
`, port, load, load, weight)
	return cfg, fmt.Sprintf("http://127.0.0.1:%d/", port)
}

// look asks HAProxy by a request, as its users do.
func look(t *testing.T, url string) (load1, load2, weight1 int) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	response, err := client.Get(url)
	if err != nil {
		return -2, -2, -2 // a restart is on its way
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(body), &load1, &load2, &weight1); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return load1, load2, weight1
}

func TestRealMaps(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		dir := t.TempDir()
		load, weight := filepath.Join(dir, "load.map"), filepath.Join(dir, "weight.map")
		for path, text := range map[string]string{load: "ingest/s1 99\ningest/s1 98\ningest/old 1\n", weight: ""} {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		cfg, url := mapped(t, load, weight)
		s := newSite(t, uneven())
		p, err := haproxyproc.Start(t.Context(), haproxyproc.Options{Binary: b.Path, Config: cfg, MasterWorker: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Stop)
		s.haproxy = append(s.haproxy, p)
		s.loads["s1"], s.loads["s2"] = 420.4, 99.6
		_, stop := s.start(func(b *config.Backend) { b.Maps = config.Maps{Load: load, Weight: weight} })
		filled := func() bool {
			load1, load2, weight1 := look(t, url)
			return load1 == 420 && load2 == 100 && weight1 == s.weights(0)["s1"] && weight1 < 100
		}
		s.until("the maps have loads and weights", filled)
		if m := s.command(0, "show map "+load); strings.Contains(m, "old") {
			t.Errorf("a server that is not there has a key:\n%s", m)
		}
		for range 2 {
			if err := p.Reload(""); err != nil {
				t.Fatal(err)
			}
			s.until("the maps are filled after a reload", filled)
		}
		s.mu.Lock()
		delete(s.loads, "s2")
		s.mu.Unlock()
		s.until("a server without data has no load", func() bool { _, load2, _ := look(t, url); return load2 == -1 })
		stop()
		if load1, _, weight1 := look(t, url); load1 != -1 || weight1 != s.weights(0)["s1"] {
			t.Errorf("after the end: load %d, want none; weight %d, want %d", load1, weight1, s.weights(0)["s1"])
		}
		s.wantLog(0, "a map can't be kept")
		s.wantLog(0, "has not loaded a map")
	})
}

func TestRealMapNotLoaded(t *testing.T) {
	dir := t.TempDir()
	load := filepath.Join(dir, "load.map")
	cfg, url := mapped(t, load, load)
	s := newSite(t, uneven(), proxy(t, "roundrobin", "s1", "s2", "s3", "s4"))
	s.start(func(b *config.Backend) { b.Maps = config.Maps{Load: load} })
	s.until("the missing map is told", func() bool { return s.log.Count("HAProxy has not loaded a map") == 1 })
	s.until("s1 is weighted down", func() bool { return s.weighted(0) })
	if err := os.WriteFile(load, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.haproxy[0].Reload(cfg); err != nil {
		t.Fatal(err)
	}
	s.until("the map is filled", func() bool { load1, _, _ := look(t, url); return load1 == int(s.loads["s1"]) })
	s.until("its end is told", func() bool { return s.log.Count("HAProxy has loaded the map") == 1 })
	s.wantLog(1, "HAProxy has not loaded a map")
	if diff := cmp.Diff(1, s.log.Count("map filled")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
