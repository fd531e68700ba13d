package cli

import (
	"fmt"

	haproxyconf "github.com/haproxy-weighter/haproxy-weighter/haproxy-conf"
	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
)

// The words of "haproxy-conf"; the rules are those of words.go.

const (
	wordsHAProxyConf = `Print a haproxy.cfg and a file for its SPOE filter, or its maps, that use
what this program tells: a server drawn for each connection, loads to route on.
Backends, runtime socket and agent are those of the configuration; the first one,
or two, of its backends unless they are named. Server lines, addresses to bind
and limits are to be edited. NAME is one of --list; without it tcp-pick.`
	wordsHAProxyConfExample = `  haproxy-weighter haproxy-conf --list
  haproxy-weighter haproxy-conf choose ingest ingest-spare
  haproxy-weighter haproxy-conf tcp-pick --write ./conf && haproxy -c -f ./conf/haproxy.cfg`

	hintOtherDir = "name another folder with --write, or print with no --write"
)

func hintExamples(given string) string {
	var names []string
	for _, e := range haproxyconf.Examples() {
		names = append(names, e.Name)
	}
	return api.NearNames(given, names, "examples")
}

func hintGenericNames(file string) string {
	return fmt.Sprintf("there is no %s, so names and addresses are examples; name a configuration with -f FILE", file)
}

func hintSpare(file, backend string) string {
	return fmt.Sprintf("%s has one backend, and two are needed: add a [[backend]] with name = %q", file, backend)
}

func hintSPOA(file, address string) string {
	return fmt.Sprintf("HAProxy would find nobody to ask: add listen = [%q] under [spoa] to %s", address, file)
}

func hintMaps(backend, load, weight string) string {
	return fmt.Sprintf("the maps would stay empty: give backend %s maps = { load = %q, weight = %q }", backend, load, weight)
}

func hintMapPath(path string) string {
	return "HAProxy does not start without " + path + ", which may be empty"
}

func hintTryConf(file string) string {
	return "edit server lines, binds and limits, then try: haproxy -c -f " + file
}
