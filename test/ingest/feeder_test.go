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
)

// sink records batches and can fail.
type sink struct {
	batches chan []Datapoint
	err     error
}

func (s *sink) Send(_ context.Context, points []Datapoint) error {
	s.batches <- points
	return s.err
}

func TestFeedReportsEachServerOnce(t *testing.T) {
	a, b, stopped := listen(t, "node-1"), listen(t, "node-2"), listen(t, "node-3")
	stopped.Stop()
	(&Clients{Address: a.Address(), Plan: []Arrival{{Rate: 1000, Lifetime: 20 * time.Millisecond}}}).Run(patience(t))
	waitIdle(t, a)
	s := &sink{batches: make(chan []Datapoint, 2)}
	feeder := Feeder{Servers: []*Server{a, b, stopped}, Sink: s}
	for _, want := range [][]Datapoint{
		{{"tcp-service.node-1.datapoints.received", 20, 100}, {"tcp-service.node-2.datapoints.received", 0, 100}},
		{{"tcp-service.node-1.datapoints.received", 0, 101}, {"tcp-service.node-2.datapoints.received", 0, 101}},
	} {
		if err := feeder.Feed(patience(t), want[0].Unix); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, <-s.batches); diff != "" {
			t.Errorf("batch of second %d:\n%s", want[0].Unix, diff)
		}
	}
}

func TestFeederRunFeedsWholeSecondsAndReportsFailures(t *testing.T) {
	s := &sink{batches: make(chan []Datapoint), err: fmt.Errorf("carbon is gone")}
	reports := make(chan error, 10)
	feeder := Feeder{Servers: []*Server{listen(t, "node-1")}, Sink: s, Prefix: "test", Report: func(err error) { reports <- err }}
	ctx, cancel := context.WithCancel(patience(t))
	done := make(chan struct{})
	before := time.Now().Unix()
	go func() { defer close(done); feeder.Run(ctx) }()
	first := <-s.batches
	if err := <-reports; err != s.err {
		t.Errorf("reported %v", err)
	}
	cancel()
	<-done
	if len(first) != 1 || first[0].Path != "test.node-1.datapoints.received" || first[0].Unix <= before {
		t.Errorf("first batch %+v; it must be of a second that began after %d", first, before)
	}
}

func TestCarbonSendsLinesAndWaitsForTheEnd(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	received := make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			received <- err.Error()
			return
		}
		defer conn.Close()
		text, _ := io.ReadAll(conn) // ends only when the sender half-closes
		received <- string(text)
	}()
	points := []Datapoint{{"a.b", 12345678, 100}, {"a.c", 0.5, 100}}
	if err := (Carbon{Address: listener.Addr().String()}).Send(patience(t), points); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("a.b 1.2345678e+07 100\na.c 0.5 100\n", <-received); diff != "" {
		t.Errorf("on the wire:\n%s", diff)
	}
}

func TestCarbonThatHangsEndsWithTheTimeout(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // never accepts
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	err = Carbon{Address: listener.Addr().String(), Timeout: 20 * time.Millisecond}.Send(context.Background(), []Datapoint{{"a", 1, 1}})
	if err == nil || !strings.Contains(err.Error(), "did not close") {
		t.Errorf("got %v", err)
	}
}
