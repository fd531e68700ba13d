package operations

import (
	"maps"
	"regexp"
	"slices"
	"testing"
)

// scenes bring about what can be brought about, each with several faults.
var scenes = map[string]func(*testing.T){
	"graphite":        graphiteFaults,
	"loads":           loadFaults,
	"gain":            gainFaults,
	"socket":          socketFaults,
	"reload":          reloadFaults,
	"raised":          raisedFault,
	"map":             mapFaults,
	"orders":          orderFaults,
	"lua":             luaFault,
	"spoe":            spoeFaults,
	"script":          scriptWorksAgain,
	"descriptors":     descriptorFaults,
	"files":           fileFaults,
	"default-listens": defaultListenFaults,
	"exits":           exits,
}

// unprovoked are the rows that no scene can bring about: each is found in the
// source, and tested elsewhere where it can be.
var unprovoked = map[string]string{
	"set ca_file to the authority that signed its certificate":            "package graphite tests it with certificates",
	"a mistake in haproxy-weighter stopped a pass":                        "a panic in a pass: package balancer tests it",
	"several HAProxys answer on one socket":                               "package balancer tests it with two HAProxys",
	"stack of a panic":                                                    "as before",
	"the log can't be written":                                            "a reader that hangs: package daemon tests it with a full pipe",
	"log lines are lost here":                                             "as before",
	"loops no longer turn":                                                "a loop that hangs for more than a minute beyond all of its deadlines",
	"a mistake in haproxy-weighter stopped the answer to a request":       "a panic in an answer: package admin tests it",
	"the status page can't be made":                                       "a template that fails",
	"an answer can't be written as JSON":                                  "a number that JSON has not",
	"an event can't be sent":                                              "as before",
	"SPOE connection closed after a fault of this program; others go on":  "a panic: package spoa tests it",
	"SPOE connections were cut: their peers did not take the answers":     "a peer that takes answers just fast enough for the write timeout; package spoa tests its Shutdown",
	"not all parts have ended within …":                                   "a part that hangs at the end",
	"nothing listens there":                                               "sockets of TCP and abns: package haproxy tests them",
	"the file is not a socket":                                            "as Linux refuses a plain file, this is for other kinds",
	"our user may not open it":                                            "root may open everything: the matrix in test/faults has another user",
	"its answer has more than … KiB, and those of other backends as well": "many large answers at once: package graphite tests it",
	"its answer was there, but not decoded within …":                      "a machine without time: package graphite tests it",
	"HAProxy's answer is larger than allowed":                             "32 MiB of an answer: package haproxy tests it",
	"HAProxy did not accept the command's form":                           "another HAProxy: package haproxy tests it",
	"HAProxy does not know the command":                                   "as before",
	"HAProxy's buffers are too small for the command line":                "package haproxy tests it",
	"only a HAProxy process that is stopping answers":                     "package haproxy tests it",
	"HAProxy's master has no current worker":                              "package haproxy tests it",
	"HAProxy says that the backend is switched off":                       "package haproxy tests it",
	"HAProxy accepted the weight but has another one in force":            "an agent-check between two commands: the matrix in test/faults has it",
	"not a name that HAProxy allows":                                      "HAProxy refuses such names itself",
}

// TestFaults provokes the faults of the table, and holds that all have been.
func TestFaults(t *testing.T) {
	ran := map[string]bool{}
	done := t.Run("scenes", func(t *testing.T) {
		for name, scene := range scenes {
			t.Run(name, func(t *testing.T) { ran[name] = true; t.Parallel(); scene(t) })
		}
	})
	if !done {
		return
	}
	if len(ran) < len(scenes) {
		t.Logf("only %d of %d scenes were run: it is not looked whether all rows have been provoked", len(ran), len(scenes))
		return
	}
	src, known := readSource(t), map[string]bool{}
	for _, r := range readDocument(t).rows {
		known[r.message] = true
		why, hidden := unprovoked[r.message]
		switch {
		case hidden && provoked.began[r.message]:
			t.Errorf("%q was provoked: take it out of the list of those that can't be (%s)", r.message, why)
		case hidden && !src.says(r.message):
			t.Errorf("%q is not in the source", r.message)
		case !hidden && !provoked.began[r.message]:
			t.Errorf("%q was provoked by no scene", r.message)
		case !hidden && len(r.overs) > 0 && !provoked.over[r.message]:
			t.Errorf("no scene has seen the end of %q", r.message)
		}
	}
	for _, message := range slices.Sorted(maps.Keys(unprovoked)) {
		if !known[message] {
			t.Errorf("%s has no %q", document, message)
		}
	}
}

// says tells whether a string of the source has a message in it.
func (s *source) says(message string) bool {
	for text := range s.words {
		if matches(message, regexp.MustCompile(`%[sdvg]`).ReplaceAllString(text, "x"), true) {
			return true
		}
	}
	return false
}
