package haproxy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// What can be wrong, for callers that decide on it. Each text says what it
// means and what to do; errors.Is finds them inside what the Client returns.
var (
	// ErrPermission: the socket's level is below admin, or below operator for show sess.
	ErrPermission = errors.New("this socket may not do that; put `level admin` on its `stats socket` line in haproxy.cfg and reload HAProxy")
	// ErrStaticAlgorithm: only 0 and the initial weight are possible in this backend.
	ErrStaticAlgorithm = errors.New("the backend's balance algorithm has fixed weights; use roundrobin, random or leastconn, or add `hash-type consistent` to a hash algorithm")
	// ErrNoServer: the server is gone, or never was; read the inventory again.
	ErrNoServer = errors.New("HAProxy has no such server; its configuration changed, or the name is misspelt")
	// ErrNoBackend: the backend is gone, or never was.
	ErrNoBackend = errors.New("HAProxy has no such backend; its configuration changed, or the name is misspelt")
	// ErrDisabled: an old worker after a reload kept answering, or the backend is switched off.
	ErrDisabled = errors.New("HAProxy says that the backend is switched off; look for `disabled` in its section of haproxy.cfg")
	// ErrStopping: every connection reached a worker that is stopping.
	ErrStopping = errors.New("only a HAProxy process that is stopping answers; its successor has not taken over the socket")
	// ErrWeight: a weight that we do not send, or that HAProxy does not take.
	ErrWeight = errors.New("a weight must be a whole number from 1 to 256")
	// ErrName: a name that must not enter a command.
	ErrName = errors.New("not a name that HAProxy allows")
	// ErrUsage: HAProxy did not understand the arguments of a command.
	ErrUsage = errors.New("HAProxy did not accept the command's form; this version may not be supported (2.6 to 3.4 are)")
	// ErrUnknownCommand: HAProxy does not know a command.
	ErrUnknownCommand = errors.New("HAProxy does not know the command; this version may not be supported (2.6 to 3.4 are), or the address is a master socket (write it as master:/path)")
	// ErrLineTooLong: HAProxy refused the whole line.
	ErrLineTooLong = errors.New("HAProxy's buffers are too small for the command line; raise `tune.bufsize` to the default of 16384 or more")
	// ErrNoWorker: the master CLI has no current worker.
	ErrNoWorker = errors.New("HAProxy's master has no current worker; look at its log for a failed reload")
	// ErrMismatch: the answers do not fit the commands. What was applied is not known: read again.
	ErrMismatch = errors.New("the answers do not fit the commands, so nothing is taken from them; the state is read again next time")
	// ErrNotKept: HAProxy accepted a weight and another one was in force right after.
	ErrNotKept = errors.New("HAProxy accepted the weight but has another one in force; something else sets weights too (agent-check, SRV records, a script)")
	// ErrTakenOut: somebody took the server out while a batch was on its way, so its weight was not sent.
	ErrTakenOut = errors.New("the server has been taken out meanwhile (weight 0, drain or maint), so it is left alone")
	// ErrTruncated: the connection ended in the middle of an answer.
	ErrTruncated = errors.New("HAProxy closed the connection in the middle of its answer, so nothing is taken from it")
	// ErrTooLarge: a reply beyond Options.ReplyLimit.
	ErrTooLarge = errors.New("HAProxy's answer is larger than allowed")
	// ErrTooManySessions: more sessions than the caller's limit.
	ErrTooManySessions = errors.New("HAProxy has more open sessions than may be listed")
	// ErrTimeout: no full answer within Options.Timeout.
	ErrTimeout = errors.New("no full answer in time; HAProxy hangs or is overloaded, or other programs hold all slots of its socket (`stats maxconn`, 10 by default)")
)

// OpError is the error of every method of Client that talked to HAProxy, or tried to.
type OpError struct {
	Op      string // what was being done, in words
	Address Address
	Command string // the line as sent, possibly long
	Err     error
}

