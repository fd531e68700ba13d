package haproxy

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// State reads one backend: worker, servers, sessions, on one connection.
//
// "show stat NAME" prefers a frontend of the same name and then lists no
// server. Only then a second connection asks by the backend's number.
func (c *Client) State(ctx context.Context, backend string) (*State, error) {
	const op = opState
	if err := checkName("backend", backend); err != nil {
		return nil, c.wrap(op, nil, err)
	}
	commands := stateCommands(backend)
	var state *State
	err := c.again(ctx, func() (bool, error) {
		var err error
		state, err = c.stateOnce(ctx, op, commands, backend)
		return is(err, ErrStopping, errChanging), err
	})
	if err != nil {
		return nil, err
	}
	return state, nil
}

func stateCommands(backend string) []string {
	return []string{"show info", "show servers state " + backend, "show stat " + backend + " 6 -1"}
}

// errChanging is found inside an ErrMismatch that a new try may cure.
var errChanging = errors.New("servers were added or removed meanwhile")

// stateOnce asks for the rows of "show stat" by name, then by number, then,
// when another proxy is called like that number, for all of them.
func (c *Client) stateOnce(ctx context.Context, op string, commands []string, backend string) (*State, error) {
	for n := 0; ; n++ {
		var state *State
		var id int
		err := c.ask(ctx, op, commands, func(reply string) (err error) {
			state, id, err = parseState(reply, backend, c.framed(commands))
			return err
		})
		switch {
		case !errors.Is(err, errNoRows):
			return state, err
		case n == 0:
			commands = []string{commands[0], commands[1], fmt.Sprintf("show stat %d 6 -1", id)}
		case n == 1:
			commands = []string{commands[0], commands[1], "show stat -1 6 -1"}
		default: // there are no rows of a backend that is switched off
			return nil, c.wrap(op, commands, ErrDisabled)
		}
	}
}

var errNoRows = errors.New("show stat has no row of the backend")

// parseState reads the answers to "show info", "show servers state" and "show
// stat". With errNoRows comes the number of the backend.
func parseState(reply, backend string, framed bool) (*State, int, error) {
	l := &lines{rest: reply}
	info, err := parseInfo(l)
	if err != nil {
		return nil, 0, err
	}
	if info.Stopping {
		return nil, 0, ErrStopping
	}
	l.skipBlank()
	servers, id, err := parseServers(l, backend)
	if err != nil {
		return nil, 0, err
	}
	l.skipBlank()
	block, err := l.block()
	if err != nil {
		return nil, 0, err
	}
	if err := parseTail(l, info, framed); err != nil {
		return nil, 0, err
	}
	s := &State{Info: info, Backend: backend, Servers: servers}
	return s, id, mergeStat(s, block)
}

// parseTail reads what follows the last answer: nothing, or on a master
// socket the identity of the worker that gave the last one.
func parseTail(l *lines, first Info, framed bool) error {
	if framed {
		l.skipBlank()
		last, err := parseInfo(l)
		if err != nil {
			return err
		}
		if last.Worker != first.Worker || last.Stopping {
			return ErrStopping
		}
	}
	return l.end()
}

// serverColumns are the columns of "show servers state" that we need.
var serverColumns = [...]string{"be_id", "be_name", "srv_id", "srv_name", "srv_op_state", "srv_admin_state",
	"srv_uweight", "srv_iweight", "srv_time_since_last_change"}

// maxWeight is HAProxy's SRV_UWGHT_MAX.
const maxWeight = 256

// parseServers reads the answer to "show servers state". The second result is
// the backend's number, 0 when it has no servers.
func parseServers(l *lines, backend string) ([]Server, int, error) {
	block, err := l.block()
	if err != nil {
		return nil, 0, err
	}
	if len(block) < 2 || block[0] != "1" || !strings.HasPrefix(block[1], "# ") {
		return nil, 0, classifyOr(block, ErrMismatch)
	}
	header := strings.Fields(block[1][1:])
	column, err := columns("show servers state", header, serverColumns[:])
	if err != nil {
		return nil, 0, err
	}
	servers, id := make([]Server, 0, len(block)-2), 0
	fields := make([]string, 0, len(header)+1)
	for _, line := range block[2:] {
		fields = splitWords(fields[:0], line)
		if len(fields) < len(header) {
			return nil, 0, fmt.Errorf("%w: a line of show servers state has %d of %d columns: %s", ErrMismatch, len(fields), len(header), cut(line))
		}
		n := &numbers{subject: "show servers state"}
		if name := fields[column["be_name"]]; name != backend {
			n.fail("show servers state is of backend %s, not %s", cut(name), backend)
		}
		id = int(n.parse("be_id", fields[column["be_id"]]))
		s := parseServer(n, column, fields)
		if n.err != nil {
			return nil, 0, n.err
		}
		servers = append(servers, s)
	}
	return servers, id, nil
}

