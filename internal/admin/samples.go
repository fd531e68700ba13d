package admin

import (
	"math"
	"strconv"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

// The grain of samples: single passes for the last hour, before that means.
const (
	fineSpan   = time.Hour
	mostFine   = 240             // points in fineSpan
	coarseStep = 5 * time.Minute // doubled as often as it takes
)

// samples are the loads and weights of one backend on one socket over time.
type samples struct {
	names  []string // servers; the cells of a sample are in their order
	index  map[string]int
	fine   []sample // oldest first
	coarse []sample // oldest first, each a mean over some minutes
	bucket bucket   // of the coarse sample in the making
}

// sample is one point in time. Servers that came later are missing at the end of
// its cells.
type sample struct {
	at        int64   // seconds since 1970
	imbalance float32 // NaN: unknown
	cells     []cell
}

// cell is one server at one time.
type cell struct {
	load   float32 // NaN: no data
	weight int16   // in force; -1: not there
}

// nothing is the cell of a server that is not there.
func nothing() cell { return cell{load: float32(math.NaN()), weight: -1} }

// add takes up a pass, and keeps the number of cells below budget.
func (s *samples) add(t *balancer.Table, budget int) {
	now := s.sample(t)
	s.settle(now.at, budget)
	spacing := max(fineSpan/mostFine, spread(fineSpan, budget/2, len(s.names)))
	// A pass that comes a little early, as jitter makes it, is not left out.
	if n := len(s.fine); n == 0 || time.Duration(now.at-s.fine[n-1].at)*time.Second >= spacing*9/10 {
		s.fine = append(s.fine, now)
	}
	s.bucket.add(&now)
	s.trim(now.at, budget)
}

// spread is the time between two points that lets n servers have points over
// span with so many cells.
func spread(span time.Duration, cells, n int) time.Duration {
	return span / time.Duration(max(1, cells/max(1, n)))
}

// sample makes the sample of a table.
func (s *samples) sample(t *balancer.Table) sample {
	if s.index == nil {
		s.index = make(map[string]int, len(t.Rows))
	}
	for i := range t.Rows {
		name := t.Rows[i].Server
		if _, ok := s.index[name]; !ok {
			s.index[name] = len(s.names)
			s.names = append(s.names, name)
		}
	}
	r := sample{at: t.Time.Unix(), imbalance: float32(math.NaN()), cells: make([]cell, len(s.names))}
	if t.Imbalance > 0 {
		r.imbalance = float32(t.Imbalance)
	}
	for i := range r.cells {
		r.cells[i] = nothing()
	}
	for i := range t.Rows {
		from, to := &t.Rows[i], &r.cells[s.index[t.Rows[i].Server]]
		to.weight = int16(from.AppliedWeight)
		if from.Load != nil && !from.Earlier {
			to.load = float32(*from.Load)
		}
	}
	return r
}

// settle ends the bucket that now is no longer in. When the clock was set
// back, what is from after now goes: times only grow.
func (s *samples) settle(now int64, budget int) {
	s.fine, s.coarse = until(s.fine, now), until(s.coarse, now)
	if s.bucket.begun && now >= s.bucket.begin && now < s.bucket.end {
		return
	}
	if s.bucket.begun && now >= s.bucket.end {
		s.coarse = append(s.coarse, s.bucket.sample())
	}
	step := coarseStep
	for need := spread(historySpan, budget/2, len(s.names)); step < need; {
		step *= 2
	}
	seconds := int64(step / time.Second)
	begin := now / seconds * seconds
	s.bucket = bucket{begun: true, begin: begin, end: begin + seconds}
}

// until drops samples from after a time.
func until(rows []sample, end int64) []sample {
	for len(rows) > 0 && rows[len(rows)-1].at > end {
		rows = rows[:len(rows)-1]
	}
	return rows
}

// trim drops what is too old, makes coarse samples coarser while they have too
// many cells, and forgets servers that no sample has any more.
func (s *samples) trim(now int64, budget int) {
	s.fine = since(s.fine, now-int64(fineSpan/time.Second))
	s.coarse = since(s.coarse, now-int64(historySpan/time.Second))
	for cells(s.fine) > budget/2 && len(s.fine) > 1 {
		s.fine = s.fine[1:]
	}
	for cells(s.coarse) > budget/2 && len(s.coarse) > 1 {
		s.coarse = halved(s.coarse)
	}
	s.compact()
}

// since drops samples from before a time. What is left is moved once in a while,
// so that the dropped ones can be freed.
func since(rows []sample, begin int64) []sample {
	n := 0
	for n < len(rows) && rows[n].at < begin {
		rows[n] = sample{}
		n++
	}
	return rows[n:]
}

func cells(rows []sample) int {
	n := 0
	for i := range rows {
		n += len(rows[i].cells)
	}
	return n
}

// halved joins samples two by two.
func halved(rows []sample) []sample {
	half := make([]sample, 0, len(rows)/2+1)
	for i := 0; i < len(rows); i += 2 {
		if i+1 == len(rows) {
			return append(half, rows[i])
		}
		var b bucket
		b.add(&rows[i])
		b.add(&rows[i+1])
		half = append(half, b.sample())
	}
	return half
}

// compact forgets names that no sample has a weight for, once they are many.
func (s *samples) compact() {
	used := make([]bool, len(s.names))
	count := func(cells []cell) {
		for i := range cells {
			used[i] = used[i] || cells[i].weight >= 0
		}
	}
	newest := s.fine[len(s.fine)-1]
	here := 0
	for i := range newest.cells {
		if newest.cells[i].weight >= 0 {
			here++
		}
	}
	if len(s.names) <= here+here/4+16 {
		return
	}
	for i := range s.fine {
		count(s.fine[i].cells)
	}
	for i := range s.coarse {
		count(s.coarse[i].cells)
	}
	count(s.bucket.sample().cells)
	s.keep(used)
}

// keep drops the names that are not used, and their cells.
func (s *samples) keep(used []bool) {
	var names []string
	for i, name := range s.names {
		if used[i] {
			names = append(names, name)
		}
	}
	if len(names) == len(s.names) {
		return
	}
	pick := func(rows []sample) {
		for i := range rows {
			kept := make([]cell, 0, len(names))
			for j, c := range rows[i].cells {
				if used[j] {
					kept = append(kept, c)
				}
			}
			rows[i].cells = kept
		}
	}
	pick(s.fine)
	pick(s.coarse)
	s.bucket.keep(used)
	s.names = names
	clear(s.index)
	for i, name := range names {
		s.index[name] = i
	}
}

// excerpt is a part of samples that stays as it is: samples are never changed.
type excerpt struct {
	names []string
	rows  []sample
}

// excerpt picks the samples later than after and not before begin.
func (s *samples) excerpt(after, begin time.Time) excerpt {
	from := begin.Unix()
	if !after.IsZero() {
		from = max(from, after.Unix()+1)
	}
	e := excerpt{names: s.names}
	for i := range s.coarse {
		if s.coarse[i].at >= from && (len(s.fine) == 0 || s.coarse[i].at < s.fine[0].at) {
			e.rows = append(e.rows, s.coarse[i])
		}
	}
	for i := range s.fine {
		if s.fine[i].at >= from {
			e.rows = append(e.rows, s.fine[i])
		}
	}
	return e
}

// series gives the excerpt its JSON form.
func (e excerpt) series(socket string) api.Series {
	a := api.Series{
		Socket: socket, Times: make([]int64, len(e.rows)), Imbalance: make([]*float64, len(e.rows)),
		Loads: make(map[string][]*float64, len(e.names)), Weights: make(map[string][]*float64, len(e.names)),
	}
	for i := range e.rows {
		a.Times[i], a.Imbalance[i] = e.rows[i].at, number(e.rows[i].imbalance)
	}
	for n, name := range e.names {
		loads, weights, there := make([]*float64, len(e.rows)), make([]*float64, len(e.rows)), false
		for i := range e.rows {
			if n >= len(e.rows[i].cells) || e.rows[i].cells[n].weight < 0 {
				continue
			}
			c := e.rows[i].cells[n]
			there, loads[i], weights[i] = true, number(c.load), number(float32(c.weight))
		}
		if there {
			a.Loads[name], a.Weights[name] = loads, weights
		}
	}
	return a
}

// number is the shortest decimal number that means v; nil for NaN.
func number(v float32) *float64 {
	if v != v || math.IsInf(float64(v), 0) {
		return nil
	}
	wide := float64(v)
	if whole := math.Trunc(wide); whole != wide {
		if short, err := strconv.ParseFloat(strconv.FormatFloat(wide, 'g', -1, 32), 64); err == nil {
			wide = short
		}
	}
	return &wide
}
