package admin

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// serveOrder carries out one order of the control socket.
func (s *Server) serveOrder(w http.ResponseWriter, r *http.Request, kind string) {
	if _, known := rules[kind]; !known {
		w.Header().Set("Connection", "close") // nobody reads the body
		problem(w, http.StatusNotFound, fmt.Sprintf("there is no order %q", kind), "there are the orders freeze, mode, pin, unfreeze and unpin")
		return
	}
	if r.Method != http.MethodPost {
		notAllowed(w, http.MethodPost, "an order is sent with POST", "")
		return
	}
	order, ok := readOrder(w, r, kind)
	if !ok {
		return
	}
	by, err := author(r.Context())
	if err != nil {
		problem(w, http.StatusForbidden, err.Error(), "use the command on the same machine")
		return
	}
	f := s.fleet()
	b := f.Balancer(order.Backend)
	if b == nil && !s.leftOver(kind, &order) {
		what, do := s.noBackend(f, order.Backend)
		problem(w, http.StatusNotFound, what, do)
		return
	}
	if kind == "pin" && !knowsServer(w, b, order.Server) {
		return
	}
	done, err := s.carryOutFor(b, kind, &order, by)
	var nothing *balancer.UnchangedError
	switch {
	case errors.As(err, &nothing):
		// A slip of the pen is no success.
		if kind == "unpin" && b != nil && len(serversOf(b)) > 0 && !knowsServer(w, b, order.Server) {
			return
		}
		done.NothingToDo = nothing.Why
	case err != nil:
		problem(w, http.StatusConflict, err.Error(), "haproxy-weighter status shows the orders in force")
		return
	}
	s.writeJSON(w, http.StatusOK, done)
}

// carryOutFor puts an order in force, tells of it, and begins a pass; b is nil
// for a backend that is not in the configuration. With an UnchangedError nothing
// of that is done.
func (s *Server) carryOutFor(b *balancer.Balancer, kind string, o *api.Order, by string) (api.Done, error) {
	err := s.carryOut(kind, o, by)
	done := api.Done{Backend: o.Backend, Control: s.options.Controls.Of(o.Backend)}
	if b != nil {
		done.Warning = strings.Join(s.warnings(kind, o, b), "; ")
	}
	if err != nil {
		s.log.Debug("order of an operator not carried out", "order", kind, "backend", o.Backend, "cause", err.Error(), "author", by)
		return done, err
	}
	s.record(kind, o, by, done.Warning)
	if b != nil {
		b.Wake()
	}
	return done, nil
}

// leftOver tells whether an order takes one back that a backend has from before
// it went out of the configuration.
func (s *Server) leftOver(kind string, o *api.Order) bool {
	undoes := kind == "unpin" || kind == "unfreeze" || kind == "mode" && o.Mode == modeOfFile
	return undoes && !s.options.Controls.Of(o.Backend).Empty()
}

// readOrder reads and checks the body; what is wrong with it is sent.
func readOrder(w http.ResponseWriter, r *http.Request, kind string) (order api.Order, ok bool) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		w.Header().Set("Connection", "close")
		problem(w, http.StatusUnsupportedMediaType, "an order is JSON", "send it with Content-Type: application/json")
		return order, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostOrder))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		problem(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is too large; allowed: up to %d bytes", mostOrder), "")
		return order, false
	case err != nil:
		problem(w, http.StatusBadRequest, "the body can't be read: "+err.Error(), "")
		return order, false
	}
	order, err = decodeOrder(kind, body)
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error(), "")
		return order, false
	}
	return order, true
}

