package spoa_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/negasus/haproxy-spoe-go/action"

	"github.com/haproxy-weighter/haproxy-weighter/spoa"
)

// An agent that gives each client a score. In HAProxy's SPOE configuration it
// is asked by
//
//	spoe-message score
//	    args src=src
//	    event on-client-session
//
// and with "option var-prefix reputation" haproxy.cfg reads the answer as
// var(txn.reputation.score).
func Example() {
	score := func(answer *action.Actions, r *spoa.Request) error {
		for _, m := range r.Messages {
			if m.Name != "score" {
				continue
			}
			src, _ := m.KV.Get("src")
			address, ok := src.(net.IP)
			if !ok {
				return fmt.Errorf("message %s: src is %T, not an address", m.Name, src)
			}
			if address.IsPrivate() {
				answer.SetVar(action.ScopeTransaction, "score", 100)
			}
		}
		return nil
	}
	server := &spoa.Server{Handler: spoa.HandlerFunc(score)}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", "127.0.0.1:9002")
	if err != nil {
		log.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		stopped <- server.Shutdown(patience)
	}()
	if err := server.Serve(listener); !errors.Is(err, spoa.ErrServerClosed) {
		log.Fatal(err)
	}
	if err := <-stopped; err != nil {
		log.Print(err)
	}
}

// counts is an Observer for the package expvar or any other kind of counter.
type counts struct {
	answered func(result string, n int)
	latency  func(time.Duration)
}

func (c counts) Opened()              {}
func (c counts) Closed(r spoa.Reason) {}
func (c counts) Answered(results spoa.Results, took time.Duration) {
	for result, n := range results {
		if n > 0 {
			c.answered(spoa.Result(result).String(), n)
		}
	}
	c.latency(took)
}

func ExampleObserver() {
	observer := counts{
		answered: func(result string, n int) { fmt.Println(result, n) },
		latency:  func(time.Duration) {},
	}
	observer.Answered(spoa.Results{spoa.ResultOK: 3, spoa.ResultError: 1}, time.Microsecond)
	// Output:
	// ok 3
	// error 1
}
