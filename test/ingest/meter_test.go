package ingest

import (
	"testing"
	"time"
)

func TestMeterRate(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(1_700_000_000_000 + int64(ms)) }
	type event struct{ ms, n int }
	tests := map[string]struct {
		events []event
		read   int
		total  int64
		rate   float64
	}{
		"nothing yet":                      {nil, 0, 0, 0},
		"the slot in progress is left out": {[]event{{50, 7}}, 60, 7, 0},
		"counted once the slot is over":    {[]event{{50, 7}}, 100, 7, 7},
		"still there after a second":       {[]event{{50, 7}}, 1099, 7, 7},
		"gone later":                       {[]event{{50, 7}}, 1100, 7, 0},
		"several in one second":            {[]event{{0, 1}, {100, 2}, {950, 4}}, 1000, 7, 7},
		"window slides":                    {[]event{{0, 1}, {100, 2}, {950, 4}}, 1150, 7, 6},
		"a long pause empties all":         {[]event{{0, 1}, {60_000, 2}}, 60_100, 3, 2},
		"a clock that steps back":          {[]event{{500, 1}, {300, 2}}, 600, 3, 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var m meter
			for _, e := range test.events {
				m.add(at(e.ms), int64(e.n))
			}
			total, rate := m.read(at(test.read))
			if total != test.total || rate != test.rate {
				t.Errorf("total %d, rate %g; want %d, %g", total, rate, test.total, test.rate)
			}
		})
	}
}
