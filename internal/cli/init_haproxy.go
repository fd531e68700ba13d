package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/haproxy"
)

const defaultHAProxyCfg = "/etc/haproxy/haproxy.cfg"

// usualSockets are where distributions and HAProxy's own examples have them.
var usualSockets = []string{"/run/haproxy/admin.sock", "/var/run/haproxy.sock"}

// initSocket is one HAProxy that lets weights be set.
type initSocket struct {
	client   *haproxy.Client
	address  haproxy.Address
	info     haproxy.Info
	backends []string
}

// initBackend is one backend, as all HAProxys told of it.
type initBackend struct {
	name       string
	on         []*initSocket // where it can be weighted; else where it is
	everywhere bool          // all HAProxys that have it can weight it
	algorithm  string
	servers    []string // in HAProxy's order, backup servers included
	why        string   // why it is left out; empty: it is not
	hopeless   bool     // no target would help
	found      *match   // nil: not looked for, or nothing
}

// weightable tells whether it is worth a search for its loads.
func (b *initBackend) weightable() bool { return !b.hopeless }

// ready tells whether it can be written as a backend that works.
func (b *initBackend) ready() bool { return b.why == "" && b.found != nil }

// initSockets finds the HAProxys. Of two sockets of one only the first counts.
func (p *Program) initSockets(ctx context.Context, f *initFlags) ([]*initSocket, error) {
	named := f.sockets
	var looked []string
	if len(named) == 0 {
		var err error
		if named, looked, err = f.socketsThatAre(); err != nil {
			return nil, failed(err)
		}
	}
	if len(named) == 0 {
		return nil, failed(fmt.Errorf("no runtime socket of HAProxy was found: looked at %s", strings.Join(looked, ", ")), doSocket, hintInitSocket)
	}
	var good []*initSocket
	var errs []error
	for _, name := range named {
		a, err := haproxy.ParseAddress(name)
		if err != nil {
			if len(f.sockets) > 0 {
				return nil, usage(fmt.Errorf("--socket: %w", err))
			}
			errs = append(errs, err)
			continue
		}
		k, err := askSocket(ctx, a)
		switch {
		case err != nil:
			errs = append(errs, err)
		case !slices.ContainsFunc(good, func(o *initSocket) bool { return o.info.SameProcess(k.info) }):
			good = append(good, k)
		}
	}
	// What was named must be there; what was only found may be of no use.
	if len(errs) > 0 && (len(good) == 0 || len(f.sockets) > 0) {
		return nil, failed(errors.Join(errs...), hintInitSockets(errs)...)
	}
	for _, err := range errs {
		p.hintf("left out: %s", printable(err.Error()))
	}
	return good, nil
}

// askSocket asks one HAProxy for what must be right before anything else counts.
func askSocket(ctx context.Context, a haproxy.Address) (*initSocket, error) {
	k := &initSocket{address: a, client: haproxy.NewClient(a, haproxy.Options{})}
	var err error
	if k.info, err = k.client.Info(ctx); err != nil {
		return nil, err
	}
	if r, found, do := judgeVersion(k.info.Version); r == fail {
		return nil, fmt.Errorf("%s at %s: %s", found, a, do)
	}
	if err = k.client.Probe(ctx); err != nil {
		return nil, err
	}
	k.backends, err = k.client.Backends(ctx)
	return k, err
}

// socketsThatAre looks for runtime sockets at their usual paths and in
// haproxy.cfg; with a haproxy.cfg that was named, in there only. looked are the
// places.
func (f *initFlags) socketsThatAre() (found, looked []string, err error) {
	if !f.cfgGiven {
		for _, path := range usualSockets {
			looked = append(looked, path)
			if info, err := os.Stat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
				found = append(found, path)
			}
		}
	}
	looked = append(looked, f.haproxyCfg)
	inFile, err := statsSockets(f.haproxyCfg)
	if err != nil && f.cfgGiven {
		return nil, nil, fmt.Errorf("--haproxy-cfg: %w", err)
	}
	for _, name := range inFile {
		if !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	return found, looked, nil
}

// largestCfg is far above any haproxy.cfg, in bytes.
const largestCfg = 16 << 20

// statsSockets reads the addresses on the lines "stats socket" of a haproxy.cfg.
func statsSockets(path string) ([]string, error) {
	// Without O_NONBLOCK a named pipe in its place would be waited for.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	var found []string
	lines := bufio.NewScanner(io.LimitReader(f, largestCfg))
	lines.Buffer(nil, largestCfg)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 3 || words[0] != "stats" || words[1] != "socket" {
			continue
		}
		if a := socketAddress(strings.Trim(words[2], `"'`)); a != "" {
			found = append(found, a)
		}
	}
	return found, lines.Err()
}

// socketAddress turns an address of haproxy.cfg into one of weighter.toml; ""
// when there is no such thing: a file descriptor, an environment variable that
// only HAProxy has.
func socketAddress(bind string) string {
	kind, rest, has := strings.Cut(bind, "@")
	switch {
	case strings.ContainsAny(bind, `$\,`):
		return ""
	case strings.HasPrefix(bind, "/"):
		return bind
	case has && kind == "unix" && strings.HasPrefix(rest, "/"):
		return rest
	case has && kind == "abns":
		return bind
	case has && (kind == "ipv4" || kind == "ipv6"):
		bind = rest
	case has:
		return ""
	}
	colon := strings.LastIndexByte(bind, ':')
	if colon < 0 {
		return ""
	}
	host, port := strings.Trim(bind[:colon], "[]"), bind[colon+1:]
	switch host {
	case "", "*", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return "tcp:" + host + ":" + port
}

// initBackends asks every HAProxy for all of its backends, in their order. Those
// without servers, such as a page of statistics, are none to speak of.
func initBackends(ctx context.Context, sockets []*initSocket) ([]*initBackend, error) {
	var all []*initBackend
	byName := make(map[string]*initBackend)
	for _, k := range sockets {
		for _, name := range k.backends {
			state, err := k.client.State(ctx, name)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err == nil && len(state.Servers) == 0 {
				continue
			}
			b := byName[name]
			if b == nil {
				b = &initBackend{name: name, everywhere: true}
				byName[name] = b
				all = append(all, b)
			}
			b.add(k, state, err)
		}
	}
	return all, nil
}

// add brings in what one more HAProxy says. Where it can be weighted on some of
// them only, the others do not count.
func (b *initBackend) add(k *initSocket, state *haproxy.State, err error) {
	why, hopeless := judgeBackend(state, err)
	switch {
	case len(b.on) == 0:
		b.why, b.hopeless = why, hopeless
	case why != "" && b.why == "":
		b.everywhere = false
		return
	case why == "" && b.why != "":
		*b = initBackend{name: b.name}
	}
	b.on = append(b.on, k)
	if state == nil {
		return
	}
	b.algorithm = state.Algorithm
	for _, v := range state.Servers {
		if !slices.Contains(b.servers, v.Name) {
			b.servers = append(b.servers, v.Name)
		}
	}
}

// judgeBackend says why a backend can't be weighted, "" when it can; and whether
// that is beyond doubt.
func judgeBackend(state *haproxy.State, err error) (why string, hopeless bool) {
	if err != nil {
		return haproxy.Cause(err).Error(), true
	}
	taking := 0
	for _, v := range state.Servers {
		if !v.Backup {
			taking++
		}
	}
	if taking < 2 {
		return wordsInitFewServers(taking), true
	}
	switch r, found, do := judgeAlgorithm(state.Algorithm, &config.Backend{}); r {
	case warn:
		return found + ": " + do, false
	case fail:
		return found + ": " + do, true
	}
	return "", false
}
