package haproxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Sessions are the ages of a backend's open connections.
type Sessions struct {
	Info Info
	// Ages are the ages by backend of the sessions that have a server. HAProxy
	// prints two units at most and rounds down: an age is exact to a second
	// below an hour, to a minute below a day, to an hour above, and the true
	// one is never less.
	Ages map[string][]time.Duration
	// Unplaced counts sessions without a server: in a queue, between two
	// requests, or the socket's own.
	Unplaced int
	// Unknown counts sessions whose age HAProxy could not tell (its clock was set back).
	Unknown int
}

// SessionAges reads "show sess". It gives up, with ErrTooManySessions, beyond
// limit sessions: before the dump if HAProxy's count of connections says so,
// else while it arrives. The socket's level must be operator or admin.
func (c *Client) SessionAges(ctx context.Context, limit int) (*Sessions, error) {
	const op = opSessions
	commands := []string{"show info", "show sess"}
	var s *Sessions
	err := c.again(ctx, func() (bool, error) {
		info, err := c.Info(ctx)
		if err != nil {
			return false, err
		}
		if info.Connections > limit {
			return false, c.wrap(op, commands[:1], fmt.Errorf("%w: %d, at most %d", ErrTooManySessions, info.Connections, limit))
		}
		err = c.exchange(ctx, op, commands, func(r io.Reader) (err error) {
			s, err = readSessions(r, limit, c.framed(commands))
			return err
		})
		return errors.Is(err, ErrStopping), err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// maxSessionLine bounds a line of "show sess"; real ones have about 350 bytes.
const maxSessionLine = 64 << 10

// readSessions reads the answer to "show info;show sess" as it comes, for it
// may be large.
func readSessions(r io.Reader, limit int, framed bool) (*Sessions, error) {
	b := bufio.NewReaderSize(r, maxSessionLine)
	info, err := readInfo(b)
	if err != nil {
		return nil, err
	}
	s := &Sessions{Info: info, Ages: make(map[string][]time.Duration)}
	for n := 0; ; {
		line, err := readLine(b)
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			break
		}
		if !bytes.Contains(line, runtimeSession) {
			n++
		}
		if n > limit {
			return nil, fmt.Errorf("%w: at most %d", ErrTooManySessions, limit)
		}
		if err := s.add(line); err != nil {
			return nil, err
		}
	}
	rest, err := io.ReadAll(io.LimitReader(b, maxSessionLine))
	if err != nil {
		return nil, err
	}
	return s, parseTail(&lines{rest: string(rest)}, info, framed)
}

// runtimeSession marks the connections to runtime sockets in "show sess". There
// is this one and, for a moment, those that have just had their answer; they
// are few, and HAProxy's count of connections leaves them out as well.
var runtimeSession = []byte(" fe=GLOBAL be=<NONE> ")

// readInfo collects the first answer and parses it.
func readInfo(b *bufio.Reader) (Info, error) {
	var text bytes.Buffer
	for {
		line, err := readLine(b)
		if errors.Is(err, ErrTruncated) {
			_, err := parseInfo(&lines{rest: text.String()})
			return Info{}, err
		}
		if err != nil {
			return Info{}, err
		}
		text.Write(line)
		text.WriteByte('\n')
		if text.Len() > maxSessionLine {
			return Info{}, fmt.Errorf("%w: show info does not end", ErrMismatch)
		}
		if len(line) == 0 {
			break
		}
	}
	info, err := parseInfo(&lines{rest: text.String()})
	if err == nil && info.Stopping {
		err = ErrStopping
	}
	return info, err
}

// readLine reads one line without its newline. An end before that is ErrTruncated.
func readLine(b *bufio.Reader) ([]byte, error) {
	line, err := b.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, fmt.Errorf("%w: a line of %d bytes and more", ErrMismatch, len(line))
	case errors.Is(err, io.EOF):
		return nil, ErrTruncated
	case err != nil:
		return nil, err
	}
	return line[:len(line)-1], nil
}

// add takes one line: "0x55c3...: proto=tcpv4 src=... fe=F be=B srv=S ... age=2s ...".
func (s *Sessions) add(line []byte) error {
	if !bytes.HasPrefix(line, []byte("0x")) {
		return classifyOr([]string{string(line)}, ErrMismatch)
	}
	var be, srv, age []byte
	for field := range bytes.FieldsSeq(line) {
		key, value, _ := bytes.Cut(field, []byte("="))
		switch string(key) {
		case "be":
			be = value
		case "srv":
			srv = value
		case "age":
			age = value
		}
		if be != nil && srv != nil && age != nil {
			break
		}
	}
	switch {
	case be == nil || srv == nil || age == nil:
		return fmt.Errorf("%w: a line of show sess has no be=, srv= or age=: %s", ErrMismatch, cut(string(line)))
	case bytes.HasPrefix(srv, []byte("<")) || bytes.HasPrefix(be, []byte("<")): // <none>, <NONE>
		s.Unplaced++
		return nil
	case string(age) == "?":
		s.Unknown++
		return nil
	}
	d, err := parseAge(string(age))
	if err != nil {
		return err
	}
	s.Ages[string(be)] = append(s.Ages[string(be)], d)
	return nil
}

// maxAge is the most that HAProxy's 31 bits of seconds hold. Four of it, one a
// unit, do not overflow a Duration.
const maxAge = (1<<31 - 1) * time.Second

// parseAge reads what HAProxy's human_time prints: one or two of days, hours,
// minutes and seconds, largest first, zero ones left out: "4d3h", "1h", "1m5s".
func parseAge(text string) (time.Duration, error) {
	bad := fmt.Errorf("%w: age %s is not a time", ErrMismatch, cut(text))
	var total, smallest time.Duration
	for rest := text; rest != "" || total == 0 && smallest == 0; {
		i := 0
		for i < len(rest) && rest[i] >= '0' && rest[i] <= '9' {
			i++
		}
		n, err := strconv.ParseUint(rest[:i], 10, 31)
		if err != nil || i == len(rest) {
			return 0, bad
		}
		var unit time.Duration
		switch rest[i] {
		case 'd':
			unit = 24 * time.Hour
		case 'h':
			unit = time.Hour
		case 'm':
			unit = time.Minute
		case 's':
			unit = time.Second
		}
		if unit == 0 || smallest != 0 && unit >= smallest || n > uint64(maxAge/unit) {
			return 0, bad
		}
		total += time.Duration(n) * unit
		smallest = unit
		rest = rest[i+1:]
	}
	return total, nil
}
