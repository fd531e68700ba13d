package metrics

import (
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// view is what one scrape reads of the balancers.
type view struct {
	now      time.Time
	backends []*config.Backend
	sockets  []string
	tables   []*balancer.Table
	faults   []balancer.Fault
}

func viewOf(o *Options) *view {
	if o.Fleet == nil {
		return nil
	}
	f := o.Fleet()
	if f == nil {
		return nil
	}
	v := &view{sockets: f.Sockets(), tables: f.Tables()}
	if o.Faults != nil {
		v.faults = o.Faults()
	} else {
		v.faults = f.Faults()
	}
	v.now = o.Now() // after the tables: none is from the future
	for _, b := range f.Balancers() {
		v.backends = append(v.backends, b.Config())
	}
	return v
}

// backend finds one by its name; nil when it is not configured.
func (v *view) backend(name string) *config.Backend {
	for _, b := range v.backends {
		if b.Name == name {
			return b
		}
	}
	return nil
}
