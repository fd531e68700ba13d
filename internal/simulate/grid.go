package simulate

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"
)

// Grid runs policies over every combination of its axes and compares each with
// equal weights of the same cell and seed. A policy that is worse anywhere is
// one that must not be a default.
type Grid struct {
	Base      Model // what the axes do not change; connections a server are kept
	Lifetimes []time.Duration
	Delays    []time.Duration // total delay d
	Servers   []int
	Balancers []int
	Policies  []Policy // without equal weights, which always runs
	Seeds     []uint64
	Warmup    float64 // in mean lifetimes
	Measured  float64 // in mean lifetimes
	Parallel  int
	Progress  func(Progress)
}

// DefaultGrid is tau 5 min to 8 h, delay 20 to 250 s, 4 to 100 servers, 1 to 16
// balancers.
func DefaultGrid(base Model) Grid {
	base.Restart = false
	return Grid{
		Base:      base,
		Lifetimes: []time.Duration{5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 8 * time.Hour},
		Delays:    []time.Duration{20 * time.Second, 60 * time.Second, 120 * time.Second, 250 * time.Second},
		Servers:   []int{4, 20, 100}, Balancers: []int{1, 4, 16},
		Warmup: 1, Measured: 4,
	}
}

// GridPolicies are the functions that the grid compares when none is named.
func GridPolicies() []string {
	return []string{"limited-proportions", "normalised-exponential", "water-fill", "feedback"}
}

// Cell is one combination. Its JSON form is documented and stable.
type Cell struct {
	Lifetime  float64    `json:"lifetime_seconds"`
	Delay     float64    `json:"delay_seconds"`
	Servers   int        `json:"servers"`
	Balancers int        `json:"balancers"`
	Equal     Spread     `json:"equal_excess"`
	Ratios    []Relative `json:"policies"`
}

// Relative is a policy's excess in a cell over that of equal weights.
type Relative struct {
	Policy string `json:"policy"`
	Excess Spread `json:"excess"`
	Ratio  Spread `json:"ratio"` // of excesses, seed by seed
}

func (c *Cell) String() string {
	return fmt.Sprintf("lifetime %v, delay %v, %d servers, %d balancers",
		seconds(c.Lifetime), seconds(c.Delay), c.Servers, c.Balancers)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Run runs all cells one after the other, the runs of one cell several at once.
func (g *Grid) Run(ctx context.Context) ([]Cell, error) {
	equal, err := ParsePolicy(Equal)
	if err != nil {
		return nil, err
	}
	policies := []Policy{equal}
	for _, p := range g.Policies {
		if p.Name != Equal {
			policies = append(policies, p)
		}
	}
	models := g.models()
	var cells []Cell
	for i := range models {
		study := Study{Model: models[i], Policies: policies, Seeds: g.Seeds, Parallel: g.Parallel}
		out, err := study.Run(ctx)
		if err != nil {
			return nil, err
		}
		cells = append(cells, newCell(out))
		if g.Progress != nil {
			g.Progress(Progress{i + 1, len(models)})
		}
	}
	return cells, nil
}

func (g *Grid) models() []Model {
	perServer := g.Base.Connections / g.Base.Servers
	var list []Model
	for _, lifetime := range g.Lifetimes {
		for _, delay := range g.Delays {
			for _, servers := range g.Servers {
				for _, balancers := range g.Balancers {
					m := g.Base
					m.Servers, m.Connections, m.Balancers = servers, perServer*servers, balancers
					m.Capacities = nil
					m.Lifetime.Mean = lifetime
					m.Warmup = time.Duration(g.Warmup * float64(lifetime))
					m.Measured = time.Duration(g.Measured * float64(lifetime))
					m.SetDelay(delay)
					list = append(list, m)
				}
			}
		}
	}
	return list
}

// SetDelay chooses step and lag for a total delay d: half of what is left
// beside half an interval is the step, up to one minute, the rest the lag. An
// interval that does not leave room for a step of a second is shortened.
func (m *Model) SetDelay(d time.Duration) {
	m.Interval = min(m.Interval, max(time.Second, 2*(d-2*time.Second)))
	left := d - m.Interval/2
	m.Step = max(time.Second, min(time.Minute, (left/2).Truncate(time.Second)))
	m.Lag = max(0, left-m.Step)
	m.MaxAge = max(m.MaxAge, m.Lag+3*m.Step)
	m.Window = max(m.Window, m.MaxAge)
}

func newCell(o *Outcome) Cell {
	m := &o.Model
	c := Cell{Lifetime: m.Lifetime.Mean.Seconds(), Delay: m.Delay().Seconds(), Servers: m.Servers, Balancers: m.Balancers}
	excess := func(r *Row) []float64 {
		list := make([]float64, len(r.Results))
		for i := range list {
			list[i] = r.Results[i].Excess
		}
		return list
	}
	equal := excess(&o.Rows[0])
	c.Equal = spreadOf(equal)
	for i := range o.Rows[1:] {
		own := excess(&o.Rows[i+1])
		ratio := make([]float64, len(own))
		for j := range own {
			ratio[j] = own[j] / equal[j]
		}
		c.Ratios = append(c.Ratios, Relative{o.Rows[i+1].Policy.Name, spreadOf(own), spreadOf(ratio)})
	}
	return c
}

// Worst is what a grid shows of one policy.
type Worst struct {
	Policy string  `json:"policy"`
	Cell   Cell    `json:"worst_cell"`
	Ratio  Spread  `json:"worst_ratio"`
	Median float64 `json:"median_ratio"` // over the cells
	Best   float64 `json:"best_ratio"`
	Above  int     `json:"cells_worse_than_equal"` // median ratio above 1
	Cells  int     `json:"cells"`
}

// Worsts finds each policy's worst cell, by the median over the seeds.
func Worsts(cells []Cell) []Worst {
	if len(cells) == 0 {
		return nil
	}
	list := make([]Worst, len(cells[0].Ratios))
	for i := range list {
		w := &list[i]
		w.Policy, w.Cells, w.Ratio.Median = cells[0].Ratios[i].Policy, len(cells), math.Inf(-1)
		var ratios []float64
		for _, c := range cells {
			r := c.Ratios[i].Ratio
			ratios = append(ratios, r.Median)
			if r.Median > 1 {
				w.Above++
			}
			if r.Median > w.Ratio.Median {
				w.Ratio, w.Cell = r, c
			}
		}
		w.Best, w.Median = slices.Min(ratios), spreadOf(ratios).Median
	}
	return list
}

// WriteCells writes the grid as CSV, one line a cell and policy.
func WriteCells(out io.Writer, cells []Cell) error {
	w := csv.NewWriter(out)
	if err := w.Write([]string{"lifetime_seconds", "delay_seconds", "servers", "balancers", "policy",
		"equal_excess", "excess", "ratio", "ratio_least", "ratio_most"}); err != nil {
		return err
	}
	for _, c := range cells {
		for _, r := range c.Ratios {
			if err := w.Write([]string{
				csvNumber(c.Lifetime), csvNumber(c.Delay), strconv.Itoa(c.Servers), strconv.Itoa(c.Balancers), r.Policy,
				csvNumber(c.Equal.Median), csvNumber(r.Excess.Median),
				csvNumber(r.Ratio.Median), csvNumber(r.Ratio.Least), csvNumber(r.Ratio.Most),
			}); err != nil {
				return err
			}
		}
	}
	w.Flush()
	return w.Error()
}
