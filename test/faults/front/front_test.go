package front

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/haproxy-weighter/haproxy-weighter/test/faults/trace"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit bounds whatever these tests wait for.
const limit = 20 * time.Second

// ask renders over a connection of its own.
func ask(t *testing.T, g *Graphite, timeout time.Duration) (status int, body string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+"/render", strings.NewReader("target=load.*"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Close = true
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	return answer.StatusCode, string(text), err
}

func TestGraphite(t *testing.T) {
	record := &trace.Trace{}
	g, err := NewGraphite(record, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	g.Set(map[string]float64{"s1": 5, "s2": 7})
	if status, body, err := ask(t, g, limit); status != 200 || err != nil || strings.Count(body, `"target"`) != 2 || !strings.Contains(body, "[7,") {
		t.Errorf("%d %s %v", status, body, err)
	}
	for name, c := range map[string]struct {
		answer Answer
		want   string // in the body; empty: no answer in time
	}{
		"without":  {Answer{Without: []string{"s2"}}, `[{"target":"s1"`},
		"value":    {Answer{Values: map[string]string{"s1": "null"}}, "[null,"},
		"all":      {Answer{All: "-5"}, "[-5,"},
		"clock":    {Answer{Clock: time.Hour}, fmt.Sprint(time.Now().Add(time.Hour).Unix() / 1000)},
		"old":      {Answer{Age: time.Hour}, fmt.Sprint(time.Now().Add(-time.Hour).Unix() / 1000)},
		"status":   {Answer{Raw: Status(429, "text/plain", "slow", "Retry-After", "2")}, "slow"},
		"huge":     {Answer{Raw: Huge(1 << 21)}, "[1,1790000000],"},
		"bomb":     {Answer{Raw: Bomb(3)}, strings.Repeat("\x00", 1<<20)},
		"hang":     {Answer{Raw: Hang}, ""},
		"drip":     {Answer{Raw: Drip}, ""},
		"too late": {Answer{Delay: limit}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g.Answer(c.answer)
			timeout := limit
			if c.want == "" {
				timeout = 200 * time.Millisecond
			}
			_, body, err := ask(t, g, timeout)
			if c.want == "" && !errors.Is(err, context.DeadlineExceeded) || c.want != "" && (err != nil || !strings.Contains(body, c.want)) {
				t.Errorf("%.200q, %v", body, err)
			}
		})
	}
	g.Answer(Answer{})
	g.Refuse()
	if _, _, err := ask(t, g, limit); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("refused: %v", err)
	}
	if err := g.Accept(); err != nil {
		t.Fatal(err)
	}
	if status, _, err := ask(t, g, limit); status != 200 || err != nil {
		t.Errorf("accepted again: %d %v", status, err)
	}
}

// What is noted is what was said.
func TestNoted(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	a := Answer{Without: []string{"s3"}, Values: map[string]string{"s1": "null", "s2": "1e308"}, Age: time.Minute, Clock: time.Hour}
	body, points := a.body(map[string]float64{"s1": 1, "s2": 2, "s3": 3, "s4": 4}, now)
	for name, want := range map[string]float64{"s2": 1e308, "s4": 4} {
		if p := points[name]; p.Value != want || !p.At.Equal(now.Add(-time.Minute-time.Second)) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if !math.IsNaN(points["s1"].Value) || len(points) != 3 {
		t.Errorf("%+v", points)
	}
	read := newest(body)
	if p := read["s4"]; p.Value != 4 || p.At.Unix() != now.Add(time.Hour-time.Minute-time.Second).Unix() || len(read) != 3 {
		t.Errorf("read back: %+v", read)
	}
	if newest([]byte("<html>")) != nil {
		t.Error("a page is a render")
	}
}

func TestSocket(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	p, err := haproxyproc.Start(ctx, haproxyproc.Options{Config: "defaults\n\ttimeout connect 1s\n\ttimeout client 1s\n\ttimeout server 1s\nbackend ingest\n\tserver a 127.0.0.1:1 weight 100\n"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	record := &trace.Trace{}
	s, err := NewSocket(filepath.Join(p.Dir, "between.sock"), p.SocketPath, "ingest", record)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	say := func(line string, timeout time.Duration) (string, error) {
		t.Helper()
		conn, err := net.Dial("unix", s.Path)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, line+"\n"); err != nil {
			return "", err
		}
		answer, err := io.ReadAll(bufio.NewReader(conn))
		return string(answer), err
	}
	type step struct {
		manner Manner
		line   string
		want   string
	}
	seen := ""
	for _, c := range []step{
		{Manner{}, "get weight ingest/a", "100 (initial 100)\n\n"},
		{Manner{Half: 5}, "get weight ingest/a", "100 ("},
		{Manner{Half: 1, Writes: true}, "get weight ingest/a", "100 (initial 100)\n\n"},
		{Manner{Instead: "220 mail\n"}, "get weight ingest/a", "220 mail\n"},
		{Manner{Between: func(line string) { seen = line }}, "set server ingest/a weight 7;set server other/a weight 9", "\nNo such backend.\n\n"},
	} {
		s.Set(c.manner)
		if got, err := say(c.line, limit); got != c.want || err != nil {
			t.Errorf("%+v: %q, %v; want %q", c.manner, got, err, c.want)
		}
	}
	if !IsWrite(seen) || IsWrite("show info") {
		t.Errorf("a write was seen as %q", seen)
	}
	if n := record.Size().Writes; n != 1 {
		t.Errorf("%d writes noted, one is of this backend", n)
	}
	s.Set(Manner{Hang: true})
	if _, err := say("show info", 100*time.Millisecond); err == nil {
		t.Error("an answer while it hangs")
	}
	for _, gone := range []bool{false, true} {
		if err := s.Refuse(gone); err != nil {
			t.Fatal(err)
		}
		want := error(syscall.ECONNREFUSED)
		if gone {
			want = syscall.ENOENT
		}
		if _, err := say("show info", limit); !errors.Is(err, want) {
			t.Errorf("refused: %v, want %v", err, want)
		}
		if err := s.Listen(); err != nil {
			t.Fatal(err)
		}
	}
	s.Set(Manner{})
	if got, err := say("get weight ingest/a", limit); got != "7 (initial 100)\n\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestCarbon(t *testing.T) {
	c, err := NewCarbon()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	send := func() error {
		conn, err := net.Dial("tcp", c.Address)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
			return err
		}
		if _, err := io.WriteString(conn, "a 1 1\n"); err != nil {
			return err
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			return err
		}
		_, err = conn.Read(make([]byte, 1))
		return err
	}
	if err := send(); err != io.EOF || c.Lines() != 1 {
		t.Errorf("taken: %v, %d lines", err, c.Lines())
	}
	c.Reset()
	if err := send(); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ENOTCONN) {
		t.Errorf("reset: %v", err)
	}
	c.Recover()
	c.Hang()
	ended := make(chan error, 1)
	go func() { ended <- send() }()
	select {
	case err := <-ended:
		t.Errorf("it hangs, and a peer ended with %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	c.Recover()
	<-ended
	c.Refuse()
	if err := send(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("refused: %v", err)
	}
	if err := c.Accept(); err != nil {
		t.Fatal(err)
	}
	if err := send(); err != io.EOF {
		t.Errorf("accepted again: %v", err)
	}
	if n := c.Lines(); n < 2 {
		t.Errorf("%d lines", n)
	}
}
