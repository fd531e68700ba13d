package scripts

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/test/graphiteproc"
)

// step is that of the series of a real Graphite.
const step = 10 * time.Second

// realGraphite starts a real Graphite that ends with the script, and makes
// $GRAPHITE its URL. It gets the series of a file, each line NAME VALUE, for the
// last minute and from then on.
func realGraphite(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: graphite FILE")
	}
	series := make(map[string]string)
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		if words := strings.Fields(line); len(words) == 2 {
			series[words[0]] = words[1]
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	p, err := graphiteproc.Start(ctx, graphiteproc.Options{Retentions: "10s:1h", NoTags: true})
	ts.Check(err)
	ts.Defer(p.Stop)
	for back := time.Minute; back >= 0; back -= step {
		ts.Check(p.Send(ctx, lines(series, time.Now().Add(-back))))
	}
	ts.Check(shown(ctx, p.URL, series))
	ts.Setenv("GRAPHITE", p.URL)

	feeding, stop := context.WithCancel(context.Background())
	var feeder sync.WaitGroup
	feeder.Go(func() {
		tick := time.NewTicker(step / 2)
		defer tick.Stop()
		for {
			select {
			case <-feeding.Done():
				return
			case now := <-tick.C:
				// A script that runs out of data fails by itself.
				_ = p.Send(feeding, lines(series, now))
			}
		}
	})
	ts.Defer(func() { stop(); feeder.Wait() })
}

func lines(series map[string]string, at time.Time) string {
	var b strings.Builder
	for name, value := range series {
		fmt.Fprintf(&b, "%s %s %d\n", name, value, at.Unix())
	}
	return b.String()
}

// shown waits until every series can be rendered: carbon makes their files one
// after the other.
func shown(ctx context.Context, url string, series map[string]string) error {
	c, err := graphite.NewClient(graphite.Config{URL: url})
	if err != nil {
		return err
	}
	defer c.Close()
	// One wildcard a depth: not every name can stand in a target.
	depths := make(map[int]bool)
	for name := range series {
		depths[strings.Count(name, ".")] = true
	}
	var targets []string
	for depth := range depths {
		targets = append(targets, strings.Repeat("*.", depth)+"*")
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		answer, err := c.Render(ctx, graphite.Request{Targets: targets, Window: 2 * time.Minute})
		usable := 0
		if err == nil {
			for i := range answer.Series {
				if _, err := answer.Series[i].Reduce(graphite.Last, answer.Now, time.Minute); err == nil {
					usable++
				}
			}
		}
		if usable == len(series) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d series of the real Graphite can be used: %w, %w", usable, len(series), err, ctx.Err())
		case <-tick.C:
		}
	}
}
