package spoe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// Fault is one way in which the agent is of no help, or the state to compare with.
type Fault struct {
	Name  string // short, for a test's name
	Words string // for the table
	// Answers tells whether the agent does answer, soon or late: nothing needs
	// "timeout processing" to go on.
	Answers bool
	// ByWeight tells whether every connection goes by weight.
	ByWeight bool
	// Errors are the values of txn.weighter.error that a connection may have: "-" for
	// none. They differ between 2.6 and 3.0 on one side and 3.1 and later on the other.
	Errors func(b haproxyproc.Binary) []string

	edit  func(file, text string) string
	begin func(s *Scene, ctx context.Context) (end func(), err error)
	// during replaces one connection after the other.
	during func(s *Scene, ctx context.Context, n int) ([]Visit, error)
}

// NoError is how the log shows a txn.weighter.error that is not set.
const NoError = "-"

// Values of txn.weighter.error, SPOE's own ("set-on-error" in HAProxy's
// SPOE.txt): from 256 on they are 256 + a status of SPOP.
const (
	errTimeout  = "1"
	errResource = "2"   // no server of the agent's backend is up; HAProxy 2.6 and 3.0
	errShutdown = "256" // an end in good order: of the agent, and in HAProxy 2.6 of itself at a reload
	errIO       = "257" // a lost connection; from 3.1 on also that no server is up
)

func always(values ...string) func(haproxyproc.Binary) []string {
	return func(haproxyproc.Binary) []string { return values }
}

// byVersion tells apart the versions before and after SPOE was written anew in 3.1.
func byVersion(before, after string) func(haproxyproc.Binary) []string {
	return func(b haproxyproc.Binary) []string {
		if b.AtLeast(3, 1) {
			return []string{after}
		}
		return []string{before}
	}
}

// Faults are all that are measured, in the order of the table.
func Faults() []Fault {
	return []Fault{
		{Name: "answers", Words: "the agent answers", Answers: true, Errors: always(NoError)},
		{Name: "nothing-known", Words: "the agent answers that it knows nothing", Answers: true, ByWeight: true, Errors: always(NoError), begin: (*Scene).beginNothing},
		{Name: "down", Words: "the agent is away, and the check has noticed", ByWeight: true, Errors: byVersion(errResource, errIO), begin: (*Scene).beginDown},
		{Name: "gone", Words: "the agent is away, and the check has not noticed yet (up to 2 s)", ByWeight: true, Errors: always(errTimeout), begin: (*Scene).beginGone},
		{Name: "slow", Words: "the agent answers too late, or never", ByWeight: true, Errors: always(errTimeout), begin: (*Scene).beginSlow},
		{Name: "hung", Words: "the agent hangs (its socket takes connections, nobody reads)", ByWeight: true, Errors: always(errTimeout), begin: (*Scene).beginHung},
		{Name: "dies", Words: "the agent dies while it is being asked", ByWeight: true, Errors: always(errTimeout, errIO), begin: (*Scene).beginDies},
		{Name: "restarted", Words: "the agent is restarted before each connection", Answers: true, Errors: always(NoError, errShutdown, errIO), during: (*Scene).duringRestarts},
		{Name: "reload", Words: "HAProxy is reloaded while connections come in", Answers: true, Errors: always(NoError, errTimeout, errResource, errShutdown, errIO), edit: oneThread, during: (*Scene).duringReload},
	}
}

// faultsServer is the one that the agent names in all of them.
const faultsServer = "s2"

// weightsOfFaults make the servers' weights tell: without an answer, of each six connections one goes to s1,
// two to s2 and three to s3.
var weightsOfFaults = [...]string{"s1 weight 40", "s2 weight 80", "s3 weight 120"}

// cycle is how many connections have exactly the ratio of the weights.
const cycle = 6

// Outcome is what became of one connection.
type Outcome struct {
	Server string        // who answered; empty: nobody
	Took   time.Duration // from the dial to the server's first line
	Error  string        // txn.weighter.error
	Picked string        // txn.weighter.server
}

// Measure makes n connections, or a few more to have whole cycles, under one fault.
// With asShipped the timeouts are the shipped ones, else HAProxy is patient (see Options).
func (f Fault) Measure(ctx context.Context, b haproxyproc.Binary, n int, asShipped bool) ([]Outcome, error) {
	n = (n + cycle - 1) / cycle * cycle
	s, err := Start(ctx, Options{
		Binary: b.Path, Example: "tcp-pick", MasterWorker: true, AsShipped: asShipped, Edit: f.edit,
		Handler: Fixed{"weighter-pick": {"server": faultsServer}},
	})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return f.measure(ctx, s, n)
}

func (f Fault) measure(ctx context.Context, s *Scene, n int) ([]Outcome, error) {
	for _, w := range weightsOfFaults {
		if err := s.Command(ctx, "set server "+s.Values.Backend+"/"+w); err != nil {
			return nil, err
		}
	}
	if f.begin != nil {
		end, err := f.begin(s, ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		defer end()
	}
	during := f.during
	if during == nil {
		during = (*Scene).oneByOne
	}
	visits, err := during(s, ctx, n)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; HAProxy's log: %s", f.Name, err, s.HAProxy.Log())
	}
	outcomes := make([]Outcome, len(visits))
	for i, v := range visits {
		line, err := s.Log(v)
		if err != nil {
			return nil, fmt.Errorf("%s: connection %d of %d, answered by server %q after %v: %w", f.Name, i+1, len(visits), v.Server, v.Took, err)
		}
		outcomes[i] = Outcome{Server: v.Server, Took: v.Took, Error: variable(line, "error"), Picked: variable(line, "picked")}
	}
	return outcomes, nil
}

