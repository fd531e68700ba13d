package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
)

// search asks Graphite for series that are loads of servers. It remembers the
// answers, so that many backends with the same target cost one render.
type search struct {
	client  *graphite.Client
	answers map[string]*graphite.Answer // by targets
	asked   int                         // questions for names
	cut     bool                        // there was more to look at
}

func newSearch(c *graphite.Client) *search {
	return &search{client: c, answers: make(map[string]*graphite.Answer)}
}

// Windows of the renders: the second is for data of several minutes' step.
var searchWindows = [...]time.Duration{usualWindow, time.Hour}

// Render implements balancer.Renderer, with a window of its own.
func (s *search) Render(ctx context.Context, r graphite.Request) (*graphite.Answer, error) {
	key := strings.Join(r.Targets, "\n")
	if a := s.answers[key]; a != nil {
		return a, nil
	}
	var answer *graphite.Answer
	for _, window := range searchWindows {
		var err error
		if answer, err = s.client.Render(ctx, graphite.Request{Targets: r.Targets, Window: window}); err != nil {
			return nil, err
		}
		if len(answer.Series) == 0 || stepOf([]*graphite.Answer{answer}) > 0 {
			break
		}
	}
	s.answers[key] = answer
	return answer, nil
}

// targets chooses for each backend the target with the most servers.
func (s *search) targets(ctx context.Context, targets []string, backends []*initBackend) error {
	for _, b := range backends {
		if !b.weightable() {
			continue
		}
		var tried []*match
		for _, target := range targets {
			m, err := s.try(ctx, target, b)
			if err != nil {
				return err
			}
			tried = append(tried, m)
		}
		choose(b, tried)
	}
	return nil
}

// choose takes the best of what has been tried. The rest that would do is kept
// for a comment, and why nothing does.
func choose(b *initBackend, tried []*match) {
	if len(tried) == 0 {
		b.why = cmp.Or(b.why, wordsInitNoSeries)
		return
	}
	// Stable: of equals the first, which its caller likes best.
	slices.SortStableFunc(tried, func(x, y *match) int {
		return cmp.Or(cmp.Compare(x.rank(), y.rank()), cmp.Compare(len(y.matched), len(x.matched)))
	})
	b.found = tried[0]
	if !b.found.enough() {
		b.why = cmp.Or(b.why, whyNot(b, b.found))
		return
	}
	for _, m := range tried[1:] {
		if m.enough() && len(b.found.others) < mostOthers {
			b.found.others = append(b.found.others, m.target)
		}
	}
}

// mostOthers is how many further targets a backend's comment names.
const mostOthers = 10

// whyNot says what is missing, with one name of each side.
func whyNot(b *initBackend, m *match) string {
	if len(m.matched) > 0 || len(m.unusable) > 0 {
		return wordsInitMatch(m) + wordsInitFew
	}
	if len(m.strangers) == 0 {
		return fmt.Sprintf("the target %s matches nothing", m.target)
	}
	return fmt.Sprintf("no series of %s is for its servers: series are named like %q, servers like %q", m.target, m.strangers[0], b.servers[0])
}

// patterns looks for series at and below patterns.
func (s *search) patterns(ctx context.Context, patterns []string, backends []*initBackend) error {
	var paths []string
	for _, pattern := range patterns {
		answer, err := s.Render(ctx, graphite.Request{Targets: []string{pattern}})
		if err != nil {
			return err
		}
		if len(answer.Series) > 0 {
			paths = append(paths, pattern)
			continue
		}
		below, err := s.leaves(ctx, pattern)
		if err != nil {
			return err
		}
		paths = append(paths, below...)
	}
	return s.paths(ctx, paths, backends)
}

// paths tries patterns of whole paths, in the order in which they look like a
// load.
func (s *search) paths(ctx context.Context, paths []string, backends []*initBackend) error {
	paths = byLikelihood(paths)
	for _, b := range backends {
		if !b.weightable() {
			continue
		}
		tried, err := s.tryPaths(ctx, paths, b)
		if err != nil {
			return err
		}
		choose(b, tried)
	}
	return nil
}

// mostTried bounds the renders for one backend.
const mostTried = 12

func (s *search) tryPaths(ctx context.Context, paths []string, b *initBackend) ([]*match, error) {
	var tried []*match
	for _, path := range paths {
		if len(tried) == mostTried {
			s.cut = true
			break
		}
		target, err := s.byNode(ctx, path, b)
		if tooLarge := (*graphite.RenderError)(nil); errors.As(err, &tooLarge) && tooLarge.Kind == graphite.KindTooLarge {
			s.cut = true
			continue // passes could not read it either
		}
		if err != nil {
			return nil, err
		}
		m, err := s.try(ctx, target, b)
		if err != nil {
			return nil, err
		}
		tried = append(tried, m)
	}
	return tried, nil
}

// byNode makes a target of a path: aliasByNode with the part that names servers,
// or {server} in its place where most of what the path gives is for others. Where
// no part names servers it is the path itself.
func (s *search) byNode(ctx context.Context, path string, b *initBackend) (string, error) {
	answer, err := s.Render(ctx, graphite.Request{Targets: []string{path}})
	if err != nil {
		return "", err
	}
	labels := strings.Split(path, ".")
	best, most, rule := -1, 0, naming{}
	for k := range labels {
		if n, matched := bestNaming(parts(answer, k), b.servers, true); matched > most {
			best, most, rule = k, matched, n
		}
	}
	if best < 0 {
		return path, nil
	}
	if rule == (naming{}) && labels[best] == "*" && len(answer.Series) > 2*most {
		labels[best] = "{server}"
		return strings.Join(labels, "."), nil
	}
	target := fmt.Sprintf("aliasByNode(%s, %d)", path, best)
	if s.answers[target] == nil {
		s.answers[target] = renamed(answer, best)
	}
	return target, nil
}

// parts are the k-th parts of all names that have so many.
func parts(a *graphite.Answer, k int) []string {
	var list []string
	for i := range a.Series {
		if labels := strings.Split(a.Series[i].Name, "."); k < len(labels) {
			list = append(list, labels[k])
		}
	}
	return list
}

// renamed is the answer with the names that aliasByNode gives.
func renamed(a *graphite.Answer, k int) *graphite.Answer {
	other := *a
	other.Series = slices.Clone(a.Series)
	for i := range other.Series {
		name := ""
		if labels := strings.Split(a.Series[i].Name, "."); k < len(labels) {
			name = labels[k]
		}
		other.Series[i].Name = name
	}
	return &other
}

// likely are words in the names of series, those first that tell best how much
// work comes through a server's connections.
var likely = []string{"datapoints", "received", "throughput", "bytes", "octets", "traffic", "bits", "messages", "packets", "events", "requests", "rate", "load", "cpu", "connections", "sessions"}

func byLikelihood(paths []string) []string {
	rank := func(path string) int {
		path = strings.ToLower(path)
		for i, word := range likely {
			if strings.Contains(path, word) {
				return i
			}
		}
		return len(likely)
	}
	paths = slices.Clone(paths)
	slices.SortStableFunc(paths, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(strings.Count(a, "."), strings.Count(b, ".")), cmp.Compare(a, b))
	})
	return slices.Compact(paths)
}
