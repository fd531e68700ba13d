package cli

// This file has the words that operators read. Its rules:
//
//   - Errors and hints go to stderr, results to stdout. An error is one line,
//     begins with the program's name and then a lower case letter, and has no
//     full stop at its end. It names the thing (file, backend, socket, server).
//   - A hint says what to do, if possible as the very command or line to type.
//   - What was found and what to do about it are apart: "found" is a fact in a
//     few words, "do" is an instruction, with what it means for traffic.
//   - HAProxy's and Graphite's own words: backend, server, weight, runtime
//     socket, target, series. No word of this program's inside.
//   - Keys of weighter.toml are written as there: max_age, not "maximum age".
//   - Scripts must not need these words: --json has fixed names beside them.
//
// Sentences that are used once and hold nothing but a name may stand where
// they are used.

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// errorf is for what ended the command. Like hintf it prints one line, whatever
// the names and answers in it are made of.
func (p *Program) errorf(format string, args ...any) {
	fmt.Fprintln(p.Stderr, printable(fmt.Sprintf("haproxy-weighter: "+format, args...)))
}

// hintf is for what to do about it.
func (p *Program) hintf(format string, args ...any) {
	fmt.Fprintln(p.Stderr, printable(fmt.Sprintf("haproxy-weighter: hint: "+format, args...)))
}

// The help texts.
const (
	wordsShort = "Even out the load of the servers behind HAProxy with weights from Graphite"
	wordsLong  = `haproxy-weighter reads how loaded each server of a backend is from Graphite and
sets the weights of HAProxy so that the loads even out. Weights steer new
connections only; open ones are never touched.`
	wordsExample = `  haproxy-weighter check --live     is all in place? changes nothing
  haproxy-weighter loads ingest     what Graphite says of backend ingest
  haproxy-weighter plan ingest      the weights that would be set, and why
  haproxy-weighter run              set them, every rebalance interval
  haproxy-weighter status           what the running daemon does, and what is wrong`
	wordsRun = `Balance every backend of the configuration until SIGINT or SIGTERM. The log
goes to stderr. When it ends, the weights in force stay as they are.`
	wordsCheck = `Check the configuration. All mistakes are told at once, each with its line.
With --live also ask Graphite and every HAProxy, changing nothing: whether the
sockets let weights be set, whether the balance algorithms take them, whether
series and servers match, whether the SPOE agent's addresses are free. Exit
code 1 when any check fails.`
	wordsLoads = `Ask Graphite once and show for each series which server it is for, the value,
its time and age, or why it is not usable. Needs no HAProxy, unless the target
contains {server}. Exit code 1 when no series is usable.`
	wordsPlan = `Make one pass for a backend, or for all, and show the weights that it would set
and why; --json has every step in words. Changes nothing. Exit code 1 when
Graphite or HAProxy failed, or when no server has a usable load.`
	wordsNothingPlanned = "no server has a usable load, so there is nothing to plan"
)

// Hints.
const (
	hintFile           = "name one with -f FILE, or have one written: haproxy-weighter init --graphite URL"
	hintUnreadable     = "this user may not read it: use sudo, or join its group; commands that ask the daemon find it with --control PATH too"
	hintReference      = "every key with its range is in weighter.toml(5), which is internal/config/reference.toml in the repository"
	hintCheckLive      = "haproxy-weighter check --live tells which part is missing"
	hintSilentGraphite = "the daemon leaves the weights as they are while Graphite does not answer"
	hintBusy           = "another program listens there, perhaps another haproxy-weighter: end it, or choose another address for that key"
	hintServerTarget   = "the target contains {server}: HAProxy is asked for the names"
	hintTarget         = "try the target in Graphite's own composer; an empty answer may also be a typing mistake in a function"
	hintUnusable       = "the column reason says why; a point older than max_age is not used"
)

func hintHelp(command string) string { return "see " + command + " --help" }
func hintLoads(backend string) string {
	return "haproxy-weighter loads " + backend + " tells of each series why it is not used"
}
func hintUsage(line string) string { return "usage: " + line }
func hintDidYouMean(commands []string) string {
	return "did you mean " + strings.Join(commands, " or ") + "?"
}

// hintListen says what to do when the agent can't listen.
func hintListen(err error) []string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return []string{"another program listens there, perhaps another haproxy-weighter; end it, or change spoa.listen and the agent's server line in haproxy.cfg"}
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return []string{"this user may not listen there; use a port from 1024 on, or a folder that it may write to"}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return []string{"this machine does not have that address; use 127.0.0.1"}
	}
	return nil
}

func wordsListen(listeners []config.Listener) string {
	names := make([]string, len(listeners))
	for i, l := range listeners {
		names[i] = l.String()
	}
	return "SPOE agent on " + strings.Join(names, ", ")
}

func wordsConfigRefused(file string, mistakes int) string {
	return fmt.Sprintf("%s in %s; nothing was done", count(mistakes, "mistake"), file)
}

func wordsConfigGood(backends, sockets int) string {
	return fmt.Sprintf("good: %s, %s", count(backends, "backend"), count(sockets, "socket"))
}

