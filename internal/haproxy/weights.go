package haproxy

import (
	"context"
	"fmt"
	"strings"
)

// Change is one weight to set, always absolute.
type Change struct {
	Server string
	Weight int // 1..256; 0 is refused here, it would be a drain
}

// Outcome is what happened to a batch of changes.
type Outcome struct {
	Info    Info             // of the worker that took them
	Applied int              // changes HAProxy accepted
	Failed  map[string]error // by server; nil when all went well
	After   *State           // read back on the same connection; sessions are not filled
}

// SetWeights sets weights and reads the backend back on the same connection.
// At most perLine changes go on one line; 0 means as many as fit.
//
// What HAProxy refuses for single servers (ErrNoServer, ErrStaticAlgorithm,
// and ErrNotKept when the weight read back is another) is in Outcome.Failed,
// with a nil error. So is ErrTakenOut, for servers that are at weight 0, in
// drain or in maintenance: they are left alone. The backend is read for that
// right before the first line; each line reads it for the next; and it is read
// once more when a line had to wait for one of Options.MaxConnections. A weight
// of 0 that an operator sets between such a read and the line after it, which
// is a millisecond or two, is still undone: HAProxy can't set a weight on a
// condition. Drain and maintenance stay, whatever the weight.
//
// An error means that the batch did not go through: bad arguments, nothing is
// sent then; ErrPermission, ErrNoBackend, ErrDisabled, ErrStopping,
// ErrMismatch, or the connection failed. When some lines went through before
// it, the Outcome of those comes with the error; else it is nil.
//
// When an old worker answers, or a reload comes between two lines, the whole
// batch is sent again on new connections, the read before it included.
func (c *Client) SetWeights(ctx context.Context, backend string, changes []Change, perLine int) (*Outcome, error) {
	if err := checkChanges(backend, changes); err != nil {
		return nil, c.wrap(opWeights, nil, err)
	}
	var out *Outcome
	err := c.again(ctx, func() (bool, error) {
		b := batch{c: c, backend: backend, perLine: perLine, left: changes}
		var err error
		out, err = b.send(ctx)
		return is(err, ErrStopping, ErrDisabled), err
	})
	return out, err
}

func checkChanges(backend string, changes []Change) error {
	if err := checkName("backend", backend); err != nil {
		return err
	}
	seen := make(map[string]bool, len(changes))
	for _, ch := range changes {
		if err := checkName("server", ch.Server); err != nil {
			return err
		}
		if ch.Weight < 1 || ch.Weight > maxWeight {
			return fmt.Errorf("%w: %d for %s/%s", ErrWeight, ch.Weight, backend, ch.Server)
		}
		if seen[ch.Server] {
			return fmt.Errorf("%w: %s/%s is named twice in one batch", ErrName, backend, ch.Server)
		}
		seen[ch.Server] = true
	}
	return nil
}

// batch is a batch of changes on its way, to one worker.
type batch struct {
	c       *Client
	backend string
	perLine int
	left    []Change // not yet sent
	sent    []Change
	out     Outcome // After is what is known of the servers; nil when nothing is
}

// send sends the batch line by line.
func (b *batch) send(ctx context.Context) (*Outcome, error) {
	for b.out.After == nil || len(b.left) > 0 {
		commands := []string{"show info", "show servers state " + b.backend}
		err := b.c.inSlot(ctx, opWeights, commands, func(c *Client, waited bool) error {
			if waited || b.out.After == nil {
				if err := b.exchange(ctx, c, commands, nil); err != nil {
					return err
				}
			}
			b.leaveOut()
			if len(b.left) == 0 {
				return nil
			}
			commands, n := c.setLine(b.backend, b.left, b.perLine)
			return b.exchange(ctx, c, commands, b.left[:n])
		})
		switch {
		case err != nil && (len(b.sent) == 0 || is(err, ErrStopping)):
			return nil, err // earlier lines, if any, went to a worker that is not there any more
		case err != nil:
			b.verify()
			return &b.out, err
		}
	}
	b.verify()
	return &b.out, nil
}

// exchange sends one line with these changes, which are the next of the batch.
func (b *batch) exchange(ctx context.Context, c *Client, commands []string, changes []Change) error {
	var a *weightAnswers
	err := c.ask(ctx, opWeights, commands, func(reply string) (err error) {
		a, err = parseWeights(reply, b.backend, len(changes), c.framed(commands))
		return err
	})
	switch {
	case err != nil:
		return err
	case b.out.After != nil && a.info.Worker != b.out.Info.Worker:
		return c.wrap(opWeights, commands, ErrStopping)
	}
	b.out.Info, b.out.After = a.info, a.state
	for i, answer := range a.answers {
		if answer != nil {
			b.fail(changes[i], answer)
		}
	}
	b.sent, b.left = append(b.sent, changes...), b.left[len(changes):]
	return nil
}

