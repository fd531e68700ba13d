// Package memgraphite is a small Graphite in memory: datapoints go in by a
// function call, and an HTTP handler answers the render API for them. It
// exists so that the demo needs no Graphite; what it answers is what a real
// graphite-web answers to the same question, or an error.
//
// It keeps one value a second, as carbon does with the retention "1s:10m".
// Of the render API it knows: GET and POST, several targets, format=json,
// from and until as -Ns, now and epochs, path patterns with * ? [] and {a,b},
// and the functions alias, aliasByNode, averageSeries, integral, scale and
// sumSeries. Any other function is refused with status 400.
package memgraphite

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// retention is how many seconds back a value is kept.
const retention = 600

// Store holds the series. The zero value is not usable; see New.
type Store struct {
	now func() time.Time

	mu     sync.Mutex
	series map[string]*ring // by path
}

// ring holds the last values of one series; a slot counts only when its stamp
// is the one asked for.
type ring struct {
	stamps [retention]int64
	values [retention]float64
}

// New returns an empty store. now is its clock; nil means time.Now.
func New(now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	return &Store{now: now, series: make(map[string]*ring)}
}

// Add stores a value for the second that starts at unix. A later value for
// the same second replaces it. Like carbon it drops NaN, and what is older
// than the retention is lost though the series exists from then on.
func (s *Store) Add(path string, value float64, unix int64) {
	if math.IsNaN(value) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.series[path]
	if r == nil {
		r = new(ring)
		s.series[path] = r
	}
	if unix <= s.now().Unix()-retention {
		return
	}
	slot := unix % retention
	r.stamps[slot], r.values[slot] = unix, value
}

// list is one series of an answer: a value a second from start on, NaN where
// there is none.
type list struct {
	name   string
	start  int64
	values []float64
}

// fetch returns every series whose path matches, sorted as text, with the
// seconds of (from, until].
func (s *Store) fetch(pattern string, from, until int64) ([]list, error) {
	match, err := compile(pattern)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var paths []string
	for path := range s.series {
		if match.MatchString(path) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	from = max(from, s.now().Unix()-retention)
	lists := make([]list, 0, len(paths))
	for _, path := range paths {
		l := list{name: path, start: from + 1}
		r := s.series[path]
		for second := from + 1; second <= until; second++ {
			value := math.NaN()
			if slot := second % retention; r.stamps[slot] == second {
				value = r.values[slot]
			}
			l.values = append(l.values, value)
		}
		lists = append(lists, l)
	}
	return lists, nil
}

// compile turns a path pattern into a regular expression. A star does not
// cross a dot.
func compile(pattern string) (*regexp.Regexp, error) {
	var re strings.Builder
	re.WriteByte('^')
	braces := 0
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*':
			re.WriteString(`[^.]*`)
		case '?':
			re.WriteString(`[^.]`)
		case '{':
			braces++
			re.WriteString(`(?:`)
		case '}':
			braces--
			re.WriteByte(')')
		case ',':
			if braces > 0 {
				re.WriteByte('|')
			} else {
				re.WriteByte(',')
			}
		case '[':
			end := strings.IndexByte(pattern[i:], ']')
			if end < 2 {
				return nil, errorf("pattern %q: [ without ]", pattern)
			}
			re.WriteString(strings.Replace(pattern[i:i+end+1], "[!", "[^", 1))
			i += end
		default:
			re.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	re.WriteByte('$')
	expression, err := regexp.Compile(re.String())
	if err != nil {
		return nil, errorf("pattern %q: %v", pattern, err)
	}
	return expression, nil
}