// Baseline is the cost of a connection with no SPOE filter at all.
func Baseline(ctx context.Context, b haproxyproc.Binary, n int) ([]Outcome, error) {
	f := Fault{Name: "none", edit: withoutFilter}
	return f.Measure(ctx, b, n, true)
}

func withoutFilter(_, text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "filter spoe") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// oneThread keeps every line of the log: a thread that finds another one writing to the
// file tries a few times and then drops its line.
func oneThread(_, text string) string {
	return strings.Replace(text, "global\n", "global\n  nbthread 1\n", 1)
}

func (s *Scene) oneByOne(ctx context.Context, n int) ([]Visit, error) {
	visits := make([]Visit, n)
	for i := range visits {
		v, err := s.Connect(ctx, nil)
		if err != nil {
			return nil, err
		}
		visits[i] = v
	}
	return visits, nil
}

func (s *Scene) beginNothing(context.Context) (func(), error) {
	s.Agent.Answer(Fixed{"weighter-pick": {}})
	return func() {}, nil
}

func (s *Scene) beginDown(ctx context.Context) (func(), error) {
	s.Agent.Stop()
	return func() {}, s.Await(ctx, agentBackend, down)
}

// deaf keeps HAProxy from noticing, as in the time until the next check.
func (s *Scene) deaf(ctx context.Context) error {
	return s.Command(ctx, "disable health "+agentBackend+"/weighter")
}

func (s *Scene) beginGone(ctx context.Context) (func(), error) {
	if err := s.deaf(ctx); err != nil {
		return nil, err
	}
	s.Agent.Stop()
	return func() {}, nil
}

func (s *Scene) beginSlow(ctx context.Context) (func(), error) {
	if err := s.deaf(ctx); err != nil { // on 3.1 and later a check is not held up
		return nil, err
	}
	s.Agent.Break(silent)
	return s.Agent.Release, nil
}

func (s *Scene) beginHung(ctx context.Context) (func(), error) {
	if err := s.deaf(ctx); err != nil {
		return nil, err
	}
	s.Agent.Stop()
	l, err := net.Listen("tcp", s.Agent.Address)
	if err != nil {
		return nil, err
	}
	return func() { l.Close() }, nil
}

func (s *Scene) beginDies(ctx context.Context) (func(), error) {
	if err := s.deaf(ctx); err != nil {
		return nil, err
	}
	s.Agent.Break(cut)
	return s.Agent.Release, nil
}

func (s *Scene) duringRestarts(ctx context.Context, n int) ([]Visit, error) {
	if err := s.deaf(ctx); err != nil {
		return nil, err
	}
	var visits []Visit
	for range n {
		if err := s.Agent.Shutdown(ctx); err != nil {
			return nil, err
		}
		if err := s.Agent.Start(); err != nil {
			return nil, err
		}
		v, err := s.Connect(ctx, nil)
		if err != nil {
			return nil, err
		}
		visits = append(visits, v)
	}
	return visits, nil
}

// duringReload connects without a pause, on several connections at once, while HAProxy is reloaded
// again and again, at least n connections and three reloads.
func (s *Scene) duringReload(ctx context.Context, n int) ([]Visit, error) {
	const clients, reloads = 4, 3
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := make(chan struct{})
	type result struct {
		visits []Visit
		err    error
	}
	results := make(chan result, clients)
	for range clients {
		go func() {
			var r result
			for r.err == nil && (len(r.visits) < n/clients || !closed(stop)) {
				var v Visit
				if v, r.err = s.Connect(ctx, nil); r.err == nil {
					r.visits = append(r.visits, v)
				}
			}
			results <- r
		}()
	}
	var errs []error
	for range reloads {
		if err := s.HAProxy.Reload(""); err != nil {
			errs = append(errs, err)
			break
		}
	}
	close(stop)
	var visits []Visit
	for range clients {
		r := <-results
		visits = append(visits, r.visits...)
		errs = append(errs, r.err)
	}
	return visits, errors.Join(errs...)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Summary is what the table has of one fault and version.
type Summary struct {
	Median, P90 time.Duration // half, and nine of ten, were at least that quick
	Connections int
	Errors      map[string]int // connections by txn.weighter.error, those without one left out
	Lost        int            // connections without a server
}

// Summarise takes the outcomes together; there must be some.
func Summarise(outcomes []Outcome) Summary {
	s := Summary{Connections: len(outcomes), Errors: map[string]int{}}
	var took []time.Duration
	for _, o := range outcomes {
		took = append(took, o.Took)
		if o.Error != NoError {
			s.Errors[o.Error]++
		}
		if o.Server == "" {
			s.Lost++
		}
	}
	slices.Sort(took)
	s.Median, s.P90 = took[len(took)/2], took[len(took)*9/10]
	return s
}
