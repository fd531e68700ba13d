package cli

import (
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// maxClockSkew is how far our clock and Graphite's may differ before we say
// so. Ages are taken against Graphite's own clock and stay right.
const maxClockSkew = 2 * time.Second

// listener passes renders on and keeps the answers, for what balancer.Loads
// does not tell: the clock and the steps.
type listener struct {
	balancer.Renderer
	answers []*graphite.Answer
}

func (l *listener) Render(ctx context.Context, r graphite.Request) (*graphite.Answer, error) {
	a, err := l.Renderer.Render(ctx, r)
	if a != nil {
		l.answers = append(l.answers, a)
	}
	return a, err
}

// series checks what Graphite has for one backend. servers are HAProxy's
// names for it; nil when they are not known.
func (s *survey) series(ctx context.Context, client *graphite.Client, b *config.Backend, servers []string) {
	s.target(b)
	l := &listener{Renderer: client}
	rows, err := balancer.Loads(ctx, l, *b, servers)
	if err != nil {
		s.add("graphite", b.Name, fail, err.Error(), doGraphite)
		return
	}
	s.add("graphite", b.Name, ok, "answers at "+hostOf(s.config.Graphite.URL), "")
	s.clock(b, l.answers)
	s.match(b, rows, servers)
	s.ages(b, rows, l.answers)
}

// target looks for functions that make dead servers look alive.
func (s *survey) target(b *config.Backend) {
	warnings := graphite.TargetWarnings(b.Target)
	for _, w := range warnings {
		found, do := factAndAdvice(w)
		s.add("target", b.Name, warn, found, do)
	}
	if len(warnings) == 0 {
		s.add("target", b.Name, ok, "no function in it hides missing data", "")
	}
}

// hostOf leaves the path out: with some providers the key is in it.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the configured URL"
	}
	return u.Scheme + "://" + u.Host
}

func (s *survey) clock(b *config.Backend, answers []*graphite.Answer) {
	var skew time.Duration
	for _, a := range answers {
		if a.ClockSkew.Abs() > skew.Abs() {
			skew = a.ClockSkew
		}
	}
	if skew.Abs() > maxClockSkew {
		s.add("clock", b.Name, warn, wordsClock(skew), doClock)
		return
	}
	s.add("clock", b.Name, ok, "as Graphite's", "")
}

// match compares series and servers.
func (s *survey) match(b *config.Backend, rows []balancer.LoadRow, servers []string) {
	if len(rows) == 0 {
		s.add("series", b.Name, fail, "the target matches nothing", hintTarget)
		return
	}
	m := matchRows(rows, servers)
	total := len(servers)
	if total == 0 {
		total = len(m.matched) + len(m.unusable) + len(m.without)
	}
	found := wordsMatch(m, total)
	switch {
	case len(m.matched) == 0:
		s.add("series", b.Name, fail, found, doNoMatch(rows, servers))
	case float64(len(m.matched)) < b.Weighting.Quorum*float64(total):
		s.add("series", b.Name, fail, found, doQuorum(b.Weighting.Quorum))
	case len(m.unusable)+len(m.strangers)+len(m.without) > 0:
		s.add("series", b.Name, warn, found, doPartly(b.Name, m))
	default:
		s.add("series", b.Name, ok, found, "")
	}
}

// matches sorts the rows of "loads".
type matches struct {
	matched   []string // servers with a load
	unusable  []string // servers whose series cannot be used, by server
	strangers []string // series that no server of HAProxy's is for
	without   []string // servers without a series
}

func matchRows(rows []balancer.LoadRow, servers []string) matches {
	var m matches
	for _, r := range rows {
		switch {
		case r.Series == "":
			m.without = append(m.without, r.Server)
		case r.Server == "" || servers != nil && !slices.Contains(servers, r.Server):
			m.strangers = append(m.strangers, r.Series)
		case r.Usable:
			m.matched = append(m.matched, r.Server)
		default:
			m.unusable = append(m.unusable, r.Server)
		}
	}
	return m
}

// ages compares window and max_age with the step and the delay that the data show.
func (s *survey) ages(b *config.Backend, rows []balancer.LoadRow, answers []*graphite.Answer) {
	step := stepOf(answers)
	if step == 0 {
		return // nothing with two points: "series" has said so
	}
	least := 2*step + delayOf(rows, step)
	if b.MaxAge < least {
		s.add("max-age", b.Name, warn, wordsMaxAge(b.MaxAge, step, least), doMaxAge(least))
	} else {
		s.add("max-age", b.Name, ok, wordsStep(b.MaxAge, step), "")
	}
	if b.Window < b.MaxAge || b.Window < 2*step {
		s.add("window", b.Name, warn, wordsWindow(b.Window, step, b.MaxAge), doWindow(max(5*step, b.MaxAge+2*step)))
	}
}

// stepOf is the smallest step of any series; 0 when none has two points.
func stepOf(answers []*graphite.Answer) time.Duration {
	var step time.Duration
	for _, a := range answers {
		for i := range a.Series {
			points := a.Series[i].Points
			for j := 1; j < len(points); j++ {
				d := time.Duration(points[j].Unix-points[j-1].Unix) * time.Second
				if d > 0 && (step == 0 || d < step) {
					step = d
				}
			}
		}
	}
	return step
}

// delayOf estimates how late the data arrive. A newest stamp is between delay
// and delay + step old, so this is the least delay that the freshest shows.
func delayOf(rows []balancer.LoadRow, step time.Duration) time.Duration {
	var delay time.Duration
	seen := false
	for _, r := range rows {
		if !r.Usable || r.AgeSeconds == nil {
			continue
		}
		age := time.Duration(*r.AgeSeconds * float64(time.Second))
		if !seen || age < delay {
			delay, seen = age, true
		}
	}
	return max(0, delay-step)
}
