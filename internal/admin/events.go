package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

// backlog is how many events a stream may lag behind before it is cut off.
const backlog = 64

// errTooMany is told to a client that would be one too many.
var errTooMany = errors.New("too many clients watch already")

// hub hands each pass to all who watch. Nobody waits for a client: one that
// does not keep up is cut off, and may come again.
type hub struct {
	most int

	mu      sync.Mutex
	streams map[chan api.Pass]bool
}

func newHub(most int) *hub { return &hub{most: most, streams: make(map[chan api.Pass]bool)} }

// watch opens a stream; it is closed when its client does not keep up. stop
// must be called in the end.
func (h *hub) watch() (stream <-chan api.Pass, stop func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.streams) >= h.most {
		return nil, nil, errTooMany
	}
	c := make(chan api.Pass, backlog)
	h.streams[c] = true
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.streams, c)
	}, nil
}

// tell hands a pass to all streams.
func (h *hub) tell(t *balancer.Table) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.streams) == 0 {
		return
	}
	pass := api.PassOf(t)
	for c := range h.streams {
		select {
		case c <- pass:
		default:
			delete(h.streams, c)
			close(c)
		}
	}
}

// serveEvents streams one event a pass until the client goes or ending closes.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request, ending <-chan struct{}) {
	passes, stop, err := s.hub.watch()
	if err != nil {
		w.Header().Set("Retry-After", "30")
		problem(w, http.StatusServiceUnavailable, fmt.Sprintf("%v: %d at once is the limit", err, s.hub.most),
			"close other status pages, or ask for /api/v1/table from time to time")
		return
	}
	defer stop()
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		s.log.Debug("an event stream can't be kept open", "cause", err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	s.stream(r.Context(), control, w, passes, ending)
}

// stream writes events, and now and then a beat, so that both ends see that
// the other one is there.
func (s *Server) stream(ctx context.Context, control *http.ResponseController, w http.ResponseWriter, passes <-chan api.Pass, ending <-chan struct{}) {
	beat := time.NewTicker(s.limits.heartbeat)
	defer beat.Stop()
	text := "retry: 5000\n: one event a pass\n\n"
	for {
		if control.SetWriteDeadline(time.Now().Add(s.limits.write)) != nil {
			return
		}
		if _, err := fmt.Fprint(w, text); err != nil || control.Flush() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ending:
			return
		case <-beat.C:
			text = "event: beat\ndata: {}\n\n"
		case pass, ok := <-passes:
			if !ok {
				return
			}
			data, err := json.Marshal(pass)
			if err != nil {
				s.log.Error("an event can't be sent", "backend", pass.Backend, "cause", err.Error())
				return
			}
			text = "event: pass\ndata: " + string(data) + "\n\n"
		}
	}
}
