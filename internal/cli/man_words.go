package cli

import "github.com/haproxy-weighter/haproxy-weighter/internal/config"

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

var wordsFiles = []struct{ path, words string }{
	{config.DefaultFile, "The configuration, see weighter.toml(5)."},
	{config.DefaultControl, `The control socket of the daemon. Who may write to it may change weights: with
the packages, root and the members of group haproxy-weighter.`},
	{"/var/lib/haproxy-weighter/state.json", "Pins, freezes and what the loop has learnt, when state.file says so."},
	{"/usr/share/haproxy-weighter", "Files to copy from: configurations of HAProxy, Lua, dashboards, alert rules."},
}
