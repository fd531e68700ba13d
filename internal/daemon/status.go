package daemon

import (
	"os"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
)

// status is the daemon's part of the status; admin fills in the rest.
func (d *daemon) status() api.Status {
	r := d.reload.Load()
	s := api.Status{
		Version: d.options.Version, PID: os.Getpid(), Started: d.started,
		Config: api.Config{
			File: d.options.Config.File, Loaded: r.loaded, ReloadError: r.why,
			RestartKeys: append([]string{}, r.restart...),
		},
		SPOA: []string{}, Faults: d.faults.List(),
	}
	if !r.failed.IsZero() {
		failed := r.failed
		s.Config.ReloadFailed = &failed
	}
	if d.agent != nil {
		for _, l := range d.agent.listeners {
			s.SPOA = append(s.SPOA, l.Addr().String())
		}
	}
	return s
}
