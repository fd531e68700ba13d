package balancer

import (
	"context"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
)

// Observer is told what the balancers do, for metrics, history and reports.
// Its methods are called from many goroutines at once and must return soon.
type Observer interface {
	// Rendered is called after each request to Graphite.
	Rendered(backend string, err error, took time.Duration)
	// Asked is called after each exchange with a runtime socket; command is as in
	// haproxy.Options.Observe.
	Asked(socket, command string, err error, took time.Duration)
	// Passed is called after each pass with the table that it published.
	Passed(t *Table)
}

// Observers joins several; nil ones are left out.
type Observers []Observer

// Rendered implements Observer.
func (o Observers) Rendered(backend string, err error, took time.Duration) {
	for _, each := range o {
		each.Rendered(backend, err, took)
	}
}

// Asked implements Observer.
func (o Observers) Asked(socket, command string, err error, took time.Duration) {
	for _, each := range o {
		each.Asked(socket, command, err, took)
	}
}

// Passed implements Observer.
func (o Observers) Passed(t *Table) {
	for _, each := range o {
		each.Passed(t)
	}
}

// observedRenderer tells of each render.
type observedRenderer struct {
	Renderer
	backend  string
	observer Observer
}

func (r observedRenderer) Render(ctx context.Context, q graphite.Request) (*graphite.Answer, error) {
	start := time.Now()
	answer, err := r.Renderer.Render(ctx, q)
	if ctx.Err() == nil || err == nil {
		r.observer.Rendered(r.backend, err, time.Since(start))
	}
	return answer, err
}
