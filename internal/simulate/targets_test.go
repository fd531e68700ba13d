package simulate

import (
	"fmt"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// Nothing is worse than equal weights where the daemon does not warn of its
// loop gain (k*d/tau above 0.7), and water-fill, which takes its gain from the
// lifetime and the delay, nowhere. Fixed gains are worse where connections
// live hardly longer than the data are old; that is what the warning is for.
func TestNothingIsWorseThanEqualWeights(t *testing.T) {
	base := plant(time.Minute, 1)
	base.Connections = 100 * base.Servers
	g := Grid{
		Base: base, Delays: []time.Duration{20 * time.Second, 250 * time.Second},
		Servers: []int{4, 12}, Balancers: []int{1, 4}, Warmup: 1.5,
	}
	for i := range seeds(6) {
		g.Seeds = append(g.Seeds, uint64(i+1))
	}
	for _, name := range GridPolicies() {
		g.Policies = append(g.Policies, policy(t, name))
	}
	var cells []Cell
	for _, part := range []struct {
		lifetime time.Duration
		measured float64 // long enough to tell a small difference from luck
	}{{5 * time.Minute, 25}, {20 * time.Minute, 5}} {
		g.Lifetimes, g.Measured = []time.Duration{part.lifetime}, part.measured
		some, err := g.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		cells = append(cells, some...)
	}
	if want := 16; len(cells) != want {
		t.Fatalf("%d cells, want %d", len(cells), want)
	}
	for _, w := range Worsts(cells) {
		t.Logf("%-24s worst %.2f in %s; median %.2f, best %.2f", w.Policy, w.Ratio.Median, &w.Cell, w.Median, w.Best)
	}
	warned := 0
	for _, c := range cells {
		for _, r := range c.Ratios {
			gain := map[string]float64{"limited-proportions": 2, "normalised-exponential": 2, "feedback": weighting.FeedbackKp}[r.Policy]
			if gain*c.Delay/c.Lifetime > weighting.LoopGainWarning {
				warned++
				continue
			}
			if r.Ratio.Median > 1.08 {
				t.Errorf("%s: %s leaves %.2f times the excess of equal weights", &c, r.Policy, r.Ratio.Median)
			}
		}
	}
	// Lifetime 5 min with a delay of 250 s, three functions of fixed gain.
	if want := 3 * 4; warned != want {
		t.Errorf("%d cells and policies are excused by the warning, want %d", warned, want)
	}
}

// The goals for model a are an excess of water-fill of at most 0.13 and of at
// most 0.42 of limited-proportions at aggressiveness 1, and of feedback of at
// most 0.55 of leastconn's.
//
// Feedback meets its goal well. Water-fill meets 0.13 with the roundrobin of
// HAProxy 3.2 and later, with one balancer on any roundrobin, and about meets
// it with any number on random(1). With model a's four balancers and the
// roundrobin of 2.6 to 3.1 it is 0.145, because a HAProxy that has not one
// connection a server between two changes of weights spreads late
// (TestSpreadAsRealHAProxy shows that this is HAProxy, not the model; with an
// ideal spread the same run gives 0.123). The ratio to limited-proportions is
// 0.43 with one balancer or on random(1), 0.49 on 2.6, and 0.58 on 3.2, which
// makes low gains act as high ones and so helps limited-proportions more. The
// limits here are what holds, with the seeds' noise.
func TestGoalsOnModelA(t *testing.T) {
	m := ModelA()
	m.Warmup, m.Measured, m.Restart = 45*time.Minute, 150*time.Minute, false
	const proportions, ideal = "limited-proportions:aggressiveness=1", "water-fill@random(1)"
	excess, _ := medians(study(t, m, seeds(4), "equal", "leastconn", proportions, "water-fill", ideal, "feedback", "bound"))
	m.HAProxy32 = true
	since32, _ := medians(study(t, m, seeds(4), proportions, "water-fill"))
	m.HAProxy32, m.Balancers = false, 1
	alone, _ := medians(study(t, m, seeds(4), "water-fill"))
	for _, goal := range []struct {
		name      string
		got, most float64
	}{
		{"water-fill with one balancer", alone["water-fill"], 0.135},
		{"water-fill on 3.2", since32["water-fill"], 0.135},
		{"water-fill over limited-proportions on 3.2", since32["water-fill"] / since32[proportions], 0.63},
		{"water-fill on random(1)", excess[ideal], 0.140},
		{"water-fill", excess["water-fill"], 0.155},
		{"water-fill over limited-proportions", excess["water-fill"] / excess[proportions], 0.53},
		{"water-fill on random(1) over limited-proportions", excess[ideal] / excess[proportions], 0.48},
		{"feedback over leastconn", excess["feedback"] / excess["leastconn"], 0.55},
		{"water-fill over equal weights", excess["water-fill"] / excess["equal"], 0.42},
		{"bound", excess["bound"], 0.08},
	} {
		t.Logf("%-50s %.3f, at most %.3f", goal.name, goal.got, goal.most)
		if goal.got > goal.most {
			t.Errorf("%s: %.3f, want at most %.3f", goal.name, goal.got, goal.most)
		}
	}
}

// The unsteered policies must give what independent models of this plant gave:
// equal weights 1.433 and 0.187, leastconn 1.407 and 0.174, bound 1.075 and
// 0.025 (max/mean and CV).
func TestModelAgreesWithIndependentModels(t *testing.T) {
	m := ModelA()
	m.Restart = false
	for i, s := range study(t, m, seeds(10), "equal", "leastconn", "bound").Summaries() {
		want := [][2]float64{{1.433, 0.187}, {1.407, 0.174}, {1.075, 0.025}}[i]
		t.Logf("%s: max/mean %.3f, CV %.3f", s.Policy, s.Imbalance.Median, s.CV.Median)
		if ratio := (s.Imbalance.Median - 1) / (want[0] - 1); ratio < 0.88 || ratio > 1.12 {
			t.Errorf("%s: max/mean %.3f, want about %.3f", s.Policy, s.Imbalance.Median, want[0])
		}
		if ratio := s.CV.Median / want[1]; ratio < 0.9 || ratio > 1.1 {
			t.Errorf("%s: CV %.3f, want about %.3f", s.Policy, s.CV.Median, want[1])
		}
	}
}

// Adding a step towards the mean at every pass rings: it ends no better than
// equal weights.
func TestIntegrationRings(t *testing.T) {
	m := plant(30*time.Minute, 10)
	excess, _ := medians(study(t, m, seeds(4), "equal", "integration"))
	if ratio := excess["integration"] / excess["equal"]; ratio < 0.8 {
		t.Errorf("integration leaves %.2f times the excess of equal weights, and was thought to ring", ratio)
	}
}

// Events disturb, and water-fill is over it in time.
func TestWaterFillAfterEvents(t *testing.T) {
	for _, test := range []struct {
		event string
		most  float64 // of max/mean from 40 min after the event begins
	}{
		{"hot@10m,server=3", 1.6}, {"missing@10m,server=3,for=20m", 1.4}, {"storm@10m,for=5m,factor=4", 1.4},
		{"swing@0s,period=2h,factor=0.6", 1.4}, {"swing@0s,period=2h,factor=0.6,of=rates", 1.4}, {"restart@10m,server=3", 1.4},
	} {
		t.Run(test.event, func(t *testing.T) {
			e, err := ParseEvent(test.event)
			if err != nil {
				t.Fatal(err)
			}
			m := plant(20*time.Minute, 4)
			m.Events = []Event{e}
			worst := 0.0
			for _, row := range study(t, m, seeds(2), "water-fill").Rows[0].Results {
				from := (e.At + 40*time.Minute) / m.Step
				for _, x := range row.Series[from:] {
					worst = max(worst, float64(x))
				}
			}
			t.Logf("max/mean is at most %.2f later", worst)
			if worst > test.most {
				t.Errorf("max/mean is up to %.2f long after %s, want at most %v", worst, fmt.Sprint(e.Kind), test.most)
			}
		})
	}
}
