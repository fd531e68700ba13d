package simulate

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// Line is one curve of a Panel.
type Line struct {
	Name   string  // in the legend; empty: not there
	Colour string  // as SVG has them
	Width  float64 // in the picture's units
	Faint  bool    // for many curves over each other
	Dashed bool
	X, Y   []float64 // as many, all finite
}

// Panel is one pair of axes.
type Panel struct {
	Title  string
	XLabel string
	YLabel string
	Lines  []Line  // the last is drawn over the others
	YFrom  float64 // lowest value that the y axis must show
	YTo    float64 // highest value that the y axis must show, beyond what the lines need; 0: none
	Height int     // in the picture's units; 0: 380. The legend may need more
}

// Sizes of a panel in the picture's units, which browsers take for pixels.
const (
	plotWidth   = 650
	panelHeight = 380
	padLeft     = 76
	letter      = 6.8 // width of most letters of the legend
	padTop      = 46
	padBottom   = 56
	legendLine  = 19
)

// DrawSVG draws panels below each other. Titles, labels and names are plain
// text.
func DrawSVG(title string, panels []Panel) string {
	heights, total := make([]int, len(panels)), 40
	longest := 0
	for i, p := range panels {
		for _, l := range p.Lines {
			longest = max(longest, len(l.Name))
		}
		heights[i] = max(cmp.Or(p.Height, panelHeight), padTop+legendLine*(p.named()+1))
		total += heights[i]
	}
	svgWidth := padLeft + plotWidth + 56 + int(letter*float64(longest))
	var b strings.Builder
	fmt.Fprintf(&b, `<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif" font-size="13" fill="#222">
<title>%s</title>
<rect width="100%%" height="100%%" fill="#fff"/>
<text x="16" y="26" font-size="16" font-weight="600">%s</text>
`, svgWidth, total, svgWidth, total, html.EscapeString(title), html.EscapeString(title))
	top := 40
	for i := range panels {
		panels[i].draw(&b, top, heights[i])
		top += heights[i]
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (p *Panel) named() int {
	n := 0
	for _, l := range p.Lines {
		if l.Name != "" {
			n++
		}
	}
	return n
}

// bounds of what the panel shows; the y axis goes from YFrom or below to YTo or
// above.
func (p *Panel) bounds() (x0, x1, y0, y1 float64) {
	x0, x1, y0, y1 = math.Inf(1), math.Inf(-1), p.YFrom, max(p.YFrom, p.YTo)
	for _, l := range p.Lines {
		for i := range l.X {
			x0, x1 = min(x0, l.X[i]), max(x1, l.X[i])
			y0, y1 = min(y0, l.Y[i]), max(y1, l.Y[i])
		}
	}
	if !(x1 > x0) {
		x0, x1 = 0, 1
	}
	if !(y1 > y0) {
		y1 = y0 + 1
	}
	return x0, x1, y0, y1
}

func (p *Panel) draw(b *strings.Builder, top, height int) {
	x0, x1, y0, y1 := p.bounds()
	yTicks := ticks(y0, y1, 6)
	y1 = max(y1, yTicks[len(yTicks)-1])
	left, right := float64(padLeft), float64(padLeft+plotWidth)
	high, low := float64(top+padTop), float64(top+height-padBottom)
	atX := func(x float64) float64 { return left + (x-x0)/(x1-x0)*(right-left) }
	atY := func(y float64) float64 { return low - (y-y0)/(y1-y0)*(low-high) }

	fmt.Fprintf(b, "<text x=\"%g\" y=\"%d\" font-weight=\"600\">%s</text>\n", left, top+30, html.EscapeString(p.Title))
	for _, t := range yTicks {
		fmt.Fprintf(b, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"#e4e4e4\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\" dy=\"0.35em\">%s</text>\n",
			left, atY(t), right, left-8, atY(t), tickLabel(t, yTicks))
	}
	xTicks := ticks(x0, x1, 8)
	for _, t := range xTicks {
		fmt.Fprintf(b, "<path d=\"M%.1f %.1fv5\" stroke=\"#666\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
			atX(t), low, atX(t), low+19, tickLabel(t, xTicks))
	}
	fmt.Fprintf(b, "<path d=\"M%.1f %.1fV%.1fH%.1f\" fill=\"none\" stroke=\"#666\"/>\n", left, high, low, right)
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", (left+right)/2, low+40, html.EscapeString(p.XLabel))
	fmt.Fprintf(b, "<text transform=\"translate(20 %.1f) rotate(-90)\" text-anchor=\"middle\">%s</text>\n", (high+low)/2, html.EscapeString(p.YLabel))

	legend := high + 6
	for _, l := range p.Lines {
		l.draw(b, atX, atY)
		if l.Name == "" {
			continue
		}
		fmt.Fprintf(b, "<path d=\"M%.1f %.1fh22\" stroke=\"%s\" stroke-width=\"2.5\"%s/><text x=\"%.1f\" y=\"%.1f\" dy=\"0.35em\" font-size=\"12\">%s</text>\n",
			right+14, legend, l.Colour, l.dashes(), right+42, legend, html.EscapeString(l.Name))
		legend += legendLine
	}
}

func (l *Line) dashes() string {
	if l.Dashed {
		return ` stroke-dasharray="6 3"`
	}
	return ""
}

func (l *Line) draw(b *strings.Builder, atX, atY func(float64) float64) {
	if len(l.X) == 0 {
		return
	}
	opacity := 1.0
	if l.Faint {
		opacity = 0.55
	}
	fmt.Fprintf(b, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%g\" stroke-opacity=\"%g\" stroke-linejoin=\"round\"%s d=\"", l.Colour, l.Width, opacity, l.dashes())
	for i := range l.X {
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(b, "%s%.1f %.1f", command, atX(l.X[i]), atY(l.Y[i]))
	}
	b.WriteString("\"/>\n")
}

// ticks are about n round numbers (1, 2 or 5 times a power of ten apart) from
// the one at or below from to the last one at or below to; there are at least two.
func ticks(from, to float64, n int) []float64 {
	rough := (to - from) / float64(n)
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	step := 10 * power
	for _, s := range []float64{1, 2, 5} {
		if s*power >= rough*0.999 {
			step = s * power
			break
		}
	}
	var list []float64
	for i := math.Ceil(from/step - 1e-9); i*step <= to+1e-9*step; i++ {
		list = append(list, i*step)
	}
	for len(list) < 2 {
		list = append(list, to)
	}
	return list
}

// tickLabel prints a tick with as many decimals as the distance of two needs.
func tickLabel(t float64, all []float64) string {
	decimals := 0
	for step := all[1] - all[0]; decimals < 9 && math.Abs(step-math.Round(step)) > 1e-6*step; decimals++ {
		step *= 10
	}
	if math.Abs(t) < 1e-12 {
		t = 0
	}
	return grouped(strconv.FormatFloat(t, 'f', decimals, 64))
}

// grouped puts a thin space between thousands.
func grouped(s string) string {
	whole, fraction, found := strings.Cut(s, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	var parts []string
	for len(whole) > 3 {
		parts = append([]string{whole[len(whole)-3:]}, parts...)
		whole = whole[:len(whole)-3]
	}
	s = sign + strings.Join(append([]string{whole}, parts...), "\u2009")
	if found {
		s += "." + fraction
	}
	return s
}
