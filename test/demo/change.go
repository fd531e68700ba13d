package demo

import (
	"fmt"
	"math"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// changes follows the tables that the loop publishes.
type changes struct {
	seen    time.Time      // of the last table
	weights map[string]int // in force after it
	moved   int            // weights written, over all tables
	last    string         // the last change in words; empty when there was none
	loop    string         // what the loop goes by, in words; empty before its first table
	trouble string         // why the newest table holds or what failed; empty when all is well
}

// note takes in the newest tables; it may be given the same one again.
func (c *changes) note(tables []*balancer.Table) {
	for _, t := range tables {
		if !t.Time.After(c.seen) {
			continue
		}
		c.seen = t.Time
		c.moved += t.Changes
		c.loop = loopWords(t)
		c.trouble = t.Fault
		if c.trouble == "" && t.Verdict == weighting.Hold {
			c.trouble = "weights are held: " + t.Why
		}
		if t.Changes > 0 {
			c.last = c.words(t)
		}
		c.weights = make(map[string]int, len(t.Rows))
		for _, row := range t.Rows {
			c.weights[row.Server] = row.AppliedWeight
		}
	}
}

// loopWords tells what decides how strongly the loop reacts.
func loopWords(t *balancer.Table) string {
	text := fmt.Sprintf("function %s, data %.1f s old with the wait", t.Function, t.Delay.Seconds())
	if t.Lifetime > 0 {
		text += fmt.Sprintf(", mean connection lifetime %.0f s", t.Lifetime.Seconds())
	}
	return text + fmt.Sprintf(", gain %.1f", t.Gain)
}

// words tells the largest of the changes of a table, and why it was made.
func (c *changes) words(t *balancer.Table) string {
	var row *balancer.Row
	from, size := 0, -1.0
	for i := range t.Rows {
		r := &t.Rows[i]
		before, known := c.weights[r.Server]
		if !known {
			before = startWeight
		}
		ratio := math.Abs(math.Log(float64(max(r.AppliedWeight, 1)) / float64(max(before, 1))))
		if ratio > size {
			row, from, size = r, before, ratio
		}
	}
	if row == nil {
		return ""
	}
	text := fmt.Sprintf("%s %d to %d", row.Server, from, row.AppliedWeight)
	if row.Load != nil && t.Mean > 0 {
		relative := *row.Load / row.Capacity / t.Mean
		word := "above"
		if relative < 1 {
			word = "below"
		}
		text += fmt.Sprintf(", because its load is %.0f %% %s the average", 100*math.Abs(relative-1), word)
	}
	if limit := limitOf(row.Reasons); limit != "" {
		text += "; " + limit
	}
	if t.Changes > 1 {
		text += fmt.Sprintf("; weights changed: %d", t.Changes)
	}
	return text
}

// limitOf returns the words of the last limit that shaped a weight.
func limitOf(reasons []weighting.Reason) string {
	limit := ""
	for _, r := range reasons {
		switch r.Step {
		case weighting.StepMaxShare, weighting.StepCold, weighting.StepMinWeight,
			weighting.StepMaxWeight, weighting.StepMaxStep, weighting.StepMissing, weighting.StepStuck:
			limit = r.Text
		}
	}
	return limit
}
