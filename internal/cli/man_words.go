package cli

import (
	"io/fs"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// What only the manual pages say.

var wordsExitCodes = []struct {
	code  int
	words string
}{
	{exitGood, "Good."},
	{exitFailed, "Failed: the command ran, and could not do, or did not find right, what was asked."},
	{exitUsage, "Wrong arguments, or a configuration with mistakes; nothing was done."},
	{exitUnreachable, "The daemon did not answer."},
}

const wordsSignals = `SIGHUP makes "run" read its configuration again; a file with mistakes changes
nothing. SIGINT and SIGTERM end it. The weights in force stay as they are then.`

// wordsFiles are the files with their modes; 0: as any other.
var wordsFiles = []struct {
	path  string
	mode  fs.FileMode
	words string
}{
	{config.DefaultFile, initMode, `The configuration, see weighter.toml(5). With the packages it is root's, for group
haproxy-weighter to read; "init" writes it with the same mode.`},
	{config.DefaultControl, 0o660, `The control socket of the daemon. Who may write to it may change weights: with
the packages, root and the members of group haproxy-weighter.`},
	{"/var/lib/haproxy-weighter/state.json", 0o600, `Pins, freezes, modes and what the loop has learnt, when state.file says so. One
that others may write to, or that is another user's, is not read and is put
aside: the same name with ".bad" behind it.`},
	{"/var/lib/haproxy-weighter/.state.json.lock", 0o600, "Keeps a second daemon from the same state file."},
	{"/run/haproxy-weighter, /var/lib/haproxy-weighter", 0o750, `Their folders, of user and group haproxy-weighter; systemd and the packages make
them. In a folder that everybody may write to there is no control socket.`},
	{"unix:PATH in spoa.listen and admin.listen", 0o666, `Sockets that the daemon makes: who may reach their folder may connect, as anybody
on the machine may to a port of 127.0.0.1.`},
	{"/usr/share/haproxy-weighter", 0, "Files to copy from: configurations of HAProxy, Lua, dashboards, alert rules."},
}
