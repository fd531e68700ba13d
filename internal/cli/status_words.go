package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

// Words of "status". words.go has the rules for them.

const wordsStatus = `Show whether all is well, what is wrong with its cause and what to do, and for
each backend what its last pass did; with BACKEND its servers too. Exit code 0
whenever the daemon answers, 3 when it does not. With --check it is 1 when there
is a fault, a reload has failed, weights are held (by anything but a freeze), a
backend is on no HAProxy, or the daemon is not ready yet.`

const wordsStarting = "starting: not every backend has had its first good pass"

func wordsNotWell(wrong []string) string { return "something is wrong: " + strings.Join(wrong, "; ") }

func wordsAllWell(s *api.Status) string {
	servers := map[string]bool{}
	worst, where := 0.0, ""
	for i := range s.Backends {
		for j := range s.Backends[i].Tables {
			t := &s.Backends[i].Tables[j]
			for k := range t.Servers {
				servers[t.Backend+"/"+t.Servers[k].Server] = true
			}
			if t.Imbalance > worst {
				worst, where = t.Imbalance, t.Backend
			}
		}
	}
	text := fmt.Sprintf("all is well: %s, %s", count(len(s.Backends), "backend"), count(len(servers), "server"))
	if where != "" {
		text += fmt.Sprintf("; highest load %.2f times the mean (%s)", worst, where)
	}
	return text
}

func wordsDaemon(s *api.Status, now time.Time) string {
	text := fmt.Sprintf("haproxy-weighter %s, process %d, up %s (since %s)", s.Version, s.PID, api.Span(now.Sub(s.Started)), api.At(s.Started))
	if !s.Ready {
		text += ", not ready: not every backend has had a good pass yet"
	}
	return text
}

func wordsConfigInForce(c *api.Config, now time.Time) string {
	return fmt.Sprintf("configuration %s, loaded %s (%s)", c.File, ago(c.Loaded, now), api.At(c.Loaded))
}

func wordsRestartKeys(keys []string) string {
	return "changed in the file, and in force only after a restart: " + strings.Join(keys, ", ")
}

func wordsTrouble(t *api.Trouble, now time.Time) string {
	where := t.Where()
	if where != "" {
		where += ", "
	}
	return fmt.Sprintf("%s (%sfor %s)", t.What, where, api.Span(now.Sub(t.Since)))
}

// wordsTableHead is the line over the servers of one table.
func wordsTableHead(t *api.Table) string {
	head := fmt.Sprintf("backend %s on %s", t.Backend, t.Socket)
	if t.Algorithm != "" {
		head += ": balance " + t.Algorithm
	}
	return head
}

func wordsExplainHint(command string) string { return "how a weight came about: " + command }

// wordsLoopOf is wordsLoop of a table in its JSON form.
func wordsLoopOf(t *api.Table) string {
	return wordsLoop(&balancer.Table{
		Gain: t.Gain, LoopGain: t.LoopGain, LifetimeFrom: t.LifetimeFrom,
		Lifetime: time.Duration(t.LifetimeSeconds * float64(time.Second)),
		Delay:    time.Duration(t.DelaySeconds * float64(time.Second)),
	})
}
