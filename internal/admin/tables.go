package admin

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

func serveHealthy(w http.ResponseWriter, _ *http.Request) {
	send(w, http.StatusOK, "text/plain; charset=utf-8", []byte("healthy\n"))
}

func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	status, text := http.StatusOK, "ready"
	if missing := s.unready(); len(missing) > 0 {
		status, text = http.StatusServiceUnavailable, "not ready"
		for _, l := range missing {
			text += "\n" + l.String()
		}
	}
	send(w, status, "text/plain; charset=utf-8", []byte(text+"\n"))
}

// flag reads a parameter that is yes or no; an error is sent.
func flag(w http.ResponseWriter, r *http.Request, name string) (yes, ok bool) {
	switch v := r.URL.Query().Get(name); v {
	case "", "yes":
		return true, true
	case "no":
		return false, true
	default:
		problem(w, http.StatusBadRequest, fmt.Sprintf("%s=%q: allowed: yes, no", name, v), "")
		return false, false
	}
}

// serveTables answers with all tables, or with those of one backend.
func (s *Server) serveTables(w http.ResponseWriter, r *http.Request) {
	reasons, ok := flag(w, r, "reasons")
	if !ok {
		return
	}
	all := s.fleet().Balancers()
	if name := r.PathValue("backend"); name != "" {
		b := s.backend(w, name)
		if b == nil {
			return
		}
		all = []*balancer.Balancer{b}
	}
	answer := api.Tables{Tables: []api.Table{}}
	for _, b := range all {
		answer.Tables = append(answer.Tables, s.tables(b, reasons)...)
	}
	s.writeJSON(w, http.StatusOK, answer)
}

// tables are those of a backend with the orders in force now; never nil.
func (s *Server) tables(b *balancer.Balancer, reasons bool) []api.Table {
	all, control := []api.Table{}, s.options.Controls.Of(b.Config().Name)
	for _, t := range b.Tables() {
		a := api.TableOf(t)
		a.SetOrders(control, string(modeWith(b, control)), pending(t, control))
		for i := range a.Servers {
			if !reasons || a.Servers[i].Reasons == nil {
				a.Servers[i].Reasons = []weighting.Reason{}
			}
		}
		all = append(all, a)
	}
	return all
}

// pending tells whether a table is of a pass before the orders in force now.
func pending(t *balancer.Table, now balancer.Control) bool {
	return t.HoldCode != balancer.HoldStarting && !reflect.DeepEqual(t.Control, now)
}

// backend finds a backend; when there is none of that name it says so to the
// client and returns nil.
func (s *Server) backend(w http.ResponseWriter, name string) *balancer.Balancer {
	f := s.fleet()
	if b := f.Balancer(name); b != nil {
		return b
	}
	what, do := s.noBackend(f, name)
	problem(w, http.StatusNotFound, what, do)
	return nil
}

func (s *Server) noBackend(f *balancer.Fleet, name string) (what, do string) {
	var names []string
	for _, b := range f.Balancers() {
		names = append(names, b.Config().Name)
	}
	what = fmt.Sprintf("there is no backend %q in the configuration in force", name)
	if len(names) == 0 {
		return what, "wait until the daemon has started"
	}
	return what, api.NearNames(name, names, "backends")
}

// Status is the answer of /api/v1/status.
func (s *Server) status() api.Status {
	a, f := s.options.Daemon(), s.fleet()
	a.Ready = len(s.unready()) == 0
	a.Faults = append(slices.Clip(a.Faults), f.Faults()...)
	if a.Faults == nil {
		a.Faults = []balancer.Fault{}
	}
	if a.SPOA == nil {
		a.SPOA = []string{}
	}
	if a.Config.RestartKeys == nil {
		a.Config.RestartKeys = []string{}
	}
	a.Backends = make([]api.BackendStatus, 0, len(f.Balancers()))
	for _, b := range f.Balancers() {
		c := b.Config()
		one := api.BackendStatus{
			Backend: c.Name, Mode: string(s.mode(b)), IntervalSeconds: c.Interval.Seconds(),
			Control: s.options.Controls.Of(c.Name), Tables: s.tables(b, false),
		}
		a.Backends = append(a.Backends, one)
	}
	a.Unconfigured = s.unconfigured(f)
	return a
}

// unconfigured are the orders for backends that have gone out of the
// configuration; never nil.
func (s *Server) unconfigured(f *balancer.Fleet) []api.Unconfigured {
	all := []api.Unconfigured{}
	controls := s.options.Controls.All()
	for _, name := range sortedKeys(controls) {
		if f.Balancer(name) == nil {
			all = append(all, api.Unconfigured{Backend: name, Control: controls[name]})
		}
	}
	return all
}

func (s *Server) serveStatus(w http.ResponseWriter, _ *http.Request) {
	s.writeJSON(w, http.StatusOK, s.status())
}

// serveHistory answers with what is kept of a backend: since=SECONDS leaves out
// what is not later than that time, series=no the samples.
func (s *Server) serveHistory(w http.ResponseWriter, r *http.Request) {
	series, ok := flag(w, r, "series")
	if !ok {
		return
	}
	var after time.Time
	if text := r.URL.Query().Get("since"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds < 0 || seconds > latestTime {
			problem(w, http.StatusBadRequest, fmt.Sprintf("since=%q: allowed: whole seconds since 1970", text), "")
			return
		}
		after = time.Unix(seconds, 0)
	}
	name := r.PathValue("backend")
	if s.backend(w, name) == nil {
		return
	}
	if s.options.History == nil {
		problem(w, http.StatusNotFound, "no history is kept", "")
		return
	}
	if !series {
		a, _ := s.options.History.excerpt(name, after)
		s.writeJSON(w, http.StatusOK, a)
		return
	}
	release, ok := s.acquire(w, r)
	if !ok {
		return
	}
	defer release()
	s.writeJSON(w, http.StatusOK, s.options.History.Since(name, after))
}

// latestTime is the end of the year 9999, the last one that RFC 3339 knows.
const latestTime = 253402300799
