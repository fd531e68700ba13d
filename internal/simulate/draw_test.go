package simulate

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The quantiles must agree with what theory says of the two distributions.
func TestRateDistributions(t *testing.T) {
	a, b := ModelA(), ModelB()
	// Bounded Pareto: moments by integration of alpha*L^alpha*x^(n-alpha-1)/(1-(L/H)^alpha).
	moment := func(n float64) float64 {
		l, h, alpha := b.Rates.Min, b.Rates.Max, b.Rates.Alpha
		return alpha * math.Pow(l, alpha) / (1 - math.Pow(l/h, alpha)) * (math.Pow(h, n-alpha) - math.Pow(l, n-alpha)) / (n - alpha)
	}
	want := math.Sqrt(moment(2)-moment(1)*moment(1)) / moment(1)
	if got := b.Rates.CV(); math.Abs(got/want-1) > 0.01 {
		t.Errorf("CV of the Pareto rates: %.3f, want %.3f", got, want)
	}
	if got := a.Rates.quantile(0.5); math.Abs(got-50) > 1e-6 {
		t.Errorf("median of the lognormal rates: %v, want 50", got)
	}
	unclipped := Rates{Kind: Lognormal, Median: 50, Sigma: 0.5, Min: 0, Max: math.MaxFloat64}
	if got, want := unclipped.CV(), math.Sqrt(math.Exp(0.25)-1); math.Abs(got/want-1) > 0.01 {
		t.Errorf("CV of lognormal rates of sigma 0.5: %.4f, want %.4f", got, want)
	}
	for _, u := range []float64{1e-12, 1 - 1e-12} {
		for _, r := range []Rates{a.Rates, b.Rates} {
			if got := r.quantile(u); got < r.Min-1e-9 || got > r.Max+1e-9 {
				t.Errorf("%s: quantile %v is %v, outside of %v..%v", r.Kind, u, got, r.Min, r.Max)
			}
		}
	}
}

// A connection found open has, on average, lived and has to live the same
// time: for exponential lifetimes the mean, for lognormal ones
// mean*exp(sigma^2)/2.
func TestConnectionsFoundOpen(t *testing.T) {
	for _, sigma := range []float64{0, 1} {
		m := ModelA()
		m.Lifetime.Sigma = sigma
		d := newDrawer(&m, seeded(1, useResidents))
		var ages, lefts, fresh float64
		const n = 200_000
		for range n {
			_, age, left := d.found()
			ages += age / n
			lefts += left / n
			_, life := d.fresh()
			fresh += life / n
		}
		mean := m.Lifetime.Mean.Seconds()
		want := mean
		if sigma > 0 {
			want = mean * math.Exp(sigma*sigma) / 2
		}
		for name, pair := range map[string][2]float64{"age": {ages, want}, "time left": {lefts, want}, "lifetime of new ones": {fresh, mean}} {
			if math.Abs(pair[0]/pair[1]-1) > 0.03 {
				t.Errorf("sigma %v: mean %s %.0f s, want %.0f s", sigma, name, pair[0], pair[1])
			}
		}
	}
}

func TestReadPairs(t *testing.T) {
	for _, test := range []struct {
		name, csv string
		want      []Pair
		fault     string
	}{
		{"with a heading", "rate,lifetime\n5, 60\n0,0.5\n", []Pair{{5, 60}, {0, 0.5}}, ""},
		{"without, with a comment", "# from the log\n5,60\n", []Pair{{5, 60}}, ""},
		{"empty", "", nil, "no rate,lifetime rows"},
		{"heading only", "rate,lifetime\n", nil, "no rate,lifetime rows"},
		{"a negative rate", "5,60\n-1,60\n", nil, `line 2: rate "-1": want a number of 0 or more`},
		{"no lifetime", "5,0\n", nil, `line 1: lifetime "0": want seconds, more than 0`},
		{"not a number", "5,60\n5,NaN\n", nil, `line 2: lifetime "NaN": want seconds, more than 0`},
		{"an infinite rate", "Inf,60\n", nil, `line 1: rate "Inf": want a number of 0 or more`},
		{"three columns", "5,60,1\n", nil, "record on line 1: wrong number of fields"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := ReadPairs(strings.NewReader(test.csv))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if fault := text(err); fault != test.fault {
				t.Errorf("error %q, want %q", fault, test.fault)
			}
		})
	}
	if got := MeanLifetime([]Pair{{1, 10}, {1, 20}}); got != 15*time.Second {
		t.Errorf("mean lifetime %v, want 15s", got)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A row counts for the connections open at a moment by its lifetime.
func TestRecordedConnections(t *testing.T) {
	m := ModelA()
	m.Rates = Rates{Kind: Recorded, Pairs: []Pair{{1, 100}, {2, 300}}}
	d := newDrawer(&m, seeded(1, useResidents))
	long := 0.0
	const n = 100_000
	for range n {
		if rate, _, _ := d.found(); rate == 2 {
			long += 1.0 / n
		}
	}
	if math.Abs(long-0.75) > 0.01 {
		t.Errorf("%.3f of the open connections are the long ones, want 0.75", long)
	}
	if got, want := m.Rates.CV(), math.Sqrt(0.25*1+0.75*4-1.75*1.75)/1.75; math.Abs(got-want) > 1e-9 {
		t.Errorf("CV %v, want %v", got, want)
	}
}
