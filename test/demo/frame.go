package demo

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Frame is everything that one picture of the live view shows. It is drawn by
// Lines, which does no I/O and knows no clock.
type Frame struct {
	Title   string
	Phase   int // 0 or 1; an index of Phases
	Phases  [2]PhaseHistory
	Left    time.Duration // until the end of this phase
	Bars    []Bar
	Change  string // the last change of weights and its reason; empty when there was none
	Loop    string // what the loop goes by; empty without the loop
	Warning string // what goes wrong just now; empty when nothing does
	Footer  string
}

// PhaseHistory is one phase over time.
type PhaseHistory struct {
	Name     string
	Seconds  int       // length of the phase, which is the width of its part of the chart
	Samples  []float64 // max/mean at the end of each second; NaN when there was no load
	MeanFrom int       // seconds left out of Mean
	Mean     float64   // time-mean of max/mean from MeanFrom on; NaN when not known yet
}

// Bar is one server.
type Bar struct {
	Name   string
	Load   float64 // datapoints a second
	Weight int     // in force; -1 when not known
}

// Screen says what the view may use of a terminal.
type Screen struct {
	Width  int  // columns; lines are never longer
	Height int  // rows; never more lines; 0 means any number
	Colour bool // ANSI colours
	ASCII  bool // no block characters
}

const (
	fullWeight = 256 // where the bar of a weight ends
	chartRows  = 3
	// chartTop is the least value at the top of the chart of max/mean.
	chartTop = 2.0
)

// Lines draws the frame.
func (f Frame) Lines(s Screen) []string {
	p := painter{s}
	width := max(s.Width, 1)
	out := []string{p.style(bold, f.Title), f.phaseLine(p), ""}
	out = append(out, f.barLines(p, width)...)
	out = append(out, "")
	out = append(out, f.chartLines(p, width)...)
	out = append(out, f.meansLine(p), "")
	change := wrap("last change: "+f.Change, width, 2)
	if f.Change == "" {
		change = wrap("no weight has been changed", width, 1)
	}
	if len(change) < 2 {
		change = append(change, "") // what is below must not jump
	}
	out = append(out, change...)
	out = append(out, cut(f.Loop, width))
	if f.Warning != "" {
		out = append(out, p.style(red, cut("! "+f.Warning, width)))
	}
	out = append(out, p.style(faint, cut(f.Footer, width)))
	return fit(out, width, s.Height)
}

// fit makes the lines fit the screen: first blank lines go, then the end.
func fit(lines []string, width, height int) []string {
	if height > 0 && len(lines) > height {
		lines = slices.DeleteFunc(lines, func(l string) bool { return l == "" })
		lines = lines[:min(len(lines), height)]
	}
	for i, l := range lines {
		lines[i] = cut(l, width)
	}
	return lines
}

func (f Frame) phaseLine(p painter) string {
	left := max(f.Left, 0).Round(time.Second)
	more := ""
	if f.Phase > 0 {
		more = ", same clients again"
	}
	return fmt.Sprintf("phase %d of %d: %s%s  %s", f.Phase+1, len(f.Phases),
		p.style(bold, f.Phases[f.Phase].Name), more, p.style(faint, fmt.Sprintf("%d s left", int(left.Seconds()))))
}

// barLines draws a header and one line a server.
func (f Frame) barLines(p painter, width int) []string {
	mean := 0.0
	nameWidth := len("server")
	for _, b := range f.Bars {
		mean += b.Load / float64(len(f.Bars))
		nameWidth = max(nameWidth, len(b.Name))
	}
	// name, two spaces, bar, space, load (7), space, relative (5), two spaces, bar, space, weight (3)
	room := width - nameWidth - 2 - 1 - 7 - 1 - 5 - 2 - 1 - 3
	weightBar := max(room*3/10, 0)
	loadBar := max(room-weightBar, 0)
	head := fmt.Sprintf("%-*s  %-*s %7s %5s  %-*s %s", nameWidth, "server",
		loadBar, cut(p.header(loadBar), loadBar), "load/s", "/mean", weightBar, cut("weight", weightBar), "")
	lines := []string{p.style(faint, head)}
	for _, b := range f.Bars {
		relative, text := 0.0, "-"
		if mean > 0 {
			relative = b.Load / mean
			text = fmt.Sprintf("%.2f", relative)
		}
		weight := "-"
		if b.Weight >= 0 {
			weight = fmt.Sprint(b.Weight)
		}
		lines = append(lines, fmt.Sprintf("%-*s  %s %7s %5s  %s %3s", nameWidth, b.Name,
			p.style(loadStyle(relative), p.bar(relative/2, loadBar, loadBar/2)), thousands(b.Load), text,
			p.style(cyan, p.bar(float64(max(b.Weight, 0))/fullWeight, weightBar, -1)), weight))
	}
	return lines
}

// loadStyle colours what the numbers say as well.
func loadStyle(relative float64) style {
	switch {
	case relative > 1.4:
		return red
	case relative > 1.15:
		return yellow
	}
	return green
}

// chartLines draws max/mean over time, both phases side by side.
func (f Frame) chartLines(p painter, width int) []string {
	const label = 5 // "2.0 |"
	columns := max((width-label-1)/len(f.Phases), 1)
	top := chartTop
	for _, h := range f.Phases {
		for _, v := range h.Samples {
			if !math.IsNaN(v) {
				top = max(top, math.Ceil(v*2)/2)
			}
		}
	}
	top = min(top, 4) // the first seconds may be anything
	head := fmt.Sprintf("%-*s", label, "max/mean")
	rows := make([]strings.Builder, chartRows)
	for i := range rows {
		level := 1 + (top-1)*float64(chartRows-i)/chartRows
		fmt.Fprintf(&rows[i], "%4.1f%s", level, p.pick("│", "|"))
	}
	for i, h := range f.Phases {
		values := h.spread(columns)
		for row := range rows {
			if i > 0 {
				rows[row].WriteString(p.style(faint, p.pick("┊", ":")))
			}
			line := make([]rune, columns)
			for c, v := range values {
				line[c] = p.column((v-1)/(top-1)*chartRows - float64(chartRows-1-row))
			}
			rows[row].WriteString(p.style([]style{yellow, green}[i], string(line)))
		}
	}
	lines := []string{p.style(faint, head+" over time, 1.0 is even")}
	for i := range rows {
		lines = append(lines, rows[i].String())
	}
	return lines
}

// spread fits the samples of a phase into columns: several a column are
// averaged, and what has not happened yet is NaN.
func (h PhaseHistory) spread(columns int) []float64 {
	values := make([]float64, columns)
	for c := range values {
		from := c * h.Seconds / columns
		until := max((c+1)*h.Seconds/columns, from+1)
		sum, n := 0.0, 0
		for s := from; s < until && s < len(h.Samples); s++ {
			if !math.IsNaN(h.Samples[s]) {
				sum += h.Samples[s]
				n++
			}
		}
		values[c] = math.NaN()
		if n > 0 {
			values[c] = sum / float64(n)
		}
	}
	return values
}

func (f Frame) meansLine(p painter) string {
	var parts []string
	for i, h := range f.Phases {
		mean := "not yet"
		if !math.IsNaN(h.Mean) {
			mean = fmt.Sprintf("%.2f", h.Mean)
		}
		parts = append(parts, fmt.Sprintf("%s %s", h.Name, p.style([]style{yellow, green}[i], mean)))
	}
	return fmt.Sprintf("average from second %d on: %s", f.Phases[0].MeanFrom, strings.Join(parts, ", "))
}