// Error gives the operation, the socket, the cause and, when HAProxy answered
// something, the start of the command.
func (e *OpError) Error() string {
	text := fmt.Sprintf("haproxy: %s at %s: %v", e.Op, e.Address, e.Err)
	var reply *ReplyError
	if errors.As(e.Err, &reply) {
		text += fmt.Sprintf(" (command %s)", cut(e.Command))
	}
	return text
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// Cause is err for who says beside it which socket it is about and what to do:
// without the operation, the address and, when there was no answer, the advice.
// nil stays nil.
func Cause(err error) error {
	var op *OpError
	if !errors.As(err, &op) {
		return err
	}
	var dial *dialError
	switch {
	case errors.As(err, &dial):
		return errors.New(dial.cause())
	case errors.Is(err, ErrTimeout):
		fact, _, _ := strings.Cut(ErrTimeout.Error(), "; ")
		return errors.New(fact)
	}
	return op.Err
}

// dialError is an error of connect(2) in words: what is so, and what to do.
type dialError struct {
	words string // the first "; " parts the two
	err   error
}

func (e *dialError) Error() string { return e.words + ": " + e.err.Error() }

func (e *dialError) Unwrap() error { return e.err }

// cause is what is so, with the kernel's own word for it.
func (e *dialError) cause() string {
	fact, _, _ := strings.Cut(e.words, "; ")
	if number := syscall.Errno(0); errors.As(e.err, &number) {
		fact += ": " + number.Error()
	}
	return fact
}

// ReplyError is an answer of HAProxy that is a refusal, or is not understood.
type ReplyError struct {
	Err   error  // one of the Err variables
	Reply string // as HAProxy sent it
}

// Error quotes the answer, shortened, and says what it means.
func (e *ReplyError) Error() string {
	return fmt.Sprintf("HAProxy answered %s: %v", cut(e.Reply), e.Err)
}

// Unwrap returns the meaning.
func (e *ReplyError) Unwrap() error { return e.Err }

// cut quotes text for a message, its start only when it is long.
func cut(text string) string {
	const most = 160
	if len(text) <= most {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%q... (%d bytes)", text[:most], len(text))
}

func is(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

// wrap makes an OpError; nil stays nil.
func (c *Client) wrap(op string, commands []string, err error) error {
	if err == nil {
		return nil
	}
	return &OpError{Op: op, Address: c.address, Command: strings.TrimSuffix(c.line(commands), "\n"), Err: err}
}

// refusals are the beginnings of what HAProxy answers instead of doing it.
var refusals = [...]struct {
	prefix string
	err    error
}{
	{"Permission denied", ErrPermission},
	{"Backend is using a static LB algorithm", ErrStaticAlgorithm},
	{"No such server.", ErrNoServer},
	{"No such backend.", ErrNoBackend},
	{"Can't find backend.", ErrNoBackend},
	{"No such proxy.", ErrNoBackend},
	{"Proxy is disabled.", ErrDisabled},
	{"Absolute weight can only be between", ErrWeight},
	{"Relative weight", ErrWeight},
	{"Empty weight string", ErrWeight},
	{"Trailing garbage in weight string", ErrWeight},
	{"Require ", ErrUsage},
	{"usage: ", ErrUsage},
	{"Unknown command", ErrUnknownCommand},
	{"The command line is too big", ErrLineTooLong},
	{"Too many arguments", ErrLineTooLong},
	{"Can't find the target PID", ErrNoWorker},
	{"Can't find the target CLI", ErrNoWorker},
	{"Can't connect to the target CLI", ErrNoWorker},
}

// severity is what "severity-output number" and "severity-output string" put
// before an answer.
var severity = regexp.MustCompile(`^\[(?:[0-7]|emerg|alert|crit|err|warning|notice|info|debug)\]: `)

// classify gives a refusal its type; nil when the text is not a known one.
func classify(text string) error {
	bare := severity.ReplaceAllString(text, "")
	for _, r := range refusals {
		if strings.HasPrefix(bare, r.prefix) {
			return &ReplyError{Err: r.err, Reply: text}
		}
	}
	return nil
}

// classifyOr is classify for an answer that must be a refusal: other is what
// an unknown one counts as.
func classifyOr(block []string, other error) error {
	text := strings.Join(block, "\n")
	if err := classify(text); err != nil {
		return err
	}
	return &ReplyError{Err: other, Reply: text}
}

// explainDial puts the errors of connect(2) in words.
func explainDial(a Address, err error) error {
	say := func(words string) error { return &dialError{words, err} }
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return say("HAProxy was not asked: this process has no file descriptor left; raise its limit (LimitNOFILE, ulimit -n)")
	case errors.Is(err, syscall.EAGAIN):
		return say("all slots of HAProxy's socket are busy (`stats maxconn`, 10 by default); find who holds its connections open, or raise it")
	case errors.Is(err, syscall.ECONNREFUSED) && a.Kind == kindTCP:
		return say("nothing listens there; HAProxy does not run, or haproxy.cfg has no `stats socket ipv4@" + a.Path + " level admin`")
	case errors.Is(err, syscall.ECONNREFUSED) && a.Kind == kindABNS:
		return say("nothing listens there; HAProxy does not run, or haproxy.cfg has no `stats socket abns@" + a.Path + " level admin`")
	case errors.Is(err, syscall.ECONNREFUSED):
		return say("the file is there but nothing listens on it; HAProxy does not run, or a second HAProxy took the path away: restart the first one (with a master a reload keeps the lost socket)")
	case errors.Is(err, fs.ErrPermission):
		return say("our user may not open it; give its `stats socket` line `mode 660` and a `group` that our user is in")
	case errors.Is(err, fs.ErrNotExist) && a.Kind == kindMaster:
		return say("there is no such file; HAProxy does not run in master-worker mode with -S " + a.Path)
	case errors.Is(err, fs.ErrNotExist):
		return say("there is no such file; HAProxy does not run, or haproxy.cfg has no `stats socket " + a.Path + " level admin`")
	case errors.Is(err, syscall.ENOTSOCK):
		return say("the file is not a socket")
	}
	return err
}

// explainIO tells our own deadline from the caller's wish to stop.
func explainIO(caller context.Context, timeout time.Duration, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(caller); cause != nil {
		return fmt.Errorf("given up: %w", cause)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w (waited %v)", ErrTimeout, timeout)
	}
	if is(err, syscall.ECONNRESET, syscall.EPIPE) {
		return fmt.Errorf("%w: %w", ErrTruncated, err)
	}
	return err
}
