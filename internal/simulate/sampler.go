package simulate

import (
	"math"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
)

// epoch is the wall clock at the start of a run; any time on a whole day will do.
const epoch = 1_704_067_200

// sampler turns the servers' loads into series as Graphite has them: one point
// a step, stamped with the step's start, worth the mean load over the step, and
// there only lag after the step's end.
type sampler struct {
	step, lag, window, maxAge float64
	aggregate                 graphite.Aggregate
	series                    []graphite.Series
	dropped                   int // points forgotten at the front of every series
}

func newSampler(m *Model, names []string) *sampler {
	s := &sampler{
		step: m.Step.Seconds(), lag: m.Lag.Seconds(), window: m.Window.Seconds(), maxAge: m.MaxAge.Seconds(),
		aggregate: m.Aggregate, series: make([]graphite.Series, m.Servers),
	}
	for i := range s.series {
		s.series[i].Name = names[i]
	}
	return s
}

// add appends one point a server for the step that ends now, in order of time.
func (s *sampler) add(values []float64) {
	keep := int((s.window+s.lag+s.maxAge)/s.step) + 4
	have := len(s.series[0].Points)
	stamp := epoch + int64(s.dropped+have)*int64(s.step)
	trim := have >= 4*keep
	if trim {
		s.dropped += have - keep
	}
	for i := range s.series {
		p := s.series[i].Points
		if trim {
			p = p[:copy(p, p[have-keep:])]
		}
		s.series[i].Points = append(p, graphite.Point{Unix: stamp, Value: values[i]})
	}
}

// read is the load of a server as a request at now (seconds of the model) gets it.
func (s *sampler) read(server int, now float64) (graphite.Sample, error) {
	points := s.series[server].Points
	newest := int(math.Floor((now-s.lag)/s.step)) - s.dropped // one past
	oldest := int(math.Ceil((now-s.window)/s.step)) - s.dropped
	newest = max(0, min(newest, len(points)))
	oldest = max(0, min(oldest, newest))
	seen := graphite.Series{Name: s.series[server].Name, Points: points[oldest:newest]}
	return seen.Reduce(s.aggregate, wall(now), time.Duration(s.maxAge*float64(time.Second)))
}

// wall is the wall clock at a time of the model.
func wall(seconds float64) time.Time {
	return time.Unix(epoch, 0).UTC().Add(time.Duration(seconds * float64(time.Second)))
}
