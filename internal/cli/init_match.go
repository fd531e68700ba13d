package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// naming is how the name of a series becomes the name of a server.
type naming struct {
	pattern string // for server_regexp; empty: the names are the same
	name    string // for server_name; empty: "$1"
}

// Bounds of the search for a naming: names looked at to find rules, and rules
// tried on all names.
const (
	namingServers = 20
	namingSeries  = 2000
	namingRules   = 10
)

// bestNaming finds the rule that gives the most servers exactly one series, and
// how many; of equals the simplest. exact wants the server's name, or its first
// label, to be in the name of the series: without it "1" may be server "s1".
func bestNaming(series, servers []string, exact bool) (best naming, matched int) {
	rules := append([]naming{{}}, rulesFor(series, servers, exact)...)
	for _, n := range rules {
		if m := n.servers(series, servers); m > matched {
			best, matched = n, m
		}
		if matched == len(servers) {
			break
		}
	}
	return best, matched
}

// servers counts the servers that the rule gives exactly one series.
func (n naming) servers(series, servers []string) int {
	of := make(map[string]int, len(servers))
	for _, name := range servers {
		of[name] = 0
	}
	rename, err := n.compile()
	if err != nil {
		return 0
	}
	for _, s := range series {
		name := rename(s)
		if _, ours := of[name]; ours {
			of[name]++
		}
	}
	matched := 0
	for _, count := range of {
		if count == 1 {
			matched++
		}
	}
	return matched
}

// compile makes the rule a function, as the balancer has it.
func (n naming) compile() (func(series string) string, error) {
	if n.pattern == "" {
		return func(s string) string { return s }, nil
	}
	re, err := regexp.Compile(n.pattern)
	if err != nil {
		return nil, err
	}
	name := cmp.Or(n.name, "$1")
	return func(s string) string {
		at := re.FindStringSubmatchIndex(s)
		if at == nil {
			return ""
		}
		return string(re.ExpandString(nil, name, s, at))
	}, nil
}

// rulesFor makes rules of pairs of names that have something in common: what is
// before and after it is the same for all, or it is one part of a path. The
// rules that most pairs make come first, of equals the one that says most.
func rulesFor(series, servers []string, exact bool) []naming {
	votes := make(map[naming]int)
	for _, server := range servers[:min(len(servers), namingServers)] {
		label, _, _ := strings.Cut(server, ".")
		stems := []string{server}
		if label != server && label != "" {
			stems = append(stems, label)
		}
		for _, s := range series[:min(len(series), namingSeries)] {
			for _, stem := range stems {
				for _, n := range affixRules(s, server, stem) {
					votes[n]++
				}
			}
			if i := strings.Index(server, s); !exact && s != "" && s != server && i >= 0 {
				votes[naming{pattern: "^(.+)$", name: server[:i] + "${1}" + server[i+len(s):]}]++
			}
		}
	}
	rules := slices.SortedFunc(maps.Keys(votes), func(a, b naming) int {
		return cmp.Or(cmp.Compare(votes[b], votes[a]), cmp.Compare(strings.Count(a.pattern, "[^.]"), strings.Count(b.pattern, "[^.]")),
			cmp.Compare(len(a.pattern), len(b.pattern)), cmp.Compare(a.pattern, b.pattern), cmp.Compare(a.name, b.name))
	})
	return rules[:min(len(rules), namingRules)]
}

// affixRules are the rules that make server of s, where stem is the beginning of
// server and in s.
func affixRules(s, server, stem string) []naming {
	i := strings.Index(s, stem)
	if i < 0 || s == server {
		return nil
	}
	before, after := s[:i], s[i+len(stem):]
	name := ""
	if rest := server[len(stem):]; rest != "" {
		name = "${1}" + rest
	}
	rules := []naming{{pattern: "^" + regexp.QuoteMeta(before) + "(.+)" + regexp.QuoteMeta(after) + "$", name: name}}
	if !strings.Contains(stem, ".") && (before == "" || strings.HasSuffix(before, ".")) && strings.HasPrefix(after+".", ".") {
		labels := strings.Count(before, ".")
		path := "^"
		if labels > 0 {
			path = fmt.Sprintf(`^(?:[^.]*\.){%d}`, labels)
		}
		rules = append(rules, naming{pattern: path + `([^.]+)`, name: name})
	}
	return rules
}

