package graphite

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/haproxy-weighter/haproxy-weighter/test/graphiteproc"
)

// realGraphite is a Graphite with data, and the second that the data ends in.
type realGraphite struct {
	*graphiteproc.Process
	fed int64
}

// lateBy is how many seconds before the others the late server's data ends.
const lateBy = 5

// startReal starts carbon and graphite-web and feeds ten seconds of five
// servers: node-0 to node-2 are fresh, node-late has no newest points, node-dead
// none for the last ten minutes.
func startReal(t *testing.T) realGraphite {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p, err := graphiteproc.Start(ctx, graphiteproc.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	g := realGraphite{Process: p, fed: time.Now().Unix()}
	var b strings.Builder
	for ago := int64(9); ago >= 0; ago-- {
		for node := range 3 {
			fmt.Fprintf(&b, "tcp-service.node-%d.received %d %d\n", node, 1000*(node+1)+int(9-ago), g.fed-ago)
		}
		if ago >= lateBy {
			fmt.Fprintf(&b, "tcp-service.node-late.received %d %d\n", 5000+9-ago, g.fed-ago)
		}
	}
	fmt.Fprintf(&b, "tcp-service.node-dead.received 1 %d\n", g.fed-600)
	fmt.Fprintf(&b, "shifted.x 7 %d\nshifted.x 5 %d\n", g.fed, g.fed-600)
	fmt.Fprintf(&b, "odd.inf inf %d\nodd.inf 3 %d\nodd.neg -1 %[2]d\nodd.zero 0 %[2]d\n", g.fed-1, g.fed)
	if err := p.Send(ctx, b.String()); err != nil {
		t.Fatal(err)
	}
	// New metrics show after about a second, not all at once.
	c := client(t, p.URL)
	for {
		answer, err := c.Render(ctx, Request{Targets: []string{"tcp-service.*.received", "shifted.x", "odd.*"}, Window: time.Hour - time.Minute})
		if err == nil && len(answer.Series) == 9 && allHavePoints(answer) {
			return g
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the data never showed: %+v, %v\n%s", answer, err, p.Log())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func allHavePoints(a *Answer) bool {
	for i := range a.Series {
		if len(sound(a.Series[i].Points)) == 0 {
			return false
		}
	}
	return true
}

// sound are the points with a number.
func sound(points []Point) []Point {
	var out []Point
	for _, p := range points {
		if !math.IsNaN(p.Value) {
			out = append(out, p)
		}
	}
	return out
}

func (g realGraphite) render(t *testing.T, method string, r Request) *Answer {
	t.Helper()
	answer, err := client(t, g.URL, func(c *Config) { c.Method = method }).Render(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// byName returns the series, or nil.
func (a *Answer) byName(name string) *Series {
	for i := range a.Series {
		if a.Series[i].Name == name {
			return &a.Series[i]
		}
	}
	return nil
}

func TestRealGraphite(t *testing.T) {
	g := startReal(t)
	// The window is long, so that a slow machine sees the same points.
	const window = 5 * time.Minute
	byNode := Request{Targets: []string{"aliasByNode(tcp-service.*.received, 1)"}, Window: window}

	for _, method := range []string{"POST", "GET"} {
		t.Run("one value a server/"+method, func(t *testing.T) {
			answer := g.render(t, method, byNode)
			if skew := answer.ClockSkew; skew < -time.Second || skew > 30*time.Second {
				t.Errorf("clock skew on one machine: %s", skew)
			}
			got := map[string]string{}
			for i := range answer.Series {
				s := &answer.Series[i]
				sample, err := s.Reduce(Last, answer.Now, window)
				got[s.Name] = fmt.Sprint(sample.Value, " ", sample.Time.Unix()-g.fed, " ", sample.Step, " ", err)
			}
			nulls := len(answer.byName("node-dead").Points)
			want := map[string]string{
				"node-0": "1009 0 1s <nil>", "node-1": "2009 0 1s <nil>", "node-2": "3009 0 1s <nil>",
				"node-late": "5004 -5 1s <nil>",
				"node-dead": fmt.Sprintf("0 %d 0s all %d of its data points are null", time.Time{}.Unix()-g.fed, nulls),
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("wanted (-), got (+):\n%s", diff)
			}
		})
	}
	t.Run("find", func(t *testing.T) {
		for _, method := range []string{"POST", "GET"} {
			c := client(t, g.URL, func(c *Config) { c.Method = method })
			for pattern, want := range map[string][]Found{
				"tcp-service.node-?":     {{"node-0", false}, {"node-1", false}, {"node-2", false}},
				"tcp-service.*.received": {{"received", true}},
				"tcp-service.*.*":        {{"received", true}},
				"nothing.*":              {},
			} {
				got, err := c.Find(t.Context(), pattern)
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					t.Errorf("%s: %v\nwanted (-), got (+):\n%s", pattern, err, diff)
				}
			}
		}
	})
	t.Run("null at the end", func(t *testing.T) {
		answer := g.render(t, "POST", byNode)
		late, err := answer.byName("node-late").Reduce(Last, answer.Now, window)
		if err != nil || late.SkippedNewest < lateBy {
			t.Errorf("%+v, %v", late, err)
		}
		_, err = answer.byName("node-late").Reduce(Last, answer.Now, 0)
		if err == nil || !strings.Contains(err.Error(), "max_age is 0 s") {
			t.Errorf("no age limit: %v", err)
		}
	})
	t.Run("aggregates", func(t *testing.T) {
		answer := g.render(t, "POST", byNode)
		for a, want := range map[Aggregate]float64{Average: 2004.5, Median: 2004.5, Max: 2009, Sum: 20045} {
			got, err := answer.byName("node-1").Reduce(a, answer.Now, window)
			if err != nil || got.Value != want || got.Points != 10 {
				t.Errorf("%s: %+v, %v; wanted %v", a, got, err, want)
			}
		}
	})
	t.Run("absent", func(t *testing.T) {
		r := Request{Targets: []string{"tcp-service.node-1.received", "tcp-service.node-99.received"}, Window: window}
		if answer := g.render(t, "POST", r); len(answer.Series) != 1 || answer.Series[0].Name != r.Targets[0] {
			t.Errorf("%+v", answer.Series)
		}
	})
	for name, target := range map[string]string{"nothing matches": "no.such.*", "missing bracket": "aliasByNode(tcp-service.*.received, 1"} {
		t.Run(name, func(t *testing.T) {
			if answer := g.render(t, "POST", Request{Targets: []string{target}, Window: window}); len(answer.Series) != 0 {
				t.Errorf("%+v", answer.Series)
			}
		})
	}
	t.Run("integral", func(t *testing.T) {
		answer := g.render(t, "POST", Request{Targets: []string{"integral(tcp-service.node-1.received)"}, Window: window})
		got, err := answer.Series[0].Reduce(Last, answer.Now, window)
		if err != nil || got.Value != 20045 || got.Time.Unix() != g.fed {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("until", func(t *testing.T) {
		// Between the two points, with minutes to spare on either side.
		r := Request{Targets: []string{"shifted.x"}, Window: 15 * time.Minute, Until: 5 * time.Minute}
		if got := sound(g.render(t, "POST", r).Series[0].Points); len(got) != 1 || got[0] != (Point{g.fed - 600, 5}) {
			t.Errorf("%+v", got)
		}
		r.Until = 0
		if got := sound(g.render(t, "GET", r).Series[0].Points); len(got) != 2 || got[1] != (Point{g.fed, 7}) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("odd numbers", func(t *testing.T) {
		answer := g.render(t, "POST", Request{Targets: []string{"odd.*"}, Window: window})
		inf := answer.byName("odd.inf")
		if got := sound(inf.Points); inf.OutOfRange != 1 || len(got) != 1 || got[0] != (Point{g.fed, 3}) {
			t.Errorf("inf: %d, %+v", inf.OutOfRange, got)
		}
		if got, err := answer.byName("odd.zero").Reduce(Last, answer.Now, window); err != nil || got.Value != 0 || got.Points != 1 {
			t.Errorf("zero: %+v, %v", got, err)
		}
		if got, err := answer.byName("odd.neg").Reduce(Last, answer.Now, window); err == nil || !strings.Contains(err.Error(), "1 negative") {
			t.Errorf("negative: %+v, %v", got, err)
		}
	})
	t.Run("a number as alias", func(t *testing.T) {
		answer := g.render(t, "POST", Request{Targets: []string{"alias(odd.zero,1)", "odd.zero"}, Window: window})
		for _, s := range answer.Series {
			if want := s.Name == "1"; (s.Fault != "") != want {
				t.Errorf("%q has fault %q", s.Name, s.Fault)
			}
		}
	})
	t.Run("one series asked for twice", func(t *testing.T) {
		answer := g.render(t, "POST", Request{Targets: []string{"odd.zero", "odd.{zero,neg}"}, Window: window})
		for _, s := range answer.Series {
			if want := s.Name == "odd.zero"; (s.Fault != "") != want {
				t.Errorf("%q has fault %q", s.Name, s.Fault)
			}
		}
	})
	t.Run("more targets than a form may have", func(t *testing.T) {
		r := Request{Targets: []string{"tcp-service.node-0.received"}, Window: window}
		for i := range 1100 {
			r.Targets = append(r.Targets, fmt.Sprintf("none.n%d", i))
		}
		r.Targets = append(r.Targets, "tcp-service.node-2.received")
		answer := g.render(t, "POST", r)
		if len(answer.Series) != 2 || answer.byName(r.Targets[0]) == nil || answer.byName(r.Targets[1101]) == nil {
			t.Errorf("%+v", answer.Series)
		}
	})
	refusals := []struct {
		target string
		status int
		text   string
	}{
		{")", 500, "ParseException: , found ')'"},
		{"scale(tcp-service.node-1.received)", 500, "missing 1 required positional argument: 'factor'"},
		{`movingAverage(tcp-service.node-1.received,"xyz")`, 500, "Invalid offset: xyz"},
		{"noSuchFunction(tcp-service.node-1.received)", 400, "noSuchFunction"},
	}
	for _, test := range refusals {
		t.Run("refused/"+test.target, func(t *testing.T) {
			_, err := client(t, g.URL).Render(t.Context(), Request{Targets: []string{test.target}, Window: window})
			if r := checkError(t, err, KindStatus, test.text); r.Status != test.status {
				t.Errorf("status %d", r.Status)
			}
		})
	}
	t.Run("wrong prefix", func(t *testing.T) {
		_, err := client(t, g.URL+"/graphite").Render(t.Context(), byNode)
		checkError(t, err, KindStatus, "404", "path prefix")
	})
}

func TestRealGraphiteHangsAndComesBack(t *testing.T) {
	g := startReal(t)
	r := Request{Targets: []string{"shifted.x"}, Window: time.Hour - time.Minute}
	c := client(t, g.URL)
	short := client(t, g.URL, func(c *Config) { c.Timeout = 300 * time.Millisecond })
	for _, c := range []*Client{c, short} { // one that has a connection open, too
		if _, err := c.Render(t.Context(), r); err != nil && c != short {
			t.Fatal(err)
		}
	}
	if err := g.PauseWeb(); err != nil {
		t.Fatal(err)
	}
	_, err := short.Render(t.Context(), r)
	checkError(t, err, KindTimeout)
	if err := g.ResumeWeb(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Render(t.Context(), r); err != nil {
		t.Error("after the pause:", err)
	}
	g.KillWeb()
	_, err = c.Render(t.Context(), r)
	checkError(t, err, KindConnect, "connection refused")
	if err := g.StartWeb(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Render(t.Context(), r); err != nil {
		t.Error("after the restart:", err)
	}
	// carbon gone: the answers are as good as before, only older and older.
	g.KillCarbon()
	answer, err := c.Render(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := answer.Series[0].Reduce(Last, answer.Now.Add(time.Minute), time.Minute-time.Second); err == nil || !strings.Contains(err.Error(), "max_age is 59 s") {
		t.Errorf("not told as stale: %v", err)
	}
}
