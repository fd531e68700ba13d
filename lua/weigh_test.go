package lua

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWeighIsToldAll(t *testing.T) {
	s := load(t, `
		local show
		show = function(t)
			local keys = {}
			for k in pairs(t) do keys[#keys + 1] = tostring(k) end
			table.sort(keys)
			local all = {}
			for _, k in ipairs(keys) do
				local v = t[k]
				all[#all + 1] = k .. "=" .. (type(v) == "table" and "{" .. show(v) .. "}" or tostring(v))
			end
			return table.concat(all, " ")
		end
		function weigh(servers, backend)
			for _, s in ipairs(servers) do print(show(s)) end
			for _, s in ipairs(backend.others) do print("other " .. show(s)) end
			backend.others = nil
			print(show(backend))
			return {a = 1.5, b = 0}
		end`)
	nan := math.NaN()
	shares, printed, err := s.NewWeigher().Weigh([]Server{
		{Name: "a", Load: 5, Metrics: map[string]float64{"errors": 2}, Relative: 0.5, Age: 12.5, Capacity: 2, Weight: 100, InitialWeight: 90, Share: 0.25, Sessions: 7, State: "ready"},
		{Name: "b", Load: 0, Relative: nan, Age: 1, Capacity: 1, Weight: 300, Sessions: -1, State: "ready"},
	}, Backend{
		Name: "ingest", Now: time.Date(2026, 11, 29, 23, 5, 6, 500e6, time.UTC), Interval: 30 * time.Second, Lifetime: time.Hour, Mean: 10,
		Others: []Server{{Name: "c", Load: nan, Relative: nan, Age: nan, Capacity: 1, Weight: 4, State: "down"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"age=12.5 capacity=2 initial_weight=90 load=5 metrics={errors=2} name=a relative=0.5 sessions=7 share=0.25 state=ready weight=100",
		"age=1 capacity=1 initial_weight=0 load=0 metrics={} name=b share=0 state=ready weight=300",
		"other capacity=1 initial_weight=0 metrics={} name=c sessions=0 share=0 state=down weight=4",
		"interval=30 lifetime=3600 mean=10 name=ingest now=1795993506.5 time={day=29 hour=23 min=5 month=11 sec=6 wday=1 yday=333 year=2026}",
	}
	if diff := cmp.Diff(want, printed); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]float64{1.5, 0}, shares); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestGlobalsLastFromCallToCall(t *testing.T) {
	s := load(t, `
		local calls = 0
		function weigh(servers)
			calls = calls + 1
			return {s1 = calls, s2 = 1}
		end`)
	first, second := s.NewWeigher(), s.NewWeigher()
	for _, c := range []struct {
		w    *Weigher
		want float64
	}{{first, 1}, {first, 2}, {second, 1}, {first, 3}} {
		if shares, _, err := c.w.Weigh(twoServers, Backend{}); err != nil || shares[0] != c.want {
			t.Errorf("shares %v, error %v, want %v", shares, err, c.want)
		}
	}
}

// TestWhatAnErrorLeaves: an error of the script's own leaves its globals, one
// that ended it in the middle of something does not.
func TestWhatAnErrorLeaves(t *testing.T) {
	path := write(t, map[string]string{"main.lua": `
		calls = 0
		function weigh(servers)
			calls = calls + 1
			if servers[1].load == 1 then error("x") end
			while servers[1].load == 2 do end
			return {s1 = calls, s2 = 1}
		end`})
	s, err := Load(path, Options{Now: patient()})
	if err != nil {
		t.Fatal(err)
	}
	w := s.NewWeigher()
	call := func(load float64) (float64, error) {
		shares, _, err := w.Weigh([]Server{{Name: "s1", Load: load}, {Name: "s2"}}, Backend{})
		if err != nil {
			return 0, err
		}
		return shares[0], nil
	}
	for i, c := range []struct{ load, want float64 }{{0, 1}, {1, 0}, {0, 3}, {2, 0}, {0, 1}} {
		if got, err := call(c.load); got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("call %d: %v, error %v, want %v", i, got, err, c.want)
		}
	}
}

func TestFunctionsCanBeReplacedAndTakenAway(t *testing.T) {
	w := load(t, `
		function weigh()
			weigh = function() weigh = nil return {s1 = 2, s2 = 2} end
			return {s1 = 1, s2 = 1}
		end`).NewWeigher()
	for _, want := range []float64{1, 2, 0} {
		shares, _, err := w.Weigh(twoServers, Backend{})
		switch {
		case want > 0 && (err != nil || shares[0] != want):
			t.Errorf("shares %v, error %v, want %v", shares, err, want)
		case want == 0 && (err == nil || !strings.HasSuffix(err.Error(), "it defines no function weigh any more")):
			t.Errorf("error %v", err)
		}
	}
}

func TestPrintIsBounded(t *testing.T) {
	w := load(t, `
		function weigh()
			print("a", 1, nil, true)
			print(("x"):rep(60000))
			print("bad \255 byte")
			for i = 1, 100 do print(i) end
			return {s1 = 1, s2 = 1}
		end`).NewWeigher()
	_, printed, err := w.Weigh(twoServers, Backend{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a\t1\tnil\ttrue", strings.Repeat("x", maxLine) + "... (60000 bytes)", "bad ? byte"}
	if diff := cmp.Diff(want, printed[:3]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(printed) != maxPrinted+1 || printed[maxPrinted] != "... (a call prints no more)" {
		t.Errorf("%d lines, last %q", len(printed), printed[len(printed)-1])
	}
}

// TestRandomComesFromOutside and is spread over whole intervals.
func TestRandomComesFromOutside(t *testing.T) {
	draws := []float64{0, 0.5, 0.999}
	i := -1
	s, err := Load(write(t, map[string]string{"main.lua": `
		function weigh() return {s1 = math.random(4), s2 = math.random(10, 19), s3 = math.random()} end`}),
		Options{Random: func() float64 { return draws[i/3] }})
	if err != nil {
		t.Fatal(err)
	}
	w := s.NewWeigher()
	for n, want := range [][]float64{{1, 10, 0}, {3, 15, 0.5}, {4, 19, 0.999}} {
		i = 3 * n
		got, _, err := w.Weigh([]Server{{Name: "s1"}, {Name: "s2"}, {Name: "s3"}}, Backend{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

func TestManyServers(t *testing.T) {
	s, err := Load(write(t, map[string]string{"main.lua": `
		function weigh(servers)
			local shares = {}
			for _, s in ipairs(servers) do shares[s.name] = s.capacity / (s.load + 1) end
			return shares
		end`}), Options{Now: patient()})
	if err != nil {
		t.Fatal(err)
	}
	servers := make([]Server, 2000)
	for i := range servers {
		servers[i] = Server{Name: strings.Repeat("s", i%7) + time.Duration(i).String(), Load: float64(i), Capacity: 1}
	}
	shares, _, err := s.NewWeigher().Weigh(servers, Backend{})
	if err != nil || len(shares) != len(servers) || shares[1] != 0.5 {
		t.Errorf("%d shares, error %v", len(shares), err)
	}
}
