package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/coreos/go-systemd/v22/activation"

	"github.com/haproxy-weighter/haproxy-weighter/internal/admin"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// listeners are those of the admin interface; nil: none.
type listeners struct{ admin, control net.Listener }

// listen opens everything that the daemon listens on; on an error nothing
// stays open. A listener that only has its default address is not worth an
// outage: without it the daemon balances all the same, and says so.
func (d *daemon) listen(ctx context.Context) (*listeners, error) {
	l, c := &listeners{}, d.options.Config.Admin
	var err error
	if d.agent, err = d.newAgent(ctx); err != nil {
		return nil, err
	}
	if c.Listen != (config.Listener{}) {
		l.admin, err = listen(ctx, c.Listen)
		if err := d.optional("admin.listen", c.Listen.String(), config.DefaultAdmin, err); err != nil {
			d.unlisten(l)
			return nil, err
		}
	}
	if c.Control != "" {
		l.control, err = admin.ListenControl(ctx, c.Control)
		if err := d.optional("admin.control", c.Control, config.DefaultControl, err); err != nil {
			d.unlisten(l)
			return nil, err
		}
	}
	return l, nil
}

// optional lets the failure of a default pass, with a word.
func (d *daemon) optional(key, address, fallback string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: can't listen on %s: %w", key, address, err)
	// Where another one answers it balances as well, and the two would take each
	// other's pins back for ever.
	if address != fallback || errors.Is(err, admin.ErrBusy) {
		return err
	}
	what := "no status page, JSON and metrics"
	if key == "admin.control" {
		what = "no control socket: the commands status, explain, history, pin and freeze don't work"
	}
	d.faults.Set(key, err, balancer.Wording{ // only a restart ends it, so there are no words for that
		What:      what,
		Meanwhile: "weights and SPOE answers go on",
		Do:        "see the cause, or choose another address, or \"off\", for " + key + "; then restart",
	})
	return nil
}

func (d *daemon) unlisten(l *listeners) {
	if d.agent != nil {
		d.agent.close()
	}
	if l.admin != nil {
		l.admin.Close()
	}
	if l.control != nil {
		l.control.Close()
	}
}

// handed are the listeners that systemd holds open for us (a .socket unit): a
// connection that comes while we restart waits there instead of being refused.
type handed struct{ listeners []net.Listener }

func inherited() (*handed, error) {
	all, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("the sockets that systemd hands over: %w", err)
	}
	h := &handed{}
	for _, l := range all {
		if l != nil { // not a stream socket
			h.listeners = append(h.listeners, l)
		}
	}
	return h, nil
}

// take returns the listener for an address, nil when there is none.
func (h *handed) take(a config.Listener) net.Listener {
	for i, l := range h.listeners {
		if l.Addr().Network() == a.Network && l.Addr().String() == a.Address {
			h.listeners = append(h.listeners[:i], h.listeners[i+1:]...)
			return l
		}
	}
	return nil
}

// close closes what nobody took, and names it.
func (h *handed) close() []string {
	var left []string
	for _, l := range h.listeners {
		left = append(left, l.Addr().String())
		l.Close()
	}
	h.listeners = nil
	return left
}