func wordsCheckTotal(oks, warns, fails int) string {
	switch {
	case fails > 0:
		return fmt.Sprintf("%d failed, %d to look at, %d good", fails, warns, oks)
	case warns > 0:
		return fmt.Sprintf("none failed, %d to look at, %d good", warns, oks)
	}
	return fmt.Sprintf("all %d good", oks)
}

// What to do, by check.
const (
	doSocket = `look whether HAProxy runs and this user may open the socket: "stats socket PATH mode 660 group GROUP level admin" in section global; if nothing listens though it runs, a second HAProxy has taken the path away: restart the first one`
	doLevel  = `write "level admin" at the end of the line "stats socket" in section global, then reload HAProxy`

	doTwin = "list each HAProxy once in haproxy.sockets: two sockets of one are taken for two HAProxys, and each finds that somebody else sets its weights"

	doVersionOld     = "use HAProxy 2.4 or newer: older ones can crash when a weight is raised"
	doVersionUntried = "watch the first passes: weights are read back after each change, so a difference will be told"

	doNoServers     = "give it servers in haproxy.cfg, or remove it from this configuration"
	doNoneInService = "look at the servers' checks, maint and drain (runtime command: show servers state): as long as that lasts, there is no weight to set"
	doCapacity      = "correct the names in backend.capacity: a server that the table does not name counts 1"
	doStatic        = `use "balance roundrobin" or "balance random" in haproxy.cfg`
	doFirst         = `use "balance roundrobin" in haproxy.cfg: "first" fills one server after the other, whatever the weights`
	doHash          = `make sure that the backend has "hash-type consistent"; without it HAProxy refuses every weight but 0 and the initial one`
	doLeastconn     = `leave function out, or write function = "feedback": leastconn keeps the number of connections in the ratio of the weights, so other functions overshoot`
	doFeedback      = `leave function out, or use "water-fill": feedback is made for leastconn and is slow here`
	doInitialZero   = `a server at weight 0 counts as taken out by you and is never touched; write "weight 100" when it should take part`
	doInitialLow    = `write "weight 100" on the server lines: a server added later starts with its initial weight beside others of up to 256, and would get next to nothing until the next pass`
	doSlowstart     = "slowstart multiplies our weight while a server comes up; both together make its return slower, so one of them is enough"
	doAgentCheck    = `an agent that answers with a percentage overwrites the weight at every check; let it answer up/down only, or use "disable agent"`
	doSRV           = `HAProxy takes the weight of an SRV record at every DNS answer; write "resolve-opts ignore-weight" on the server lines`
	doGraphite      = "try the same with curl from this machine; meanwhile the daemon leaves the weights as they are"
	doClock         = "let both machines keep time by NTP; ages are counted on Graphite's clock, so weights stay right"
	doConfigWarning = "change it, or leave it as it is when you mean it"
	doListen        = "end the other program, or change spoa.listen and the agent's server line in haproxy.cfg"
	doListenFailed  = "change spoa.listen, and the agent's server line in haproxy.cfg with it"
	doListenFolder  = "create the folder, for a user that haproxy-weighter may run as, or change spoa.listen"
	doMap           = "read it in haproxy.cfg by exactly this path, create the file (it may be empty) and reload HAProxy; or take it out of backend.maps"
	doTarget        = "change the target, or keep it when you know that its servers never stop reporting"
)

func doBackend(have []string) string {
	if len(have) == 0 {
		return "HAProxy has no backends; name one with servers in haproxy.cfg"
	}
	return "backends that HAProxy has: " + some(have)
}

// doNoMatch says how one series and HAProxy's names differ; it is enough to see one.
func doNoMatch(rows []balancer.LoadRow, servers []string) string {
	for _, r := range rows {
		switch {
		case r.Series == "":
		case r.Server == "":
			return fmt.Sprintf("series %q: %s", r.Series, r.Reason)
		case len(servers) > 0 && !slices.Contains(servers, r.Server):
			return fmt.Sprintf("series %q is taken for server %q, and HAProxy's servers have names like %q: set server_regexp and server_name, or end the target with aliasByNode",
				r.Series, r.Server, servers[0])
		case !r.Usable:
			return fmt.Sprintf("series %q: %s", r.Series, r.Reason)
		}
	}
	return hintTarget
}

func doQuorum(quorum float64) string {
	return fmt.Sprintf("with fewer than quorum = %g of the servers nothing is ever changed; find out why their series are missing", quorum)
}

// doPartly is for series and servers of which some have no counterpart.
func doPartly(backend string, m matches) string {
	do := "haproxy-weighter loads " + backend + " shows each of them"
	if len(m.unusable)+len(m.without) > 0 {
		do += "; a server without data counts as average after a while"
	}
	if len(m.strangers) > 0 {
		do += "; a series for no server is left out: if it should be a server's, see server_regexp and the names in haproxy.cfg"
	}
	return do
}

