package graphite

import (
	"strings"
	"testing"

	"github.com/haproxy-weighter/haproxy-weighter/test/corpus"
)

func TestTargetWarnings(t *testing.T) {
	tests := []struct {
		target string
		want   []string // the beginning of each
	}{
		{"aliasByNode(tcp-service.*.datapoints.received, 1)", nil},
		{"tcp-service.{a,b}.[0-9].{server}.x", nil},
		{`alias(a.b, "keepLastValue(x) :-) ' &maxDataPoints=1")`, nil},
		{`alias(a.b, 'it\'s (')`, nil},
		{"a.keepLastValue.b", nil},
		{"nonNegativeDerivative(a.b)", nil},
		{"", nil},
		{"keepLastValue(a.b, 3)", []string{"keepLastValue fills gaps"}},
		{"aliasByNode(keepLastValue(a.b),1)", []string{"keepLastValue"}},
		{"a.b|keepLastValue()|aliasByNode(1)", []string{"keepLastValue"}},
		{"sum(transformNull(a,0),transformNull(b,0))", []string{"transformNull puts"}},
		{"timeShift(summarize(a,'1min'),'1h')", []string{"timeShift", "summarize"}},
		{"integral(tcp-service.node-x.datapoints.received)", []string{"integral counts"}},
		{`hitcount(a,"1min")`, []string{"hitcount"}},
		{"derivative(a)", []string{"derivative turns"}},
		{"aliasByNode(a.b, 1", []string{"a ( is not closed"}},
		{"aliasByNode(a.b, 1))", []string{"a ) has no ( before it"}},
		{"a.{b,c", []string{"a { is not closed"}},
		{"f(a.{b,c)", []string{"a ) has no ( before it"}},
		{`alias(a, "b)`, []string{"a quote is not closed"}},
		{"a.b&maxDataPoints=100", []string{"&maxDataPoints= is part of the target"}},
		{"a.b&from=-5min&until=now", []string{"&from=", "&until="}},
	}
	for _, test := range tests {
		got := TargetWarnings(test.target)
		ok := len(got) == len(test.want)
		for i := range test.want {
			ok = ok && strings.HasPrefix(got[i], test.want[i])
		}
		if !ok {
			t.Errorf("%s: got %q, wanted %q", test.target, got, test.want)
		}
	}
}

func FuzzTargetWarnings(f *testing.F) {
	corpus.Add(f)
	f.Add(`alias(a.{b,c},"x\"")`)
	f.Add(`')(`)
	f.Fuzz(func(t *testing.T, target string) {
		for _, w := range TargetWarnings(target) {
			if w == "" {
				t.Error("an empty warning")
			}
		}
	})
}
