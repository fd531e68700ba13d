package balancer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// changesOf lists the weights to write: those that the decision wants changed
// and that are ours to change. Whatever a decision says, a server out of
// rotation is not touched, a weight of 0 is not raised, and 0 is not written.
// Pins are written whatever the verdict is.
func changesOf(d *weighting.Decision, c Control, state *haproxy.State) []haproxy.Change {
	if c.Freeze != nil {
		return nil
	}
	if d.Verdict != weighting.Write {
		return differing(pinsOf(c), state)
	}
	want := make(map[string]int, len(d.Servers))
	for i := range d.Servers {
		want[d.Servers[i].Name] = d.Servers[i].Weight
	}
	return differing(want, state)
}

// differing lists where the weights in force differ from want.
func differing(want map[string]int, state *haproxy.State) []haproxy.Change {
	var changes []haproxy.Change
	for i := range state.Servers {
		s := &state.Servers[i]
		w, ok := want[s.Name]
		if ok && rotationOf(s) == weighting.InRotation && w >= 1 && w <= 256 && w != s.Weight {
			changes = append(changes, haproxy.Change{Server: s.Name, Weight: w})
		}
	}
	return changes
}

// apply sends the changes of a pass and returns the state that they left, and
// how many HAProxy took. When HAProxy reloads between the read and the write,
// the new worker gets the whole set.
func (p *plane) apply(ctx context.Context, state *haproxy.State, changes []haproxy.Change) (*haproxy.State, int, error) {
	after, written, err := p.send(ctx, state, changes)
	if err != nil || after.Info.Worker == p.memory.worker {
		if written > 0 {
			p.log.Info("weights written", "changes", changesText(inForce(changes, after), state), "count", written)
		}
		return after, written, err
	}
	p.tellRaised(changes, state, after)
	for _, c := range changes {
		p.memory.belief[c.Server] = c.Weight
	}
	restored, err := p.restore(ctx, after)
	if err != nil {
		return after, written, err
	}
	p.follow(restored)
	return restored, len(changes), nil
}

// tellRaised reports the one way in which a weight of 0 can be raised: a reload
// between the read and the write, to a configuration that drains the server.
func (p *plane) tellRaised(changes []haproxy.Change, before, after *haproxy.State) {
	for _, c := range changes {
		if was, _ := before.Server(c.Server); was.InitialWeight != 0 {
			p.tellIfRaised(c.Server, c.Weight, after)
		}
	}
}

// tellUnsure is tellRaised for a write that got no answer: what it did shows in
// the new worker.
func (p *plane) tellUnsure(state *haproxy.State) {
	for _, server := range slices.Sorted(maps.Keys(p.memory.unsure)) {
		p.tellIfRaised(server, p.memory.unsure[server], state)
	}
}

func (p *plane) tellIfRaised(server string, weight int, now *haproxy.State) {
	is, ok := now.Server(server)
	if !ok || is.InitialWeight != 0 || is.Weight != weight {
		return
	}
	p.log.Warn("a server with weight 0 in the new configuration got a weight: HAProxy reloaded in the middle of a pass",
		"server", server, "weight", weight,
		"do", "drain it again: set server "+p.backend.Name+"/"+server+" weight 0")
}

// restore puts the weights that the last worker had into force in a new one:
// those of servers that are still there, in rotation and not at weight 0, unless
// they are too old. It fails only when HAProxy can't be talked to; then it is
// tried again.
func (p *plane) restore(ctx context.Context, state *haproxy.State) (*haproxy.State, error) {
	p.memory.readOnly = false // the configuration may be another one
	p.tellUnsure(state)
	p.faults.end(FaultStatic)
	var undrained []string
	for i := range state.Servers {
		s := &state.Servers[i]
		if ours, ok := p.memory.belief[s.Name]; ok && ours == 0 && rotationOf(s) == weighting.InRotation {
			undrained = append(undrained, s.Name)
		}
	}
	from := p.limited(p.putBack())
	changes, written := differing(from, state), 0
	old := p.memory.worker
	if p.write && len(changes) > 0 {
		after, n, err := p.send(ctx, state, changes)
		if err != nil && !final(err) {
			return nil, err
		}
		if after.Info.Worker != state.Info.Worker {
			return nil, reloadedAgain(state, after)
		}
		state, written = after, n
	}
	p.log.Info("HAProxy has a new worker (reload or restart)", "old_worker", old.PID, "worker", state.Info.Worker.PID,
		"weights_put_back", written, "differing", len(changes))
	if len(undrained) > 0 {
		p.log.Warn("servers that were at weight 0 take connections again, since the reload has set their initial weights",
			"servers", strings.Join(undrained, " "), "do", "drain them again if they must stay out (set server BACKEND/SERVER state drain)")
	}
	p.memory.adopt(state, p.now())
	p.memory.comeback.expect(from, state, p.now())
	return state, nil
}

