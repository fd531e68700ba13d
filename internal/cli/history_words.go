package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
)

// Words of "history". words.go has the rules for them.

const (
	wordsHistory = `Show the weights that were set, orders, weights that somebody else has set, and
when weights began and ceased to be held, oldest first; over it the course of
the highest load over the mean. The daemon keeps the last 24 hours in memory: a
restart begins anew. With --server only the weights of one server, with the
course of its load and weight, and with what concerns the backend as a whole.`
	wordsNoEvents = "nothing has changed"
	// wordsNotListed stands for the reasons of a small change beside many others.
	wordsNotListed = "one of the smaller changes of that pass, whose reasons are not kept"
)

func wordsHistoryHead(h *api.History, now time.Time) string {
	return fmt.Sprintf("backend %s since %s (%s)", h.Backend, api.At(h.Since), api.Span(now.Sub(h.Since)))
}

// wordsEvent puts an event into one line; with reasons it tells of each weight
// why it has changed.
func wordsEvent(e *api.Event, reasons bool) string {
	if !reasons || len(e.Changes) == 0 {
		return e.Text
	}
	parts := make([]string, len(e.Changes))
	for i, c := range e.Changes {
		parts[i] = fmt.Sprintf("%s %d -> %d", c.Server, c.Before, c.After)
		if c.Load != nil {
			parts[i] += ", load " + number(*c.Load)
		}
		if c.Text != "" {
			parts[i] += ": " + c.Text
		}
	}
	return strings.Join(parts, ", ")
}
