package graphite

import (
	"slices"
	"strings"
)

// targetWarnings says per Graphite function what it does to the evidence that
// this package lives on: nulls, stamps and one value a server.
var targetWarnings = map[string]string{
	"keepLastValue":      "keepLastValue fills gaps with the last value under new stamps: a dead server looks alive. Leave it out; the newest usable point is looked for anyway",
	"transformNull":      "transformNull puts a number in place of null: a dead server looks idle and gets more traffic. Leave it out",
	"interpolate":        "interpolate invents points inside gaps. Leave it out",
	"fallbackSeries":     "fallbackSeries puts another series in place of a missing one: a dead server looks alive. Leave it out",
	"timeShift":          "timeShift gives old data new stamps: max_age can't see how old it is",
	"timeStack":          "timeStack gives old data new stamps: max_age can't see how old it is",
	"delay":              "delay gives old data new stamps: max_age can't see how old it is",
	"summarize":          "summarize ends in a bucket that isn't full yet, so its last value is too small. Set until to the bucket's length, or use aggregate over the window instead",
	"smartSummarize":     "smartSummarize ends in a bucket that isn't full yet, so its last value is too small. Set until to the bucket's length, or use aggregate over the window instead",
	"hitcount":           "hitcount ends in a bucket that isn't full yet, so its last value is too small. Set until to the bucket's length, or use aggregate over the window instead",
	"integral":           "integral counts from the start of the window: its last value is the sum over the window, and a longer window makes it larger. That is fine as long as all servers share one window; gaps make it smaller",
	"derivative":         "derivative turns a counter's restart into a large negative number, which is refused. Use nonNegativeDerivative or perSecond",
	"movingAverage":      "movingAverage averages what is there: a dead server fades out slowly instead of going null. Use aggregate = \"average\" over the window instead",
	"movingWindow":       "movingWindow works on what is there: a dead server fades out slowly instead of going null. Use aggregate over the window instead",
	"movingSum":          "movingSum adds what is there: a dead server fades out slowly and seems less loaded. Use aggregate = \"sum\" over the window instead",
	"movingMedian":       "movingMedian works on what is there: a dead server fades out slowly instead of going null. Use aggregate = \"median\" over the window instead",
	"removeBelowValue":   "removeBelowValue turns small values into null: an idle server looks like one without data",
	"asPercent":          "asPercent divides by the sum of those present: when others are late, the rest reads too high",
	"constantLine":       "constantLine is never null: a dead server looks alive",
	"threshold":          "threshold is a constant line: it is never null and stands for no server",
	"randomWalk":         "randomWalk invents its data",
	"randomWalkFunction": "randomWalkFunction invents its data",
	"timeFunction":       "timeFunction is the clock, not a load",
}

// TargetWarnings tells what is dangerous about a target, in plain English, for
// whoever wrote it: functions that hide that a server is dead, buckets that
// aren't full, brackets that don't balance (to which Graphite answers 200 and an
// empty list, as if nothing had matched), parameters pasted along. Nil means that
// nothing was found, not that the target is right.
func TargetWarnings(target string) []string {
	var found []string
	add := func(w string) {
		if !slices.Contains(found, w) {
			found = append(found, w)
		}
	}
	t := readTarget(target)
	for _, name := range t.calls {
		if w, ok := targetWarnings[name]; ok {
			add(w)
		}
	}
	if t.unbalanced != "" {
		add(t.unbalanced + ": Graphite may answer with an empty list, as if nothing matched")
	}
	for _, parameter := range []string{"maxDataPoints", "from", "until", "format", "noNullPoints", "target"} {
		if strings.Contains(t.bare, "&"+parameter+"=") {
			w := "&" + parameter + "= is part of the target, but a target is one expression: leave it out"
			if parameter == "maxDataPoints" {
				w += "; maxDataPoints would also replace points by averages with older stamps"
			}
			add(w)
		}
	}
	return found
}

// targetParts is what matters of a target's text.
type targetParts struct {
	calls      []string // functions, in order
	bare       string   // without what is in quotes
	unbalanced string   // what is wrong with brackets or quotes
}

func readTarget(target string) targetParts {
	var t targetParts
	var bare strings.Builder
	var open []byte
	word := 0 // where the word at hand began, in bare
	for i := 0; i < len(target); i++ {
		c := target[i]
		if c == '"' || c == '\'' {
			end := closingQuote(target, i)
			if end < 0 {
				t.unbalanced = "a quote is not closed"
				break
			}
			i = end
			bare.WriteByte(' ')
			word = bare.Len()
			continue
		}
		if c == '(' {
			if name := bare.String()[word:]; name != "" {
				t.calls = append(t.calls, name)
			}
		}
		if !t.bracket(&open, c) {
			break
		}
		bare.WriteByte(c)
		if !isWord(c) {
			word = bare.Len()
		}
	}
	if t.unbalanced == "" && len(open) > 0 {
		t.unbalanced = "a " + string(open[len(open)-1]) + " is not closed"
	}
	t.bare = bare.String()
	return t
}

// bracket keeps the stack of open brackets; false means that they can't balance any more.
func (t *targetParts) bracket(open *[]byte, c byte) bool {
	partner := map[byte]byte{')': '(', '}': '{', ']': '['}[c]
	switch {
	case c == '(' || c == '{' || c == '[':
		*open = append(*open, c)
	case partner == 0:
	case len(*open) == 0 || (*open)[len(*open)-1] != partner:
		t.unbalanced = "a " + string(c) + " has no " + string(partner) + " before it"
		return false
	default:
		*open = (*open)[:len(*open)-1]
	}
	return true
}

// closingQuote returns the index of the quote that ends the one at start, or -1.
func closingQuote(s string, start int) int {
	for i := start + 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[start]:
			return i
		}
	}
	return -1
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}
