// Package haproxy speaks to HAProxy's runtime socket: typed commands in,
// typed state and typed errors out.
//
// Each call is one or a few short-lived connections, each with one line of
// commands joined by ";". That is the only form which HAProxy 2.6 to 3.4
// understand alike, it ties the answer to the worker named by "show info" on
// the same line, and it holds none of HAProxy's few slots longer than needed.
package haproxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

// Options tune a Client; each zero field means the default in its comment.
type Options struct {
	Timeout        time.Duration                               // one command line, dial to last byte; 0 means 2 s
	Dial           func(ctx context.Context) (net.Conn, error) // nil means dial Address
	MaxConnections int                                         // open at once; 0 means 2, HAProxy's own limit is 10 for all users of its sockets
	ReplyLimit     int64                                       // bytes of one reply; 0 means 32 MiB
	// Observe is told of each exchange, for metrics: from many goroutines at once.
	// took does not count the wait for one of MaxConnections, unless that was all.
	// command is one of the values of Commands. nil means nobody.
	Observe func(command string, err error, took time.Duration)
}

// Commands are the values of command in Options.Observe.
func Commands() []string {
	return []string{"info", "backends", "probe", "state", "weights", "sessions", "map_read", "map_change"}
}

// commandOf names an operation for Options.Observe.
func commandOf(op string) string {
	switch op {
	case opInfo:
		return "info"
	case opBackends:
		return "backends"
	case opProbe:
		return "probe"
	case opWeights:
		return "weights"
	case opSessions:
		return "sessions"
	case opMap:
		return "map_read"
	case opEditMap:
		return "map_change"
	}
	return "state"
}

// The operations, as errors name them.
const (
	opInfo     = "read the process information"
	opBackends = "list the backends"
	opProbe    = "try whether weights may be set"
	opMap      = "read a map"
	opEditMap  = "change a map"
	opSessions = "list the sessions"
	opState    = "read the servers"
	opWeights  = "set weights"
)

// Client sends commands to one runtime socket, one short-lived connection a
// line. It is safe for concurrent use and has at most a few connections open
// at once, because HAProxy allows 10 by default.
type Client struct {
	address Address
	options Options
	slots   chan struct{} // nil: the caller has taken one for us
}

// NewClient returns a client. It opens no connection.
func NewClient(a Address, o Options) *Client {
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Second
	}
	if o.MaxConnections <= 0 {
		o.MaxConnections = 2
	}
	if o.ReplyLimit <= 0 {
		o.ReplyLimit = 32 << 20
	}
	if o.Dial == nil {
		o.Dial = a.dial
	}
	return &Client{address: a, options: o, slots: make(chan struct{}, o.MaxConnections)}
}

// Address returns what the client was made with.
func (c *Client) Address() Address { return c.address }

// attempts is how often a line is sent when an old worker answers, which a
// reload makes happen about once.
const attempts = 5

// again runs one, as long as it asks for a new try: at once the first time,
// then with growing pauses, about a tenth of a second in all.
func (c *Client) again(ctx context.Context, one func() (retry bool, err error)) error {
	pause := time.Duration(0)
	for n := 1; ; n++ {
		retry, err := one()
		if !retry || n == attempts {
			return err
		}
		if pause > 0 {
			t := time.NewTimer(pause)
			select {
			case <-ctx.Done():
				t.Stop()
				return err
			case <-t.C:
			}
		}
		pause = 4*pause + 4*time.Millisecond
	}
}

// Info asks which worker answers. It may be an old one that is stopping.
func (c *Client) Info(ctx context.Context) (Info, error) {
	const op = opInfo
	commands := []string{"show info"}
	var info Info
	err := c.ask(ctx, op, commands, func(reply string) (err error) {
		info, err = parseInfo(&lines{rest: reply})
		return err
	})
	return info, err
}

// Backends lists the backends and listen sections that HAProxy has, disabled
// ones included, in its order, without the proxies it makes for itself.
func (c *Client) Backends(ctx context.Context) ([]string, error) {
	const op = opBackends
	commands := []string{"show backend"}
	var names []string
	err := c.ask(ctx, op, commands, func(reply string) (err error) {
		names, err = parseBackends(reply)
		return err
	})
	return names, err
}

// internalProxies are proxies that some versions of HAProxy create and list;
// further ones have names no configuration may have, such as "<OCSP-UPDATE>".
var internalProxies = [...]string{"MASTER", "HTTPCLIENT"}

func parseBackends(reply string) ([]string, error) {
	l := &lines{rest: reply}
	block, err := l.block()
	if err != nil {
		return nil, err
	}
	if len(block) == 0 || block[0] != "# name" {
		return nil, classifyOr(block, ErrMismatch)
	}
	names := []string{}
	for _, name := range block[1:] {
		if validName(name) && !slices.Contains(internalProxies[:], name) {
			names = append(names, name)
		}
	}
	return names, l.end()
}

// Probe finds out, without changing anything, whether the socket lets us set
// weights. It tries on a backend that cannot exist and looks at which refusal
// comes: the one for the level comes first.
func (c *Client) Probe(ctx context.Context) error {
	const op = opProbe
	commands := []string{"set server haproxy-weighter.probe:/none weight 1"}
	return c.ask(ctx, op, commands, parseProbe)
}

func parseProbe(reply string) error {
	l := &lines{rest: reply}
	block, err := l.block()
	if err != nil {
		return err
	}
	err = classifyOr(block, ErrMismatch)
	if is(err, ErrNoBackend, ErrNoServer, ErrDisabled) {
		return l.end()
	}
	return err
}

// validName has HAProxy's own alphabet for the names of proxies and servers.
// Nothing else may enter a command: ";", a space or a newline would end it.
func validName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9', c == '_', c == '.', c == ':', c == '-':
		default:
			return false
		}
	}
	return name != ""
}

// isName tells whether HAProxy may say that a proxy or server is called so.
func isName(name string) bool { return len(name) <= maxName && validName(name) }

// maxName is far above any real name and keeps one command well under maxLine.
const maxName = 1024

func checkName(kind, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: the %s name is empty", ErrName, kind)
	case len(name) > maxName:
		return fmt.Errorf("%w: the %s name has %d characters, at most %d are allowed", ErrName, kind, len(name), maxName)
	case !validName(name):
		return fmt.Errorf("%w: %s name %q: only letters, digits and _ . : - are allowed", ErrName, kind, name)
	}
	return nil
}

// ask sends one line and has the whole answer parsed; its error is wrapped. An
// answer that does not end is never used, but its words are: a master socket
// that was taken for a worker's says that it does not know the command, and
// then waits for the next.
func (c *Client) ask(ctx context.Context, op string, commands []string, parse func(reply string) error) error {
	return c.exchange(ctx, op, commands, func(r io.Reader) error {
		reply, err := io.ReadAll(r)
		if err == nil {
			return judge(parse(string(reply)))
		}
		if len(reply) == 0 {
			return err
		}
		if refusal := classify(string(reply)); refusal != nil {
			return fmt.Errorf("%w; and it did not end: %w", refusal, err)
		}
		return fmt.Errorf("%w; so far it was %s", err, cut(string(reply)))
	})
}
