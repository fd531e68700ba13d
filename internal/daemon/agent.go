package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/negasus/haproxy-spoe-go/action"
	"golang.org/x/sync/errgroup"

	"github.com/haproxy-weighter/haproxy-weighter/internal/admin"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/query"
	"github.com/haproxy-weighter/haproxy-weighter/spoa"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// drainLimit is how long the answers in hand may take at the end. They take
// microseconds; a peer that does not read takes the rest.
const drainLimit = 5 * time.Second

// agent is the SPOE agent of the daemon, with its listeners open.
type agent struct {
	server    *spoa.Server
	counts    func() (query.Counts, bool)
	wait      func() // for what answers have left to be done
	listeners []net.Listener
	log       *slog.Logger
}

// newAgent opens the listeners of [spoa], but for those that systemd holds open
// for us; they are all closed on an error. It returns nil when the
// configuration has none.
func (d *daemon) newAgent(ctx context.Context) (*agent, error) {
	c := d.options.Config.SPOA
	if len(c.Listen) == 0 {
		return nil, nil
	}
	given, err := inherited()
	if err != nil {
		return nil, err
	}
	a := &agent{counts: d.queries, wait: func() { d.current.Load().handler.Wait() }, log: d.log}
	a.server = &spoa.Server{
		Handler: spoa.HandlerFunc(d.serveSPOE), MaxFrameSize: c.MaxFrameSize, MaxConns: c.MaxConnections,
		IdleTimeout: c.IdleTimeout, Logger: d.log, Observer: d.metrics,
	}
	for _, address := range c.Listen {
		l := given.take(address)
		if l == nil {
			l, err = listen(ctx, address)
		}
		if err != nil {
			a.close()
			given.close()
			return nil, &ListenError{Address: address, err: err}
		}
		a.listeners = append(a.listeners, l)
	}
	if unknown := given.close(); len(unknown) > 0 {
		a.close()
		return nil, fmt.Errorf("systemd hands over sockets that spoa.listen does not name: %s; make the ListenStream= of the socket unit and spoa.listen the same",
			strings.Join(unknown, ", "))
	}
	return a, nil
}

func (a *agent) close() {
	for _, l := range a.listeners {
		l.Close()
	}
}

// ListenError is an address of spoa.listen that can't be listened on.
type ListenError struct {
	Address config.Listener
	err     error
}

func (e *ListenError) Error() string {
	return fmt.Sprintf("SPOE agent: can't listen on %s: %v", e.Address, e.err)
}

func (e *ListenError) Unwrap() error { return e.err }

// serveSPOE answers from the generation in force.
func (d *daemon) serveSPOE(answer *action.Actions, r *spoa.Request) error {
	return d.current.Load().handler.ServeSPOE(answer, r)
}

// newHandler answers from the fleet's tables, and is told of each new one.
func newHandler(c *config.Config, fleet *balancer.Fleet, before *query.Handler, log *slog.Logger) *query.Handler {
	o := query.Options{Logger: log, Before: before, Script: c.SPOA.Script}
	for i, b := range fleet.Balancers() {
		o.Sources = append(o.Sources, sourceOf(&c.Backends[i], b.Tables))
	}
	h := query.New(o)
	for i, b := range fleet.Balancers() {
		name := c.Backends[i].Name
		b.Notify(func() { h.Refresh(name) })
	}
	return h
}

// listen opens one listener. A unix socket takes everybody who may reach its
// folder, as a port of 127.0.0.1 does: HAProxy has another user than we.
func listen(ctx context.Context, l config.Listener) (net.Listener, error) {
	var lc net.ListenConfig
	if l.Network != "unix" {
		return lc.Listen(ctx, l.Network, l.Address)
	}
	if err := checkFolder(filepath.Dir(l.Address)); err != nil {
		return nil, err
	}
	if err := removeStale(ctx, l.Address); err != nil {
		return nil, err
	}
	opened, err := lc.Listen(ctx, l.Network, l.Address)
	if err != nil {
		return nil, err
	}
	if err := admin.SetSocketMode(l.Address, 0o666); err != nil {
		opened.Close()
		return nil, err
	}
	return opened, nil
}

// checkFolder refuses a folder in which anybody could take the socket away and
// answer in its place. In one like /tmp, with the sticky bit, nobody can.
func checkFolder(folder string) error {
	info, err := os.Stat(folder)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o002 != 0 && info.Mode()&os.ModeSticky == 0 {
		return fmt.Errorf("everybody may write to the folder %s, and so could put a socket of his own there: take that away (chmod o-w %s), or choose another path", folder, folder)
	}
	return nil
}

// removeStale removes a socket that a killed process has left behind: one that
// nobody listens on.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return nil // not there, or the listen tells what is wrong
	}
	if info.Mode()&os.ModeSocket == 0 {
		return errors.New("the file is there and is not a socket")
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		conn.Close()
		return syscall.EADDRINUSE
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return os.Remove(path)
	}
	return err
}

// run answers until ctx ends, then lets the answers in hand go out and returns
// nil. A listener that fails for good is an error, after the same end.
func (a *agent) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, l := range a.listeners {
		g.Go(func() error {
			if err := a.server.Serve(l); !errors.Is(err, spoa.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	a.log.Info("SPOE agent listens", "on", a.addresses())
	g.Go(func() error {
		<-ctx.Done()
		a.drain()
		return nil
	})
	return g.Wait()
}

func (a *agent) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	err := a.server.Shutdown(ctx)
	if err != nil {
		a.log.Warn("SPOE connections were cut: their peers did not take the answers", "waited", drainLimit.String(),
			"meanwhile", "HAProxy goes on without variables")
	} else {
		a.wait()
	}
	counts, _ := a.counts()
	args := []any{"on", a.addresses(), "unknown_messages", counts.Unknown}
	for _, name := range slices.Sorted(maps.Keys(counts.ByMessage)) {
		m := counts.ByMessage[name]
		args = append(args, name, m.Answered+m.NotFound+m.Refused)
	}
	a.log.Info("SPOE agent has ended; HAProxy goes on by the weights", args...)
}

func (a *agent) addresses() string {
	var all []string
	for _, l := range a.listeners {
		all = append(all, l.Addr().String())
	}
	return strings.Join(all, " ")
}

// sourceOf says where the answers about a backend come from.
func sourceOf(b *config.Backend, tables func() []*balancer.Table) query.Source {
	return query.Source{
		Backend: b.Name, Tables: tables, MaxAge: b.MaxAge, Quorum: b.Weighting.Quorum,
		HigherIsBetter: b.Weighting.Better == weighting.Higher,
	}
}
