package demo

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// warnings keeps the last thing that went wrong, for the view.
type warnings struct {
	mu   sync.Mutex
	at   time.Time
	text string
}

// shownFor is how long a warning stays in the view after it came up last.
const shownFor = 5 * time.Second

func (w *warnings) add(at time.Time, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.text = at, text
}

// current returns the last warning while it is recent.
func (w *warnings) current(now time.Time) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.at) > shownFor {
		return ""
	}
	return w.text
}

// noticing is a log handler that notes warnings and errors besides.
type noticing struct {
	slog.Handler
	warnings *warnings
}

// Handle notes a record and passes it on.
func (n noticing) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		var text strings.Builder
		text.WriteString(r.Message)
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "cause" { // the rest is in weighter.log
				text.WriteString(": " + a.Value.String())
			}
			return true
		})
		n.warnings.add(r.Time, text.String())
	}
	return n.Handler.Handle(ctx, r)
}

// WithAttrs keeps noticing.
func (n noticing) WithAttrs(attrs []slog.Attr) slog.Handler {
	return noticing{n.Handler.WithAttrs(attrs), n.warnings}
}

// WithGroup keeps noticing.
func (n noticing) WithGroup(name string) slog.Handler {
	return noticing{n.Handler.WithGroup(name), n.warnings}
}
