package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/faults/trace"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// row is one fault of the matrix.
type row struct {
	part  string // what is at fault: Graphite, HAProxy, ...
	name  string // of the test
	fault string // in words
	holds string // what must hold, in words; beside what always must

	plan  plan
	begin func(*scene, context.Context) error
	end   func(*scene, context.Context) error // nil: begin has ended it
	// moves says that weights go on while the fault lasts; else they must stay.
	moves      bool
	second     loads // during the fault; nil: secondLoads
	firstAgain loads // after it, with moves; nil: firstLoads
	// during are the weights in force under the fault with secondLoads; nil:
	// secondWeights with moves.
	during weights
	// after are the weights when all is over; nil: secondWeights, or with moves
	// firstWeights, since loads go back then.
	after weights
	// lasts is how long the fault lasts in the full matrix; 0: as in the short one.
	lasts time.Duration
	// least is how long it lasts at least, in the short one as well.
	least time.Duration
	told  []told
}

// told is what the log must have: each begin and each end once.
type told struct {
	begin, end string // end empty: there is none
	most       int    // times that both may come; 0: once exactly; more: from once to that often
	none       bool   // begin may be missing: whether it is seen depends on the moment
	parts      bool   // it is told of servers, which may begin and end one by one
}

// profile is how long things take.
type profile struct {
	name     string
	lasts    time.Duration // a fault
	full     bool          // row.lasts counts
	resident int64         // most memory, bytes
}

// short is for make test, full for make faults.
func short(raced bool) profile {
	return profile{name: "short", lasts: 2200 * time.Millisecond, resident: residentLimit(raced)}
}

func full() profile {
	return profile{name: "full", lasts: 5 * time.Second, full: true, resident: residentLimit(false)}
}

// residentLimit is the most that a small daemon may ever take; the race detector
// takes several times as much.
func residentLimit(raced bool) int64 {
	if raced {
		return 400 << 20
	}
	return 100 << 20
}

// programs are the builds of the daemon.
type programs struct {
	plain   string // as shipped
	checked string // with the race detector, when the tests have it; else the same
	clock   *clockProgram
}

// build makes them in dir.
func build(ctx context.Context, dir string, raced bool) (*programs, error) {
	p := &programs{plain: filepath.Join(dir, "haproxy-weighter")}
	p.checked, p.clock = p.plain, &clockProgram{path: filepath.Join(dir, "haproxy-weighter-clock")}
	if err := goBuild(ctx, p.plain); err != nil {
		return nil, err
	}
	if raced {
		p.checked += "-race"
		return p, goBuild(ctx, p.checked, "-race")
	}
	return p, nil
}

func goBuild(ctx context.Context, to string, flags ...string) error {
	args := append(append([]string{"build", "-o", to}, flags...), module+"/cmd/haproxy-weighter")
	cmd := exec.CommandContext(ctx, "go", args...)
	if !slices.Contains(flags, "-race") {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

const module = "github.com/haproxy-weighter/haproxy-weighter"

// outcome is what became of a row on one HAProxy.
type outcome struct {
	err       error
	recovered time.Duration // from the end of the fault to the right weights
	slowest   time.Duration // SPOE answer
	most      trace.Usage
	log       string // end of the daemon's, when it failed
}

// run runs a row on one HAProxy, again when it failed on a starved machine.
func (r *row) run(ctx context.Context, b haproxyproc.Binary, programs *programs, p profile) (o outcome) {
	for range mostRounds {
		delayed := starvation()
		o = r.once(ctx, b, programs, p)
		if late := delayed(); o.err == nil || late < beatLimit || ctx.Err() != nil {
			return o
		}
	}
	return o
}

func (r *row) once(ctx context.Context, b haproxyproc.Binary, programs *programs, p profile) (o outcome) {
	s, err := newScene(ctx, r.plan, b, programs, p)
	defer s.close()
	if err != nil {
		o.err = fmt.Errorf("before the fault: %w", err)
	} else if o.recovered, err = r.happen(ctx, s); err != nil {
		o.err = err
	}
	if s.daemon != nil {
		if o.err == nil {
			o.err = s.finish(r.told, 0)
		}
		o.most = s.trace.Highest()
		if s.prober != nil {
			_, o.slowest, _ = s.prober.result()
		}
		if o.err != nil {
			o.log = s.daemon.tail()
		}
	}
	return o
}

// happen brings the fault about, sees it end, and says how long the weights
// then took to become right.
func (r *row) happen(ctx context.Context, s *scene) (time.Duration, error) {
	begun := time.Now()
	if err := r.strike(ctx, s); err != nil {
		return 0, err
	}
	if r.end != nil {
		lasts := max(s.profile.lasts, r.least)
		if s.profile.full {
			lasts = max(lasts, r.lasts)
		}
		pause(ctx, lasts)
		if !r.moves {
			s.trace.HoldStill(trace.Still{From: begun, To: time.Now(), Why: r.fault})
		}
		if err := r.end(s, ctx); err != nil {
			return 0, fmt.Errorf("ending the fault: %w", err)
		}
	}
	after := secondWeights
	if r.moves {
		after = firstWeights
		s.graphite.Set(or(r.firstAgain, firstLoads))
	}
	after = or(r.after, after)
	over := time.Now()
	s.trace.Recover(trace.Recovery{At: over, Want: after, Why: r.fault})
	if err := s.await(ctx, after, "the weights after the fault"); err != nil {
		return 0, err
	}
	took := time.Since(over)
	err := s.until(ctx, func() (bool, string) { return s.judged(over), "no second pass after the fault" })
	if err != nil {
		return 0, err
	}
	return took, s.untilEnded(ctx, r.told)
}

// strike begins the fault and changes the loads, so that there is something to
// do wrong, or right: with moves it waits for the weights under the fault.
func (r *row) strike(ctx context.Context, s *scene) error {
	if err := r.begin(s, ctx); err != nil {
		return fmt.Errorf("beginning the fault: %w", err)
	}
	s.graphite.Set(or(r.second, secondLoads))
	if !r.moves {
		return nil
	}
	return s.await(ctx, or(r.during, secondWeights), "the weights under the fault")
}

// or is the first one unless it is nil.
func or[V any](m, otherwise map[string]V) map[string]V {
	if m == nil {
		return otherwise
	}
	return m
}

// checkLog compares the warnings and errors of a log with those that were to
// come. A daemon that was killed so many times may have left as many without
// their end.
func checkLog(lines []line, expected []told, killed int) []error {
	var errs []error
	for _, e := range expected {
		limit := max(e.most, 1)
		begun, ended := count(lines, e.begin), count(lines, e.end)
		if begun > limit || begun == 0 && !e.none {
			errs = append(errs, fmt.Errorf("the log has %d times %q, not once (at most %d)", begun, e.begin, limit))
		}
		odd := ended > begun || ended < begun-killed
		if e.parts {
			odd = begun > killed && ended == 0
		}
		if e.end != "" && odd {
			errs = append(errs, fmt.Errorf("the log has %d times %q and %d times %q", begun, e.begin, ended, e.end))
		}
	}
	most := 5 // of those that nobody expects
	for _, l := range lines {
		if most > 0 && l.warned() && !slices.ContainsFunc(expected, func(e told) bool { return strings.Contains(l.Msg, e.begin) }) {
			errs = append(errs, fmt.Errorf("nobody expects in the log: %s", l.raw))
			most--
		}
	}
	if count(lines, "stopped: the weights in force stay as they are") == 0 {
		errs = append(errs, errors.New("the log does not say that the daemon has stopped"))
	}
	return errs
}
