package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
)

// The words of "init"; the rules are those of words.go.

const (
	wordsInit = `Ask HAProxy for its backends and Graphite for their servers' loads, and write a
configuration with what was found, in mode observe: it sets no weight until you
say so. Neither of the two is changed, and no file is ever overwritten.

The runtime sockets are those of --socket, or else /run/haproxy/admin.sock,
/var/run/haproxy.sock and those in haproxy.cfg. What Graphite is asked for is
--target, or what is found below --find; without either of them its tree is
searched for names of servers, which finds them near the root only. Backends
that can't be weighted, or have no loads, are in the file as comments that say
why.`
	wordsInitExample = `  haproxy-weighter init --graphite http://graphite.example.com
  haproxy-weighter init --graphite http://graphite.example.com --find 'tcp-service.*' -o -
  haproxy-weighter init --graphite https://graphite.example.com --graphite-user weighter \
      --graphite-password-file graphite.password --backend ingest \
      --target 'aliasByNode(tcp-service.*.datapoints.received, 1)'`

	wordsInitNoSeries = "no names of its servers were found in Graphite"
	wordsInitFew      = "; weights are set only when half of the servers have fresh data (quorum)"
	wordsInitOthers   = "Other targets that have data for these servers:"

	wordsInitState = `
# With this, pins and freezes outlive a restart; its folder must exist.
#[state]
#file = "/var/lib/haproxy-weighter/state.json"
`

	hintInitGraphite = "for example --graphite http://graphite.example.com: the address before /render"
	hintInitOutput   = "name another file with -o FILE, or print with -o -"
	hintInitSocket   = "name the socket with --socket PATH, or another haproxy.cfg with --haproxy-cfg FILE"
)

func hintInitNext(file string) string {
	return "read it, then: haproxy-weighter check --live -f " + shellQuote(file)
}

// hintInitSockets says what to do about sockets that are of no use.
func hintInitSockets(errs []error) []string {
	hints := []string{doSocket}
	for _, err := range errs {
		switch {
		case errors.Is(err, haproxy.ErrPermission):
			hints = []string{doLevel}
		case errors.Is(err, fs.ErrPermission):
			hints = append(hints, "run this as root, or as a user in the socket's group")
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
			hints = append(hints, hintInitSocket)
		}
	}
	return slices.Compact(hints)
}

// hintInitFailed is for what Graphite could not be asked.
func hintInitFailed(f *initFlags) []string {
	hints := []string{"nothing was written; try the same with curl from this machine"}
	if f.graphite.user == "" && f.graphite.tokenFile == "" {
		hints = append(hints, "if it asks for a password: --graphite-user NAME --graphite-password-file FILE, or --graphite-token-file FILE")
	}
	return hints
}

// hintInitNothing is for a Graphite that has nothing, as far as was looked.
func hintInitNothing(f *initFlags, s *search) string {
	switch {
	case len(f.targets) > 0:
		return hintTarget
	case s.cut:
		return "Graphite has more names than were looked at: say where with --find 'PATTERN', or give a whole --target"
	}
	return "say where the loads are with --find 'PATTERN', or give a whole --target; servers may have other names there"
}

func wordsInitFewServers(n int) string {
	if n == 0 {
		return "it has backup servers only"
	}
	return "it has one server, which gets all connections whatever its weight"
}

func wordsInitLeftOut(why string) string { return "left out: " + why }

func wordsInitMatch(m *match) string {
	return wordsMatch(m.matches, m.servers)
}

func wordsInitWrote(file string, backends int) string {
	return fmt.Sprintf("wrote %s: %s, mode observe, so no weight is set", file, count(backends, "backend"))
}

// wordsInitHead begins the file.
func wordsInitHead(when time.Time, output string) string {
	if output == toStdout {
		output = "FILE"
	}
	return fmt.Sprintf(`# Written by haproxy-weighter init at %s, from what HAProxy and
# Graphite told then. To see whether it still fits, changing nothing:
#
#   haproxy-weighter check --live -f %s
#
# Every other key, with its meaning and default, is in weighter.toml(5).
`, when.UTC().Format("2006-01-02 15:04 UTC"), oneLine(shellQuote(output)))
}

func wordsInitHAProxy(name string, i haproxy.Info) string {
	return fmt.Sprintf("%s: HAProxy %s", name, i.Version)
}

func wordsInitBackend(b *initBackend) string {
	return fmt.Sprintf("balance %s, %s: %s.", b.algorithm, count(len(b.servers), "server"), some(b.servers))
}

func wordsInitData(m *match) string {
	text := wordsMatch(m.matches, m.servers)
	if m.step > 0 {
		text += fmt.Sprintf("; a point every %s", plainDuration(m.step))
	}
	if m.idle {
		text += "; every load is 0 just now, so see whether it is the right one"
	}
	text += "."
	if warnings := graphite.TargetWarnings(m.target); len(warnings) > 0 {
		text += " Look at the target: " + strings.Join(warnings, "; ") + "."
	}
	return text
}
