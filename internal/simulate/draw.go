package simulate

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"sort"
	"strconv"
	"strings"
	"time"
)

// RateKind names a distribution of connection rates.
type RateKind string

// The distributions of rates.
const (
	Lognormal RateKind = "lognormal" // Median, Sigma, clipped to Min..Max
	Pareto    RateKind = "pareto"    // bounded: Alpha, Min, Max
	Recorded  RateKind = "file"      // rows of Pairs, each as likely as the others
)

// Pair is one recorded connection.
type Pair struct {
	Rate     float64 // load while it is open, >= 0
	Lifetime float64 // seconds, > 0
}

// Rates says how the rates of new connections are spread. A rate never changes
// while the connection is open.
type Rates struct {
	Kind     RateKind
	Median   float64
	Sigma    float64 // of the natural logarithm
	Alpha    float64
	Min, Max float64
	Pairs    []Pair // of Recorded; they give the lifetimes too
}

func (r *Rates) check() error {
	switch r.Kind {
	case Lognormal:
		if r.Median <= 0 || r.Sigma < 0 || r.Min < 0 || r.Max <= r.Min {
			return fmt.Errorf("rates: lognormal wants median > 0, sigma >= 0 and 0 <= min < max, got median %v, sigma %v, min %v, max %v",
				r.Median, r.Sigma, r.Min, r.Max)
		}
	case Pareto:
		if r.Alpha <= 0 || r.Min <= 0 || r.Max <= r.Min {
			return fmt.Errorf("rates: pareto wants alpha > 0 and 0 < min < max, got alpha %v, min %v, max %v", r.Alpha, r.Min, r.Max)
		}
	case Recorded:
		if len(r.Pairs) == 0 {
			return errors.New("rates: the file holds no rate,lifetime rows")
		}
	default:
		return fmt.Errorf("rates: %q, want %s, %s or %s", r.Kind, Lognormal, Pareto, Recorded)
	}
	return nil
}

// quantile turns a uniform u in (0,1) into a rate; Recorded is not asked.
func (r *Rates) quantile(u float64) float64 {
	if r.Kind == Pareto {
		// Inverse of the bounded Pareto distribution function.
		ratio := math.Pow(r.Min/r.Max, r.Alpha)
		return r.Min * math.Pow(1-u*(1-ratio), -1/r.Alpha)
	}
	z := math.Sqrt2 * math.Erfinv(2*u-1)
	return min(max(r.Median*math.Exp(r.Sigma*z), r.Min), r.Max)
}

// CV is the coefficient of variation of the rates, by numeric integration over
// the quantiles; for recorded pairs it is over open connections, so a row
// counts by its lifetime.
func (r *Rates) CV() float64 {
	var weight, sum, squares float64
	if r.Kind == Recorded {
		for _, p := range r.Pairs {
			weight += p.Lifetime
			sum += p.Lifetime * p.Rate
			squares += p.Lifetime * p.Rate * p.Rate
		}
	} else {
		const slices = 200_000
		for i := range slices {
			x := r.quantile((float64(i) + 0.5) / slices)
			sum += x
			squares += x * x
		}
		weight = slices
	}
	mean := sum / weight
	return math.Sqrt(max(0, squares/weight-mean*mean)) / mean
}

// Lifetimes says how long connections live.
type Lifetimes struct {
	Mean  time.Duration
	Sigma float64 // 0: exponential; else lognormal with this sigma of the logarithm
}

func (l *Lifetimes) check() error {
	if l.Mean < time.Second || l.Sigma < 0 || l.Sigma > 4 {
		return fmt.Errorf("lifetime: mean %v and sigma %v, want at least 1s and 0..4", l.Mean, l.Sigma)
	}
	return nil
}

// fresh draws the lifetime of a new connection, in seconds.
func (l *Lifetimes) fresh(r *rand.Rand) float64 {
	if l.Sigma == 0 {
		return l.Mean.Seconds() * r.ExpFloat64()
	}
	return l.Mean.Seconds() * math.Exp(l.Sigma*r.NormFloat64()-l.Sigma*l.Sigma/2)
}

