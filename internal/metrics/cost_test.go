package metrics

import (
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/spoa"
)

// TestAnsweredAllocatesNothing: HAProxy waits while an answer is counted.
func TestAnsweredAllocatesNothing(t *testing.T) {
	s := newScene()
	results := spoa.Results{spoa.ResultOK: 1}
	if n := testing.AllocsPerRun(1000, func() { s.Answered(results, 30*time.Microsecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestScrapeAllocations: a scrape takes no more allocations for more servers,
// but for the bytes that it sends.
func TestScrapeAllocations(t *testing.T) {
	gather := func(servers int) float64 {
		s := newScene()
		s.view.tables = []*balancer.Table{table(many(servers)...)}
		v := *s.view
		return testing.AllocsPerRun(5, func() { s.tableFamilies(&v) })
	}
	if few, many := gather(10), gather(2000); many > few+50 {
		t.Errorf("%v allocations for 10 servers and %v for 2000", few, many)
	}
}

func BenchmarkAnswered(b *testing.B) {
	s := newScene()
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		results := spoa.Results{spoa.ResultOK: 1}
		for p.Next() {
			s.Answered(results, 30*time.Microsecond)
		}
	})
}

// BenchmarkScrape is of 10,000 servers.
func BenchmarkScrape(b *testing.B) {
	s := newScene()
	s.everything()
	s.view.tables = []*balancer.Table{table(many(10_000)...)}
	for name, header := range map[string][]string{
		"plain": {}, "gzip": {"Accept-Encoding", "gzip"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.SetBytes(int64(len(s.scrape(b, "", header...))))
			}
		})
	}
	b.Run("gather", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Gather(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
