package cli

import (
	"strings"
	"testing"
	"time"
)

func TestLine(t *testing.T) {
	v := func(x float64) *float64 { return &x }
	start := time.Unix(1000, 0)
	draw := func(times []int64, values []*float64) string {
		return lineOf(times, values, start, start.Add(time.Minute)).draw(false)
	}
	for _, c := range []struct {
		name   string
		times  []int64
		values []*float64
		want   string
	}{
		{"nothing", nil, nil, ""},
		{"from least to most", []int64{1000, 1001, 1002, 1003}, []*float64{v(0), v(1), v(2), v(4)}, "_-+@"},
		{"no change", []int64{1000, 1001}, []*float64{v(7), v(7)}, "__"},
		{"the highest of a column", []int64{1000, 1000, 1001}, []*float64{v(0), v(4), v(0)}, "@_"},
		{"passes further apart than columns", []int64{1000, 1003, 1007}, []*float64{v(0), v(4), v(0)}, "___@@@@_"},
		{"a time without data", []int64{1000, 1001, 1002, 1003}, []*float64{v(0), nil, nil, v(4)}, "_  @"},
		{"a time without the daemon", []int64{1000, 1001, 1010}, []*float64{v(0), v(0), v(4)}, "__        @"},
		{"two passes, before and after", []int64{1, 5000}, []*float64{v(0), v(4)}, strings.Repeat("_", 59) + "@"},
		{"fewer values than times", []int64{1000, 1001}, []*float64{v(1)}, "_"},
	} {
		if got := draw(c.times, c.values); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	l := lineOf([]int64{1000, 1001, 1002}, []*float64{v(3), v(1), nil}, start, start.Add(time.Minute))
	if l.least != 1 || l.most != 3 || l.last != nil || !l.known || l.draw(true) != "█▁" {
		t.Errorf("line %+v, %s", l, l.draw(true))
	}
	if l := lineOf([]int64{1000}, []*float64{nil}, start, start); l.known {
		t.Errorf("line %+v is known", l)
	}
}

func TestUnicode(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, false},
		{map[string]string{"LANG": "de_DE.UTF-8"}, true},
		{map[string]string{"LANG": "C.utf8"}, true},
		{map[string]string{"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, false},
	} {
		p := &Program{Getenv: func(key string) string { return c.env[key] }}
		if got := p.unicode(); got != c.want {
			t.Errorf("%v: %v", c.env, got)
		}
	}
}
