package demo

import (
	"fmt"
	"io"
	"strings"
)

// display shows a run as it goes.
type display interface {
	open(r *rig) error
	// show is given a frame several times a second, and the number of whole
	// seconds of the phase so far.
	show(f Frame, second int) error
	close() error
}

func newDisplay(o Options) display {
	if o.Screen != nil {
		return &live{out: o.Out, screen: o.Screen}
	}
	return &plain{out: o.Out, shown: -1}
}

// The control sequences of the live view.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[2J" // other screen, no cursor, empty
	leaveScreen = "\x1b[?25h\x1b[?1049l"        // cursor back, first screen back
	home        = "\x1b[H"
	clearLine   = "\x1b[K" // to the end of the line
	clearBelow  = "\x1b[J" // to the end of the screen
)

// live redraws the terminal's other screen, so that the shell's own comes
// back untouched.
type live struct {
	out    io.Writer
	screen func() Screen
}

func (l *live) open(*rig) error {
	_, err := io.WriteString(l.out, enterScreen)
	return err
}

func (l *live) close() error {
	_, err := io.WriteString(l.out, leaveScreen)
	return err
}

func (l *live) show(f Frame, _ int) error {
	// No newline after the last line: it would scroll a full screen.
	lines := f.Lines(l.screen())
	_, err := io.WriteString(l.out, home+strings.Join(lines, clearLine+"\r\n")+clearLine+clearBelow)
	return err
}

// plain writes a line every five seconds.
type plain struct {
	out   io.Writer
	phase int
	shown int // second of the phase of the last line
}

// plainEvery is the time between two lines, in seconds.
const plainEvery = 5

func (p *plain) open(r *rig) error {
	_, err := fmt.Fprintf(p.out, "%d servers behind a real HAProxy, %d long-lived clients at a time, 5 to 5,000 datapoints/s each, seed %d\n"+
		"time is compressed thirty times: a pass every second instead of every 30 s, clients stay 20 s instead of 10 min\n"+
		"configuration %s, haproxy.cfg %s\n",
		len(r.servers), clientsPerServer*len(r.servers), r.options.Seed, r.file, r.process.Dir+"/haproxy.cfg")
	return err
}

func (p *plain) close() error { return nil }

func (p *plain) show(f Frame, second int) error {
	if f.Phase != p.phase || p.shown < 0 {
		p.phase, p.shown = f.Phase, 0
		h := f.Phases[f.Phase]
		if _, err := fmt.Fprintf(p.out, "phase %d of %d: %s for %d s\n", f.Phase+1, len(f.Phases), h.Name, h.Seconds); err != nil {
			return err
		}
	}
	if second < p.shown+plainEvery {
		return nil
	}
	p.shown = second / plainEvery * plainEvery
	_, err := io.WriteString(p.out, f.plainLine(second))
	return err
}

// plainLine is one moment in one line.
func (f Frame) plainLine(second int) string {
	loads := make([]float64, len(f.Bars))
	weights := make([]string, len(f.Bars))
	busiest := 0
	for i, b := range f.Bars {
		loads[i] = b.Load
		weights[i] = "-"
		if b.Weight >= 0 {
			weights[i] = fmt.Sprint(b.Weight)
		}
		if b.Load > f.Bars[busiest].Load {
			busiest = i
		}
	}
	s := spreadOf(loads)
	if s.Max == 0 {
		return fmt.Sprintf("%3d s  no server received anything\n", second)
	}
	line := fmt.Sprintf("%3d s  max/mean %.2f  busiest %s %s/s, average %s/s  weights %s\n", second, s.MaxMean,
		f.Bars[busiest].Name, thousands(s.Max), thousands(s.Mean), strings.Join(weights, " "))
	if f.Warning != "" {
		line += "       ! " + f.Warning + "\n"
	}
	return line
}