// putBack are the weights that a new worker is to get. Weights of long ago, from
// before a long outage or before the backend was taken out of haproxy.cfg, say
// nothing of today's loads: the configuration's are better, until a pass, which is
// asked for, has others. Those that an operator has frozen are meant to come back.
func (p *plane) putBack() map[string]int {
	age := p.now().Sub(p.memory.stood)
	if !p.outdated(age) {
		return p.memory.comeback.with(p.memory.belief)
	}
	p.log.Info("the weights from before are too old to be put back", "age", age.Round(time.Second).String(),
		"limit", p.remember.String(), "meanwhile", "those of haproxy.cfg count until a pass sets others")
	p.wake()
	return nil
}

// outdated tells whether weights of such an age are not put back any more.
func (p *plane) outdated(age time.Duration) bool { return age > p.remember && p.control.Freeze == nil }

// limited brings weights to be put back within today's limits, which may not be
// those that they were worked out with, or not have been ours to work out. What an
// operator has pinned or frozen stays as it is.
func (p *plane) limited(weights map[string]int) map[string]int {
	if p.control.Freeze != nil {
		return weights
	}
	all := make(map[string]int, len(weights))
	for server, w := range weights {
		if _, pinned := p.control.Pins[server]; !pinned && w > 0 {
			w = min(max(w, p.backend.Weighting.MinWeight), p.backend.Weighting.MaxWeight)
		}
		all[server] = w
	}
	return all
}

func reloadedAgain(state, after *haproxy.State) error {
	return fmt.Errorf("HAProxy reloaded again while its weights were put back (worker %d, then %d)", state.Info.Worker.PID, after.Info.Worker.PID)
}

// writeLimit bounds a write of n lines whose client has lost its own deadline.
func writeLimit(n int) time.Duration { return 10*time.Second + time.Duration(n)*2*time.Second }

// send writes changes and says what state they left. The error is only for a
// HAProxy that could not be talked to; what it refused is told as a fault.
func (p *plane) send(ctx context.Context, state *haproxy.State, changes []haproxy.Change) (*haproxy.State, int, error) {
	per, lines := state.ChangesPerLine(), 1
	if per > 0 {
		lines += len(changes) / per
	}
	ctxWrite, cancel := context.WithTimeout(ctx, writeLimit(lines))
	outcome, err := p.data.SetWeights(ctxWrite, p.backend.Name, changes, per)
	cancel()
	if ctx.Err() != nil {
		p.doubt(changes) // who goes on after a reload of our configuration must know
		return state, 0, ctx.Err()
	}
	if err == nil && (outcome == nil || outcome.After == nil) {
		err = errors.New("HAProxy took the weights, and they could not be read back")
	}
	written := 0
	if outcome != nil {
		written = outcome.Applied
	}
	after := state
	if err != nil {
		after, written, err = p.afterLoss(ctx, state, changes, written, err)
	} else {
		after = withSessions(outcome.Info, outcome.After, state)
		p.faults.set("write", p.compare(changes, outcome, after.Algorithm), writeWords)
	}
	if written > 0 {
		p.memory.lastChange = p.now()
	}
	return after, written, err
}

var writeWords = wording{
	what:      "weights are not all as they were set",
	over:      "weights are as they were set",
	meanwhile: "the table shows the weights that are in force (applied_weight); the rest is tried again at the next pass",
	do:        "see the cause: it has HAProxy's own words",
}

// afterLoss finds out what is in force after a write that got no whole answer.
func (p *plane) afterLoss(ctx context.Context, state *haproxy.State, changes []haproxy.Change, written int, lost error) (*haproxy.State, int, error) {
	p.doubt(changes)
	p.faults.begin("write", lost.Error(), writeWords)
	ctxRead, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	after, err := p.data.State(ctxRead, p.backend.Name)
	if err != nil || after.Info.Worker != state.Info.Worker {
		return state, written, lost // the last state that is known to be true
	}
	return after, len(changes) - len(missing(changes, after)), lost
}

