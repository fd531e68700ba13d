package graphite

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// heard is an answer as it comes to the client.
type heard struct {
	after time.Duration // since the one before; 0 means 10 s
	clock time.Duration // how far the server's is ahead
	again int           // which of the answers, from 1 on, comes once more; 0: none
	made  time.Duration // how long ago it was made, when it is new here only
	age   time.Duration // wanted, of its newest point, which was 10 s old when it was made
	first time.Duration // wanted: how long ago it came first
}

func times(n int, a ...heard) []heard {
	var all []heard
	for range n {
		all = append(all, a...)
	}
	return all
}

func then(all ...[]heard) []heard {
	var whole []heard
	for _, a := range all {
		whole = append(whole, a...)
	}
	return whole
}

const sec = time.Second

// TestAgeIsTrue, whatever caches and clocks do. Senders of data have the right time.
func TestAgeIsTrue(t *testing.T) {
	live := heard{age: 10 * sec}
	for name, answers := range map[string][]heard{
		"a good server":                  times(20, live),
		"asked twice within a second":    {live, {after: sec / 4, again: 1, age: 10*sec + sec/4, first: sec / 4}, {age: 10*sec + sec/4}},
		"its clock is 10 minutes ahead":  times(5, heard{clock: 10 * time.Minute, age: 10*time.Minute + 10*sec}),
		"its clock is 10 minutes behind": times(5, heard{clock: -10 * time.Minute, age: -10*time.Minute + 10*sec}),

		"an old answer again and again, from the beginning": {
			{made: time.Hour, age: 10 * sec}, {again: 1, age: 20 * sec, first: 10 * sec}, {again: 1, age: 30 * sec, first: 20 * sec},
			{after: time.Hour, again: 1, age: time.Hour + 30*sec, first: time.Hour + 20*sec}, live, live,
		},
		"an answer comes again and again": {
			live, live, live, {again: 3, age: 20 * sec, first: 10 * sec}, {again: 3, age: 30 * sec, first: 20 * sec}, {again: 3, age: 40 * sec, first: 30 * sec}, live,
		},
		"two answers take turns": {
			live, live, {again: 1, age: 30 * sec, first: 20 * sec}, {again: 2, age: 30 * sec, first: 20 * sec}, {again: 1, age: 50 * sec, first: 40 * sec}, live,
		},
		"an old answer that somebody else has got": {
			live, live, {made: time.Hour, age: time.Hour + 12*sec, first: 2 * sec},
			{again: 3, age: time.Hour + 22*sec, first: 12 * sec}, {again: 3, age: time.Hour + 32*sec, first: 22 * sec}, live,
		},
		"a cache keeps answers for half a minute": times(3, heard{age: 10 * sec}, heard{again: -1, age: 20 * sec, first: 10 * sec}, heard{again: -2, age: 30 * sec, first: 20 * sec}),

		"servers with clocks some seconds apart": times(5, heard{clock: 2 * sec, age: 12 * sec}, heard{clock: -2 * sec, age: 8 * sec}, heard{clock: sec, age: 11 * sec}),
		"servers with clocks minutes apart": then(
			[]heard{{clock: 5 * time.Minute, age: 5*time.Minute + 10*sec}}, times(5, live, heard{clock: 5 * time.Minute, age: 5*time.Minute + 10*sec})),
		"its clock is set back by 4 seconds":      then(times(5, live), times(5, heard{clock: -4 * sec, age: 6 * sec})),
		"its clock is set back by 5 minutes":      then(times(40, live), times(40, heard{clock: -5 * time.Minute, age: -5*time.Minute + 10*sec})),
		"its clock was an hour ahead for a while": then(times(3, live), times(3, heard{clock: time.Hour, age: time.Hour + 10*sec}), times(3, live)),
		"its clock was an hour ahead at first":    then(times(3, heard{clock: time.Hour, age: time.Hour + 10*sec}), times(3, live)),
		"its clock is slow":                       slow(200),
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); hear(t, answers) })
	}
}

// slow is a clock that loses a second each time.
func slow(n int) []heard {
	var all []heard
	for i := range time.Duration(n) {
		all = append(all, heard{clock: -i * sec, age: (10 - i) * sec})
	}
	return all
}

func hear(t *testing.T, answers []heard) {
	start := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	now, at, asked := start, 0, 0
	type said struct{ date, body string }
	var told []said
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		a := answers[at]
		if asked++; asked > 1 { // after a pause
			if now = now.Add(2 * sec); a.made > 0 {
				a.again = at + 1
			}
		}
		made := now.Add(-a.made)
		is := said{made.Add(a.clock).Format(http.TimeFormat), fmt.Sprintf(`[{"target": "a", "datapoints": [[1, %d], [%d, %d]]}]`, made.Unix()-20, at, made.Unix()-10)}
		switch {
		case a.again > 0:
			is = told[a.again-1]
		case a.again < 0:
			is = told[at+a.again]
		}
		if asked == 1 {
			told = append(told, is)
		}
		w.Header().Set("Date", is.date)
		answerJSON(is.body)(w, nil)
	})
	c := client(t, s.URL, func(c *Config) { c.Now = func() time.Time { return now } })
	for i, a := range answers {
		at, asked = i, 0
		if i > 0 && a.after == 0 {
			a.after = 10 * sec
		}
		now = now.Add(a.after)
		got, err := c.Render(t.Context(), ask())
		if err != nil {
			t.Fatal(err)
		}
		points := got.Series[0].Points
		age := got.Now.Sub(time.Unix(points[len(points)-1].Unix, 0))
		if age != a.age || got.Repeated != a.first {
			t.Errorf("answer %d: its data are %s old and it came first %s ago, want %s and %s", i+1, age, got.Repeated, a.age, a.first)
		}
	}
}

// TestManyOldAnswers: a server's clock is believed again though other requests
// lie between two of the same, and what is remembered is bounded.
func TestManyOldAnswers(t *testing.T) {
	m, start := newMaking(), time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	const requests = 1500
	age := func(i, request int, clock time.Duration) time.Duration {
		at := start.Add(time.Duration(i) * sec / 100)
		said := &reply{body: fmt.Append(nil, i), date: "a date", now: at.Add(clock)}
		m.date(said, fmt.Sprint(request), at)
		return said.now.Sub(at)
	}
	n := 0
	for _, clock := range []time.Duration{0, -time.Hour} {
		for range 2 {
			for request := range requests {
				n++
				age(n, request, clock)
			}
		}
	}
	if got := age(n+1, 1, -time.Hour); got != -time.Hour {
		t.Errorf("the clock that was set back is believed to be at %s", got)
	}
	if m.order.Len() > mostSightings || len(m.known) != m.order.Len() || len(m.unsure) > mostUnsure || len(m.clocks) > mostClocks {
		t.Errorf("remembered: %d answers, %d of them found, %d clocks, %d that are not believed", m.order.Len(), len(m.known), len(m.clocks), len(m.unsure))
	}
}
