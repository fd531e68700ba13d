package cli

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// explained is a backend whose weights are decided pass by pass, as the daemon
// does it.
type explained struct {
	controller *weighting.Controller
	in         weighting.Input
	settings   weighting.Settings
}

func newExplained(settings weighting.Settings, loads ...float64) *explained {
	e := &explained{controller: weighting.NewController(settings), settings: settings}
	e.in = weighting.Input{Now: noon.Add(-time.Hour), Lifetime: time.Hour}
	for i, l := range loads {
		e.in.Servers = append(e.in.Servers, weighting.Server{
			Name: fmt.Sprintf("s%d", i), Load: l, Capacity: 1, Weight: 100, InitialWeight: 100, Sessions: 10,
		})
	}
	return e
}

// pass decides once more, and puts the weights in force.
func (e *explained) pass() api.Table {
	e.in.Now = e.in.Now.Add(e.settings.Interval)
	for i := range e.in.Servers {
		s := &e.in.Servers[i]
		s.LoadTime, s.DataAge = e.in.Now.Add(-10*time.Second), 15*time.Second
		if math.IsNaN(s.Load) {
			s.Reason = "the answer has no series for this server"
		}
	}
	d := e.controller.Decide(e.in)
	t := &balancer.Table{
		Backend: "in", Socket: "unix:/run/haproxy/admin.sock", Time: e.in.Now, Algorithm: "roundrobin", Mode: "live",
		Verdict: d.Verdict, Why: d.Why, HoldCode: d.HoldCode, Target: "servers.*.load", Aggregate: graphite.Last, Window: 5 * time.Minute,
		Function: d.Function, Fresh: d.Fresh, InService: d.InService, Mean: d.Mean, Imbalance: d.MaxOverMean,
		Lifetime: d.Lifetime, LifetimeFrom: "sessions", Delay: d.Delay, Gain: d.Gain, LoopGain: d.LoopGain(),
		MaxAge: 90 * time.Second, Quorum: 0.5, Better: e.settings.Better,
	}
	for i := range e.in.Servers {
		s, sd := &e.in.Servers[i], &d.Servers[i]
		row := balancer.Row{
			Server: s.Name, Capacity: s.Capacity, Share: sd.Share, Weight: sd.Weight, AppliedWeight: sd.Weight,
			InitialWeight: s.InitialWeight, AdminState: "ready", OpState: "running", Sessions: s.Sessions, Reasons: sd.Reasons,
		}
		if !math.IsNaN(s.Load) {
			load, age, stamp := s.Load, 10.0, s.LoadTime.Unix()
			row.Load, row.AgeSeconds, row.Timestamp, row.Series, row.Points = &load, &age, &stamp, s.Name, 1
		}
		t.Rows = append(t.Rows, row)
		if d.Verdict == weighting.Write {
			s.Weight = sd.Weight
		}
	}
	if d.Verdict == weighting.Write {
		e.in.LastChange = e.in.Now
	}
	return api.TableOf(t)
}