// match is a target as it would do for one backend.
type match struct {
	matches
	target  string
	naming  naming
	servers int
	step    time.Duration // of the data; 0: not known
	maxAge  time.Duration
	window  time.Duration
	idle    bool     // every load is 0
	others  []string // targets that would do as well
}

// enough tells whether weights would be set at all: as the key quorum has it by default.
func (m *match) enough() bool { return 2*len(m.matched) >= m.servers && len(m.matched) > 0 }

// rank is 0 for what would do, 1 for what tells nothing, 2 for what would not do.
func (m *match) rank() int {
	switch {
	case !m.enough():
		return 2
	case m.idle:
		return 1
	}
	return 0
}

// The defaults of max_age and window.
const (
	usualMaxAge = 90 * time.Second
	usualWindow = 5 * time.Minute
)

// try looks at what a target gives for one backend's servers. Its error is Graphite's.
func (s *search) try(ctx context.Context, target string, b *initBackend) (*match, error) {
	m := &match{target: target, servers: len(b.servers), maxAge: usualMaxAge, window: usualWindow}
	shape := config.Backend{Name: b.name, Target: target, Aggregate: graphite.Last, Window: time.Hour, MaxAge: time.Hour}
	shape.Weighting.Function = weighting.WaterFill
	if !strings.Contains(target, "{server}") {
		answer, err := s.Render(ctx, graphite.Request{Targets: []string{target}})
		if err != nil {
			return nil, err
		}
		names := make([]string, len(answer.Series))
		for i := range answer.Series {
			names[i] = answer.Series[i].Name
		}
		if m.naming, _ = bestNaming(names, b.servers, false); m.naming.pattern != "" {
			shape.ServerRegexp = regexp.MustCompile(m.naming.pattern)
			shape.ServerName = cmp.Or(m.naming.name, "$1")
		}
	}
	l := &listener{Renderer: s}
	rows, err := balancer.Loads(ctx, l, shape, b.servers)
	if err != nil {
		return nil, err
	}
	m.fitTo(rows, ofServers(rows, l.answers))
	shape.MaxAge, shape.Window = m.maxAge, m.window
	if rows, err = balancer.Loads(ctx, l, shape, b.servers); err != nil {
		return nil, err
	}
	m.matches = matchRows(rows, b.servers)
	m.idle = !slices.ContainsFunc(rows, func(r balancer.LoadRow) bool { return r.Usable && r.Value != nil && *r.Value > 0 })
	return m, nil
}

// ofServers keeps the series that are for servers: the steps of others do not count.
func ofServers(rows []balancer.LoadRow, answers []*graphite.Answer) []*graphite.Answer {
	wanted := make(map[string]bool)
	for _, r := range rows {
		if r.Usable {
			wanted[r.Series] = true
		}
	}
	var kept []*graphite.Answer
	for _, a := range answers {
		only := &graphite.Answer{}
		for i := range a.Series {
			if wanted[a.Series[i].Name] {
				only.Series = append(only.Series, a.Series[i])
			}
		}
		kept = append(kept, only)
	}
	return kept
}

// fitTo chooses max_age and window by the step and the delay of the data, as
// "check --live" wants them. Data that are later than a few steps are not slow
// but dead, and no reason for patience.
func (m *match) fitTo(rows []balancer.LoadRow, answers []*graphite.Answer) {
	m.step = stepOf(answers)
	if m.step == 0 {
		return
	}
	delay := delayOf(rows, m.step)
	if delay > max(3*m.step, 2*time.Minute) {
		delay = 0
	}
	if need := 3*m.step + delay; need > m.maxAge {
		m.maxAge = upTo(need, 10*time.Second)
	}
	if need := max(5*m.step, m.maxAge+2*m.step); need > m.window {
		m.window = upTo(need, time.Minute)
	}
}

func upTo(d, step time.Duration) time.Duration { return (d + step - 1) / step * step }