// doubt notes weights that may or may not have come into force.
func (p *plane) doubt(changes []haproxy.Change) {
	p.memory.unsure = make(map[string]int, len(changes))
	for _, c := range changes {
		p.memory.unsure[c.Server] = c.Weight
	}
}

// inForce lists the changes that have come into force; all of them when that
// is not known.
func inForce(changes []haproxy.Change, after *haproxy.State) []haproxy.Change {
	left := missing(changes, after)
	if len(left) == len(changes) {
		return changes
	}
	return slices.DeleteFunc(slices.Clone(changes), func(c haproxy.Change) bool { return slices.Contains(left, c) })
}

// missing lists the changes that are not in force.
func missing(changes []haproxy.Change, state *haproxy.State) []haproxy.Change {
	now := weightsOf(state.Servers)
	var left []haproxy.Change
	for _, c := range changes {
		if now[c.Server] != c.Weight {
			left = append(left, c)
		}
	}
	return left
}

// compare checks what a batch left against what was sent; nil when all is in force.
func (p *plane) compare(changes []haproxy.Change, outcome *haproxy.Outcome, algorithm string) error {
	wrong := make(map[string][]string) // what went wrong -> servers
	static := false
	for _, name := range slices.Sorted(maps.Keys(outcome.Failed)) {
		err := outcome.Failed[name]
		switch {
		case errors.Is(err, haproxy.ErrStaticAlgorithm):
			static = true
		case errors.Is(err, haproxy.ErrNoServer):
			p.log.Info("a server is gone from HAProxy's configuration; the servers are read again at the next pass", "server", name)
		case errors.Is(err, haproxy.ErrTakenOut):
			p.log.Info("a server has been taken out while weights were written, and is left alone", "server", name)
		default:
			wrong[err.Error()] = append(wrong[err.Error()], name)
		}
	}
	if static {
		p.refuse(algorithm)
	}
	now := weightsOf(outcome.After.Servers)
	for _, c := range changes {
		found, there := now[c.Server]
		if outcome.Failed[c.Server] == nil && there && found != c.Weight {
			text := fmt.Sprintf("%d was set, %d is in force", c.Weight, found)
			wrong[text] = append(wrong[text], c.Server)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	var texts []string
	for _, text := range slices.Sorted(maps.Keys(wrong)) {
		texts = append(texts, cut(wrong[text])+": "+text)
	}
	return errors.New(cut(texts))
}

// refuse marks the plane read-only: its balance algorithm takes no weights.
func (p *plane) refuse(algorithm string) {
	p.memory.readOnly = true
	if algorithm == "" {
		algorithm = "this algorithm"
	}
	p.faults.begin(FaultStatic, "balance "+algorithm+" is static here and takes no other weight than 0 and the initial one", wording{
		what:      "HAProxy refuses weights",
		over:      "HAProxy's configuration has changed; weights are tried again",
		meanwhile: "weights are worked out and not set; HAProxy keeps the initial ones",
		do:        "add hash-type consistent to the backend in haproxy.cfg, or use balance roundrobin instead of static-rr, and reload HAProxy",
	})
}

// withSessions adds to a state that was read back what only the full read
// before it has.
func withSessions(info haproxy.Info, after, before *haproxy.State) *haproxy.State {
	filled := *after
	filled.Servers = slices.Clone(after.Servers)
	if filled.Info.Worker == (haproxy.Worker{}) {
		filled.Info = info
	}
	if filled.Algorithm == "" {
		filled.Algorithm = before.Algorithm
	}
	old := make(map[string]*haproxy.Server, len(before.Servers))
	for i := range before.Servers {
		old[before.Servers[i].Name] = &before.Servers[i]
	}
	for i := range filled.Servers {
		s := &filled.Servers[i]
		if b, ok := old[s.Name]; ok {
			s.Sessions, s.TotalSessions = b.Sessions, b.TotalSessions
			s.Backup, s.Throttled, s.Agent = b.Backup, b.Throttled, b.Agent
		}
	}
	return &filled
}

// changesText lists changes for a log line; beyond 20 it is cut.
func changesText(changes []haproxy.Change, state *haproxy.State) string {
	const most = 20
	before := weightsOf(state.Servers)
	var b strings.Builder
	for i, c := range changes {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(changes)-most)
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%d->%d", c.Server, before[c.Server], c.Weight)
	}
	return b.String()
}
