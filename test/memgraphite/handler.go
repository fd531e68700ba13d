package memgraphite

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// answer is one series as the render API writes it.
type answer struct {
	Target     string   `json:"target"`
	Datapoints [][2]any `json:"datapoints"` // value (null when there is none), stamp
	Tags       tags     `json:"tags"`
}

type tags struct {
	Name string `json:"name"`
}

// Handler answers /render (GET and POST). Everything else is 404.
func (s *Store) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/render", s.render)
	mux.HandleFunc("/render/{$}", s.render)
	return mux
}

func (s *Store) render(w http.ResponseWriter, r *http.Request) {
	now := s.now()
	w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
	body, err := s.answer(r, now)
	if err != nil {
		status := http.StatusInternalServerError
		if wrong := badRequest(""); errors.As(err, &wrong) {
			status = http.StatusBadRequest
		}
		http.Error(w, err.Error(), status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(body) // the one who asked has gone: nobody is left to tell
}

// answer computes the body.
func (s *Store) answer(r *http.Request, now time.Time) ([]byte, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		return nil, errorf("method %s: only GET and POST are known", r.Method)
	}
	r.Body = http.MaxBytesReader(nil, r.Body, 1<<20)
	if err := r.ParseForm(); err != nil {
		return nil, errorf("the form is not readable: %v", err)
	}
	if format := r.Form.Get("format"); format != "json" {
		return nil, errorf("format %q: only json is known", format)
	}
	win, err := parseWindow(r.Form.Get("from"), r.Form.Get("until"), now)
	if err != nil {
		return nil, err
	}
	answers := []answer{}
	for _, target := range r.Form["target"] {
		if target == "" {
			continue
		}
		e, err := parse(target)
		if err != nil {
			return nil, err
		}
		lists, err := s.evaluate(e, win)
		if err != nil {
			return nil, err
		}
		for _, l := range lists {
			answers = append(answers, l.answer())
		}
	}
	return json.Marshal(answers)
}

// answer turns NaN into null. JSON has no infinity; graphite-web writes 1e9999.
func (l list) answer() answer {
	a := answer{Target: l.name, Datapoints: make([][2]any, len(l.values)), Tags: tags{l.name}}
	for i, v := range l.values {
		var value any
		switch {
		case math.IsNaN(v):
		case math.IsInf(v, 1):
			value = json.Number("1e9999")
		case math.IsInf(v, -1):
			value = json.Number("-1e9999")
		default:
			value = v
		}
		a.Datapoints[i] = [2]any{value, l.start + int64(i)}
	}
	return a
}

// parseWindow reads from (default -24h, all that is kept) and until (default
// now). As in graphite-web the wrong order is swapped and the future cut off.
func parseWindow(from, until string, now time.Time) (window, error) {
	if from == "" {
		from = "-24h"
	}
	if until == "" {
		until = "now"
	}
	f, err := parseTime(from, now)
	if err != nil {
		return window{}, err
	}
	u, err := parseTime(until, now)
	if err != nil {
		return window{}, err
	}
	if f == u {
		return window{}, errorf("from and until are the same time")
	}
	return window{min(f, u), min(max(f, u), now.Unix())}, nil
}

// relativeTime is "-300s", "now-5min", "-1h".
func relativeTime() *regexp.Regexp {
	return regexp.MustCompile(`^(?:now)?-(\d{1,9})(s|sec|seconds?|min|minutes?|h|hours?|d|days?)$`)
}

// parseTime reads a time in the forms that graphite-web takes and that make
// sense here; "-5m" is not one of them.
func parseTime(s string, now time.Time) (int64, error) {
	if s == "now" {
		return now.Unix(), nil
	}
	if epoch, err := strconv.ParseInt(s, 10, 64); err == nil && epoch >= 0 && !strings.HasPrefix(s, "-") {
		return epoch, nil
	}
	m := relativeTime().FindStringSubmatch(s)
	if m == nil {
		return 0, errorf("time %q is not readable: use -300s, now or seconds since 1970", s)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n == 0 {
		return 0, errorf("time %q is not readable", s)
	}
	unit := map[byte]int64{'s': 1, 'm': 60, 'h': 3600, 'd': 86400}[m[2][0]]
	return now.Unix() - n*unit, nil
}
