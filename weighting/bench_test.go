package weighting

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkDecide is one pass over 10,000 servers in 100 backends, with all reasons.
func BenchmarkDecide(b *testing.B) {
	for _, f := range allFunctions {
		b.Run(string(f), func(b *testing.B) { benchmarkDecide(b, f, 100, 100) })
	}
	b.Run("one backend of 10000", func(b *testing.B) { benchmarkDecide(b, WaterFill, 1, 10_000) })
}

func benchmarkDecide(b *testing.B, f Function, backends, servers int) {
	in := Input{Now: start, Lifetime: time.Hour}
	for i := range servers {
		in.Servers = append(in.Servers, Server{
			Name: fmt.Sprint("server-", i), Load: float64(500 + i*i%1000), LoadTime: start, DataAge: 20 * time.Second,
			Capacity: 1, Weight: 100, InitialWeight: 100, Sessions: 200,
		})
	}
	controllers := make([]*Controller, backends)
	for i := range controllers {
		controllers[i] = NewController(settings(f))
	}
	b.ReportAllocs()
	for b.Loop() {
		in.Now = in.Now.Add(30 * time.Second)
		for _, c := range controllers {
			c.Decide(in)
		}
	}
}
