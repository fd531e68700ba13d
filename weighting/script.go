package weighting

import (
	"errors"
	"math"
	"time"
)

// Weigher is a weighting function that a user has written, for Function Lua.
// It may remember what it likes from pass to pass; each Controller has its own.
type Weigher interface {
	// Weigh returns a share for each of in.Servers, on any scale: finite, not
	// negative, not all zero. printed is what the function has to say to the
	// operator beside it. After an error the pass holds.
	Weigh(in WeighInput) (shares []float64, printed []string, err error)
}

// WeighInput is what a Weigher decides by.
type WeighInput struct {
	Now      time.Time
	Interval time.Duration // between two passes
	Lifetime time.Duration // mean, of connections; 0 when unknown
	Mean     float64       // load a unit of capacity, as "better" has turned it
	// Servers are to be weighed: in rotation, with a load that counts. Others
	// are all the rest, for the whole picture.
	Servers, Others []Weighed
}

// Weighed is a server as a Weigher sees it.
type Weighed struct {
	Server
	Relative float64 // load over capacity, over the mean; NaN when unknown
	Share    float64 // of new connections, which the weight in force gives
}

var errNoWeigher = errors.New("the configuration has no script")

// script has the user's function weigh. Its shares go on through the same
// limits as those of any other function.
func (p *pass) script(share []float64) error {
	p.d.Gain = 0 // nobody knows what one pass of it does
	if p.c.weigher == nil {
		return errNoWeigher
	}
	given, printed, err := p.c.weigher.Weigh(p.weighInput())
	p.d.Printed = printed
	if err != nil {
		return err
	}
	if err := checkShares(given, len(share)); err != nil {
		return err
	}
	largest := maxOf(given)
	for i, s := range given {
		share[i] = s / largest // so that no sum of them overflows
	}
	p.explainFunction(func(w *words, e *entry, s float64) {
		w.s("the script gives it ").f(s * largest).s("; over the largest it gives, ").f(largest).s(" = ").f(s)
	})
	return nil
}

func checkShares(shares []float64, want int) error {
	if len(shares) != want {
		return errors.New("the script's shares are not one a server")
	}
	positive := false
	for _, s := range shares {
		if !(s >= 0) || math.IsInf(s, 0) {
			return errors.New("the script gives a share that is negative or no number")
		}
		positive = positive || s > 0
	}
	if !positive {
		return errors.New("the script gives no server a share above 0")
	}
	return nil
}

func (p *pass) weighInput() WeighInput {
	in := WeighInput{
		Now: p.in.Now, Interval: p.c.settings.Interval, Lifetime: p.d.Lifetime, Mean: p.d.Mean,
		Servers: make([]Weighed, 0, p.weighed),
	}
	inRotation := make(map[*Server]*entry, len(p.entries))
	for i := range p.entries {
		e := &p.entries[i]
		inRotation[e.server] = e
		if i < p.weighed {
			in.Servers = append(in.Servers, e.weighed())
		}
	}
	for i := range p.in.Servers {
		s := &p.in.Servers[i]
		switch e := inRotation[s]; {
		case e == nil:
			out := Weighed{Server: *s, Relative: math.NaN()}
			out.Rotation = rotation(s)
			in.Others = append(in.Others, out)
		case !p.weighs(e):
			in.Others = append(in.Others, e.weighed())
		}
	}
	return in
}

func (e *entry) weighed() Weighed {
	w := Weighed{Server: *e.server, Relative: e.out.Relative, Share: e.inForce}
	w.Capacity = e.capacity
	if !e.usable {
		w.Load = math.NaN()
	}
	return w
}
