package report

import (
	"log/slog"
	"strings"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

// names makes the names of one report. They depend on the configuration and on
// HAProxy's servers alone, not on the order in which things were seen.
type names struct {
	prefix    string
	sockets   map[string]string // socket -> what is appended to the prefix
	backends  map[string]string // backend -> component
	taken     []collision
	collected map[collision]bool // what is in taken
}

// collision is one text whose component is another's already.
type collision struct {
	where string // "backend", "socket", or "server of backend b"
	name  string
	other string // who has the component
	as    string // what it is called instead
}

func newNames(prefix string, s *Source) *names {
	n := &names{prefix: prefix, collected: make(map[collision]bool)}
	labels := make([]string, 0, len(s.Sockets))
	for _, socket := range s.Sockets {
		labels = append(labels, socketLabel(socket))
	}
	n.sockets = make(map[string]string, len(s.Sockets))
	for i, component := range n.distinct("socket", labels) {
		if i > 0 { // the first is plain, so that a second one renames nothing
			n.sockets[s.Sockets[i]] = "-" + component
		}
	}
	n.backends = make(map[string]string, len(s.Backends))
	for i, component := range n.distinct("backend", s.Backends) {
		n.backends[s.Backends[i]] = component
	}
	return n
}

// socketLabel shortens the printed form of a socket: "unix:/run/haproxy/b.sock"
// is run/haproxy/b.
func socketLabel(socket string) string {
	s := strings.TrimPrefix(socket, "unix:")
	return strings.TrimSuffix(strings.TrimPrefix(s, "/"), ".sock")
}

// backend is what all names of a table begin with.
func (n *names) backend(t *balancer.Table) string {
	component, ok := n.backends[t.Backend]
	if !ok { // between two configurations
		component = graphite.CarbonComponent(t.Backend)
	}
	return n.prefix + n.sockets[t.Socket] + "." + component
}

// servers gives the component of each row.
func (n *names) servers(t *balancer.Table) []string {
	texts := make([]string, len(t.Rows))
	for i := range t.Rows {
		texts[i] = t.Rows[i].Server
	}
	return n.distinct("server of backend "+t.Backend, texts)
}

// distinct makes a component of each text, no two alike. Of texts that would
// share one, it goes to the text that is that component as it stands, or else to
// the first in the alphabet; each other gets a hash of its own behind it.
func (n *names) distinct(where string, texts []string) []string {
	owner := make(map[string]string, len(texts)) // component -> text
	components := make([]string, len(texts))
	for i, text := range texts {
		c := graphite.CarbonComponent(text)
		components[i] = c
		if has, ok := owner[c]; !ok || has != c && (text == c || text < has) {
			owner[c] = text
		}
	}
	for i, text := range texts {
		if other := owner[components[i]]; other != text {
			c := collision{where: where, name: text, other: other, as: graphite.CarbonHashed(components[i], text)}
			components[i] = c.as
			n.note(c)
		}
	}
	return components
}

// note remembers a collision; with several sockets, a server has one for each.
func (n *names) note(c collision) {
	if !n.collected[c] {
		n.collected[c] = true
		n.taken = append(n.taken, c)
	}
}

// collisions are those that have been told.
type collisions map[collision]bool

// tell logs each collision once, as long as it lasts.
func (told *collisions) tell(log *slog.Logger, now []collision) {
	current := make(map[collision]bool, len(now))
	for _, c := range now {
		current[c] = true
		if !(*told)[c] {
			tellCollision(log, c)
		}
	}
	*told = current
}
