package ingest

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/haproxy-weighter/haproxy-weighter/test/child"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func listen(t *testing.T, name string) *Server {
	t.Helper()
	port, err := child.FreePort() // a port that a stopped server finds again
	if err != nil {
		t.Fatal(err)
	}
	s, err := Listen(name, fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// patience bounds waits that normally take milliseconds.
func patience(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func waitIdle(t *testing.T, s *Server) {
	t.Helper()
	if err := s.WaitIdle(patience(t)); err != nil {
		t.Fatal(err)
	}
}

// Every datapoint that a client sends is counted, and the clients send what
// the plan says.
func TestClientsSendWhatThePlanSays(t *testing.T) {
	s := listen(t, "node-1")
	plan := []Arrival{
		{At: 0, Rate: 5000, Lifetime: 400 * time.Millisecond},
		{At: 0, Rate: 5, Lifetime: time.Second},
		{At: 100 * time.Millisecond, Rate: 100, Lifetime: 250 * time.Millisecond},
		{At: 100 * time.Millisecond, Rate: 10, Lifetime: 0},
		{At: 200 * time.Millisecond, Rate: 100_000, Lifetime: 100 * time.Millisecond},
	}
	clients := Clients{Address: s.Address(), Plan: plan, Batch: 50 * time.Millisecond}
	clients.Run(patience(t))
	waitIdle(t, s)
	const datapoints = 2000 + 5 + 25 + 0 + 10_000
	want := ClientStats{Started: 5, Finished: 5, Sent: datapoints}
	if diff := cmp.Diff(want, clients.Stats()); diff != "" {
		t.Errorf("clients:\n%s", diff)
	}
	if got := s.Counts().Total; got != datapoints {
		t.Errorf("the server counted %d datapoints, want %d", got, datapoints)
	}
}

func TestClientsRefusedAreCountedOnce(t *testing.T) {
	s := listen(t, "node-1")
	s.Stop()
	clients := Clients{Address: s.Address(), Plan: make([]Arrival, 3)}
	clients.Run(patience(t))
	if diff := cmp.Diff(ClientStats{Refused: 3}, clients.Stats()); diff != "" {
		t.Errorf("clients of a closed port:\n%s", diff)
	}
}

func TestClientsEndWithTheContext(t *testing.T) {
	s := listen(t, "node-1")
	clients := Clients{Address: s.Address(), Plan: []Arrival{
		{Rate: 100, Lifetime: time.Hour}, {Rate: 100, Lifetime: time.Hour}, {At: time.Hour},
	}}
	ctx, cancel := context.WithCancel(patience(t))
	done := make(chan struct{})
	go func() { defer close(done); clients.Run(ctx) }()
	until(t, "two clients have sent", func() bool { return s.Counts().Open == 2 && s.Counts().Total > 0 })
	cancel()
	<-done
	waitIdle(t, s)
	got := clients.Stats()
	got.Sent = 0 // depends on when we cancelled
	if diff := cmp.Diff(ClientStats{Started: 2}, got); diff != "" {
		t.Errorf("cancelled clients are neither refused, broken nor finished:\n%s", diff)
	}
}

// until polls a condition that nothing signals.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx := patience(t)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func TestServerStopAndRestartEmpty(t *testing.T) {
	s := listen(t, "node-1")
	address := s.Address()
	clients := Clients{Address: address, Plan: []Arrival{{Rate: 1000, Lifetime: time.Hour}}, Batch: 10 * time.Millisecond}
	done := make(chan struct{})
	go func() { defer close(done); clients.Run(patience(t)) }()
	until(t, "datapoints arrive", func() bool { return s.Counts().Total > 0 })

	s.Stop()
	s.Stop() // twice is once
	<-done   // the client notices
	if got := clients.Stats(); got.Broken != 1 || got.Open != 0 {
		t.Errorf("a client whose server stopped: %+v", got)
	}
	if diff := cmp.Diff(Counts{}, s.Counts()); diff != "" {
		t.Errorf("a stopped server:\n%s", diff)
	}
	if _, ok := s.Take(); ok {
		t.Error("a stopped server has nothing to report, yet Take says ok")
	}

	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if s.Address() != address {
		t.Errorf("restarted on %s, was on %s", s.Address(), address)
	}
	if diff := cmp.Diff(Counts{Running: true}, s.Counts()); diff != "" {
		t.Errorf("a restarted server is empty:\n%s", diff)
	}
	(&Clients{Address: address, Plan: []Arrival{{Rate: 1000, Lifetime: 10 * time.Millisecond}}}).Run(patience(t))
	waitIdle(t, s)
	if n, ok := s.Take(); n != 10 || !ok {
		t.Errorf("Take gave %d, %v after the restart; want 10, true", n, ok)
	}
}

func TestServerCountsLinesPerConnection(t *testing.T) {
	s := listen(t, "node-1")
	conn, err := net.Dial("tcp", s.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "a 1 2\nb 1"); err != nil {
		t.Fatal(err)
	}
	until(t, "one whole line is counted", func() bool { return s.Counts().Total == 1 })
	if _, err := io.WriteString(conn, " 2\n\n"); err != nil {
		t.Fatal(err)
	}
	until(t, "three are", func() bool { return s.Counts().Total == 3 })
	list := s.Connections()
	if len(list) != 1 || list[0].Received != 3 || list[0].Remote != conn.LocalAddr().String() {
		t.Errorf("connections: %+v", list)
	}
	short, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.WaitIdle(short); err == nil || !strings.Contains(err.Error(), "node-1 still has connections") {
		t.Errorf("WaitIdle with an open connection: %v", err)
	}
}

func TestListenOnATakenPortNamesTheServer(t *testing.T) {
	s := listen(t, "node-1")
	if _, err := Listen("node-2", s.Address()); err == nil || !strings.Contains(err.Error(), "ingest server node-2: ") {
		t.Errorf("got %v", err)
	}
}
