package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// completionTimeout is how long a shell waits for names at most.
const completionTimeout = time.Second

// daemonCommand makes c one that talks to the running daemon.
func (p *Program) daemonCommand(c *cobra.Command) *cobra.Command {
	c.Flags().StringVar(&p.control, "control", "", "control socket of the daemon at `PATH` (default: admin.control of the configuration)")
	return c
}

// reach makes the client for the daemon that the flags mean; note says how its
// socket was found when that was not straightforward.
func (p *Program) reach(ctx context.Context, c *cobra.Command) (client *api.Client, note string, err error) {
	if p.control != "" {
		return &api.Client{Socket: p.control}, "", nil
	}
	path, err := config.ControlPath(ctx, p.file)
	switch {
	case err == nil && path == "":
		err = &failure{code: exitUnreachable, err: errors.New(wordsControlOff(p.file)), hints: []string{hintControlOff}}
		return nil, "", err
	case err == nil:
		return &api.Client{Socket: path}, "", nil
	case ctx.Err() != nil:
		return nil, "", err
	case c.Flags().Changed("config"): // another daemon than the one that is meant must not get the order
		return nil, "", badConfig(p.file, err)
	case errors.Is(err, fs.ErrNotExist):
		return &api.Client{Socket: config.DefaultControl}, "", nil
	}
	return &api.Client{Socket: config.DefaultControl}, wordsControlGuessed(p.file, err), nil
}

// asking runs ask with the client, shows on a terminal that it waits, and
// gives its error a code and hints.
func (p *Program) asking(ctx context.Context, c *cobra.Command, ask func(*api.Client) error) error {
	client, note, err := p.reach(ctx, c)
	if err != nil {
		return err
	}
	g := p.progress("asking the daemon")
	err = ask(client)
	g.end()
	return daemonError(err, note, p.control != "")
}

// daemonError gives the errors of an api.Client their exit codes. named tells
// that the operator has named the socket.
func daemonError(err error, note string, named bool) error {
	var unreachable *api.UnreachableError
	var refused *api.RefusedError
	switch {
	case errors.As(err, &unreachable):
		hints := hintsUnreachable(unreachable, socketGroup(unreachable.Socket), named)
		if note != "" {
			hints = append(hints, note)
		}
		return &failure{code: exitUnreachable, err: err, hints: hints}
	case errors.As(err, &refused):
		if refused.Do == "" {
			return failed(err)
		}
		return failed(err, refused.Do)
	}
	return err
}

// socketGroup names the group that may open a socket; empty when it is not
// known, or is root's.
func socketGroup(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Gid == 0 {
		return ""
	}
	id := strconv.FormatUint(uint64(stat.Gid), 10)
	if group, err := user.LookupGroupId(id); err == nil {
		return group.Name
	}
	return id
}

// serverID takes BACKEND/SERVER apart.
func serverID(c *cobra.Command, text string) (backend, server string, err error) {
	backend, server, found := strings.Cut(text, "/")
	if !found || backend == "" || server == "" || strings.Contains(server, "/") {
		return "", "", usage(fmt.Errorf("%s: %q is not BACKEND/SERVER", c.Name(), text), hintExample(c))
	}
	return backend, server, nil
}

// again is a command line for the same daemon as this one's.
func (p *Program) again(c *cobra.Command, words ...string) string {
	line := "haproxy-weighter"
	for _, w := range words {
		line += " " + shellQuote(w)
	}
	switch {
	case p.control != "":
		line += " --control " + shellQuote(p.control)
	case c.Flags().Changed("config"):
		line += " -f " + shellQuote(p.file)
	}
	return line
}

// shellQuote writes a word as a shell takes it.
func shellQuote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_./:@%+=,-", r)
	}
	if word != "" && strings.TrimFunc(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// now is the time by the clock of this process.
func (p *Program) now() time.Time {
	if p.Now == nil {
		return time.Now()
	}
	return p.Now()
}
