package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// readBackends reads every [[backend]]. c has the other tables.
func readBackends(root *table, c *Config) []Backend {
	tables := root.list("backend")
	if !root.given("backend") {
		root.wrong("backend", "is missing; allowed: one table [[backend]] for each HAProxy backend, with name and target")
		// What it could have had must be known all the same, so that a stray
		// key is told where it belongs.
		none := root.newTable("backend", "backend", nil)
		none.broken = true
		readBackend(none, c)
	}
	var all []Backend
	lines := map[string]int{}
	for _, t := range tables {
		b := readBackend(t, c)
		all = append(all, b)
		if first, twice := lines[b.Name]; twice && b.Name != "" {
			t.wrong("name", "%q has a table already, in line %d; allowed: one table for each backend", t.values["name"], first)
			continue
		}
		lines[b.Name] = t.line(joinPath(t.path, "name"))
	}
	return all
}

func readBackend(t *table, c *Config) Backend {
	const targetWords = "a Graphite target"
	t.require("name", "the name of a backend in haproxy.cfg")
	t.require("target", targetWords)
	s := readWeighting(t)
	b := Backend{
		Name:         t.haproxyName("name"),
		Sockets:      t.backendSockets("sockets", c.HAProxy.Sockets),
		Interval:     s.Interval,
		Window:       s.Window,
		Until:        t.until("until"),
		Aggregate:    choice(t, "aggregate", graphite.Last, graphite.Average, graphite.Median, graphite.Max, graphite.Sum),
		MaxAge:       t.duration("max_age", 90*time.Second, time.Second, 24*time.Hour),
		Capacity:     t.capacity("capacity"),
		Mode:         choice(t, "mode", Live, Observe),
		Maps:         t.maps("maps"),
		SessionLimit: t.integer("sess_limit", 20000, 0, 1_000_000),
		FunctionSet:  t.given("function"),
		Weighting:    s,
	}
	target, ok := t.text("target", targetWords)
	if ok && strings.TrimSpace(target.value) == "" {
		t.wrong("target", "is empty; allowed: %s", targetWords)
	}
	b.Target = target.value
	if target.value != target.written {
		b.TargetWritten = target.written
	}
	t.filledIn = append(t.filledIn, filled(target.written, t.env)...)
	b.ServerRegexp, b.ServerName = t.serverName(b.Target)
	t.weighScript("script", &b)
	checkTimes(t, &b, c)
	return b
}

// haproxyName reads a name that goes into commands to HAProxy.
func (t *table) haproxyName(key string) string {
	const allowed = "letters, digits and _ . : -"
	v, ok := t.text(key, allowed)
	if ok && !isHAProxyName(v.value) {
		t.wrong(key, "%q can't be a name in haproxy.cfg; allowed: %s", v.written, allowed)
		return ""
	}
	return v.value
}

func isHAProxyName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r >= 0x80 || !isBareByte(byte(r)) && r != '.' && r != ':'
	})
}

// backendSockets reads a selection of haproxy.sockets.
func (t *table) backendSockets(key string, have []haproxy.Address) []haproxy.Address {
	return t.sockets(key, func(e element, a haproxy.Address) {
		if !slices.Contains(have, a) && !t.flawed["haproxy.sockets"] {
			t.mistake(e.path, e.name, "%q is not one of haproxy.sockets; allowed: sockets of that list", e.written)
		}
	})
}

// until reads the end of the render window, "now" or "-10s", as the time
// before now.
func (t *table) until(key string) time.Duration {
	const allowed = `"now", or how long before now the window ends, in whole seconds up to an hour, such as "-10s"`
	v, ok := t.text(key, allowed)
	if !ok || v.value == "now" {
		return 0
	}
	ago, negative := strings.CutPrefix(v.value, "-")
	d, err := time.ParseDuration(ago)
	if !negative || err != nil || d < 0 || d > time.Hour || d%time.Second != 0 {
		t.wrong(key, "%q is not a time before now; allowed: %s", v.written, allowed)
		return 0
	}
	return d
}

// capacity reads a word or a table of server = number.
func (t *table) capacity(key string) Capacity {
	const allowed = `"equal", "initial-weight", or a table of server = number`
	const equal = "equal"
	raw := t.take(key)
	switch raw.(type) {
	case nil, string:
		return Capacity{Kind: choiceOr(t, key, allowed, equal, "initial-weight")}
	case map[string]any:
	default:
		t.wrong(key, "is %s; allowed: %s", describe(raw), allowed)
		return Capacity{Kind: equal}
	}
	s := t.free(key)
	if len(s.values) == 0 {
		t.wrong(key, "is a table without a server; allowed: %s", allowed)
	}
	c := Capacity{Kind: "table", Table: map[string]float64{}}
	for _, server := range slices.Sorted(maps.Keys(s.values)) {
		if !isHAProxyName(server) {
			s.wrong(server, "%q can't be the name of a server in haproxy.cfg; allowed: letters, digits and _ . : -", server)
			continue
		}
		c.Table[server] = s.number(server, 1, span{low: 0, high: 1e6, open: true})
	}
	return c
}

