package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
)

func someHistory() *api.History {
	v := ptr[float64]
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	unix := func(d time.Duration) int64 { return noon.Add(-d).Unix() }
	return &api.History{
		Backend: "in", Since: ago(4 * time.Hour),
		Events: []api.Event{
			{Time: ago(3 * time.Hour), Socket: "a", Kind: api.EventWeights, Text: "s1 100 -> 200, and 1 more",
				Changes: []api.WeightChange{{Server: "s1", Before: 100, After: 200, Load: v(12.5), Text: "no weight below min_weight"}}},
			{Time: ago(2 * time.Hour), Kind: api.EventOrder, Text: "frozen by bob for 1h0m0s: moving\nracks"},
			{Time: ago(time.Hour), Socket: "a", Kind: api.EventWeights, Text: "s1 200 -> 50",
				Changes: []api.WeightChange{{Server: "s1", Before: 200, After: 50}}},
		},
		Series: []api.Series{{
			Socket: "a", Times: []int64{unix(4 * time.Hour), unix(3 * time.Hour), unix(time.Hour)},
			Imbalance: []*float64{v(1.5), nil, v(1.1)},
			Loads:     map[string][]*float64{"s1": {v(10), v(20), v(30)}, "s2": {nil, nil, nil}},
			Weights:   map[string][]*float64{"s1": {v(100), v(200), v(50)}, "s2": {v(100), v(90), v(90)}},
		}},
	}
}

func TestHistory(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"all", nil, `
backend in since 2026-07-01 08:00:00 UTC (4h)
               least                                                  most   now
load max/mean   1.10  @                                            _  1.50  1.10

time                     kind     what
2026-07-01 09:00:00 UTC  weights  s1 100 -> 200, and 1 more
2026-07-01 10:00:00 UTC  order    frozen by bob for 1h0m0s: moving\nracks
2026-07-01 11:00:00 UTC  weights  s1 200 -> 50
`},
		{"one server", []string{"--server", "s1"}, `
backend in since 2026-07-01 08:00:00 UTC (4h)
               least                                                  most   now
load max/mean   1.10  @                                            _  1.50  1.10
load of s1        10  _______________++++++++++++++++++++++++++++++@    30    30
weight of s1      50  ---------------@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@_   200    50

time                     kind     what
2026-07-01 09:00:00 UTC  weights  s1 100 -> 200, load 12.5: no weight below min_weight
2026-07-01 10:00:00 UTC  order    frozen by bob for 1h0m0s: moving\nracks
2026-07-01 11:00:00 UTC  weights  s1 200 -> 50
`},
		{"one whose change was too small to be listed", []string{"--server", "s2"}, `
backend in since 2026-07-01 08:00:00 UTC (4h)
               least                                                  most   now
load max/mean   1.10  @                                            _  1.50  1.10
weight of s2      90  @@@@@@@@@@@@@@@_______________________________   100    90

time                     kind     what
2026-07-01 09:00:00 UTC  weights  s2 100 -> 90: one of the smaller changes of that pass, whose reasons are not kept
2026-07-01 10:00:00 UTC  order    frozen by bob for 1h0m0s: moving\nracks
`},
		{"since", []string{"--since", "90m"}, `
backend in since 2026-07-01 10:30:00 UTC (1h30m)
               least                         most   now
load max/mean   1.10                      _  1.10  1.10

time                     kind     what
2026-07-01 11:00:00 UTC  weights  s1 200 -> 50
`},
		{"nothing since", []string{"--since", "1m"}, `
backend in since 2026-07-01 11:59:00 UTC (1m)

nothing has changed
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			socket := fakeDaemon(t, answers{"GET /api/v1/history/in": someHistory()})
			code, out, stderr := command(t, append(append([]string{"history", "in"}, c.args...), "--control", socket)...)
			if code != exitGood || stderr != "" {
				t.Errorf("exit code %d, stderr %q", code, stderr)
			}
			if d := cmp.Diff(c.want[1:], out); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// TestHistoryOfTwoSockets names the socket of each line.
func TestHistoryOfTwoSockets(t *testing.T) {
	h := someHistory()
	h.Series = append(h.Series, h.Series[0])
	h.Series[1].Socket = "b"
	_, out, _ := command(t, "history", "in", "--control", fakeDaemon(t, answers{"GET /api/v1/history/in": h}))
	for _, want := range []string{"load max/mean on a  ", "load max/mean on b  ", "UTC  a       weights  s1 200 -> 50", "UTC  -       order "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}