func wordsWorker(i haproxy.Info) string {
	if i.Stopping {
		return fmt.Sprintf("process %d answers, but it is stopping", i.Worker.PID)
	}
	return fmt.Sprintf("answers: process %d, up %s", i.Worker.PID, i.Uptime.Round(time.Second))
}

func wordsServers(s *haproxy.State) string {
	running := 0
	for _, v := range s.Servers {
		if v.Op == haproxy.OpRunning && v.Admin&(haproxy.ForcedMaint|haproxy.InheritedMaint|haproxy.ConfigMaint|haproxy.ResolutionMaint) == 0 {
			running++
		}
	}
	return fmt.Sprintf("%s, %d running", count(len(s.Servers), "server"), running)
}

// The places of a listener, as "check --live" finds them.
const (
	wordsListenFree  = "free: the SPOE agent can listen here"
	wordsListenAgent = "an SPOE agent answers: haproxy-weighter runs already"
	wordsListenOther = "something else listens here, and it does not speak SPOE"
)

func wordsClock(skew time.Duration) string {
	if skew > 0 {
		return fmt.Sprintf("ours is %s ahead of Graphite's", skew.Round(time.Second))
	}
	return fmt.Sprintf("ours is %s behind Graphite's", (-skew).Round(time.Second))
}

func wordsMatch(m matches, servers int) string {
	parts := []string{fmt.Sprintf("%d of %s with fresh data", len(m.matched), count(servers, "server"))}
	for _, part := range []struct {
		names []string
		words string
	}{
		{m.unusable, "without usable data"},
		{m.without, "without a series"},
		{m.strangers, "series for no server of HAProxy's"},
	} {
		if len(part.names) > 0 {
			parts = append(parts, fmt.Sprintf("%d %s (%s)", len(part.names), part.words, some(part.names)))
		}
	}
	return strings.Join(parts, "; ")
}

func wordsStep(maxAge, step time.Duration) string {
	return fmt.Sprintf("%s, with data every %s", maxAge, step)
}

func wordsMaxAge(maxAge, step, least time.Duration) string {
	return fmt.Sprintf("%s is short for data every %s: good data will look stale at times", maxAge, step)
}

func doMaxAge(least time.Duration) string {
	return fmt.Sprintf("max_age = %q or more: two steps and the delay of the data", least.Round(time.Second))
}

func wordsWindow(window, step, maxAge time.Duration) string {
	return fmt.Sprintf("%s is short for data every %s and max_age %s", window, step, maxAge)
}

func doWindow(good time.Duration) string {
	return fmt.Sprintf("window = %q: points before the window are never seen", good.Round(time.Second))
}

// factAndAdvice parts a warning about a target: what it says up to its first
// colon or full stop is the fact.
func factAndAdvice(warning string) (found, do string) {
	cut := len(warning)
	for _, mark := range []string{": ", ". "} {
		if i := strings.Index(warning, mark); i >= 0 {
			cut = min(cut, i)
		}
	}
	if cut == len(warning) {
		return warning, doTarget
	}
	return warning[:cut], warning[cut+len(": "):]
}

// wordsPlanHead is the line over a plan's table.
func wordsPlanHead(t *balancer.Table) string {
	head := fmt.Sprintf("backend %s on %s", t.Backend, t.Socket)
	if t.Algorithm != "" {
		head += fmt.Sprintf(": balance %s, function %s", t.Algorithm, t.Function)
	}
	if t.Mode == "observe" {
		head += ", mode observe in the file: nothing is set"
	}
	return head
}

// wordsVerdict is the line under it.
func wordsVerdict(t *balancer.Table) string {
	if t.Fault != "" {
		return "fault: " + t.Fault
	}
	line := map[weighting.Verdict]string{
		weighting.Write: "would set new weights",
		weighting.Keep:  "would change nothing",
		weighting.Hold:  "would leave the weights as they are",
	}[t.Verdict]
	if t.Why != "" {
		line += ": " + t.Why
	}
	if t.Imbalance > 0 {
		line += fmt.Sprintf(" (load max/mean %.2f, %d of %d servers with fresh data)", t.Imbalance, t.Fresh, t.InService)
	}
	return line
}

// wordsLoop tells what made the loop as fast or slow as it is; empty when the
// pass did not get so far.
func wordsLoop(t *balancer.Table) string {
	if t.Gain <= 0 {
		return ""
	}
	lifetime := t.Lifetime.Round(time.Second).String()
	switch {
	case t.LifetimeFrom == "sessions":
		lifetime += " (from the ages of open sessions)"
	case t.LifetimeFrom == "little":
		lifetime += " (from open sessions and arrivals)"
	case t.Lifetime > 0:
		lifetime += " (assumed while nothing is known)"
	default:
		lifetime = "not known yet"
	}
	text := fmt.Sprintf("mean connection lifetime %s, delay %s, gain %.3g", lifetime, t.Delay.Round(time.Second), t.Gain)
	if t.LoopGain > 0 {
		text += fmt.Sprintf(", gain * delay / lifetime %.2g", t.LoopGain)
	}
	return text
}

// count is "1 server", "2 servers".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// some lists the first few names.
func some(names []string) string {
	const shown = 5
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}
