package haproxy

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// What can be wrong with a map, for callers that decide on it.
var (
	// ErrNoMap: no line of haproxy.cfg reads a map by this path.
	ErrNoMap = errors.New("HAProxy has no such map loaded; haproxy.cfg must read it by exactly this path, as in `map_str_int(PATH,0)`, and the file must exist, though it may be empty")
	// ErrNoKey: the map does not have the key any more; read the map again.
	ErrNoKey = errors.New("the map has no such key; somebody else has taken it out")
	// ErrMapValue: the map's entries are of another type.
	ErrMapValue = errors.New("the map in haproxy.cfg does not take whole numbers; read it with map, map_str or map_str_int")
)

// mapRefusals are the beginnings of HAProxy's refusals of map commands.
var mapRefusals = [...]struct {
	prefix string
	err    error
}{
	{"Unknown map identifier.", ErrNoMap},
	{"entry not found.", ErrNoKey},
	{"Key not found.", ErrNoKey},
	{"unable to parse", ErrMapValue},
}

// MapEntry is one line of a map.
type MapEntry struct{ Key, Value string }

// Map is a map as one worker has it in memory. A key may be in it twice.
type Map struct {
	Info    Info
	Path    string
	Entries []MapEntry
}

// MapOp is what to do to a key.
type MapOp string

// The edits of a map. HAProxy keeps them in memory: the file does not change,
// and a reload reads the file again.
const (
	MapAdd    MapOp = "add" // a key that is not there; one that is there would be there twice
	MapSet    MapOp = "set" // a key that is there, once; HAProxy 2.6 may crash on a key that is there twice
	MapDelete MapOp = "del" // a key that is there; of one that is there twice 3.4 takes out the first, older ones both
)

// MapEdit is one change of a map.
type MapEdit struct {
	Op    MapOp
	Key   string // names of backends and servers, joined by a slash; see checkKey
	Value int64  // not used by MapDelete
}

// MapOutcome is what happened to a batch of edits.
type MapOutcome struct {
	Info    Info // of the worker that took them
	Applied int
	Failed  map[string]error // by key; nil when all went well
}

// validPath is what a map's path may look like: nothing that would end or
// change a command, and not "#", which would mean a number instead of a path.
var validPath = regexp.MustCompile(`^/[A-Za-z0-9_./:@%+,=~-]+$`)

// validKey is a name, or two joined by a slash.
var validKey = regexp.MustCompile(`^[A-Za-z0-9_.:-]+(/[A-Za-z0-9_.:-]+)?$`)

// CheckMapPath tells whether a path may enter a command. Its error says what
// is allowed.
func CheckMapPath(path string) error {
	switch {
	case len(path) > maxName:
		return fmt.Errorf("%w: the map's path has %d characters, at most %d are allowed", ErrName, len(path), maxName)
	case !validPath.MatchString(path):
		return fmt.Errorf("%w: map %q: the path must begin with / and have only letters, digits and _ . / : @ %% + , = ~ - in it", ErrName, path)
	}
	return nil
}

func checkKey(key string) error {
	if len(key) > 2*maxName+1 || !validKey.MatchString(key) {
		return fmt.Errorf("%w: map key %s: it must be a name, or a backend and a server joined by /", ErrName, cut(key))
	}
	return nil
}