// serversOf are the servers that HAProxy has, as far as it has been read.
func serversOf(b *balancer.Balancer) []string {
	var names []string
	for _, t := range b.Tables() {
		for i := range t.Rows {
			names = append(names, t.Rows[i].Server)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// knowsServer tells whether HAProxy has a server; when not, that is sent.
func knowsServer(w http.ResponseWriter, b *balancer.Balancer, server string) bool {
	backend, names := b.Config().Name, serversOf(b)
	switch {
	case len(names) == 0:
		problem(w, http.StatusConflict, fmt.Sprintf("the servers of %s are not known: HAProxy has not been read yet", backend),
			"see haproxy-weighter status for why, and try again")
	case !slices.Contains(names, server):
		problem(w, http.StatusNotFound, fmt.Sprintf("backend %s has no server %q", backend, server), api.NearNames(server, names, "servers"))
	default:
		return true
	}
	return false
}

// carryOut puts an order in force.
func (s *Server) carryOut(kind string, o *api.Order, by string) error {
	c := s.options.Controls
	now := s.now().UTC()
	order := balancer.Order{Reason: o.Reason, Author: by, Since: now}
	if o.ForSeconds > 0 {
		order.Until = now.Add(lasting(o))
	}
	switch kind {
	case "pin":
		return c.Pin(o.Backend, o.Server, balancer.Pin{Order: order, Weight: o.Weight})
	case "unpin":
		return c.Unpin(o.Backend, o.Server)
	case "freeze":
		return c.Freeze(o.Backend, balancer.Freeze{Order: order})
	case "unfreeze":
		return c.Unfreeze(o.Backend)
	}
	if o.Mode == modeOfFile {
		return c.SetMode(o.Backend, nil)
	}
	return c.SetMode(o.Backend, &balancer.ModeOrder{Order: order, Mode: config.Mode(o.Mode)})
}

func lasting(o *api.Order) time.Duration { return time.Duration(o.ForSeconds * float64(time.Second)) }

// record puts an order into the log and the history.
func (s *Server) record(kind string, o *api.Order, by, warning string) {
	attrs := []any{"order", kind, "backend", o.Backend}
	if o.Server != "" {
		attrs = append(attrs, "server", o.Server)
	}
	if o.Weight != 0 {
		attrs = append(attrs, "weight", o.Weight)
	}
	if o.Mode != "" {
		attrs = append(attrs, "mode", o.Mode)
	}
	attrs = append(attrs, "author", by, "reason", o.Reason)
	if o.ForSeconds > 0 {
		attrs = append(attrs, "for", plain(lasting(o)))
	}
	if warning != "" {
		attrs = append(attrs, "warning", warning)
	}
	s.log.Info("order of an operator", attrs...)
	if s.options.History != nil {
		s.options.History.Order(o.Backend, orderText(kind, o, by))
	}
}

// orderText says an order in one sentence.
func orderText(kind string, o *api.Order, by string) string {
	var text string
	switch kind {
	case "pin":
		text = fmt.Sprintf("%s pinned at %d", o.Server, o.Weight)
	case "unpin":
		text = o.Server + " unpinned"
	case "freeze":
		text = "frozen"
	case "unfreeze":
		text = "unfrozen"
	case "mode":
		text = "mode set to " + o.Mode
		if o.Mode == modeOfFile {
			text = "mode set to what the file says"
		}
	}
	text += " by " + by
	if o.ForSeconds > 0 {
		text += " for " + plain(lasting(o))
	}
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	return text
}

// warnings tells why an order in force does not do what its author may expect.
func (s *Server) warnings(kind string, o *api.Order, b *balancer.Balancer) []string {
	var all []string
	control, mode := s.options.Controls.Of(o.Backend), s.mode(b)
	live := kind == "mode" && mode == config.Live
	if kind == "pin" {
		all = append(all, pinWarnings(o, b)...)
	}
	if kind == "pin" || kind == "unpin" || kind == "unfreeze" || live {
		if why := unread(b); why != "" {
			all = append(all, "nothing is set before HAProxy answers again: "+why)
		}
	}
	if mode == config.Observe && (kind == "pin" || kind == "freeze") {
		all = append(all, "the backend is in observe mode, so no weights are written anyway")
	}
	if f := control.Freeze; f != nil && (kind == "pin" || kind == "unpin" || live) {
		all = append(all, fmt.Sprintf("the backend is frozen by %s until %s, so nothing is written before", f.Author, f.Until.UTC().Format(time.RFC3339)))
	}
	if gives := kind == "pin" || kind == "freeze" || kind == "mode" && o.Mode != modeOfFile; gives && s.options.Unkept != nil {
		if why := s.options.Unkept(); why != "" {
			all = append(all, "it ends when haproxy-weighter is restarted: "+why)
		}
	}
	if kind == "pin" || live {
		for _, f := range b.Faults() {
			if f.Key == balancer.FaultStatic {
				all = append(all, "HAProxy refuses weights: "+f.Cause)
			}
		}
	}
	return all
}

// unread says why no HAProxy of the backend can be read; empty when one can.
func unread(b *balancer.Balancer) string {
	why := ""
	for _, t := range b.Tables() {
		if !t.Unread() {
			return ""
		}
		why = t.Why
	}
	return why
}

// pinWarnings are those about the pinned server and its weight.
func pinWarnings(o *api.Order, b *balancer.Balancer) []string {
	var all []string
	for _, t := range b.Tables() {
		for i := range t.Rows {
			r := &t.Rows[i]
			if r.Server != o.Server || r.InRotation() {
				continue
			}
			all = append(all, fmt.Sprintf("%s is %s on %s, so the pin has no effect there before it takes connections again", o.Server, outWords(r), t.Socket))
		}
	}
	if w := b.Config().Weighting; o.Weight < w.MinWeight || o.Weight > w.MaxWeight {
		all = append(all, fmt.Sprintf("the weight is outside of min_weight and max_weight (%d to %d): the pin goes before them", w.MinWeight, w.MaxWeight))
	}
	return all
}

// outWords says why a row is out of rotation; empty when it is not.
func outWords(r *balancer.Row) string {
	switch {
	case r.InRotation():
		return ""
	case r.AdminState == "maint":
		return "in maintenance"
	case r.AdminState == "drain":
		return "in drain"
	case r.AppliedWeight == 0:
		return "at weight 0, which is a drain"
	case r.Backup:
		return "a backup server"
	}
	return r.OpState
}
