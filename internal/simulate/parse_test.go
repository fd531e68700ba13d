package simulate

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

func TestParsePolicy(t *testing.T) {
	for _, test := range []struct {
		text  string
		want  Policy // without Name
		fault string // part of it
	}{
		{"equal", Policy{Algorithm: RoundRobin}, ""},
		{"leastconn", Policy{Algorithm: LeastConn, Draws: 2}, ""},
		{"random", Policy{Algorithm: Random, Draws: 2}, ""},
		{"random(5)", Policy{Algorithm: Random, Draws: 5}, ""},
		{"bound", Policy{Algorithm: LeastLoad}, ""},
		{"water-fill", Policy{Algorithm: RoundRobin, Steering: Weighted, Function: weighting.WaterFill}, ""},
		{"water-fill@random(1):lifetime-scale=3", Policy{Algorithm: Random, Draws: 1, Steering: Weighted, Function: weighting.WaterFill, LifetimeScale: 3}, ""},
		{"feedback", Policy{Algorithm: LeastConn, Steering: Weighted, Function: weighting.Feedback}, ""},
		{"limited-proportions:aggressiveness=1,limiting_factor=3", Policy{Algorithm: RoundRobin, Steering: Weighted,
			Function: weighting.LimitedProportions, Aggressiveness: 1, LimitingFactor: 3}, ""},
		{"integration:step=0.2", Policy{Algorithm: RoundRobin, Steering: Integrated, Step: 0.2}, ""},
		{"waterfill", Policy{}, "want equal, leastconn"},
		{"random(0)", Policy{}, "want equal, leastconn"},
		{"random(2", Policy{}, "want equal, leastconn"},
		{"water-fill@source", Policy{}, "algorithm \"source\""},
		{"leastconn@random", Policy{}, "want equal"},
		{"bound@random", Policy{}, "bound takes no algorithm"},
		{"equal:step=1", Policy{}, "key \"step\" does not belong"},
		{"water-fill:aggressiveness=-1", Policy{}, "want a number more than 0"},
		{"water-fill:aggressiveness=NaN", Policy{}, "want a number more than 0"},
	} {
		got, err := ParsePolicy(test.text)
		if test.fault != "" {
			if err == nil || !strings.Contains(err.Error(), test.fault) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("%s: error %v, want one with %q and the policy's name", test.text, err, test.fault)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		test.want.Name = test.text
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.text, diff)
		}
	}
	for _, name := range append(DefaultPolicies(), GridPolicies()...) {
		if _, err := ParsePolicy(name); err != nil {
			t.Error(err)
		}
	}
}

func TestParseEvent(t *testing.T) {
	for _, test := range []struct {
		text  string
		want  Event
		fault string
	}{
		{"restart@1h,server=3", Event{Kind: Restart, At: time.Hour, Server: 3, For: downTime}, ""},
		{"hot@10s", Event{Kind: Hot, At: 10 * time.Second, For: 10 * time.Minute, Factor: 5}, ""},
		{"missing@0s,for=1m", Event{Kind: Missing, For: time.Minute}, ""},
		{"storm@1m,factor=2.5,for=3m", Event{Kind: Storm, At: time.Minute, For: 3 * time.Minute, Factor: 2.5}, ""},
		{"swing@0s,period=2h,factor=0.3,of=rates", Event{Kind: Swing, For: 10 * time.Minute, Factor: 0.3, Period: 2 * time.Hour, Rates: true}, ""},
		{"restart", Event{}, "no @ and time"},
		{"reboot@1h", Event{}, `"reboot" is none of restart`},
		{"restart@soon", Event{}, `"soon" is no time`},
		{"hot@1h,server=x", Event{}, "server=x is not a value"},
		{"hot@1h,colour=red", Event{}, `"colour" is none of server`},
		{"swing@1h,of=weights", Event{}, "want arrivals or rates"},
	} {
		got, err := ParseEvent(test.text)
		if test.fault != "" {
			if err == nil || !strings.Contains(err.Error(), test.fault) {
				t.Errorf("%s: error %v, want one with %q", test.text, err, test.fault)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.text, diff)
		}
	}
}

func TestModelCheck(t *testing.T) {
	for _, preset := range []Model{ModelA(), ModelB()} {
		if err := preset.Check(); err != nil {
			t.Errorf("a preset is wrong: %v", err)
		}
	}
	for _, test := range []struct {
		name  string
		spoil func(*Model)
		want  string
	}{
		{"one server", func(m *Model) { m.Servers = 1 }, "servers: 1"},
		{"no connections", func(m *Model) { m.Connections = 0 }, "connections: 0"},
		{"a capacity of 0", func(m *Model) { m.Capacities = make([]float64, 30) }, "capacities: number 1 is 0"},
		{"too few capacities", func(m *Model) { m.Capacities = []float64{1} }, "capacities: 1 numbers for 30 servers"},
		{"data that are always too old", func(m *Model) { m.MaxAge = 30 * time.Second }, "max-age: 30s"},
		{"half a second's step", func(m *Model) { m.Step = 500 * time.Millisecond }, "step: 500ms"},
		{"rates of no kind", func(m *Model) { m.Rates.Kind = "normal" }, `rates: "normal"`},
		{"rates upside down", func(m *Model) { m.Rates.Min, m.Rates.Max = 5, 1 }, "rates: lognormal wants"},
		{"no lifetime", func(m *Model) { m.Lifetime.Mean = 0 }, "lifetime: mean 0s"},
		{"an unknown estimator", func(m *Model) { m.LifetimeFrom = "guess" }, `lifetime-from: "guess"`},
		{"an event at a server that is not there", func(m *Model) { m.Events = []Event{{Kind: Hot, Factor: 5, Server: 30}} }, "server 30, want 0..29"},
		{"a storm of nothing", func(m *Model) { m.Events = []Event{{Kind: Storm, For: 1, Factor: 0.5}} }, "factor 0.5, want 1..100"},
	} {
		m := ModelA()
		test.spoil(&m)
		if err := m.Check(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.name, err, test.want)
		}
	}
}

func TestSetDelay(t *testing.T) {
	for _, d := range []time.Duration{3 * time.Second, 20 * time.Second, 60 * time.Second, 105 * time.Second, 250 * time.Second, 20 * time.Minute} {
		m := ModelA()
		m.SetDelay(d)
		if m.Delay() != d {
			t.Errorf("delay %v after SetDelay(%v): interval %v, step %v, lag %v", m.Delay(), d, m.Interval, m.Step, m.Lag)
		}
		if err := m.Check(); err != nil {
			t.Errorf("SetDelay(%v): %v", d, err)
		}
	}
}