// parseServer reads one line; a failure is in n.
func parseServer(n *numbers, column map[string]int, fields []string) Server {
	number := func(name string) int { return int(n.parse(name, fields[column[name]])) }
	s := Server{
		Name:          strings.Clone(fields[column["srv_name"]]), // a table outlives the reply
		ID:            number("srv_id"),
		Op:            OpState(number("srv_op_state")),
		Admin:         AdminState(number("srv_admin_state")),
		Weight:        number("srv_uweight"),
		InitialWeight: number("srv_iweight"),
		SinceChange:   time.Duration(number("srv_time_since_last_change")) * time.Second,
	}
	if i, ok := column["srvrecord"]; ok && fields[i] != "-" {
		s.SRV = fields[i]
	}
	if !isName(s.Name) { // it goes into commands, logs and metrics
		n.fail("%s is no name that HAProxy gives a server", cut(s.Name))
	}
	if s.Weight > maxWeight || s.InitialWeight > maxWeight {
		n.fail("weight %d (initial %d) of %s is above %d", s.Weight, s.InitialWeight, s.Name, maxWeight)
	}
	return s
}

// columns finds the columns of a dump by name, wherever a version puts them.
func columns(subject string, header, wanted []string) (map[string]int, error) {
	column := make(map[string]int, len(header))
	for i, name := range header {
		column[name] = i
	}
	for _, name := range wanted {
		if _, ok := column[name]; !ok {
			return nil, fmt.Errorf("%w: %s has no column %s", ErrMismatch, subject, name)
		}
	}
	return column, nil
}

// statColumns are the columns of "show stat" that we need.
var statColumns = [...]string{"pxname", "svname", "type", "sid", "scur", "stot", "bck", "throttle", "agent_status", "algo"}

// The values of the column type that the type mask 6 asks for.
const (
	statBackend = "1"
	statServer  = "2"
)

// mergeStat fills what only "show stat" knows into the servers.
func mergeStat(s *State, block []string) error {
	if len(block) == 0 || !strings.HasPrefix(block[0], "# pxname,") {
		return classifyOr(block, ErrMismatch)
	}
	header := strings.Split(block[0][2:], ",")
	width := len(header)
	column, err := columns("show stat", header, statColumns[:])
	if err != nil {
		return err
	}
	m := merge{state: s, column: column, width: width, byID: make(map[int]int, len(s.Servers))}
	for i, srv := range s.Servers {
		m.byID[srv.ID] = i
	}
	row := make([]string, 0, width+1)
	for rest := block[1:]; len(rest) > 0; {
		if row, rest, err = splitRow(row[:0], rest); err != nil {
			return err
		}
		if err := m.row(row); err != nil {
			return err
		}
	}
	return m.end()
}

// merge brings rows of "show stat" and servers together, by the servers' numbers.
type merge struct {
	state   *State
	column  map[string]int
	width   int // columns of the header
	byID    map[int]int
	seen    int
	backend bool
}

func (m *merge) row(row []string) error {
	if len(row) < m.width {
		return fmt.Errorf("%w: a line of show stat has %d of %d columns: %s", ErrMismatch, len(row), m.width, cut(strings.Join(row, ",")))
	}
	text := func(name string) string { return row[m.column[name]] }
	if text("pxname") != m.state.Backend {
		return nil
	}
	switch text("type") {
	case statBackend:
		m.backend = true
		m.state.Algorithm = m.algorithm(row)
		return nil
	case statServer:
	default:
		return nil
	}
	n := numbers{subject: "show stat"}
	number := func(name string) int64 { return n.parse(name, text(name)) }
	i, ok := m.byID[int(number("sid"))]
	if n.err == nil && (!ok || m.state.Servers[i].Name != text("svname")) {
		return fmt.Errorf("%w: %w: server %s", ErrMismatch, errChanging, cut(text("svname")))
	}
	if n.err != nil {
		return n.err
	}
	srv := &m.state.Servers[i]
	srv.Sessions = int(number("scur"))
	srv.TotalSessions = number("stot")
	srv.Backup = number("bck") != 0
	srv.Agent = strings.Clone(text("agent_status"))
	if throttle := text("throttle"); throttle != "" {
		srv.Throttled = number("throttle") < 100
	}
	m.seen++
	return n.err
}

// algorithm names the balance algorithm. HAProxy (2.6 to 3.4) has no name for
// random, which 3.3 made the default; in mode log it has none for some others.
func (m *merge) algorithm(row []string) string {
	name := row[m.column["algo"]]
	if mode, ok := m.column["mode"]; ok && name == "unknown" && (row[mode] == "tcp" || row[mode] == "http") {
		return "random"
	}
	return strings.Clone(name)
}

func (m *merge) end() error {
	switch {
	case !m.backend:
		return errNoRows
	case m.seen != len(m.state.Servers):
		return fmt.Errorf("%w: %w: %s has %d servers and %d lines of statistics", ErrMismatch, errChanging,
			m.state.Backend, len(m.state.Servers), m.seen)
	}
	return nil
}

// decimal writes a weight the only way that all versions read alike.
func decimal(weight int) string { return strconv.Itoa(weight) }
