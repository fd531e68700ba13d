package cli

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// explanation is what "explain --others" has printed, and nothing else: the
// tests know of a weight what an operator with a pocket calculator knows.
type explanation struct {
	t      *testing.T
	facts  map[string]string
	steps  []printedStep
	others []map[string]float64 // by column; what is not there is left out
	weight int
}

type printedStep struct {
	name          string
	before, after float64
	how           string
}

var (
	factLine = regexp.MustCompile(`^  ([a-z ]+?)  +(.*)$`)
	stepLine = regexp.MustCompile(`^ *\d+  (\S+) +(\S+) +(\S+)  (.*)$`)
	figure   = regexp.MustCompile(`-?\d+(?:\.\d+)?(?:e[-+]?\d+)?`)
)

func readExplanation(t *testing.T, out string) *explanation {
	t.Helper()
	x := &explanation{t: t, facts: map[string]string{}}
	part := ""
	var columns []string
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		fact, step := factLine.FindStringSubmatch(line), stepLine.FindStringSubmatch(line)
		switch {
		case part == "all servers" && strings.HasPrefix(line, "server "):
			columns = regexp.MustCompile(`  +`).Split(line, -1)
		case part == "all servers" && line != "":
			x.other(columns, strings.Fields(line))
		case step != nil && part == "steps":
			x.steps = append(x.steps, printedStep{step[1], x.number(step[2]), x.number(step[3]), step[4]})
		case fact != nil:
			x.facts[part+": "+fact[1]] = fact[2]
		case slices.Contains([]string{"data", "server", "backend", "steps", "result", "all servers"}, line):
			part = line
		}
	}
	x.weight = int(x.number(x.facts["result: weight"]))
	return x
}

// other takes a line of the table of all servers.
func (x *explanation) other(columns, fields []string) {
	if len(columns) != len(fields) {
		x.t.Fatalf("columns %v, fields %v", columns, fields)
	}
	row := map[string]float64{}
	for i, f := range fields[1:] {
		if f != "-" {
			row[columns[i+1]] = x.number(f)
		}
	}
	x.others = append(x.others, row)
}

func (x *explanation) number(text string) float64 {
	x.t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		x.t.Fatalf("%q is no number", text)
	}
	return v
}

// after are the figures in a text behind a mark.
func (x *explanation) after(text, mark string) []float64 {
	x.t.Helper()
	_, rest, found := strings.Cut(text, mark)
	if !found {
		x.t.Fatalf("%q is not in %q", mark, text)
	}
	var all []float64
	for _, f := range figure.FindAllString(rest, -1) {
		all = append(all, x.number(f))
	}
	return all
}

// near compares a figure that was worked out with the one that is printed with
// six digits. Differences of large figures lose some of them.
func (x *explanation) near(what string, got, want float64) {
	x.t.Helper()
	if math.Abs(got-want) > 1e-4*max(math.Abs(want), 1e-2) {
		x.t.Errorf("%s: worked out as %g, printed is %g", what, got, want)
	}
}

// column gives a column of all servers that have the other one too.
func (x *explanation) column(name, with string) []float64 {
	var all []float64
	for _, row := range x.others {
		v, ok := row[name]
		if _, also := row[with]; ok && also {
			all = append(all, v)
		}
	}
	return all
}

func total(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum
}

// rework follows the steps: each must begin where the one before has ended, and
// its formula must give what it ends with.
func (x *explanation) rework() {
	x.t.Helper()
	if value := x.facts["data: value"]; !strings.HasPrefix(value, "none") && value != "" {
		x.near("value and first step", x.steps[0].before, x.number(value))
	}
	last := math.NaN()
	for i, s := range x.steps {
		chained := true
		switch s.name {
		case "better": // of all values: the largest + the smallest - value
			chained = false
			if i == 0 {
				x.better(s)
			}
		case "load":
			x.near("load / capacity", s.before/x.number(x.facts["server: capacity"]), s.after)
		case "relative":
			x.mean()
			x.near("relative load", s.before/x.after(x.facts["backend: mean"], "")[0], s.after)
		case "lifetime", "missing", "hold", "stuck-zero", "capacity", "on_stale":
			chained = false
		case "function":
			x.function(s)
		case "share":
			x.share(s)
			chained = !strings.Contains(s.how, "weight") && !strings.Contains(s.how, "capacity")
		case "max_share":
			x.near("max_share", x.after(s.how, "fair share: ")[0], s.after)
		case "cold":
			x.near("cold", x.after(s.how, "limited to ")[0], s.after)
		case "rest":
		case "weight":
			x.rounding(s)
		case "min_weight", "max_weight", "max_step", "deadband", "rescale":
			if s.after != math.Trunc(s.after) || s.after < 1 || s.after > 256 {
				x.t.Errorf("%s ends at %g, which is no weight", s.name, s.after)
			}
			chained = s.name != "rescale"
		default:
			x.t.Errorf("step %s is not known here", s.name)
		}
		if chained && i > 0 && !math.IsNaN(last) {
			x.near("step "+s.name+" begins", last, s.before)
		}
		if chained || s.name == "hold" || s.name == "share" || s.name == "rescale" || s.name == "better" {
			last = s.after
		}
	}
	x.near("result", last, float64(x.weight))
}

