package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
)

// Words about the way to the daemon. words.go has the rules for them.

const (
	hintDaemonRuns     = "is the daemon running? systemctl status haproxy-weighter tells, and its log says why it ended"
	hintDaemonStart    = "nobody listens there: a daemon has ended and left the socket; start it: systemctl start haproxy-weighter"
	hintDaemonHangs    = "the daemon hangs, or the machine is overloaded: see its log (journalctl -u haproxy-weighter)"
	hintDaemonWithout  = "meanwhile HAProxy goes on with the weights that it has"
	hintControlNamed   = "is that its path? It is admin.control in the daemon's configuration; without --control that of -f FILE counts"
	hintControlPath    = "--control PATH names another socket; it is admin.control in the daemon's configuration"
	hintControlOff     = `take the line control = "off" out and restart the daemon`
	hintOrderUncertain = "the order may have been taken all the same: haproxy-weighter status shows what is in force"
)

func wordsControlOff(file string) string {
	return fmt.Sprintf("%s says admin.control = \"off\": the daemon has no control socket", file)
}

func wordsControlGuessed(file string, err error) string {
	return fmt.Sprintf("the socket's path is the default one, since %s can't be used (%s); --control PATH names another", file, firstLine(err))
}

func firstLine(err error) string {
	line, _, more := strings.Cut(err.Error(), "\n")
	if more {
		line += " ..."
	}
	return line
}

// hintsUnreachable says why there is no answer. group may open the socket;
// empty when it is not known. named tells that the operator has named the socket.
func hintsUnreachable(e *api.UnreachableError, group string, named bool) []string {
	var hints []string
	switch {
	case errors.Is(e, fs.ErrNotExist) && named:
		return []string{hintControlNamed, hintDaemonRuns, hintDaemonWithout}
	case errors.Is(e, fs.ErrNotExist):
		hints = []string{hintDaemonRuns, hintDaemonWithout, hintControlPath}
		if dir := filepath.Dir(e.Socket); missing(dir) {
			hints = slices.Insert(hints, 1, fmt.Sprintf("there is no folder %s: systemd makes it; without systemd: mkdir -m 750 %[1]s, then start the daemon again", dir))
		}
		return hints
	case errors.Is(e, syscall.ECONNREFUSED):
		return []string{hintDaemonStart, hintDaemonWithout}
	case errors.Is(e, fs.ErrPermission):
		if group == "" {
			return []string{"this user may not open the socket: use sudo, or join the group that it belongs to"}
		}
		return []string{fmt.Sprintf("this user may not open the socket: use sudo, or join its group (usermod -a -G %s USER, then log in again)", group)}
	case errors.Is(e, os.ErrDeadlineExceeded):
		hints = []string{hintDaemonHangs, hintDaemonWithout}
	default:
		hints = []string{hintControlPath}
	}
	return hints
}

// missing tells whether there is nothing of that name.
func missing(name string) bool {
	_, err := os.Stat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// hintExample is the first example of a command.
func hintExample(c *cobra.Command) string {
	line, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n")
	return "example: " + line
}