// leaveOut takes servers that are taken out from what is left of the batch.
func (b *batch) leaveOut() {
	taken := make(map[string]bool)
	for i := range b.out.After.Servers {
		if s := &b.out.After.Servers[i]; s.Draining() || s.Admin.Maint() {
			taken[s.Name] = true
		}
	}
	if len(taken) == 0 {
		return
	}
	left := make([]Change, 0, len(b.left))
	for _, ch := range b.left {
		if taken[ch.Server] {
			b.fail(ch, ErrTakenOut)
			continue
		}
		left = append(left, ch)
	}
	b.left = left
}

func (b *batch) fail(ch Change, err error) {
	if b.out.Failed == nil {
		b.out.Failed = make(map[string]error)
	}
	b.out.Failed[ch.Server] = b.c.wrap(opWeights, []string{setCommand(b.backend, ch)}, err)
}

// verify compares what was set with what was read back and counts.
func (b *batch) verify() {
	inForce := make(map[string]int, len(b.out.After.Servers))
	for _, s := range b.out.After.Servers {
		inForce[s.Name] = s.Weight
	}
	for _, ch := range b.sent {
		if b.out.Failed[ch.Server] != nil {
			continue
		}
		weight, ok := inForce[ch.Server]
		switch {
		case !ok:
			b.fail(ch, fmt.Errorf("%w: it was removed right after", ErrNoServer))
		case weight != ch.Weight:
			b.fail(ch, fmt.Errorf("%w: %s/%s was set to %d and is %d", ErrNotKept, b.backend, ch.Server, ch.Weight, weight))
		default:
			b.out.Applied++
		}
	}
}

// setLine makes the commands of one line and tells how many changes it takes.
func (c *Client) setLine(backend string, changes []Change, perLine int) ([]string, int) {
	first, last := "show info", "show servers state "+backend
	commands := []string{first}
	size := len(c.line([]string{first, last}))
	for _, ch := range changes {
		command := setCommand(backend, ch)
		size += len(c.line([]string{command}))
		full := perLine > 0 && len(commands) > perLine
		if full || size > maxLine && len(commands) > 1 {
			break
		}
		commands = append(commands, command)
	}
	return append(commands, last), len(commands) - 1
}

func setCommand(backend string, ch Change) string {
	return "set server " + backend + "/" + ch.Server + " weight " + decimal(ch.Weight)
}

// weightAnswers is the answer to one line of weights.
type weightAnswers struct {
	info    Info
	answers []error // one a change; nil is success
	state   *State
}

// parseWeights reads the answers to "show info", n weights and "show servers
// state". What concerns the whole batch is its error.
//
// Every answer ends in an empty line and success is nothing else. But some
// refusals of HAProxy 2.6 lack it. So the answers are counted both ways, and
// one of them must lead exactly to the dump at the end.
func parseWeights(reply, backend string, n int, framed bool) (*weightAnswers, error) {
	l := &lines{rest: reply}
	info, err := parseInfo(l)
	if err != nil {
		return nil, err
	}
	if info.Stopping {
		return nil, ErrStopping
	}
	var first error
	for _, unframed := range []bool{false, true} {
		rest := &lines{rest: l.rest}
		answers, err := parseAnswers(rest, n, unframed)
		if err == nil {
			var servers []Server
			if servers, _, err = parseServers(rest, backend); err == nil {
				err = parseTail(rest, info, framed)
			}
			if err == nil {
				return &weightAnswers{info, answers, &State{Info: info, Backend: backend, Servers: servers}}, nil
			}
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// unframedRefusals are what HAProxy 2.6 answers without the empty line.
var unframedRefusals = [...]string{"Empty weight string", "Trailing garbage in weight string"}

// parseAnswers reads n answers to "set server ... weight".
func parseAnswers(l *lines, n int, unframed bool) ([]error, error) {
	answers := make([]error, n)
	for i := range answers {
		text, err := l.answer(unframed)
		if err != nil {
			return nil, err
		}
		if text == "" {
			continue
		}
		answers[i] = classify(text)
		switch {
		case answers[i] == nil:
			return nil, &ReplyError{Err: ErrMismatch, Reply: text}
		case is(answers[i], ErrPermission, ErrNoBackend, ErrDisabled, ErrUnknownCommand, ErrUsage, ErrLineTooLong, ErrNoWorker):
			return nil, answers[i] // the same for every server
		}
	}
	return answers, nil
}

// answer reads one answer; success is the empty text.
func (l *lines) answer(unframed bool) (string, error) {
	line, ok := l.next()
	if !ok {
		return "", ErrTruncated
	}
	if line == "" {
		return "", nil
	}
	text := []string{line}
	if unframed {
		for _, prefix := range unframedRefusals {
			if strings.HasPrefix(severity.ReplaceAllString(line, ""), prefix) {
				return line, nil
			}
		}
	}
	more, err := l.block()
	return strings.Join(append(text, more...), "\n"), err
}
