// Command benchspoa measures the SPOE agent against a bare echo of frames,
// which is what the kernel and Go's network poller allow, and against the agent
// that comes with the library we decode with.
//
//	go run ./test/benchspoa [-rounds 9] [-time 1s] [-shapes tcp-small-4x16,...]
//
// Agents and generator are processes of their own, on a processor each if
// there are two. In a round every agent has its turn; numbers of a round are divided by
// the echo's of the same round, and the median of these ratios is printed. So
// a machine that is busy with something else shifts them little.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// shape is how the generator plays HAProxy.
type shape struct {
	name    string
	network string // tcp or unix
	large   bool   // 10 arguments and 1.1 kB instead of 2 and 60 bytes
	conns   int
	window  int // frames in flight on each connection
}

// The first one is how HAProxy 2.6 behaves: a connection for each stream that
// waits.
var shapes = []shape{
	{"tcp-small-32x1", "tcp", false, 32, 1},
	{"tcp-small-4x16", "tcp", false, 4, 16},
	{"tcp-large-4x16", "tcp", true, 4, 16},
	{"unix-small-4x16", "unix", false, 4, 16},
	{"tcp-small-1x1", "tcp", false, 1, 1},
}

// throughHAProxy names the shapes in which a real HAProxy asks.
var throughHAProxy = []shape{
	{name: "haproxy-http-small", network: "tcp", conns: 64},
	{name: "haproxy-http-large", network: "tcp", large: true, conns: 64},
}

func main() {
	if len(os.Args) > 1 {
		if role, ok := roles[os.Args[1]]; ok {
			exit(role(os.Args[2:]))
		}
	}
	rounds := flag.Int("rounds", 9, "how often each agent has its turn")
	length := flag.Duration("time", time.Second, "how long a turn takes")
	only := flag.String("shapes", "", "comma-separated names; empty means all of "+strings.Join(names(), ", "))
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(run(ctx, *rounds, *length, *only))
}

// roles are what the child processes do, by the first word of their command line.
var roles = map[string]func([]string) error{
	"agent": agentMain, "generate": generateMain, "request": requestMain,
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchspoa:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func names() []string {
	var all []string
	for _, s := range slices.Concat(shapes, throughHAProxy) {
		all = append(all, s.name)
	}
	return all
}

func run(ctx context.Context, rounds int, length time.Duration, only string) error {
	chosen := names()
	if only != "" {
		chosen = strings.Split(only, ",")
		for _, name := range chosen {
			if !slices.Contains(names(), name) {
				return fmt.Errorf("there is no shape %q: choose from %s", name, strings.Join(names(), ", "))
			}
		}
	}
	if rounds < 1 || length <= 0 {
		return errors.New("-rounds and -time must be positive")
	}
	fmt.Printf("%d rounds of %v; x = ratio to the echo of the same round, median [quartiles]\n", rounds, length)
	for _, s := range shapes {
		if !slices.Contains(chosen, s.name) {
			continue
		}
		results, err := turns(ctx, rounds, []string{kindEcho, kindOurs, kindLibrary}, func(kind string) (turn, error) {
			return generatorTurn(ctx, s, kind, length)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		report(s, results)
	}
	for _, s := range throughHAProxy {
		if !slices.Contains(chosen, s.name) {
			continue
		}
		results, err := turns(ctx, rounds, []string{kindEcho, kindOurs, kindLibrary, kindNone}, func(kind string) (turn, error) {
			return haproxyTurn(ctx, s, kind, length)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		reportHAProxy(s, results)
	}
	return nil
}

// turns runs all kinds in every round, each time beginning with another one.
func turns(ctx context.Context, rounds int, kinds []string, one func(kind string) (turn, error)) (map[string][]turn, error) {
	results := make(map[string][]turn)
	for round := range rounds {
		for i := range kinds {
			kind := kinds[(round+i)%len(kinds)]
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			t, err := one(kind)
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", kind, round+1, err)
			}
			results[kind] = append(results[kind], t)
		}
	}
	return results, nil
}
