package simulate

import (
	"fmt"
	"strconv"
	"strings"

	userscript "github.com/haproxy-weighter/haproxy-weighter/internal/script"
	"github.com/haproxy-weighter/haproxy-weighter/lua"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// Policy is a way to spread connections: HAProxy's algorithm, and what steers
// its weights.
type Policy struct {
	Name      string // as given and printed
	Algorithm Algorithm
	Draws     int // of random
	Steering  Steering
	// Function is the weighting function when Steering is Weighted.
	Function       weighting.Function
	Aggressiveness float64 // 0 means the model's
	LimitingFactor float64 // 0 means the model's
	// Step is the integration's gain a pass: the weight moves by Step times
	// the relative distance of the load from the mean.
	Step float64
	// Script weighs when Function is weighting.Lua.
	Script *lua.Script
	// LifetimeScale falsifies the lifetime the function is told, to try wrong
	// gains; 0 means 1.
	LifetimeScale float64
}

// Algorithm names what places connections.
type Algorithm string

// The algorithms. LeastLoad is the bound; HAProxy has nothing like it.
const (
	RoundRobin Algorithm = "roundrobin"
	LeastConn  Algorithm = "leastconn"
	Random     Algorithm = "random"
	LeastLoad  Algorithm = "least-load"
)

// Steering names what sets the weights.
type Steering string

// The ways to steer.
const (
	Fixed      Steering = ""            // equal capacity, equal weights, for ever
	Weighted   Steering = "weighting"   // a function of package weighting
	Integrated Steering = "integration" // add a step towards the mean each pass, as RPC balancers do
)

// integrationStep is the default gain of Integrated.
const integrationStep = 0.1

// DefaultPolicies are those of the published table.
func DefaultPolicies() []string {
	return []string{
		"equal", "leastconn", "random(2)",
		"limited-proportions:aggressiveness=1", "limited-proportions", "normalised-exponential",
		"water-fill", "water-fill@random(1)", "feedback", "integration", "bound",
	}
}

// Equal and Bound are the policies that the share of the possible gain needs.
const (
	Equal = "equal"
	Bound = "bound"
)

// ParsePolicy reads a policy: equal, leastconn, random(N), bound, integration,
// or a weighting function. A function may be followed by @ALGORITHM and by
// :key=value pairs: aggressiveness, limiting_factor, step, lifetime-scale. The
// function lua needs script=FILE, which is loaded.
// feedback runs on leastconn, every other function on roundrobin.
func ParsePolicy(s string) (Policy, error) {
	p := Policy{Name: s, Algorithm: RoundRobin}
	head, options, _ := strings.Cut(s, ":")
	head, algorithm, chosen := strings.Cut(head, "@")
	switch head {
	case Equal:
	case Bound:
		p.Algorithm = LeastLoad
	case string(Integrated):
		p.Steering, p.Step = Integrated, integrationStep
	case string(weighting.LimitedProportions), string(weighting.NormalisedExponential), string(weighting.WaterFill),
		string(weighting.Lua):
		p.Steering, p.Function = Weighted, weighting.Function(head)
	case string(weighting.Feedback):
		p.Steering, p.Function, p.Algorithm = Weighted, weighting.Feedback, LeastConn
	default:
		if chosen || p.setAlgorithm(head) != nil {
			return p, fmt.Errorf("policy %q: want equal, leastconn, random(N), bound, integration, "+
				"limited-proportions, normalised-exponential, water-fill, feedback or lua:script=FILE", s)
		}
	}
	if chosen {
		if head == Bound {
			return p, fmt.Errorf("policy %q: bound takes no algorithm, it is one", s)
		}
		if err := p.setAlgorithm(algorithm); err != nil {
			return p, fmt.Errorf("policy %q: %w", s, err)
		}
	}
	for option := range strings.SplitSeq(options, ",") {
		if option == "" {
			continue
		}
		if err := p.setOption(option); err != nil {
			return p, fmt.Errorf("policy %q: %w", s, err)
		}
	}
	if p.Function == weighting.Lua && p.Script == nil {
		return p, fmt.Errorf("policy %q: lua needs a script, as in lua:script=FILE", s)
	}
	return p, nil
}

func (p *Policy) setAlgorithm(s string) error {
	p.Draws = 2
	name, rest, found := strings.Cut(s, "(")
	p.Algorithm = Algorithm(name)
	switch p.Algorithm {
	case RoundRobin, LeastConn:
		if !found {
			return nil
		}
	case Random:
		if !found {
			return nil
		}
		n, err := strconv.Atoi(strings.TrimSuffix(rest, ")"))
		if err == nil && n >= 1 && n <= 100 && strings.HasSuffix(rest, ")") {
			p.Draws = n
			return nil
		}
	}
	return fmt.Errorf("algorithm %q, want roundrobin, leastconn or random(N) with N from 1 to 100", s)
}

func (p *Policy) setOption(option string) error {
	key, text, _ := strings.Cut(option, "=")
	if key == "script" && p.Function == weighting.Lua {
		return p.setScript(text)
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || !(value > 0) || value > 1e6 {
		return fmt.Errorf("%s=%s, want a number more than 0", key, text)
	}
	switch {
	case key == "aggressiveness" && p.Steering == Weighted:
		p.Aggressiveness = value
	case key == "limiting_factor" && p.Steering == Weighted:
		p.LimitingFactor = value
	case key == "lifetime-scale" && p.Steering == Weighted:
		p.LifetimeScale = value
	case key == "step" && p.Steering == Integrated:
		p.Step = value
	default:
		return fmt.Errorf("key %q does not belong to it; want aggressiveness, limiting_factor or lifetime-scale with a weighting function, step with integration", key)
	}
	return nil
}

func (p *Policy) setScript(file string) (err error) {
	if p.Script, err = lua.Load(file, lua.Options{}); err != nil {
		return err
	}
	return p.Script.Need("weigh")
}

// controller decides a balancer's weights.
type controller interface {
	Decide(weighting.Input) *weighting.Decision
}

// controller makes a new one for one balancer; nil when weights are fixed.
func (p *Policy) controller(m *Model) controller {
	switch p.Steering {
	case Weighted:
		s := m.settings(p.Function)
		if p.Aggressiveness > 0 {
			s.Aggressiveness = p.Aggressiveness
		}
		if p.LimitingFactor > 0 {
			s.LimitingFactor = p.LimitingFactor
		}
		if p.Script != nil {
			if err := userscript.Weighing(&s, p.Script, "simulated"); err != nil {
				panic(err) // setScript has looked
			}
		}
		return weighting.NewController(s)
	case Integrated:
		return &integration{step: p.Step, min: m.Weighting.MinWeight, max: m.Weighting.MaxWeight}
	}
	return nil
}
