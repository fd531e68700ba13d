package main

import (
	"context"
	"net/http"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/faults/front"
)

// Log messages of the daemon.
var (
	noLoads    = told{begin: "no loads from Graphite", end: "loads from Graphite are back"}
	held       = told{begin: "weights are held", end: "weights are no longer held"}
	unusable   = told{begin: "servers without usable load", end: "servers have usable load again", parts: true, most: 4}
	clocks     = told{begin: "clocks differ", end: "clocks agree again"}
	repeated   = told{begin: "Graphite's answer is an old one", end: "Graphite's answers are new again"}
	noHAProxy  = told{begin: "HAProxy can't be read", end: "HAProxy can be read again"}
	noSocket   = told{begin: "HAProxy's socket does not answer", end: "HAProxy's socket answers again"}
	badWrite   = told{begin: "weights are not all as they were set", end: "weights are as they were set"}
	stranger   = told{begin: "somebody else has set weights", end: "nobody else sets weights any more"}
	noBackend  = told{begin: "backend not found", end: "backend found"}
	static     = told{begin: "HAProxy refuses weights", end: "HAProxy's configuration has changed; weights are tried again"}
	noState    = told{begin: "the state file can't be written", end: "the state file is written again"}
	badState   = told{begin: "the state file can't be used"}
	peerClosed = told{begin: "SPOE connection closed because of its peer"}
	badReload  = told{begin: "the configuration was not reloaded"}
	noCarbon   = told{begin: "the report does not reach carbon", end: "the report reaches carbon again"}
)

// maybe is a message that comes or not, by the moment.
func maybe(t told) told { t.none = true; return t }

// upTo is a message that comes once to n times.
func upTo(n int, t told) told { t.most = n; return t }

// answering is a row in which Graphite answers in some way, until it is well again.
func answering(a front.Answer, r row) row {
	r.part = "Graphite"
	a.Name = r.name
	r.begin = func(s *scene, _ context.Context) error { s.graphite.Answer(a); return nil }
	r.end = func(s *scene, _ context.Context) error { s.graphite.Answer(front.Answer{}); return nil }
	if r.holds == "" {
		r.holds = "weights stay"
	}
	return r
}

// raw is a row in which Graphite does not render at all.
func rawly(h http.HandlerFunc, r row) row {
	if r.told == nil {
		r.told = []told{noLoads}
	}
	return answering(front.Answer{Raw: h}, r)
}

// graphiteRows are the faults of Graphite.
func graphiteRows() []row {
	return []row{
		{
			part: "Graphite", name: "graphite-refuses", fault: "refuses connections", holds: "weights stay", told: []told{noLoads},
			begin: func(s *scene, _ context.Context) error { s.graphite.Refuse(); return nil },
			end:   func(s *scene, _ context.Context) error { return s.graphite.Accept() },
		},
		rawly(front.Hang, row{name: "graphite-hangs", fault: "takes requests and never answers", lasts: 30 * time.Second}),
		rawly(front.Status(500, "text/plain", "storage is down"), row{name: "graphite-500", fault: "answers 500"}),
		rawly(front.Status(200, "text/html", "<html>please log in</html>"), row{name: "graphite-html", fault: "answers 200 with a login page"}),
		rawly(front.Status(200, "application/json", "[]"), row{name: "graphite-empty", fault: "answers `[]`"}),
		rawly(front.Status(200, "application/json", `[{"target":"s1","datapoints":[[4`), row{name: "graphite-torn", fault: "answers half a JSON"}),
		rawly(front.Status(302, "text/html", "", "Location", "http://127.0.0.1:1/login"), row{name: "graphite-redirects", fault: "redirects"}),
		rawly(front.Huge(1<<30), row{name: "graphite-1GB", fault: "answers with 1 GB", plan: plan{plain: true}}),
		rawly(front.Bomb(1024), row{name: "graphite-bomb", fault: "answers with 1 MB of gzip that unpacks to 1 GB", plan: plan{plain: true}}),
		rawly(front.Drip, row{name: "graphite-drips", fault: "sends a byte every 50 ms", lasts: 30 * time.Second}),
		rawly(front.Status(429, "text/plain", "slow down", "Retry-After", "2"), row{name: "graphite-429", fault: "answers 429 with Retry-After"}),
		answering(front.Answer{Without: []string{"s1", "s2", "s3", "s5"}}, row{
			name: "graphite-most-missing", fault: "has series for one server of four", told: []told{held, unusable},
		}),
		answering(front.Answer{Without: []string{"s3", "s4"}}, row{
			name: "graphite-half-missing", fault: "has series for half the servers (just the quorum)", moves: true,
			holds: "those with data are weighted, the others keep their weights", told: []told{unusable},
			during: weights{"s3": 200, "s4": 200},
		}),
		answering(front.Answer{Without: []string{"s2"}}, row{
			name: "graphite-one-missing", fault: "has no series for one server", moves: true, told: []told{unusable},
			holds: "that server keeps its share, the others are weighted", during: weights{"s1": 200, "s2": 124, "s3": 128, "s4": 64},
		}),
		answering(front.Answer{All: "NaN"}, row{name: "graphite-nan", fault: "answers NaN for all", told: []told{held, unusable}}),
		answering(front.Answer{All: "null"}, row{name: "graphite-null", fault: "answers null for all", told: []told{held, unusable}}),
		answering(front.Answer{All: "-5"}, row{name: "graphite-negative", fault: "answers negative loads", told: []told{held, unusable}}),
		answering(front.Answer{All: "1e308"}, row{name: "graphite-vast", fault: "answers 1e308 for all", told: []told{held, unusable}}),
		answering(front.Answer{All: "0"}, row{name: "graphite-zeros", fault: "answers 0 for all", told: []told{held}}),
		answering(front.Answer{Age: time.Hour}, row{name: "graphite-hour-old", fault: "has nothing but hour-old data", told: []told{held, unusable}}),
		answering(front.Answer{Repeat: true}, row{
			name: "graphite-repeated", fault: "its last answer comes again and again, out of a cache that does not say so",
			told: []told{held, unusable, repeated}, least: maxAge + 3*interval,
		}),
		answering(front.Answer{Clock: 10 * time.Minute}, row{
			name: "graphite-clock-ahead", fault: "its clock is 10 min ahead", moves: true, holds: "weights go on, by its clock", told: []told{clocks},
		}),
		answering(front.Answer{Clock: -10 * time.Minute}, row{
			name: "graphite-clock-behind", fault: "its clock is 10 min behind", moves: true, holds: "weights go on, by its clock", told: []told{clocks},
		}),
	}
}
