package operations

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

// provoked is what the scenes have brought about, by message.
var provoked struct {
	sync.Mutex
	began, over map[string]bool
}

func note(to *map[string]bool, message string) {
	provoked.Lock()
	defer provoked.Unlock()
	if *to == nil {
		*to = map[string]bool{}
	}
	(*to)[message] = true
}

// matches tells whether a text is a message of the document, or with part has
// one in it.
func matches(message, text string, part bool) bool {
	if !strings.Contains(message, gap) {
		return text == message || part && strings.Contains(text, message)
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(message), gap, ".+")
	if !part {
		pattern = "^" + pattern + "$"
	}
	return regexp.MustCompile(pattern).MatchString(text)
}

// row finds a row of the table.
func (s *scene) row(message string) *row {
	s.t.Helper()
	r := s.doc.find(message)
	if r == nil {
		s.t.Fatalf("%s has no %q", document, message)
	}
	return r
}

// begins waits until a fault is told as its row says, in the log, in the status
// and in the metrics.
func (s *scene) begins(message string) {
	s.t.Helper()
	s.tells(message)
	r := s.row(message)
	if r.status {
		s.until(fmt.Sprintf("a fault %q in the status", message), func() bool {
			return slices.ContainsFunc(s.status().Faults, func(f balancer.Fault) bool { return matches(message, f.What, false) })
		})
		s.shows(message, condition{series: "haproxy_weighter_faults"})
	}
	for _, c := range r.metrics {
		s.shows(message, c)
	}
}

// tells waits until faults are in the log.
func (s *scene) tells(messages ...string) {
	s.t.Helper()
	for _, message := range messages {
		s.row(message)
		s.until(fmt.Sprintf("a warning %q", message), func() bool {
			return slices.ContainsFunc(s.lines()[s.read:], func(l line) bool {
				return (l.Level == "WARN" || l.Level == "ERROR") && matches(message, l.Msg, false)
			})
		})
		note(&provoked.began, message)
	}
}

// causes waits until the cause of an open fault, or of a line of the log, has
// the words of a row, and until the metrics show it.
func (s *scene) causes(message string) {
	s.t.Helper()
	r := s.row(message)
	s.until(fmt.Sprintf("the cause %q", message), func() bool {
		return slices.ContainsFunc(s.status().Faults, func(f balancer.Fault) bool { return matches(message, f.Cause, true) }) || s.logsCause(message)
	})
	for _, c := range r.metrics {
		s.shows(message, c)
	}
	note(&provoked.began, message)
}

// tellsCause waits until a cause is in the log.
func (s *scene) tellsCause(message string) {
	s.t.Helper()
	s.row(message)
	s.until(fmt.Sprintf("the cause %q", message), func() bool { return s.logsCause(message) })
	note(&provoked.began, message)
}

func (s *scene) logsCause(message string) bool {
	return slices.ContainsFunc(s.lines()[s.read:], func(l line) bool { return matches(message, l.Cause, true) })
}

// ends waits until each of these is told to be over. What comes after that is
// for the next step.
func (s *scene) ends(messages ...string) {
	s.t.Helper()
	from := s.read
	for _, message := range messages {
		r := s.row(message)
		if len(r.overs) == 0 {
			s.t.Fatalf("%q has no end", message)
		}
		over := 0
		s.until(fmt.Sprintf("the line %q", r.overs[0]), func() bool {
			begun := false
			for i, l := range s.lines()[from:] {
				switch {
				case matches(message, l.Msg, false):
					begun = true
				case begun && l.Level == "INFO" && matches(r.overs[0], l.Msg, false):
					begun, over = false, from+i+1
				}
			}
			return over > 0 && !begun
		})
		s.read = max(s.read, over)
		note(&provoked.over, message)
	}
}

// shows waits until the metrics say what a row says of them.
func (s *scene) shows(message string, c condition) {
	s.t.Helper()
	s.until(fmt.Sprintf("%s in the metrics, as the row of %q has it (zero: %v)", c.series, message, c.zero), func() bool {
		text, err := s.ask("/metrics")
		sum, found := c.sum(string(text))
		return err == nil && found && (sum == 0) == c.zero
	})
}

var sample = regexp.MustCompile(`(?m)^(\w+)(?:\{(.*)\})? (\S+)$`)

// sum adds up all series that the condition names.
func (c condition) sum(text string) (sum float64, found bool) {
	name, labels, _ := strings.Cut(strings.TrimSuffix(c.series, "}"), "{")
	var want []string
	if labels != "" {
		want = strings.Split(labels, ",")
	}
	for _, m := range sample.FindAllStringSubmatch(text, -1) {
		if m[1] != name || slices.ContainsFunc(want, func(l string) bool { return !strings.Contains(","+m[2]+",", ","+l+",") }) {
			continue
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err == nil {
			sum, found = sum+v, true
		}
	}
	return sum, found
}

// fault brings a fault about and ends it.
func (s *scene) fault(message string, begin, end func()) {
	s.t.Helper()
	begin()
	s.begins(message)
	end()
	s.ends(message)
}
