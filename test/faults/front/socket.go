package front

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"log"
	"net"
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/faults/trace"
)

// quiet is a log that nobody reads: a server whose clients are told to
// misbehave would fill the output of tests.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// Manner is how a Socket treats a line.
type Manner struct {
	Hang    bool              // the line is taken and never answered
	Half    int               // of each answer so many bytes go out and then nothing; 0: all
	Writes  bool              // Half counts for lines that set weights only
	Instead string            // the answer, in place of HAProxy's
	Between func(line string) // called with a connection to HAProxy open, before the line is sent
	To      string            // another socket of HAProxy's
}

// Socket is a unix socket that passes lines on to HAProxy's runtime socket. Its
// methods are safe for concurrent use.
type Socket struct {
	Path string

	to      string
	backend string // whose weights are noted
	trace   *trace.Trace

	mu      sync.Mutex
	manner  Manner
	free    chan struct{} // closed to release what hangs
	l       *net.UnixListener
	running sync.WaitGroup
	open    map[net.Conn]bool
}

// NewSocket listens at path for HAProxy's socket at to, and notes the weights
// that are set in a backend.
func NewSocket(path, to, backend string, t *trace.Trace) (*Socket, error) {
	s := &Socket{Path: path, to: to, backend: backend, trace: t, free: make(chan struct{}), open: make(map[net.Conn]bool)}
	return s, s.Listen()
}

// Set sets how lines are treated from now on.
func (s *Socket) Set(m Manner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.manner = m
	close(s.free)
	s.free = make(chan struct{})
}

// Listen opens the socket, in place of what is left of an earlier one.
func (s *Socket) Listen() error {
	if err := os.Remove(s.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.Path, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	s.mu.Lock()
	s.l = l
	s.mu.Unlock()
	s.running.Go(func() { s.accept(l) })
	return nil
}

// Refuse closes the socket. Its file stays, as after a crash; with gone it
// goes as well.
func (s *Socket) Refuse(gone bool) error {
	s.mu.Lock()
	s.l.Close()
	for conn := range s.open {
		conn.Close()
	}
	close(s.free)
	s.free = make(chan struct{})
	s.mu.Unlock()
	s.running.Wait()
	if gone {
		return os.Remove(s.Path)
	}
	return nil
}

// Close ends it.
func (s *Socket) Close() { _ = s.Refuse(false) }

func (s *Socket) accept(l *net.UnixListener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.open[conn] = true
		s.mu.Unlock()
		s.running.Go(func() {
			defer func() {
				conn.Close()
				s.mu.Lock()
				delete(s.open, conn)
				s.mu.Unlock()
			}()
			s.serve(conn)
		})
	}
}

// lineLimit bounds what one line may take here.
const lineLimit = 30 * time.Second

func (s *Socket) serve(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(lineLimit))
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return
	}
	s.mu.Lock()
	m, free := s.manner, s.free
	s.mu.Unlock()
	switch {
	case m.Hang:
		<-free
		return
	case m.Instead != "":
		_, _ = io.WriteString(conn, m.Instead)
		return
	}
	to := s.to
	if m.To != "" {
		to = m.To
	}
	from := time.Now()
	answer, err := exchange(to, line, m.Between)
	s.note(line, from)
	if err != nil {
		return
	}
	if m.Half > 0 && m.Half < len(answer) && (!m.Writes || weightCommand.MatchString(line)) {
		answer = answer[:m.Half]
	}
	_, _ = conn.Write(answer)
}

// exchange asks HAProxy.
func exchange(path, line string, between func(string)) ([]byte, error) {
	conn, err := net.DialTimeout("unix", path, lineLimit)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if between != nil {
		between(line)
	}
	if err := conn.SetDeadline(time.Now().Add(lineLimit)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, line); err != nil {
		return nil, err
	}
	return io.ReadAll(conn)
}

// weightCommand is how weights are set.
var weightCommand = regexp.MustCompile(`set (?:server|weight) ([^/; ]+)/([^/; ]+) (?:weight )?(\d+)`)

func (s *Socket) note(line string, from time.Time) {
	for _, m := range weightCommand.FindAllStringSubmatch(line, -1) {
		if w, err := strconv.Atoi(m[3]); err == nil && m[1] == s.backend {
			s.trace.Wrote(trace.Write{From: from, To: time.Now(), Server: m[2], Weight: w})
		}
	}
}

// IsWrite tells whether a line sets weights.
func IsWrite(line string) bool { return weightCommand.MatchString(line) }