// biased draws the whole lifetime of a connection that is found open at a
// random time: long ones are met more often, in proportion to their length.
func (l *Lifetimes) biased(r *rand.Rand) float64 {
	if l.Sigma == 0 {
		return l.Mean.Seconds() * (r.ExpFloat64() + r.ExpFloat64())
	}
	return l.Mean.Seconds() * math.Exp(l.Sigma*r.NormFloat64()+l.Sigma*l.Sigma/2)
}

// drawer draws connections of one model.
type drawer struct {
	model *Model
	rand  *rand.Rand
	cum   []float64 // of Recorded: running sum of the lifetimes
}

func newDrawer(m *Model, r *rand.Rand) *drawer {
	d := &drawer{model: m, rand: r}
	total := 0.0
	for _, p := range m.Rates.Pairs {
		total += p.Lifetime
		d.cum = append(d.cum, total)
	}
	return d
}

func (d *drawer) rate() float64 {
	if d.model.Rates.Kind == Recorded {
		return d.model.Rates.Pairs[d.rand.IntN(len(d.cum))].Rate
	}
	return d.model.Rates.quantile(d.uniform())
}

// uniform is in (0,1), both ends left out.
func (d *drawer) uniform() float64 { return (float64(d.rand.Uint64()>>12) + 0.5) / (1 << 52) }

// fresh is a connection that begins now.
func (d *drawer) fresh() (rate, life float64) {
	if d.model.Rates.Kind == Recorded {
		p := d.model.Rates.Pairs[d.rand.IntN(len(d.cum))]
		return p.Rate, p.Lifetime
	}
	return d.rate(), d.model.Lifetime.fresh(d.rand)
}

// found is a connection that is open at a random time, with its age and what is left.
func (d *drawer) found() (rate, age, left float64) {
	var whole float64
	if d.model.Rates.Kind == Recorded {
		at := d.uniform() * d.cum[len(d.cum)-1]
		p := d.model.Rates.Pairs[min(sort.SearchFloat64s(d.cum, at), len(d.cum)-1)]
		rate, whole = p.Rate, p.Lifetime
	} else {
		rate, whole = d.rate(), d.model.Lifetime.biased(d.rand)
	}
	age = d.uniform() * whole
	return rate, age, whole - age
}

// ReadPairs reads recorded connections from CSV: one "rate,lifetime" a row,
// the lifetime in seconds. A first row without numbers is a heading.
func ReadPairs(in io.Reader) ([]Pair, error) {
	reader := csv.NewReader(in)
	reader.FieldsPerRecord = 2
	reader.Comment = '#'
	reader.TrimLeadingSpace = true
	var pairs []Pair
	for first := true; ; first = false {
		row, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		rate, rateErr := strconv.ParseFloat(strings.TrimSpace(row[0]), 64)
		life, lifeErr := strconv.ParseFloat(strings.TrimSpace(row[1]), 64)
		if first && rateErr != nil && lifeErr != nil {
			continue
		}
		line, _ := reader.FieldPos(0)
		if rateErr != nil || !(rate >= 0) || math.IsInf(rate, 1) {
			return nil, fmt.Errorf("line %d: rate %q: want a number of 0 or more", line, row[0])
		}
		if lifeErr != nil || !(life > 0) || math.IsInf(life, 1) {
			return nil, fmt.Errorf("line %d: lifetime %q: want seconds, more than 0", line, row[1])
		}
		pairs = append(pairs, Pair{rate, life})
	}
	if len(pairs) == 0 {
		return nil, errors.New("no rate,lifetime rows")
	}
	return pairs, nil
}

// MeanLifetime of recorded connections.
func MeanLifetime(pairs []Pair) time.Duration {
	total := 0.0
	for _, p := range pairs {
		total += p.Lifetime
	}
	return time.Duration(total / float64(len(pairs)) * float64(time.Second))
}
