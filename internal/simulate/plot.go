package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// plotPoints is how many points a curve has at most; each is the mean of the
// samples between it and the next.
const plotPoints = 360

// plotColours are told apart by most people with a colour weakness too, after
// the palette of Okabe and Ito.
func plotColours() []string {
	return []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f4fc9", "#8c6d1f", "#b2182b", "#4d9221"}
}

// Plot draws two panels as SVG: the load of every server over time under the
// chosen policy and under equal weights, and max/mean of every policy over
// time, both of the first seed. The study must have had Trace set.
func (o *Outcome) Plot(chosen string) (string, error) {
	row := o.row(chosen)
	if row == nil {
		return "", fmt.Errorf("the plot shows policy %q, which was not run", chosen)
	}
	loads := Panel{Title: "Load of each server", XLabel: "time, hours", YLabel: "load, units a second"}
	if equal := o.row(Equal); equal != nil && equal != row {
		loads.Lines = append(loads.Lines, o.serverLines(equal, "#9c9c9c", 0.8)...)
	}
	loads.Lines = append(loads.Lines, o.serverLines(row, o.colour(chosen), 0.9)...)
	spread := Panel{Title: "Most loaded server over the mean", XLabel: "time, hours", YLabel: "max/mean", YFrom: 1}
	for i := range o.Rows {
		r := &o.Rows[i]
		l := Line{Name: r.Policy.Name, Width: 1.4, Colour: o.colour(r.Policy.Name), Dashed: i >= len(plotColours())}
		switch r.Policy.Name {
		case Equal:
			l.Width = 1.8
		case Bound:
			l.Dashed = true
		case chosen:
			l.Width = 2.6
		}
		l.X, l.Y = o.thin(r.Results[0].Series)
		spread.Lines = append(spread.Lines, l)
	}
	title := fmt.Sprintf("%d servers, %d connections of %v on average, %d balancers that see loads %v late", o.Model.Servers,
		o.Model.Connections, short(o.Model.Lifetime.Mean), o.Model.Balancers, short(o.Model.Delay()))
	return DrawSVG(title, []Panel{loads, spread}), nil
}

// colour is that of a policy in both panels.
func (o *Outcome) colour(name string) string {
	switch name {
	case Equal:
		return "#777777"
	case Bound:
		return "#222222"
	}
	i := slices.IndexFunc(o.Rows, func(r Row) bool { return r.Policy.Name == name })
	return plotColours()[max(i, 0)%len(plotColours())]
}

func (o *Outcome) row(name string) *Row {
	i := slices.IndexFunc(o.Rows, func(r Row) bool { return r.Policy.Name == name })
	if i < 0 {
		return nil
	}
	return &o.Rows[i]
}

// serverLines are one curve a server, of which the first is in the legend.
func (o *Outcome) serverLines(r *Row, colour string, width float64) []Line {
	var lines []Line
	for i, load := range r.Results[0].Loads {
		l := Line{Colour: colour, Width: width, Faint: true}
		if i == 0 {
			l.Name = r.Policy.Name
		}
		l.X, l.Y = o.thin(load)
		lines = append(lines, l)
	}
	return lines
}

// thin turns samples into at most plotPoints points, time in hours.
func (o *Outcome) thin(samples []float32) (x, y []float64) {
	size := max(1, (len(samples)+plotPoints-1)/plotPoints)
	step := o.Model.Step.Hours()
	for from := 0; from < len(samples); from += size {
		part := samples[from:min(from+size, len(samples))]
		sum := 0.0
		for _, s := range part {
			sum += float64(s)
		}
		x = append(x, (float64(from)+float64(len(part))/2)*step)
		y = append(y, sum/float64(len(part)))
	}
	return x, y
}

// short prints a duration without the zeros at its end.
func short(d time.Duration) string {
	s := d.Round(time.Second).String()
	s = strings.Replace(s, "m0s", "m", 1)
	return strings.Replace(s, "h0m", "h", 1)
}