// checkTimes relates the times of a backend to each other and to the time that
// a request may take.
func checkTimes(t *table, b *Backend, c *Config) {
	reach := b.Until + b.Window
	if t.sound("window", "until", "max_age") {
		switch {
		case b.Until >= b.MaxAge:
			t.wrong("until", "the window ends %s before now, so every point in it is too old for %s; allowed: less than that", plain(b.Until), t.refer("max_age", b.MaxAge))
		case reach < b.MaxAge:
			t.wrong(t.firstGiven("max_age", "window"), "%s is longer than the window reaches back, which is %s; allowed: max_age up to %s plus until",
				t.refer("max_age", b.MaxAge), plain(reach), t.refer("window", b.Window))
		}
	}
	timeout := c.Graphite.Timeout
	switch {
	case timeout < b.Interval || !t.sound("interval") || t.flawed["graphite.timeout"]:
	case t.given("interval"):
		t.wrong("interval", "%s is not longer than graphite.timeout (%s), so one request could outlast the pass it is for; allowed: an interval above %s, or a shorter timeout",
			plain(b.Interval), plain(timeout), plain(timeout))
	default: // then it is the timeout that somebody chose
		t.mistake("graphite.timeout", "graphite.timeout", "%s is not shorter than %s; allowed: less than that, or a longer interval",
			plain(timeout), t.refer("interval", b.Interval))
	}
}

// readWeighting reads the keys that shape the weights.
func readWeighting(t *table) weighting.Settings {
	d := weighting.DefaultSettings()
	const day = 24 * time.Hour
	s := weighting.Settings{
		Function:       choice(t, "function", d.Function, weighting.LimitedProportions, weighting.NormalisedExponential, weighting.Feedback, weighting.Lua),
		LimitingFactor: t.number("limiting_factor", d.LimitingFactor, span{low: 1, high: 100, open: true}),
		Aggressiveness: t.number("aggressiveness", d.Aggressiveness, span{low: 0, high: 100, open: true}),
		Better:         choice(t, "better", weighting.Lower, weighting.Higher),
		MinWeight:      t.integer("min_weight", d.MinWeight, 1, 256),
		MaxWeight:      t.integer("max_weight", d.MaxWeight, 1, 256),
		MaxShare:       t.number("max_share", d.MaxShare, span{low: 1, high: 1000, open: true}),
		MaxStep:        t.maxStep("max_step"),
		Deadband:       t.number("deadband", d.Deadband, span{low: 0, high: 1}),
		Quorum:         t.number("quorum", d.Quorum, span{low: 0, high: 1}),
		OnMissing:      choice(t, "on_missing", weighting.MissingNeutral, weighting.MissingHold, weighting.MissingInitial),
		OnStale:        choice(t, "on_stale", weighting.StaleHold, weighting.StaleInitial),
		StaleAfter:     t.duration("stale_after", d.StaleAfter, time.Second, 7*day),
		Interval:       t.duration("interval", d.Interval, time.Second, time.Hour),
		Window:         t.seconds("window", d.Window, time.Second, 7*day),
	}
	checkWeighting(t, s)
	return s
}

func checkWeighting(t *table, s weighting.Settings) {
	if t.sound("min_weight", "max_weight") && s.MinWeight > s.MaxWeight {
		key := t.firstGiven("min_weight", "max_weight")
		t.wrong(key, "%s is above %s; allowed: a smaller min_weight or a larger max_weight", t.refer("min_weight", s.MinWeight), t.refer("max_weight", s.MaxWeight))
	}
	t.usedBy("limiting_factor", s.Function, weighting.LimitedProportions)
	t.usedBy("aggressiveness", s.Function, weighting.LimitedProportions, weighting.NormalisedExponential)
	if t.given("max_share") && s.Function == weighting.Feedback && t.sound("function") {
		t.wrong("max_share", `has no use with function = "feedback", whose weights are targets for the number of connections; remove it`)
	}
	if t.given("stale_after") && s.OnStale == weighting.StaleHold && t.sound("on_stale") {
		t.wrong("stale_after", `has no use unless on_stale = "initial"; set that, or remove it`)
	}
}

// usedBy refuses a key that the function in force would ignore.
func (t *table) usedBy(key string, function weighting.Function, users ...weighting.Function) {
	if !t.given(key) || !t.sound("function") || slices.Contains(users, function) && t.given("function") {
		return
	}
	names := make([]string, len(users))
	for i, u := range users {
		names[i] = fmt.Sprintf("%q", string(u))
	}
	t.wrong(key, "has no use with %s; allowed: with function = %s", t.refer("function", function), strings.Join(names, " or "))
}

// maxStep reads "off" (0) or the largest relative change of a weight in a pass.
func (t *table) maxStep(key string) float64 {
	s := span{low: 0, high: 1, open: true}
	if t.values[key] == "off" {
		t.take(key)
		return 0
	}
	return t.numberOr(key, 0, s, fmt.Sprintf(`"off", or %s`, s))
}
