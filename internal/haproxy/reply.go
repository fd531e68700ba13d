package haproxy

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// lines walks through a reply. Every line counts only with its newline: what
// follows the last one was cut off.
type lines struct{ rest string }

func (l *lines) next() (string, bool) {
	line, rest, ok := strings.Cut(l.rest, "\n")
	if !ok {
		return "", false
	}
	l.rest = rest
	return line, true
}

// block reads the lines up to an empty one, the end of every answer.
func (l *lines) block() ([]string, error) {
	var block []string
	for {
		line, ok := l.next()
		if !ok {
			// Some refusals of a whole line have no empty line after them.
			if len(block) > 0 && l.rest == "" {
				if err := classify(block[0]); err != nil {
					return nil, err
				}
			}
			return nil, ErrTruncated
		}
		if line == "" {
			return block, nil
		}
		block = append(block, line)
	}
}

// skipBlank drops empty lines: versions differ in how many follow a dump.
func (l *lines) skipBlank() {
	l.rest = strings.TrimLeft(l.rest, "\n")
}

// end makes sure that nothing but empty lines is left.
func (l *lines) end() error {
	l.skipBlank()
	if l.rest != "" {
		return &ReplyError{Err: ErrMismatch, Reply: l.rest}
	}
	return nil
}

// Worker tells one HAProxy worker process from its successor.
type Worker struct {
	PID       int
	StartTime int64 // Start_time_sec of "show info"
}

// Info is the part of "show info" that we use.
type Info struct {
	Worker      Worker
	Version     string
	Node        string
	Stopping    bool
	Uptime      time.Duration
	Connections int // CurrConns: client connections of all frontends
}

// SameProcess tells whether both come from one process, read through two
// sockets perhaps: the number of the process alone may be that of another
// container.
func (i Info) SameProcess(o Info) bool {
	return i.Worker != (Worker{}) && i.Worker == o.Worker && i.Node == o.Node
}

// parseInfo reads the answer to "show info". Every key that we use must be there.
func parseInfo(l *lines) (Info, error) {
	block, err := l.block()
	if err != nil {
		return Info{}, err
	}
	if len(block) == 0 || !strings.HasPrefix(block[0], "Name: ") {
		return Info{}, classifyOr(block, ErrMismatch)
	}
	values := make(map[string]string, len(block))
	for _, line := range block {
		if key, value, ok := strings.Cut(line, ":"); ok {
			values[key] = strings.TrimSpace(value)
		}
	}
	n := numbers{subject: "show info", values: values}
	info := Info{
		Worker:      Worker{PID: int(n.get("Pid")), StartTime: n.get("Start_time_sec")},
		Version:     values["Version"],
		Node:        values["node"],
		Stopping:    n.get("Stopping") != 0,
		Uptime:      time.Duration(n.get("Uptime_sec")) * time.Second,
		Connections: int(n.get("CurrConns")),
	}
	if n.err != nil {
		return Info{}, n.err
	}
	if info.Worker.PID == 0 || info.Version == "" {
		return Info{}, fmt.Errorf("%w: show info without Pid or Version", ErrMismatch)
	}
	return info, nil
}

// numbers reads whole, non-negative numbers and remembers the first failure,
// so that a missing or garbled one is never taken for zero.
type numbers struct {
	subject string
	values  map[string]string
	err     error
}

func (n *numbers) get(key string) int64 {
	value, ok := n.values[key]
	if !ok {
		n.fail("%s has no %s", n.subject, key)
		return 0
	}
	return n.parse(key, value)
}

func (n *numbers) parse(key, value string) int64 {
	v, err := strconv.ParseUint(value, 10, 63)
	if err != nil {
		n.fail("%s: %s is %s, not a number", n.subject, key, cut(value))
	}
	return int64(v)
}

func (n *numbers) fail(format string, args ...any) {
	if n.err == nil {
		n.err = fmt.Errorf("%w: %s", ErrMismatch, fmt.Sprintf(format, args...))
	}
}
