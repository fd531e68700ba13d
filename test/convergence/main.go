// Command convergence compares policies on the real thing: a real HAProxy in
// front of TCP servers that count what they receive, a real Graphite that is
// told those counts every second, and long-lived clients of very unequal
// rates, the same ones for every policy.
//
//	make convergence CONVERGENCE_FLAGS='--seeds 5'
//
// Each policy is played from the start: fresh servers, a fresh HAProxy, metrics
// of its own. Time is compressed thirty times, as in the command "demo": the
// loop makes a pass every second and clients stay for twenty seconds.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// command is the whole program; it returns the exit code.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "convergence: %v\n", err)
		return 2
	}
	o.progress = stderr
	if f, ok := stderr.(*os.File); ok {
		o.terminal = term.IsTerminal(int(f.Fd()))
	}
	result, err := run(ctx, o)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "convergence: interrupted: HAProxy, Graphite, servers and clients are stopped")
	default:
		fmt.Fprintf(stderr, "convergence: %v\n", err)
	}
	// What is complete is shown even when the rest failed.
	if result != nil {
		err = errors.Join(err, show(o, result, stdout, stderr))
	}
	if err != nil {
		return 1
	}
	return 0
}

// show prints the result and draws the picture.
func show(o options, r *result, stdout, stderr io.Writer) (err error) {
	defer func() {
		if err != nil {
			fmt.Fprintf(stderr, "convergence: %v\n", err)
		}
	}()
	if o.asJSON {
		e := json.NewEncoder(stdout)
		e.SetIndent("", " ")
		e.SetEscapeHTML(false)
		err = e.Encode(r)
	} else {
		err = r.print(stdout)
	}
	if err != nil || o.plot == "" {
		return err
	}
	if err := os.WriteFile(o.plot, []byte(r.picture()), 0o644); err != nil {
		return fmt.Errorf("the picture: %w", err)
	}
	fmt.Fprintf(stderr, "picture: %s\n", o.plot)
	return nil
}
