package simulate

import (
	"errors"
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
	return s.newest(&seen, now)
}

// newest stands in for graphite.Series.Reduce until that is built.
func (s *sampler) newest(seen *graphite.Series, now float64) (graphite.Sample, error) {
	for i := len(seen.Points) - 1; i >= 0; i-- {
		p := seen.Points[i]
		age := wall(now).Sub(time.Unix(p.Unix, 0))
		if age.Seconds() > s.maxAge {
			break
		}
		if !math.IsNaN(p.Value) {
			half := time.Duration(s.step / 2 * float64(time.Second))
			return graphite.Sample{Value: p.Value, Time: time.Unix(p.Unix, 0), Age: age, MidAge: age - half}, nil
		}
	}
	return graphite.Sample{}, errors.New("no usable point")
}

// wall is the wall clock at a time of the model.
func wall(seconds float64) time.Time {
	return time.Unix(epoch, 0).UTC().Add(time.Duration(seconds * float64(time.Second)))
}
