package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
)

// notifier tells systemd how the daemon is. Without systemd it does nothing.
type notifier struct {
	log   *slog.Logger
	send  func(state string) // nil: nobody listens
	every time.Duration      // of the watchdog; 0: none
}

func newNotifier(log *slog.Logger) notifier {
	n := notifier{log: log}
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return n
	}
	n.send = func(state string) {
		if _, err := systemd.SdNotify(false, state); err != nil {
			log.Debug("systemd was not told", "state", state, "cause", err.Error())
		}
	}
	every, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("systemd's watchdog can't be served", "cause", err.Error(),
			"meanwhile", "weights go on; systemd may restart the daemon for want of a sign of life",
			"do", "see WatchdogSec= in the unit")
	}
	n.every = every
	return n
}

func (n notifier) tell(state string) {
	if n.send != nil {
		n.send(state)
	}
}

func (n notifier) ready() { n.tell(systemd.SdNotifyReady) }

func (n notifier) reloading() {
	n.tell(systemd.SdNotifyReloading + "\n" + systemd.SdNotifyMonotonicUsec())
}

func (n notifier) stopping() { n.tell(systemd.SdNotifyStopping) }

// statusEvery is how often systemd is told how things are.
const statusEvery = 10 * time.Second

// watchdog gives systemd its signs of life for as long as the loops turn, and a
// line of status.
func (d *daemon) watchdog(ctx context.Context) error {
	if d.notify.send == nil {
		return nil
	}
	every := statusEvery
	if w := d.notify.every; w > 0 {
		every = min(every, w/3)
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		d.notify.tell("STATUS=" + d.statusLine())
		stuck := d.fleet().Stuck(d.now())
		if len(stuck) == 0 {
			d.notify.tell(systemd.SdNotifyWatchdog)
		}
		d.tellStuck(stuck)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// tellStuck reports loops that no longer turn.
func (d *daemon) tellStuck(stuck []string) {
	var err error
	if len(stuck) > 0 {
		err = errors.New(strings.Join(stuck, ", "))
	}
	d.faults.Set("stuck", err, balancer.Wording{
		What:      "loops no longer turn",
		Over:      "all loops turn again",
		Meanwhile: "their weights stay as they are; systemd restarts the daemon when WatchdogSec= has passed",
		Do:        "report it, with the stacks that kill -QUIT prints",
	})
}

// statusLine is what "systemctl status" shows.
func (d *daemon) statusLine() string {
	g := d.current.Load()
	faults := d.allFaults()
	line := fmt.Sprintf("%d backends", len(g.config.Backends))
	if len(g.config.Backends) == 1 {
		line = "1 backend"
	}
	switch len(faults) {
	case 0:
		return line + ", all well"
	case 1:
		return line + ", 1 fault: " + faults[0].What
	}
	return fmt.Sprintf("%s, %d faults, the first: %s", line, len(faults), faults[0].What)
}
