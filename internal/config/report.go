package config

import (
	"crypto/tls"
	"slices"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
)

// Report is the table [report]: own metrics back into Graphite.
type Report struct {
	Carbon   []graphite.CarbonAddress // each gets everything; empty = nothing is reported
	Prefix   string                   // may have HostPlace in it
	Interval time.Duration            // whole seconds
	TLS      *tls.Config              // for the addresses with TLS; nil = the system's authorities
}

// HostPlace is what Report.Prefix has where the name of this machine belongs.
const HostPlace = "{host}"

func readReport(t *table) Report {
	r := Report{
		Carbon:   t.carbons("carbon"),
		Prefix:   t.prefix("prefix", "haproxy_weighter."+HostPlace),
		Interval: t.seconds("interval", time.Minute, time.Second, time.Hour),
		TLS:      t.tls(),
	}
	if !t.given("carbon") {
		for _, key := range []string{"prefix", "interval", "ca_file", "cert_file", "key_file"} {
			if t.given(key) && t.sound(key) {
				t.wrong(key, "has no use without report.carbon; add that, or remove it")
			}
		}
		return r
	}
	if !slices.ContainsFunc(r.Carbon, func(a graphite.CarbonAddress) bool { return a.TLS }) && t.sound("carbon") {
		for _, key := range []string{"ca_file", "cert_file", "key_file"} {
			if t.given(key) {
				t.wrong(key, "has no use, because no address of report.carbon begins with tls://; allowed: with tls:// only")
			}
		}
	}
	return r
}

// carbons reads one address or a list of them, none twice.
func (t *table) carbons(key string) []graphite.CarbonAddress {
	const allowed = "an address or a list of them, each " + graphite.CarbonAddressForms
	var written []element
	if _, single := t.values[key].(string); single {
		if v, ok := t.text(key, allowed); ok {
			written = append(written, element{v, joinPath(t.path, key), joinPath(t.name, key)})
		}
	} else {
		written = t.texts(key, allowed)
	}
	var all []graphite.CarbonAddress
	for _, e := range written {
		a, err := graphite.ParseCarbonAddress(e.value)
		switch {
		case err != nil && e.value != e.written:
			t.mistake(e.path, e.name, "%q is no address of a carbon with its environment variables filled in; allowed: %s", e.written, graphite.CarbonAddressForms)
		case err != nil:
			t.mistake(e.path, e.name, "%q: %v; allowed: %s", e.written, err, graphite.CarbonAddressForms)
		case slices.Contains(all, a):
			t.mistake(e.path, e.name, "%q is in the list twice; allowed: each address once", e.written)
		default:
			all = append(all, a)
		}
	}
	return all
}

// mostPrefix leaves room for backend and server in a name.
const mostPrefix = 200

// prefix reads what the names of all series begin with.
func (t *table) prefix(key, fallback string) string {
	const allowed = "letters, digits, _ and - with dots between them, and " + HostPlace + " for the name of this machine"
	v, ok := t.text(key, allowed)
	if !ok {
		return fallback
	}
	filled := strings.ReplaceAll(v.value, HostPlace, "host")
	err := graphite.CheckCarbonName(filled)
	switch {
	case v.value == "":
		t.wrong(key, "is empty; allowed: %s", allowed)
	case len(filled) > mostPrefix:
		t.wrong(key, "%q is longer than %d bytes; allowed: %s", v.written, mostPrefix, allowed)
	case err != nil:
		t.wrong(key, "%q can't begin the names of series: %v; allowed: %s", v.written, err, allowed)
	default:
		return v.value
	}
	return fallback
}
