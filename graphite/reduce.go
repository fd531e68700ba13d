package graphite

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Valid tells whether a is one of the aggregates.
func (a Aggregate) Valid() bool {
	switch a {
	case Last, Average, Median, Max, Sum:
		return true
	}
	return false
}

// Reason is why a series gave no number.
type Reason string

// The reasons of [UnusableError].
const (
	ReasonFault    Reason = "fault"    // the series has a Fault
	ReasonEmpty    Reason = "empty"    // it has no data points
	ReasonNull     Reason = "null"     // all of them are null (or no float64 holds them)
	ReasonNegative Reason = "negative" // none is usable, and the newest that isn't null is negative
	ReasonFuture   Reason = "future"   // none is usable, and the newest that isn't null lies in the future
	ReasonStale    Reason = "stale"    // the newest usable one is older than the limit
	ReasonOverflow Reason = "overflow" // the aggregate is more than a float64 holds
)

// UnusableError is why [Series.Reduce] gave no sample. Its text names no
// series, so that it can stand beside one in a table.
type UnusableError struct {
	Series string
	Reason Reason
	Age    time.Duration // of the newest usable point, with ReasonStale
	text   string
}

func (e *UnusableError) Error() string { return e.text }

// maxStep bounds what is taken for a step, in seconds, so that it fits a Duration.
const maxStep = 1 << 33

// Reduce turns the series into one number, as seen at now (Answer.Now).
//
// Usable is a point whose value is finite and not negative (a counter that
// restarted reads negative) and whose stamp isn't later than now plus one step, or one second
// where the step can't be told. The newest usable point must not be older than
// maxAge. Last is its value; the other aggregates take all usable points of the
// series, leaving the gaps out, so Sum is smaller when points are missing. An
// error is an [*UnusableError], or says that a is no aggregate.
//
// MidAge is the age of the middle of what the value stands for: from the
// stamp of the oldest point used to the end of the newest one's interval, or to now
// where that interval is still in progress.
func (s *Series) Reduce(a Aggregate, now time.Time, maxAge time.Duration) (Sample, error) {
	if !a.Valid() {
		return Sample{}, fmt.Errorf("graphite: %q is no aggregate", string(a))
	}
	if s.Fault != "" {
		return Sample{}, s.unusable(ReasonFault, s.Fault)
	}
	if len(s.Points) == 0 {
		return Sample{}, s.unusable(ReasonEmpty, "it has no data points")
	}
	step := s.step()
	latest := now.Unix() + max(step, 1)
	newest, skipped := -1, tally{}
	for i := len(s.Points) - 1; i >= 0 && newest < 0; i-- {
		if kind := s.Points[i].judge(latest); kind == usable {
			newest = i
		} else {
			skipped.add(kind)
		}
	}
	if newest < 0 {
		return Sample{}, s.noneUsable(skipped)
	}
	sample := Sample{
		Time: time.Unix(s.Points[newest].Unix, 0), Step: time.Duration(step) * time.Second,
		SkippedNewest: len(s.Points) - 1 - newest,
	}
	if sample.Age = now.Sub(sample.Time); sample.Age > maxAge {
		err := s.unusable(ReasonStale, fmt.Sprintf("its newest usable data point is %s old, max_age is %s%s",
			seconds(sample.Age), seconds(maxAge), skipped.after()))
		err.Age = sample.Age
		return Sample{}, err
	}
	oldest := newest
	if a == Last {
		sample.Value, sample.Points = s.Points[newest].Value, 1
	} else {
		var values []float64
		oldest, values = s.usable(newest, latest)
		sample.Value, sample.Points = aggregate(a, values), len(values)
	}
	if math.IsInf(sample.Value, 0) {
		return Sample{}, s.unusable(ReasonOverflow, fmt.Sprintf("the %s of its data points is more than a float64 holds", a))
	}
	sample.Value = math.Abs(sample.Value) // -0
	sample.MidAge = midAge(time.Unix(s.Points[oldest].Unix, 0), sample.Time, sample.Step, now)
	return sample, nil
}

