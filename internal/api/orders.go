package api

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

// Standing is one order in force, in words.
type Standing struct {
	What string   // e.g. "ingest/s1 is pinned at 64"
	How  string   // until when, by whom, and why
	Undo []string // the command that takes it back, without the program's name
}

// Standings are the orders in force for a backend.
func Standings(backend string, c balancer.Control, now time.Time) []Standing {
	var all []Standing
	add := func(what string, o balancer.Order, undo ...string) {
		all = append(all, Standing{What: what, How: OrderWords(o, now), Undo: undo})
	}
	if f := c.Freeze; f != nil {
		add(backend+" is frozen", f.Order, "unfreeze", backend)
	}
	if m := c.Mode; m != nil {
		add(fmt.Sprintf("%s has mode %s", backend, m.Mode), m.Order, "mode", backend, "file")
	}
	for _, server := range slices.Sorted(maps.Keys(c.Pins)) {
		id, pin := backend+"/"+server, c.Pins[server]
		add(fmt.Sprintf("%s is pinned at %d", id, pin.Weight), pin.Order, "unpin", id)
	}
	return all
}

// OrderWords say until when an order counts, by whom it is and why.
func OrderWords(o balancer.Order, now time.Time) string {
	until := "until it is taken back"
	if !o.Until.IsZero() {
		until = fmt.Sprintf("until %s (%s left)", At(o.Until), Span(o.Until.Sub(now).Round(time.Second)))
	}
	return fmt.Sprintf("%s, by %s: %s", until, o.Author, o.Reason)
}

// OrdersBrief are the orders in force in a word or two each.
func OrdersBrief(c balancer.Control) []string {
	var all []string
	if c.Freeze != nil {
		all = append(all, "frozen")
	}
	if c.Mode != nil {
		all = append(all, "mode "+string(c.Mode.Mode))
	}
	switch n := len(c.Pins); n {
	case 0:
	case 1:
		all = append(all, "1 pin")
	default:
		all = append(all, fmt.Sprintf("%d pins", n))
	}
	return all
}

// WordsPending says of a table that the orders shown are newer than it.
const WordsPending = "the orders have changed since the last pass; the next one is under way and takes them up"

// WordsUnconfigured says why orders for a backend have no effect.
func WordsUnconfigured(backend string) string {
	return backend + " is not in the configuration: its orders have no effect, and count again if it comes back"
}
