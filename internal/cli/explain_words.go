package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// Words of "explain". words.go has the rules for them.

const (
	wordsExplain = `Show how the weight of a server came about in the last pass: the data point with
its stamp and age, load, capacity, the function with its numbers, each limit,
and the weight. Every step can be worked out by hand from the numbers of the
line; with --others also those that all servers share. One part for each HAProxy
that has the backend.

--json prints the tables as "plan" does, with this one server (all of them with
--others).`
	hintStatus = "haproxy-weighter status tells what is wrong"
)

func wordsExplainHead(t *api.Table, r *api.Server) string {
	return fmt.Sprintf("%s/%s on %s: weight %d in force", t.Backend, r.Server, t.Socket, r.AppliedWeight)
}

// wordsNoLoad says why there is no value.
func wordsNoLoad(r *api.Server) string {
	for _, name := range []string{weighting.StepMissing, weighting.StepRotation} {
		if s := step(r, name); s != nil && s.Text != "" {
			return "none: " + s.Text
		}
	}
	return "none"
}

// wordsEarlier says that the value is not of the last pass, and why that has none.
func wordsEarlier(t *api.Table, r *api.Server) string {
	if !r.Earlier {
		return ""
	}
	text := "an earlier answer of Graphite: it stays for SPOE, maps and Lua until it is older than max_age; no weight comes of it"
	if s := step(r, weighting.StepMissing); s != nil && t.HoldCode != balancer.HoldUnread && t.HoldCode != balancer.HoldStarting {
		text += ". The last pass had none: " + s.Text
	}
	return text
}

func wordsAggregate(t *api.Table, r *api.Server) string {
	window := time.Duration(t.WindowSeconds * float64(time.Second))
	if r.Points == 1 {
		return fmt.Sprintf("%s, of 1 data point in a window of %s", t.Aggregate, api.Span(window))
	}
	return fmt.Sprintf("%s, of %d data points in a window of %s", t.Aggregate, r.Points, api.Span(window))
}

func wordsTimestamp(unix int64) string {
	return fmt.Sprintf("%s (%d), by Graphite's clock", api.At(time.Unix(unix, 0)), unix)
}

func wordsAge(seconds float64, t *api.Table, now time.Time) string {
	text := fmt.Sprintf("%s at the pass, %s now", spanOf(seconds), spanOf(seconds+now.Sub(t.Time).Seconds()))
	if t.MaxAgeSeconds > 0 {
		text += fmt.Sprintf("; no data once older than max_age %s", spanOf(t.MaxAgeSeconds))
	}
	return text
}

func wordsServerState(r *api.Server) string {
	parts := []string{r.AdminState, r.OpState}
	if r.Backup {
		parts = append(parts, "backup")
	}
	text := strings.Join(parts, ", ")
	if r.Sessions >= 0 {
		text += "; " + count(r.Sessions, "open session")
	}
	if !r.InRotation {
		text += "; out of rotation: HAProxy gives it no new connections by its weight"
	}
	return text
}

func wordsPass(t *api.Table, now time.Time) string {
	return fmt.Sprintf("%s (%s)", api.At(t.Time), ago(t.Time, now))
}

func wordsVerdictOf(t *api.Table) string {
	text := string(t.Verdict)
	switch {
	case t.Verdict == weighting.Write && t.Changes > 0:
		text = "set " + count(t.Changes, "weight")
	case t.Verdict == weighting.Write && t.Mode == "observe":
		text = "would set new weights, but only observes"
	case t.Verdict == weighting.Write && len(unset(t)) > 0:
		text = "new weights that are not in force"
	case t.Verdict == weighting.Write:
		text = "nothing to set, pins aside"
	case t.Verdict == weighting.Keep:
		text = "weights are good"
	case t.Verdict == weighting.Hold:
		text = "weights held"
	}
	if t.Why != "" {
		text += ": " + t.Why
	}
	return text
}

// wordsMean shows what the mean is made of: the servers that are measured.
func wordsMean(t *api.Table) string {
	if t.Mean <= 0 {
		return "not known"
	}
	var load, capacity float64
	n := 0
	for i := range t.Servers {
		if s := step(&t.Servers[i], weighting.StepLoad); s != nil {
			load += s.Before
			capacity += t.Servers[i].Capacity
			n++
		}
	}
	if n == 0 {
		return digits(t.Mean)
	}
	return fmt.Sprintf("%s = total load %s / total capacity %s, of %s with data", digits(t.Mean), digits(load), digits(capacity), count(n, "server"))
}

// wordsLargest says which server has the largest share: it gets the weight 256,
// unless the steps give another scale.
func wordsLargest(t *api.Table) string {
	largest, name := 0.0, ""
	for i := range t.Servers {
		if s := step(&t.Servers[i], weighting.StepWeight); s != nil && s.Before > largest {
			largest, name = s.Before, t.Servers[i].Server
		}
	}
	if name == "" {
		return ""
	}
	return fmt.Sprintf("%s, of %s", digits(largest), name)
}

// wordsOldSteps says so when the steps are not of the newest loads.
func wordsOldSteps(t *api.Table) string {
	switch {
	case t.HoldCode == balancer.HoldUnread:
		return "of the last pass that could read HAProxy: the newest data have had no effect"
	case t.HoldCode == balancer.HoldStarting && slices.ContainsFunc(t.Servers, func(s api.Server) bool { return len(s.Reasons) > 0 }):
		return "of a pass before HAProxy could not be read: the next one has still to come"
	case t.HoldCode == balancer.HoldStarting:
		return "none yet: the first pass has still to come"
	case t.OrdersPending:
		return api.WordsPending
	}
	return ""
}

func wordsInForce(t *api.Table, r *api.Server) string {
	text := fmt.Sprint(r.AppliedWeight)
	switch {
	case !wouldChange(r.Row):
	case t.Mode == "observe":
		text += ", since mode is observe"
	case t.Freeze != nil:
		text += ", since the backend is frozen"
	default:
		text += ", since the weight of this pass has not been set, or somebody else has set another: haproxy-weighter history " + t.Backend
	}
	return text
}

func wordsShare(r *api.Server) string {
	return percent(r.Share) + " of the new connections, by the weights of this pass"
}

func wordsLastChange(t *api.Table, now time.Time) string {
	if t.LastChange == nil {
		return "none by this daemon"
	}
	return fmt.Sprintf("%s (%s), of any weight of the backend", api.At(*t.LastChange), ago(*t.LastChange, now))
}

func wordsPinOf(r *api.Server, now time.Time) string {
	if r.Pin == nil {
		return "none"
	}
	return fmt.Sprintf("at %d %s", r.Pin.Weight, api.OrderWords(r.Pin.Order, now))
}

func wordsFreezeOf(t *api.Table, now time.Time) string {
	if t.Freeze == nil {
		return ""
	}
	return "frozen " + api.OrderWords(t.Freeze.Order, now)
}

func wordsModeOf(t *api.Table, now time.Time) string {
	if t.ModeOrder == nil {
		return t.Mode
	}
	return fmt.Sprintf("%s %s", t.Mode, api.OrderWords(t.ModeOrder.Order, now))
}
