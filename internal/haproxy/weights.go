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
// with a nil error; so is ErrTakenOut, for servers that an operator took out
// before their line was sent: a batch of many lines takes seconds, and its
// weights would put them back. An error means that the batch did not go through: bad
// arguments, nothing is sent then; ErrPermission, ErrNoBackend, ErrDisabled,
// ErrStopping, ErrMismatch, or the connection failed. When some lines went
// through before it, the Outcome of those comes with the error; else it is nil.
//
// When an old worker answers, or a reload comes between two lines, the whole
// batch is sent again on new connections, once the new worker has been asked
// which servers its configuration takes out.
func (c *Client) SetWeights(ctx context.Context, backend string, changes []Change, perLine int) (*Outcome, error) {
	const op = opWeights
	if err := checkChanges(backend, changes); err != nil {
		return nil, c.wrap(op, nil, err)
	}
	var out *Outcome
	var now *State // of the worker that is there now, when it is not the first one asked
	err := c.again(ctx, func() (bool, error) {
		var err error
		out, err = c.setOnce(ctx, op, backend, changes, perLine, now)
		if is(err, ErrStopping) {
			var unread error
			if now, unread = c.stateOnce(ctx, op, stateCommands(backend), backend); unread != nil {
				err = unread
			}
		}
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

// setOnce sends the batch line by line. now is what is known of the servers; nil
// when nothing is.
func (c *Client) setOnce(ctx context.Context, op, backend string, changes []Change, perLine int, now *State) (*Outcome, error) {
	out := &Outcome{}
	var sent []Change
	for left := changes; out.After == nil || len(left) > 0; {
		if now != nil {
			if left = out.leaveOut(c, op, backend, left, now); len(left) == 0 && out.After != nil {
				break
			}
		}
		commands, n := c.setLine(backend, left, perLine)
		a, err := c.setOneLine(ctx, op, backend, commands, n)
		if err == nil && out.After != nil && a.info.Worker != out.Info.Worker {
			err = c.wrap(op, commands, ErrStopping)
		}
		switch {
		case err != nil && (out.After == nil || is(err, ErrStopping)):
			return nil, err // earlier lines, if any, went to a worker that is not there any more
		case err != nil:
			out.verify(c, op, backend, sent)
			return out, err
		}
		out.Info, out.After, now = a.info, a.state, a.state
		for i, answer := range a.answers {
			if answer != nil {
				out.fail(left[i].Server, c.wrap(op, commands[1+i:2+i], answer))
			}
		}
		sent, left = append(sent, left[:n]...), left[n:]
	}
	out.verify(c, op, backend, sent)
	return out, nil
}

// leaveOut returns the changes without those of servers that are taken out.
func (o *Outcome) leaveOut(c *Client, op, backend string, changes []Change, now *State) []Change {
	out := make(map[string]bool)
	for i := range now.Servers {
		if s := &now.Servers[i]; s.Draining() || s.Admin.Maint() {
			out[s.Name] = true
		}
	}
	if len(out) == 0 {
		return changes
	}
	left := make([]Change, 0, len(changes))
	for _, ch := range changes {
		if out[ch.Server] {
			o.fail(ch.Server, c.wrap(op, []string{setCommand(backend, ch)}, ErrTakenOut))
			continue
		}
		left = append(left, ch)
	}
	return left
}

func (c *Client) setOneLine(ctx context.Context, op, backend string, commands []string, n int) (*weightAnswers, error) {
	var a *weightAnswers
	err := c.ask(ctx, op, commands, func(reply string) (err error) {
		a, err = parseWeights(reply, backend, n, c.framed(commands))
		return err
	})
	return a, err
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

func (o *Outcome) fail(server string, err error) {
	if o.Failed == nil {
		o.Failed = make(map[string]error)
	}
	o.Failed[server] = err
}

// verify compares what was set with what was read back and counts.
func (o *Outcome) verify(c *Client, op, backend string, changes []Change) {
	inForce := make(map[string]int, len(o.After.Servers))
	for _, s := range o.After.Servers {
		inForce[s.Name] = s.Weight
	}
	for _, ch := range changes {
		if o.Failed[ch.Server] != nil {
			continue
		}
		weight, ok := inForce[ch.Server]
		switch {
		case !ok:
			o.fail(ch.Server, c.wrap(op, []string{setCommand(backend, ch)}, fmt.Errorf("%w: it was removed right after", ErrNoServer)))
		case weight != ch.Weight:
			o.fail(ch.Server, c.wrap(op, []string{setCommand(backend, ch)}, fmt.Errorf("%w: %s/%s was set to %d and is %d", ErrNotKept, backend, ch.Server, ch.Weight, weight)))
		default:
			o.Applied++
		}
	}
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
