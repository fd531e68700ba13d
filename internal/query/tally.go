package query

import (
	"fmt"
	"log/slog"
	"sync/atomic"
)

// Counts are the numbers of messages since the start.
type Counts struct {
	// ByMessage is by the message's name, the part before a dot; "script" has
	// those that a script was asked, if there is or was one: NotFound are those
	// it had nothing to say to, Refused those it failed on.
	ByMessage map[string]MessageCounts
	Unknown   uint64 // messages that are not ours, without a script to ask
}

// MessageCounts are the numbers of one kind of message.
type MessageCounts struct {
	Answered uint64 // with what it asked for
	NotFound uint64 // backend, server or anything to choose from was not there
	Refused  uint64 // an argument was missing or wrong: nothing was set
}

// tally counts messages and tells each kind of mistake once: HAProxy asks the
// same thing thousands of times.
type tally struct {
	log     *slog.Logger
	kinds   [numKinds]kindTally
	script  scriptTally
	unknown atomic.Uint64
}

type kindTally struct {
	answered, notFound, refused atomic.Uint64
	stranger                    atomic.Bool // an unknown backend was told
}

// Counts returns the numbers so far.
func (h *Handler) Counts() Counts {
	c := Counts{ByMessage: make(map[string]MessageCounts, numKinds), Unknown: h.tally.unknown.Load()}
	for k := range numKinds {
		c.ByMessage[k.String()] = h.tally.kinds[k].counts()
	}
	if s := h.tally.script.counts(); h.answerer != nil || s != (MessageCounts{}) {
		c.ByMessage[scriptName] = s
	}
	return c
}

func (t *kindTally) counts() MessageCounts {
	return MessageCounts{Answered: t.answered.Load(), NotFound: t.notFound.Load(), Refused: t.refused.Load()}
}

func (t *tally) answered(k kind, found bool) {
	if found {
		t.kinds[k].answered.Add(1)
	} else {
		t.kinds[k].notFound.Add(1)
	}
}

func (t *tally) refuse(k kind, name, fault string) {
	if t.kinds[k].refused.Add(1) == 1 {
		t.log.Warn("an SPOE message sets nothing", "message", shown(name), "cause", fault,
			"meanwhile", "HAProxy goes on without its variables; this is told once for "+k.String(),
			"do", "correct the line args of the spoe-message in the SPOE file of haproxy.cfg")
	}
}

func (t *tally) unknownMessage(name string) {
	if t.unknown.Add(1) == 1 {
		t.log.Warn("an SPOE message is not known", "message", shown(name),
			"meanwhile", "HAProxy goes on without its variables; this is told once",
			"do", "name the spoe-message weighter-backend, weighter-server, weighter-pick or weighter-choose, with a dot and anything after it if there are several")
	}
}

func (t *tally) unknownBackend(k kind, name string) {
	if s := &t.kinds[k].stranger; !s.Load() && s.CompareAndSwap(false, true) {
		t.log.Warn("an SPOE message asks for a backend that the configuration does not have", "message", k.String(), "asked_for", shown(name),
			"meanwhile", "fresh is false for it; this is told once for "+k.String(),
			"do", "compare the name in the SPOE file with backend.name")
	}
}

// shown cuts what comes from the network for the log.
func shown(name string) string {
	const most = 100
	if len(name) > most {
		return fmt.Sprintf("%s... (%d bytes)", name[:most], len(name))
	}
	return name
}
