package balancer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// pictured is what a backend keeps of an answer when HAProxy has s1 and s2.
func pictured(b *config.Backend, series []graphite.Series) *picture {
	return newPicture(&graphite.Answer{Now: time.Unix(1000, 0), Series: series}, nil, time.Unix(1000, 0), b, []string{"s1", "s2"})
}

func at1000(name string) graphite.Series {
	return graphite.Series{Name: name, Points: []graphite.Point{{Unix: 990, Value: 1}}}
}

// TestPicturesAreSmall: what is kept until the next pass is bounded by HAProxy's
// servers, whatever Graphite answers: 200 backends keep 200 pictures.
func TestPicturesAreSmall(t *testing.T) {
	const most = 512 << 10 // bytes
	long := strings.Repeat("x", 1<<17)
	for name, series := range map[string]func() []graphite.Series{
		"points": func() []graphite.Series {
			points := make([]graphite.Point, 1<<20)
			for i := range points {
				points[i] = graphite.Point{Unix: int64(i) - 1<<20 + 990, Value: 1}
			}
			return []graphite.Series{{Name: "s1", Points: points[:1<<19]}, {Name: "s2", Points: points[1<<19:]}}
		},
		"series": func() []graphite.Series {
			all := make([]graphite.Series, 20_000)
			for i := range all {
				all[i] = at1000(fmt.Sprint("nobody", i))
			}
			return append(all, at1000("s1"))
		},
		"long names": func() []graphite.Series {
			var all []graphite.Series
			for i := range 20 {
				name := fmt.Sprint(i, long)
				all = append(all, graphite.Series{Name: name}, at1000(name+"/"+long), at1000(fmt.Sprint("s1/", i, long)))
			}
			return append(all, at1000("s1"))
		},
		"a long name of a server": func() []graphite.Series {
			return []graphite.Series{at1000("s1:" + long), {Name: "s2:" + long}} // the second one has no points: an error
		},
		"further values": func() []graphite.Series {
			all := []graphite.Series{at1000("s1")}
			for i := range 20_000 {
				all = append(all, at1000(fmt.Sprint("s1/", i)))
			}
			return all
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := ingest()
			b.Weighting.Function, b.MaxAge, b.Aggregate = weighting.Lua, time.Minute, graphite.Last
			if name == "a long name of a server" {
				b.ServerRegexp, b.ServerName = regexp.MustCompile(`^([^:]*)`), "$1"
			}
			heap := func() int64 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return int64(m.HeapAlloc)
			}
			before := heap()
			p := pictured(&b, series())
			kept := heap() - before
			if l := p.of("s1"); l.series == "" || l.newest == nil {
				t.Errorf("the load of s1 was not kept: %+v", l)
			}
			if kept > most {
				t.Errorf("%d bytes are kept, above %d", kept, most)
			}
		})
	}
}

// TestPictureKeepsServers: however many series are for nobody, HAProxy's servers
// have their loads; the rest is counted, and the same ones are named each time.
func TestPictureKeepsServers(t *testing.T) {
	b := ingest()
	b.MaxAge, b.Aggregate = time.Minute, graphite.Last
	const nobody = 1000
	series := []graphite.Series{at1000("s2")}
	for i := range nobody {
		series = append(series, at1000(fmt.Sprintf("z%03d", i)))
	}
	for range 2 {
		p := pictured(&b, append(series, at1000("s1")))
		if p.of("s1").err != nil || p.of("s2").err != nil || p.left != nobody-mostStrangers || len(p.loads) != 2+mostStrangers {
			t.Errorf("s1 %v, s2 %v, %d left out, %d kept", p.of("s1").err, p.of("s2").err, p.left, len(p.loads))
		}
		if p.of("z299").err != nil || p.of("z300").err != errLeft {
			t.Errorf("a server that is new has %v, %v", p.of("z299").err, p.of("z300").err)
		}
		for i, j := 1, nobody; i < j; i, j = i+1, j-1 {
			series[i], series[j] = series[j], series[i]
		}
	}
	if p := pictured(&b, series); p.of("s1").err != errNoSeries {
		t.Errorf("a server without a series has %v", p.of("s1").err)
	}
}

// TestTooManyFurtherValues: a server with more of them than a script could mean
// has no data, which is told like everything else that is wrong with a load.
func TestTooManyFurtherValues(t *testing.T) {
	b := ingest()
	b.Weighting.Function, b.MaxAge, b.Aggregate = weighting.Lua, time.Minute, graphite.Last
	for n, want := range map[int]error{mostMetrics: nil, mostMetrics + 1: errManyMetrics} {
		series := []graphite.Series{at1000("s1"), at1000("s2"), at1000("s2/errors")}
		for i := range n {
			series = append(series, at1000(fmt.Sprint("s1/", i)))
		}
		p := pictured(&b, series)
		values := len(p.metricsOf("s1", 0, time.Minute))
		if p.of("s1").err != want || want == nil && values != n || want != nil && values != 0 {
			t.Errorf("%d: %v, %d values", n, p.of("s1").err, values)
		}
		if p.of("s2").err != nil || len(p.metricsOf("s2", 0, time.Minute)) != 1 {
			t.Errorf("the other server has %v, %v", p.of("s2").err, p.metrics["s2"])
		}
	}
}

// tardy is a HAProxy that takes its time for each read.
type tardy struct {
	*fakeHAProxy
	by time.Duration
}

func (l tardy) State(ctx context.Context, backend string) (*haproxy.State, error) {
	time.Sleep(l.by)
	return l.fakeHAProxy.State(ctx, backend)
}

// TestGraphiteFasterThanHAProxy: an answer that can't be kept whole before the
// servers are known is asked for again as soon as they are.
func TestGraphiteFasterThanHAProxy(t *testing.T) {
	for name, by := range map[string]time.Duration{"for a moment": 100 * time.Millisecond, "as it is down": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const servers = 2 * mostStrangers
				loads := make(map[string]float64)
				for i := range servers {
					loads[fmt.Sprint("s", i)] = 100
				}
				h, g := newFake(slices.Sorted(maps.Keys(loads))...), newGraphite(loads)
				if by == 0 {
					h.down = errors.New("connection refused")
				}
				r := newRig(t, ingest(), g, h)
				r.balancer.planes[0].data = tardy{h, by}
				r.start()
				defer r.stop()
				time.Sleep(3 * time.Second)
				h.do(func() { h.down = nil })
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if table := r.table(0); table.Fresh != servers {
					t.Errorf("%d of %d servers have data after %d renders; log:\n%s", table.Fresh, servers, g.requestCount(), r.log)
				}
				r.wantLog(0, "servers without usable load")
			})
		})
	}
}