// better turns a value round.
func (x *explanation) better(s printedStep) {
	x.t.Helper()
	values := x.column("value", "load")
	x.near("better", slices.Max(values)+slices.Min(values)-s.before, s.after)
}

// mean is the sum of loads over the sum of capacities.
func (x *explanation) mean() {
	x.t.Helper()
	text := x.facts["backend: mean"]
	printed := x.after(text, "")[0]
	load, capacity := x.after(text, "total load ")[0], x.after(text, "total capacity ")[0]
	x.near("mean", load/capacity, printed)
	x.near("total load", total(x.column("load", "load")), load)
	x.near("total capacity", total(x.column("capacity", "load")), capacity)
}

func (x *explanation) function(s printedStep) {
	x.t.Helper()
	relative := s.before
	switch name := x.facts["backend: function"]; name {
	case "limited-proportions":
		lf := x.after(s.how, "(relative, 1/")[0]
		meanQ := x.after(s.how, ", mean q ")[0]
		af := x.after(s.how, "mean q + ")[0]
		capacity := x.after(s.how, "; capacity ")[0]
		q := 1 / max(relative, 1/lf)
		x.near("q", q, x.after(s.how, ") = ")[0])
		x.near("function", capacity*max(meanQ/64, meanQ+af*(q-meanQ)), s.after)
		var sum, capacities float64
		for i, r := range x.column("relative", "function") {
			c := x.column("capacity", "function")[i]
			sum += c / max(r, 1/lf)
			capacities += c
		}
		x.near("mean q", sum/capacities, meanQ)
	case "normalised-exponential":
		capacity, a := x.after(s.how, "capacity ")[0], x.after(s.how, "exp(-")[0]
		x.near("function", capacity*math.Exp(-a*(relative-1)), s.after)
	case "water-fill":
		in := x.after(s.how, "new load K = ") // all, H, lifetime, K, W, ...
		x.near("K", in[0]*in[1]/in[2], in[3])
		level, capacity := in[4], x.after(s.how, "W * capacity ")[0]
		x.near("function", max(0, level*capacity-relative*capacity), s.after)
		x.near("W", x.level(in[3]), level)
	case "feedback":
		x.feedback(s, relative)
	default:
		x.t.Errorf("function %q is not known here", name)
	}
}

// level fills new load in from the bottom, over all servers.
func (x *explanation) level(k float64) float64 {
	relative, capacity := x.column("relative", "function"), x.column("capacity", "function")
	low, high := 0.0, slices.Max(relative)+k/slices.Min(capacity)+1
	for range 100 {
		middle := (low + high) / 2
		filled := 0.0
		for i, r := range relative {
			filled += max(0, (middle-r)*capacity[i])
		}
		if filled < k {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

func (x *explanation) feedback(s printedStep, relative float64) {
	x.t.Helper()
	e, before := min(max(1-relative, -1), 1), x.after(s.how, ", before ")[0]
	x.near("e", e, x.after(s.how, "within -1..1, = ")[0])
	in := x.after(s.how, "; log weight = ") // log, Ki, steps, Kp
	mean, now := x.after(s.how, "- mean of all ")[0], x.after(s.how, "of log capacity, = ")[0]
	centre := math.Log(x.number(x.facts["server: capacity"]))
	log := in[0] + in[1]*in[2]*e + in[3]*(e-before) - mean
	x.near("log weight", min(max(log, centre-3), centre+3), now)
	x.near("function", math.Exp(now)/x.after(s.how, "exp of it / sum ")[0], s.after)
}

// share is the raw share over the sum of all, of what others leave.
func (x *explanation) share(s printedStep) {
	x.t.Helper()
	switch {
	case strings.HasPrefix(s.how, "weight in force "):
		in := x.after(s.how, "weight in force ")
		x.near("share in force", in[0]/in[1], in[2])
	case strings.HasPrefix(s.how, "capacity "):
		in := x.after(s.how, "capacity ")
		x.near("fair share", in[0]/in[1], s.after)
	default:
		in := x.after(s.how, "")
		share := in[0] / in[1]
		if strings.Contains(s.how, "that servers without data, or with a pin, leave") {
			share *= in[2]
		}
		x.near("share", share, s.after)
		x.near("sum", total(x.column("function", "function")), in[1])
	}
}

func (x *explanation) rounding(s printedStep) {
	x.t.Helper()
	scale := x.after(s.how, " * ")[0]
	product := s.before * scale
	x.near("share * scale", product, x.after(s.how, " = ")[0])
	if math.Abs(product-s.after) > 0.5+1e-3*product {
		x.t.Errorf("%g is rounded to %g", product, s.after)
	}
	if strings.HasSuffix(s.how, "256 / largest share") {
		largest := x.after(x.facts["backend: largest share"], "")[0]
		x.near("scale", 256/largest, scale)
	}
}