func midAge(first, last time.Time, step time.Duration, now time.Time) time.Duration {
	end := last.Add(step)
	if end.After(now) {
		end = now
	}
	return max(0, now.Sub(first.Add(end.Sub(first)/2)))
}

// step is the smallest distance of neighbouring stamps, in seconds; 0 when
// there is none. The JSON of a render doesn't tell it.
func (s *Series) step() int64 {
	var step int64
	for i := 1; i < len(s.Points); i++ {
		d := s.Points[i].Unix - s.Points[i-1].Unix
		if d > 0 && (step == 0 || d < step) {
			step = d
		}
	}
	return min(step, maxStep)
}

// usable returns the values that may be used, up to the point newest, and the
// index of the oldest of them.
func (s *Series) usable(newest int, latest int64) (oldest int, values []float64) {
	oldest = newest
	values = make([]float64, 0, newest+1)
	for i := newest; i >= 0; i-- {
		if s.Points[i].judge(latest) == usable {
			values = append(values, s.Points[i].Value)
			oldest = i
		}
	}
	return oldest, values
}

// aggregate needs one value at least, all of them finite and not negative.
func aggregate(a Aggregate, values []float64) float64 {
	switch a {
	case Max:
		return slices.Max(values)
	case Median:
		slices.Sort(values)
		half := len(values) / 2
		if len(values)%2 == 1 {
			return values[half]
		}
		low, high := values[half-1], values[half]
		return low + (high-low)/2
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	if a == Sum || len(values) == 0 {
		return sum
	}
	if !math.IsInf(sum, 1) {
		return sum / float64(len(values))
	}
	mean := 0.0 // the sum is out of range, the average is not
	for i, v := range values {
		mean += (v - mean) / float64(i+1)
	}
	return mean
}

// judgement is what becomes of one point.
type judgement int

const (
	usable judgement = iota
	null
	negative
	future
)

func (p Point) judge(latest int64) judgement {
	switch {
	case math.IsNaN(p.Value) || math.IsInf(p.Value, 0):
		return null
	case p.Value < 0:
		return negative
	case p.Unix > latest:
		return future
	}
	return usable
}

// tally counts points that were passed over, newest first.
type tally struct {
	null, negative, future int
	newest                 judgement // of the newest that isn't null
}

func (t *tally) add(kind judgement) {
	switch kind {
	case null:
		t.null++
		return
	case negative:
		t.negative++
	case future:
		t.future++
	}
	if t.newest == usable {
		t.newest = kind
	}
}

func (t tally) String() string {
	var parts []string
	for _, c := range []struct {
		n    int
		what string
	}{{t.null, "null"}, {t.negative, "negative"}, {t.future, "in the future"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	return strings.Join(parts, ", ")
}

// after is what a message adds about newer points.
func (t tally) after() string {
	if s := t.String(); s != "" {
		return " (newer ones: " + s + ")"
	}
	return ""
}

func (s *Series) noneUsable(t tally) error {
	reason := ReasonNull
	switch t.newest {
	case negative:
		reason = ReasonNegative
	case future:
		reason = ReasonFuture
	}
	if reason == ReasonNull && s.OutOfRange == 0 {
		return s.unusable(reason, fmt.Sprintf("all %d of its data points are null", t.null))
	}
	text := fmt.Sprintf("none of its %d data points is usable: %s", len(s.Points), t)
	if s.OutOfRange > 0 {
		text = fmt.Sprintf("none of its %d data points is usable: %s, among them %d infinite", len(s.Points), t, s.OutOfRange)
	}
	if reason == ReasonFuture {
		text += "; compare the clocks of this machine, of Graphite and of who sends the metric"
	}
	return s.unusable(reason, text)
}

func (s *Series) unusable(reason Reason, text string) *UnusableError {
	return &UnusableError{Series: s.Name, Reason: reason, text: text}
}
