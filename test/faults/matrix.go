package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// cell is one row on one HAProxy.
type cell struct {
	row     *row
	binary  haproxyproc.Binary
	outcome outcome
}

// matrix is what became of all rows.
type matrix struct {
	rows     []row
	binaries []haproxyproc.Binary
	profile  profile
	cells    []cell
	took     time.Duration
}

// runMatrix runs every row on each HAProxy. The long ones begin first.
func runMatrix(ctx context.Context, rows []row, binaries []haproxyproc.Binary, p *programs, how profile, parallel int) *matrix {
	m := &matrix{rows: rows, binaries: binaries, profile: how}
	for i := range rows {
		for _, b := range binaries {
			m.cells = append(m.cells, cell{row: &rows[i], binary: b})
		}
	}
	order := make([]*cell, len(m.cells))
	for i := range m.cells {
		order[i] = &m.cells[i]
	}
	slices.SortStableFunc(order, func(a, b *cell) int { return int(b.row.lasts - a.row.lasts) })
	begin := time.Now()
	work := make(chan *cell)
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for c := range work {
				c.outcome = c.row.run(ctx, c.binary, p, how)
				c.tell()
			}
		})
	}
	for _, c := range order {
		work <- c
	}
	close(work)
	workers.Wait()
	m.took = time.Since(begin)
	return m
}

// tell prints how a run went, so that who waits sees something.
func (c *cell) tell() {
	if c.outcome.err == nil {
		fmt.Fprintf(os.Stderr, "ok     %s on %s\n", c.row.name, c.binary.Version)
		return
	}
	fmt.Fprintf(os.Stderr, "FAILED %s on %s: %v\nend of the daemon's log:\n%s\n", c.row.name, c.binary.Version, c.outcome.err, c.outcome.log)
}

func (m *matrix) failed() int {
	n := 0
	for i := range m.cells {
		if m.cells[i].outcome.err != nil {
			n++
		}
	}
	return n
}

// markdown is the table.
func (m *matrix) markdown() string {
	var b strings.Builder
	b.WriteString("| at fault | fault | what must hold, beside what always must | log |")
	for _, binary := range m.binaries {
		fmt.Fprintf(&b, " %s |", binary.Version)
	}
	b.WriteString("\n|---|---|---|---|" + strings.Repeat("---|", len(m.binaries)) + "\n")
	for i := range m.rows {
		r := &m.rows[i]
		fmt.Fprintf(&b, "| %s | %s | %s | %s |", r.part, r.fault, r.holds, r.messages())
		for _, binary := range m.binaries {
			fmt.Fprintf(&b, " %s |", m.text(r, binary))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "\n%d faults, %d runs, %d failed, in %s. A time is from the end of the fault until the right weights were in force, at an interval of %s.\n",
		len(m.rows), len(m.cells), m.failed(), m.took.Round(time.Second), interval)
	return b.String()
}

// text is one cell.
func (m *matrix) text(r *row, b haproxyproc.Binary) string {
	for i := range m.cells {
		c := &m.cells[i]
		if c.row != r || c.binary != b {
			continue
		}
		if c.outcome.err != nil {
			return "**FAILED**"
		}
		return fmt.Sprintf("ok, %.1f s", c.outcome.recovered.Seconds())
	}
	return ""
}

// messages are the lines with which faults begin.
func (r *row) messages() string {
	var all []string
	for _, t := range r.told {
		if !t.none {
			all = append(all, t.begin)
		}
	}
	return strings.Join(all, "; ")
}

// replace puts text between two marks of a file.
func replace(file, name, text string) error {
	target := "faults"
	if name == "soak" {
		target = "soak"
	}
	begin, end := fmt.Sprintf("<!-- make %s writes the %s from here -->\n", target, name), "<!-- to here -->\n"
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, begun := strings.Cut(string(old), begin)
	_, after, ended := strings.Cut(rest, end)
	if !begun || !ended {
		return fmt.Errorf("%s has not the lines %q and %q", file, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return os.WriteFile(file, []byte(before+begin+text+end+after), 0o644)
}