// TestExplainCanBeReworked works each weight out again from nothing but what
// "explain" prints.
func TestExplainCanBeReworked(t *testing.T) {
	with := func(f weighting.Function, change func(*weighting.Settings)) weighting.Settings {
		s := weighting.DefaultSettings()
		s.Function, s.Deadband = f, 0
		if change != nil {
			change(&s)
		}
		return s
	}
	uneven := []float64{1234.5, 310.25, 77, 512, 905.125}
	for _, c := range []struct {
		name     string
		settings weighting.Settings
		passes   int
		change   func(e *explained) // before the last pass
		steps    string             // that must have been at work on some server
	}{
		{"limited-proportions", with(weighting.LimitedProportions, nil), 1, nil, ""},
		{"limited-proportions, its floor", with(weighting.LimitedProportions, func(s *weighting.Settings) { s.Aggressiveness = 9 }), 1, nil, "min_weight"},
		{"normalised-exponential", with(weighting.NormalisedExponential, nil), 1, nil, ""},
		{"water-fill", with(weighting.WaterFill, nil), 1, nil, "max_share rest min_weight"},
		{"water-fill, lifetime unknown", with(weighting.WaterFill, nil), 1, func(e *explained) { e.in.Lifetime = 0 }, "lifetime"},
		{"water-fill, short lifetime", with(weighting.WaterFill, nil), 1, func(e *explained) { e.in.Lifetime = 2 * time.Minute }, ""},
		{"feedback", with(weighting.Feedback, nil), 1, nil, ""},
		{"feedback, later", with(weighting.Feedback, nil), 5, func(e *explained) { e.in.Servers[0].Load, e.in.Servers[2].Load = 400, 900 }, ""},
		{"capacities", with(weighting.LimitedProportions, nil), 1, func(e *explained) { e.in.Servers[0].Capacity, e.in.Servers[1].Capacity = 4, 0.5 }, ""},
		{"capacities with feedback", with(weighting.Feedback, nil), 3, func(e *explained) { e.in.Servers[0].Capacity = 4 }, ""},
		{"higher is better", with(weighting.LimitedProportions, func(s *weighting.Settings) { s.Better = weighting.Higher }), 1, nil, "better"},
		{"max_step", with(weighting.LimitedProportions, func(s *weighting.Settings) { s.MaxStep = 0.1 }), 2, nil, "max_step"},
		{"max_weight", with(weighting.LimitedProportions, func(s *weighting.Settings) { s.MaxWeight = 90 }), 1, nil, "max_weight"},
		{"deadband", with(weighting.LimitedProportions, func(s *weighting.Settings) { s.Deadband = 50 }), 1, nil, "deadband"},
		{"a server without data", with(weighting.LimitedProportions, nil), 3, func(e *explained) { e.in.Servers[1].Load = math.NaN() }, "missing"},
		{"without data for long", with(weighting.LimitedProportions, nil), 1, func(e *explained) {
			e.in.Servers[1].Load = math.NaN()
			for range 60 {
				e.pass()
			}
		}, "missing"},
		{"a server that comes", with(weighting.LimitedProportions, nil), 1, func(e *explained) {
			e.in.Servers[3].Rotation = weighting.Down
			e.pass()
			e.in.Servers[3].Rotation = weighting.InRotation
		}, "cold"},
		{"everybody zero", with(weighting.WaterFill, nil), 1, func(e *explained) {
			for i := range e.in.Servers {
				e.in.Servers[i].Load = 0
			}
		}, "hold"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newExplained(c.settings, uneven...)
			for range c.passes - 1 {
				e.pass()
			}
			if c.change != nil {
				c.change(e)
			}
			table := e.pass()
			socket := fakeDaemon(t, answers{"GET /api/v1/table/in": api.Tables{Tables: []api.Table{table}}})
			seen := map[string]bool{}
			for i := range table.Servers {
				row := &table.Servers[i]
				code, out, stderr := command(t, "explain", "in/"+row.Server, "--others", "--control", socket)
				if code != exitGood || stderr != "" {
					t.Fatalf("exit code %d: %s", code, stderr)
				}
				x := readExplanation(t, out)
				x.rework()
				if x.weight != row.Weight {
					t.Errorf("%s: weight %d is printed, want %d", row.Server, x.weight, row.Weight)
				}
				for _, s := range x.steps {
					seen[s.name] = true
				}
				if t.Failed() {
					t.Fatalf("what was printed:\n%s", out)
				}
			}
			for step := range strings.FieldsSeq(c.steps) {
				if !seen[step] {
					t.Errorf("no server has the step %s: this test does not try what it should", step)
				}
			}
		})
	}
}

// TestExplainUnusual has what a table may be beside the usual.
func TestExplainUnusual(t *testing.T) {
	bare := goodTable("unix:/run/a.sock")
	unread := goodTable("unix:/run/b.sock")
	unread.HoldCode, unread.Verdict, unread.Why = "haproxy", weighting.Hold, "HAProxy could not be read: gone"
	out := goodTable("unix:/run/c.sock")
	out.Servers[0].Load, out.Servers[0].InRotation, out.Servers[0].AdminState = nil, false, "maint"
	out.Servers[0].Reasons = []weighting.Reason{{Step: weighting.StepRotation, Text: "in maintenance: weight left as it is"}}
	earlier := goodTable("unix:/run/d.sock")
	earlier.Servers[0].Earlier = true
	earlier.Servers[0].Reasons = []weighting.Reason{{Step: weighting.StepMissing, Text: "no whole answer within 5 s; keeps its share"}}
	back := goodTable("unix:/run/e.sock")
	back.HoldCode, back.Verdict, back.Servers = balancer.HoldStarting, weighting.Hold, earlier.Servers
	socket := fakeDaemon(t, answers{
		"GET /api/v1/table/in":   api.Tables{Tables: []api.Table{bare, unread, out, earlier, back}},
		"GET /api/v1/table/none": api.Tables{Tables: []api.Table{}},
	})
	code, text, stderr := command(t, "explain", "in/s1", "--control", socket)
	if code != exitGood || stderr != "" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	for _, want := range []string{
		"in/s1 on unix:/run/a.sock: weight 256 in force\n", "in/s1 on unix:/run/b.sock: ",
		"  of the last pass that could read HAProxy: the newest data have had no effect\n",
		"  value   none: in maintenance: weight left as it is\n",
		"no weight comes of it. The last pass had none: no whole answer within 5 s; keeps its share\n",
		"  of a pass before HAProxy could not be read: the next one has still to come\n", "no weight comes of it\n",
		"  state           maint, running; 12 open sessions; out of rotation: ",
		"  last change  2026-07-01 11:59:40 UTC (20s ago), of any weight of the backend\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	code, _, stderr = command(t, "explain", "none/s1", "--control", socket)
	if code != exitFailed || !strings.Contains(stderr, "no HAProxy has told them yet") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	for _, id := range []string{"in", "in/", "/s1", "in/s1/x"} {
		if code, _, stderr := command(t, "explain", id, "--control", socket); code != exitUsage || !strings.Contains(stderr, "is not BACKEND/SERVER") {
			t.Errorf("%s: exit code %d, stderr %q", id, code, stderr)
		}
	}
}
