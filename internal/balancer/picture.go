package balancer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// picture is what one render told of a backend, for all its planes. It is
// immutable, so the planes share it. They keep it until the next one: its size
// is bounded by HAProxy's servers, whatever Graphite has answered.
type picture struct {
	received time.Time     // our clock
	skew     time.Duration // our clock minus Graphite's
	repeated time.Duration // how long ago the same answer came first; 0: it is new
	err      error         // why there is no answer at all; then loads is empty
	loads    map[string]load
	metrics  map[string][]load // by server; further values for a script
	nameless []string          // series that name no server
	left     int               // series for no server that are not kept
	servers  map[string]string // HAProxy's when the answer came, each by its own name
}

const (
	// mostStrangers is how many series are kept that are for none of HAProxy's
	// servers: to tell of them, and for servers that HAProxy gets meanwhile.
	mostStrangers = 300
	// mostMetrics is how many further values a server may have.
	mostMetrics = 100
)

var (
	errManyMetrics = fmt.Errorf("the answer has more than %d further values for this server: narrow the target", mostMetrics)
	errLeft        = fmt.Errorf("HAProxy has this server only since the answer came, and that had more than %d series for no server: the next pass has its load", mostStrangers)
)

// newPicture keeps of an answer what the planes need; servers are those that
// HAProxy is known to have. Nothing of the answer itself is kept.
func newPicture(answer *graphite.Answer, err error, received time.Time, b *config.Backend, servers []string) *picture {
	p := &picture{received: received, err: err}
	if err != nil {
		return p
	}
	p.skew, p.repeated = answer.ClockSkew, answer.Repeated
	p.loads, p.metrics = make(map[string]load, len(servers)), make(map[string][]load)
	p.servers = make(map[string]string, len(servers))
	for _, name := range servers {
		p.servers[name] = name
	}
	var strangers []load
	for _, l := range readLoads(answer, b) {
		if name, ok := p.servers[l.server]; ok && len(l.metric) <= mostName {
			l.server = name
			p.keep(l, mostWords)
		} else {
			strangers = append(strangers, l)
		}
	}
	p.keepStrangers(strangers)
	for server, all := range p.metrics {
		if len(all) <= mostMetrics {
			continue
		}
		delete(p.metrics, server)
		if l, ok := p.loads[server]; ok {
			l.err = errManyMetrics
			p.loads[server] = l
		}
	}
	if len(answer.Series) == 0 {
		p.err = errors.New("Graphite answered with no series at all: the target matches nothing, has a mistake in it, or the storage behind Graphite is down")
	}
	return p
}

// keepStrangers keeps the first series by name, so that they are the same ones
// in each pass.
func (p *picture) keepStrangers(all []load) {
	if len(all) > mostStrangers {
		slices.SortFunc(all, func(a, b load) int { return cmp.Compare(a.series, b.series) })
		p.left = len(all) - mostStrangers
		all = all[:mostStrangers]
	}
	for _, l := range all {
		if len(l.server) > mostName || len(l.metric) > mostName {
			l.server = ""
		}
		l.server = strings.Clone(l.server)
		p.keep(l, mostName)
	}
}

// keep puts in one series, with its name cut. What is part of a longer text is
// copied, or all of that would stay in memory.
func (p *picture) keep(l load, most int) {
	l.metric = strings.Clone(l.metric)
	if len(l.series) > most {
		l.series = clipTo(l.series, most)
		if l.err != nil {
			l.err = errors.New(l.err.Error()) // it may hold the name
		}
	}
	switch {
	case l.server == "":
		p.nameless = append(p.nameless, l.series)
	case l.metric == "":
		p.loads[l.server] = l
	case len(p.metrics[l.server]) <= mostMetrics: // one too many tells
		p.metrics[l.server] = append(p.metrics[l.server], l)
	}
}

// metricsOf gives the further values of a server that are not older than
// oldest, waited after the answer; nil when there are none.
func (p *picture) metricsOf(server string, waited, oldest time.Duration) map[string]float64 {
	var values map[string]float64
	for _, l := range p.metrics[server] {
		if l.err != nil || l.sample.Age+waited > oldest {
			continue
		}
		if values == nil {
			values = make(map[string]float64)
		}
		values[l.metric] = l.sample.Value
	}
	return values
}

// of gives the load of one server; its err is set when there is none to use.
func (p *picture) of(server string) load {
	if p.err != nil {
		return load{server: server, err: p.err}
	}
	if l, ok := p.loads[server]; ok {
		return l
	}
	if _, known := p.servers[server]; !known && p.left > 0 {
		return load{server: server, err: errLeft}
	}
	return load{server: server, err: errNoSeries}
}
