package cli

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

// Words about orders. words.go has the rules for them.

const (
	wordsPin = `Keep one server at a weight of 1 to 256, whatever its load is, until the time is
over or "unpin" takes it back. The other servers go on being balanced. A server
in maint, in drain or at weight 0 is left alone. To take a server out, drain it
in HAProxy: "set server BACKEND/SERVER state drain".

Orders outlive a reload, and a restart when state.file is set. One that would
change nothing says so, which is no failure.`
	wordsFreeze = `Keep all weights of a backend as they are, until the time is over or "unfreeze"
takes it back. Loads are still read and shown.

Orders outlive a reload, and a restart when state.file is set. One that would
change nothing says so, which is no failure.`
	wordsMode = `Use another mode than the file's for a backend: "observe" does everything but
set weights, "live" sets them, "file" goes back to what the file says.

Orders outlive a reload, and a restart when state.file is set. One that would
change nothing says so, which is no failure.`

	wordsModeFileEnds = "mode: --for makes no sense with file, which ends the order in force"
	wordsBackToFile   = "back to what the file says"
)

func wordsNoReason(command string) string {
	return command + ": --reason is missing: say why, for whoever looks at it later"
}

func wordsNoEnd(command string) string {
	return command + ": --for is missing: say for how long, so that it is not forgotten"
}

func wordsWeight(text string) string {
	return fmt.Sprintf("pin: %q is no weight from 1 to 256; to take a server out, drain it in HAProxy", text)
}

func wordsUnknownMode(mode string) string {
	return fmt.Sprintf("mode: %q is not known; allowed: observe, live, or file for what the file says", mode)
}

// wordsDone says what an order has ended, or why it had nothing to do, and all
// that is in force now.
func wordsDone(kind string, o api.Order, done *api.Done, now time.Time) []string {
	var lines []string
	switch {
	case done.NothingToDo != "":
		lines = append(lines, "nothing to do: "+done.NothingToDo)
	case kind == orderUnpin:
		lines = append(lines, fmt.Sprintf("%s/%s is no longer pinned", o.Backend, o.Server))
	case kind == orderUnfreeze:
		lines = append(lines, o.Backend+" is no longer frozen")
	case kind == orderMode && done.Control.Mode == nil:
		lines = append(lines, o.Backend+" has the mode that the file says")
	}
	all := api.Standings(o.Backend, done.Control, now)
	// What was asked for comes first.
	if i := slices.IndexFunc(all, func(s api.Standing) bool { return isOf(&s, kind, o) }); i > 0 {
		all = slices.Concat(all[i:i+1], all[:i], all[i+1:])
	}
	for _, s := range all {
		lines = append(lines, s.What+" "+s.How)
	}
	return lines
}

// isOf tells whether s is what an order of this kind has given.
func isOf(s *api.Standing, kind string, o api.Order) bool {
	switch kind {
	case orderPin:
		return slices.Equal(s.Undo, []string{orderUnpin, o.Backend + "/" + o.Server})
	case orderFreeze:
		return s.Undo[0] == orderUnfreeze
	case orderMode:
		return s.Undo[0] == orderMode
	}
	return false
}

// undoOf is the command that brings back what was in force before an order.
func undoOf(kind string, o api.Order, before balancer.Control, now time.Time) []string {
	id := o.Backend + "/" + o.Server
	switch kind {
	case orderPin, orderUnpin:
		if old, ok := before.Pins[o.Server]; ok {
			return append([]string{orderPin, id, strconv.Itoa(old.Weight)}, orderWords(old.Order, now)...)
		}
		if kind == orderPin {
			return []string{orderUnpin, id}
		}
	case orderFreeze, orderUnfreeze:
		if before.Freeze != nil {
			return append([]string{orderFreeze, o.Backend}, orderWords(before.Freeze.Order, now)...)
		}
		if kind == orderFreeze {
			return []string{orderUnfreeze, o.Backend}
		}
	case orderMode:
		if before.Mode != nil {
			return append([]string{orderMode, o.Backend, string(before.Mode.Mode)}, orderWords(before.Mode.Order, now)...)
		}
		if o.Mode != modeOfFile {
			return []string{orderMode, o.Backend, modeOfFile}
		}
	}
	return nil
}

// orderWords are the flags that give an order again, for the time it had left.
func orderWords(o balancer.Order, now time.Time) []string {
	words := []string{"--reason", o.Reason}
	if left := o.Until.Sub(now); !o.Until.IsZero() {
		words = append(words, "--for", forWhole(max(left.Round(time.Second), time.Second)))
	}
	return words
}

// forWhole is a duration for --for: "30d" rather than "720h0m0s", and exact.
func forWhole(d time.Duration) string {
	if d >= day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	return plainDuration(d)
}