// Map reads a map as the current worker has it. ErrNoMap when there is none.
func (c *Client) Map(ctx context.Context, path string) (*Map, error) {
	const op = opMap
	if err := CheckMapPath(path); err != nil {
		return nil, c.wrap(op, nil, err)
	}
	commands := []string{"show info", "show map " + path}
	var m *Map
	err := c.again(ctx, func() (bool, error) {
		err := c.ask(ctx, op, commands, func(reply string) (err error) {
			m, err = parseMap(reply, path, c.framed(commands))
			return err
		})
		return errors.Is(err, ErrStopping), err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func parseMap(reply, path string, framed bool) (*Map, error) {
	l := &lines{rest: reply}
	info, err := parseInfo(l)
	if err != nil {
		return nil, err
	}
	if info.Stopping {
		return nil, ErrStopping
	}
	m := &Map{Info: info, Path: path}
	block, err := l.block()
	if err != nil {
		return nil, err
	}
	for _, line := range block {
		// Each entry begins with its address in memory.
		rest, ok := strings.CutPrefix(line, "0x")
		if !ok {
			return nil, classifyMap(strings.Join(block, "\n"))
		}
		_, rest, _ = strings.Cut(rest, " ")
		key, value, _ := strings.Cut(rest, " ")
		m.Entries = append(m.Entries, MapEntry{Key: strings.Clone(key), Value: strings.Clone(value)})
	}
	return m, parseTail(l, info, framed)
}

// classifyMap gives the refusal of a map command its type.
func classifyMap(text string) error {
	bare := severity.ReplaceAllString(text, "")
	for _, r := range mapRefusals {
		if strings.HasPrefix(bare, r.prefix) {
			return &ReplyError{Err: r.err, Reply: text}
		}
	}
	return classifyOr([]string{text}, ErrMismatch)
}

// EditMap changes a map in the order of edits, at most perLine of them on one
// line; 0 means as many as fit.
//
// What HAProxy refuses for single keys (ErrNoKey, ErrMapValue) is in
// MapOutcome.Failed, with a nil error. An error means that the batch did not go
// through: a key or path that may not enter a command, and then nothing was
// sent; ErrNoMap, ErrPermission, ErrStopping, ErrMismatch, or the connection
// failed. The outcome of the lines that went through comes with it.
//
// Unlike SetWeights it sends nothing twice: an edit fits what was read before,
// from one worker. Compare MapOutcome.Info.Worker with the one that was read.
func (c *Client) EditMap(ctx context.Context, path string, edits []MapEdit, perLine int) (*MapOutcome, error) {
	const op = opEditMap
	if err := checkEdits(path, edits); err != nil {
		return nil, c.wrap(op, nil, err)
	}
	out := &MapOutcome{}
	for sent := 0; sent < len(edits); {
		commands, n := c.mapLine(path, edits[sent:], perLine)
		var info Info
		var answers []error
		err := c.ask(ctx, op, commands, func(reply string) (err error) {
			info, answers, err = parseEdits(reply, n, c.framed(commands))
			if err == nil && sent > 0 && info.Worker != out.Info.Worker {
				err = ErrStopping
			}
			return err
		})
		if err != nil {
			return out, err
		}
		out.Info = info
		for i, answer := range answers {
			if answer == nil {
				out.Applied++
				continue
			}
			if out.Failed == nil {
				out.Failed = make(map[string]error)
			}
			out.Failed[edits[sent+i].Key] = c.wrap(op, commands[1+i:2+i], answer)
		}
		sent += n
	}
	return out, nil
}

func checkEdits(path string, edits []MapEdit) error {
	if err := CheckMapPath(path); err != nil {
		return err
	}
	for _, e := range edits {
		if err := checkKey(e.Key); err != nil {
			return err
		}
		if e.Op != MapAdd && e.Op != MapSet && e.Op != MapDelete {
			return fmt.Errorf("%w: %q is not an edit of a map", ErrName, string(e.Op))
		}
	}
	return nil
}

// mapLine makes the commands of one line and tells how many edits it takes.
func (c *Client) mapLine(path string, edits []MapEdit, perLine int) ([]string, int) {
	commands := []string{"show info"}
	size := len(c.line([]string{commands[0], commands[0]}))
	for _, e := range edits {
		command := string(e.Op) + " map " + path + " " + e.Key
		if e.Op != MapDelete {
			command += " " + strconv.FormatInt(e.Value, 10)
		}
		size += len(c.line([]string{command}))
		full := perLine > 0 && len(commands) > perLine
		if full || size > maxLine && len(commands) > 1 {
			break
		}
		commands = append(commands, command)
	}
	return commands, len(commands) - 1
}

// parseEdits reads the answers to "show info" and n edits. What concerns the
// whole map is its error.
func parseEdits(reply string, n int, framed bool) (Info, []error, error) {
	l := &lines{rest: reply}
	info, err := parseInfo(l)
	if err != nil {
		return info, nil, err
	}
	if info.Stopping {
		return info, nil, ErrStopping
	}
	answers := make([]error, n)
	for i := range answers {
		text, err := l.answer(false)
		if err != nil {
			return info, nil, err
		}
		if text == "" {
			continue
		}
		if answers[i] = classifyMap(text); !is(answers[i], ErrNoKey, ErrMapValue) {
			return info, nil, answers[i]
		}
	}
	return info, answers, parseTail(l, info, framed)
}

// mapStall bounds how many entries HAProxy 2.6 compares for one line of edits:
// it walks the whole map for each set and del, 65 ns an entry as measured, and
// serves nobody on that thread meanwhile.
const mapStall = 150_000

// MapEditsPerLine is how many edits one line may well have, for EditMap, in a
// map of so many entries: it keeps a line below about 10 ms of one of
// HAProxy's threads.
func MapEditsPerLine(entries int) int {
	return max(1, mapStall/max(1, entries))
}
