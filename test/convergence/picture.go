package main

import (
	"fmt"

	"github.com/haproxy-weighter/haproxy-weighter/internal/simulate"
)

// colours are told apart by most people with a colour weakness too, after the
// palette of Okabe and Ito.
func colour(policy string) string {
	switch policy {
	case equalID:
		return "#777777"
	case "leastconn":
		return "#e69f00"
	case "limited-proportions":
		return "#cc79a7"
	case "normalised-exponential":
		return "#d55e00"
	case waterFillID:
		return "#0072b2"
	case "feedback":
		return "#009e73"
	}
	return "#222222"
}

// loadHeight is the height of a panel of loads.
const loadHeight = 270

// picture draws the load of every server over their mean with the first seed,
// under equal weights and under water-fill, and below how far the busiest server is above
// the mean, for every policy, as the mean of all seeds.
func (r *result) picture() string {
	var panels []simulate.Panel
	lowest, highest := 1.0, 1.0
	for _, p := range []*summary{r.of(equalID), r.shown()} {
		if p == nil {
			continue
		}
		panel := simulate.Panel{
			Title:  fmt.Sprintf("Load of each server over the mean, %s, seed %d", p.name, r.Seeds[0]),
			XLabel: "time, seconds", YLabel: "load/mean", Lines: p.serverLines(), Height: loadHeight,
		}
		for _, l := range panel.Lines {
			for _, y := range l.Y {
				lowest, highest = min(lowest, y), max(highest, y)
			}
		}
		panels = append(panels, panel)
	}
	for i := range panels {
		panels[i].YFrom, panels[i].YTo = lowest, highest // the same axis for both
	}
	busiest := simulate.Panel{
		Title:  fmt.Sprintf("Busiest server over the mean, %d-second means over %s", bin, count(len(r.Seeds), "seed")),
		XLabel: "time, seconds", YLabel: "max/mean", YFrom: 1,
	}
	for _, p := range r.all() {
		l := simulate.Line{Name: p.name, Colour: colour(p.Policy), Width: 1.6}
		switch p.Policy {
		case r.Floor.Policy:
			l.Dashed = true
		case waterFillID:
			l.Width = 2.8
		}
		l.X, l.Y = p.busiest()
		busiest.Lines = append(busiest.Lines, l)
	}
	title := fmt.Sprintf("Real HAProxy, real Graphite: %d servers, %d long-lived clients at a time, the same for each policy",
		r.Servers, r.Servers*r.ClientsPerServer)
	return simulate.DrawSVG(title, append(panels, busiest))
}

// shown is the policy whose servers are drawn beside those of equal weights.
func (r *result) shown() *summary {
	if p := r.of(waterFillID); p != nil {
		return p
	}
	for i := range r.Policies {
		if r.Policies[i].Policy != equalID {
			return &r.Policies[i]
		}
	}
	return nil
}

// serverLines are one curve a server with the first seed. Seconds in which the machine did not keep up are left out.
func (s *summary) serverLines() []simulate.Line {
	run := &s.Runs[0]
	lines := make([]simulate.Line, len(run.Loads[0]))
	for i := range lines {
		l := &lines[i]
		*l = simulate.Line{Colour: colour(s.Policy), Width: 1.3}
		for second, row := range run.Loads {
			if keptUp(run.Loads, run.Offered, second) {
				l.X = append(l.X, float64(second+1))
				mean, _, _ := spread(row)
				l.Y = append(l.Y, row[i]/mean)
			}
		}
	}
	return lines
}

// bin is how many seconds are one point of the curves of busiest.
const bin = 4

// busiest is max/mean over time, the mean of a bin of seconds and of all seeds.
func (s *summary) busiest() (x, y []float64) {
	seconds := len(s.Runs[0].Loads)
	for from := 0; from < seconds; from += bin {
		sum, n := 0.0, 0
		to := min(from+bin, seconds)
		for _, run := range s.Runs {
			for second := from; second < to; second++ {
				if keptUp(run.Loads, run.Offered, second) {
					_, maxMean, _ := spread(run.Loads[second])
					sum += maxMean
					n++
				}
			}
		}
		if n > 0 {
			x = append(x, float64(from+to+1)/2)
			y = append(y, sum/float64(n))
		}
	}
	return x, y
}
