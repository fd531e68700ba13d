package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/faults/front"
	"github.com/haproxy-weighter/haproxy-weighter/test/faults/trace"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// A walk brings faults about in an order that only its seed knows, some of them
// at the same time, on one daemon that lives all the while. Nobody knows what is
// right in each moment; what must always hold, must, and after each round of
// faults the weights must become right.

// misstep is one thing that may happen in a walk.
type misstep struct {
	name       string
	begin, end step
	drains     bool // afterwards s5 is no longer drained, and whole workers are new
}

// missteps are all of them. What can't be at the same time is of one kind: a
// round takes one of a kind at most.
func missteps() [][]misstep {
	answers := []misstep{}
	for _, r := range graphiteRows() {
		answers = append(answers, misstep{name: r.name, begin: r.begin, end: r.end})
	}
	return [][]misstep{
		answers,
		{
			{name: "haproxy-hangs", begin: func(s *scene, _ context.Context) error { return s.haproxy.Pause() },
				end: func(s *scene, _ context.Context) error { return s.haproxy.Resume() }},
			{name: "haproxy-reload", begin: reload(haproxyConfig), end: nothing, drains: true},
			{name: "haproxy-killed", begin: func(s *scene, _ context.Context) error { s.haproxy.Kill(); return nil },
				end: func(s *scene, _ context.Context) error { return s.haproxy.Restart() }, drains: true},
			{name: "operator", begin: runtime("set server {} weight 17", "s1", "s3"), end: nothing},
		},
		{
			{name: "socket-refuses", begin: func(s *scene, _ context.Context) error { return s.socket.Refuse(false) },
				end: func(s *scene, _ context.Context) error { return s.socket.Listen() }},
			{name: "socket-hangs", begin: manner(front.Manner{Hang: true}), end: manner(front.Manner{})},
			{name: "socket-half", begin: manner(front.Manner{Half: 150}), end: manner(front.Manner{})},
			{name: "socket-half-writes", begin: manner(front.Manner{Half: 100, Writes: true}), end: manner(front.Manner{})},
			{name: "socket-stranger", begin: manner(front.Manner{Instead: "nonsense\n\n"}), end: manner(front.Manner{})},
		},
		{
			{name: "carbon-refuses", begin: func(s *scene, _ context.Context) error { s.carbon.Refuse(); return nil },
				end: func(s *scene, _ context.Context) error { return s.carbon.Accept() }},
			{name: "carbon-hangs", begin: func(s *scene, _ context.Context) error { s.carbon.Hang(); return nil },
				end: func(s *scene, _ context.Context) error { s.carbon.Recover(); return nil }},
			{name: "carbon-resets", begin: func(s *scene, _ context.Context) error { s.carbon.Reset(); return nil },
				end: func(s *scene, _ context.Context) error { s.carbon.Recover(); return nil }},
		},
		{
			{name: "spoe-hostile", begin: (*scene).beginHostile, end: (*scene).endHostile},
			{name: "spoe-deaf", begin: (*scene).beginDeaf, end: (*scene).endHostile},
		},
		daemonSteps(),
	}
}

func daemonSteps() []misstep {
	all := []misstep{
		{name: "sighup-good-and-bad", begin: (*scene).storm, end: nothing},
		{name: "state-blocked", begin: func(s *scene, _ context.Context) error { return s.blockState() },
			end: func(s *scene, _ context.Context) error { return os.RemoveAll(s.file("state/state.json")) }},
	}
	for _, r := range daemonRows() {
		if r.name == "sigstop" || r.name == "killed" {
			all = append(all, misstep{name: r.name, begin: r.begin, end: r.end})
		}
	}
	return all
}

// round is what a walk does at once: some missteps, how long they last, and
// the loads that the servers have then.
type round struct {
	steps []misstep
	lasts time.Duration
	loads loads
}

// nextRound draws one.
func nextRound(random *rand.Rand, kinds [][]misstep) round {
	r := round{lasts: time.Duration(200+random.IntN(2800)) * time.Millisecond, loads: loads{}}
	for n, i := 1+random.IntN(3), random.Perm(len(kinds)); n > 0; n-- {
		kind := kinds[i[n]]
		r.steps = append(r.steps, kind[random.IntN(len(kind))])
	}
	for name, load := range firstLoads {
		r.loads[name] = load * float64(1+random.IntN(4))
	}
	return r
}

func (r *round) String() string {
	names := make([]string, len(r.steps))
	for i := range r.steps {
		names[i] = r.steps[i].name
	}
	return strings.Join(names, " + ")
}

// walked is what a walk came to.
type walked struct {
	seed   uint64
	rounds int
	steps  map[string]int
	size   trace.Size
	most   trace.Usage
	worst  time.Duration // SPOE answer

	took    time.Duration
	version string // of HAProxy
}

// walkOfRecord is how long a walk has to last at least to be put into the
// document.
const walkOfRecord = 30 * time.Minute

// String tells in one line what came of it.
func (w *walked) String() string {
	faults := 0
	for _, n := range w.steps {
		faults += n
	}
	return fmt.Sprintf("%s on HAProxy %s, seed %d: %d rounds with %d faults of %d sorts; HAProxy was looked at %d times, Graphite answered %d times, %d weights were sent; slowest SPOE answer %s; at most %d MiB and %d descriptors.\n",
		w.took.Round(time.Second), w.version, w.seed, w.rounds, faults, len(w.steps), w.size.Polls, w.size.Answers, w.size.Writes, w.worst.Round(time.Millisecond), w.most.Peak>>20, w.most.Descriptors)
}

// walk brings about faults for a time. Its error has the seed in it.
func walk(ctx context.Context, b haproxyproc.Binary, p *programs, how profile, d time.Duration, seed uint64, tell func(string)) (w walked, err error) {
	w = walked{seed: seed, steps: map[string]int{}}
	defer func() {
		if err != nil {
			err = fmt.Errorf("walk of seed %d (again with --walk %s --seed %d): %w", seed, d, seed, err)
		}
	}()
	s, err := newScene(ctx, plan{
		tables:  "[report]\ncarbon = \"{carbon}\"\ninterval = \"1s\"\n[state]\nfile = \"{dir}/state/state.json\"\n",
		control: true, prepare: func(s *scene) error { return os.Mkdir(s.file("state"), 0o700) },
	}, b, p, how)
	defer s.close()
	if err != nil {
		return w, err
	}
	// The seed alone decides; how long things take does not.
	random := rand.New(rand.NewPCG(seed, 0))
	kinds := missteps()
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; w.rounds++ {
		r := nextRound(random, kinds)
		tell(fmt.Sprintf("%d: %s for %s", w.rounds+1, &r, r.lasts))
		for _, step := range r.steps {
			w.steps[step.name]++
		}
		if err := s.stumble(ctx, &r); err != nil {
			return w, errors.Join(fmt.Errorf("round %d: %s: %w", w.rounds+1, &r, err), errors.New(s.daemon.tail()))
		}
	}
	err = s.finish(walkTold(), w.steps["killed"])
	w.size, w.most = s.trace.Size(), s.trace.Highest()
	_, w.worst, _ = s.prober.result()
	if err != nil {
		err = fmt.Errorf("%w\nend of the daemon's log:\n%s", err, s.daemon.tail())
	}
	return w, err
}

// walkTold is what the log may have: each fault as often as it likes, and each
// with its end.
func walkTold() []told {
	all := []told{noLoads, held, unusable, clocks, noHAProxy, noSocket, badWrite, stranger, noBackend, noState, peerClosed, badReload, noCarbon, badState,
		{begin: "SPOE connections cannot be accepted", end: "SPOE connections are accepted again"}}
	for i := range all {
		all[i] = maybe(upTo(math.MaxInt, all[i]))
	}
	return all
}

// stumble makes one round, and sees the weights become right after it.
func (s *scene) stumble(ctx context.Context, r *round) error {
	for _, step := range r.steps {
		if err := step.begin(s, ctx); err != nil {
			return fmt.Errorf("beginning %s: %w", step.name, err)
		}
	}
	s.graphite.Set(r.loads)
	pause(ctx, r.lasts)
	for i := len(r.steps) - 1; i >= 0; i-- {
		if err := r.steps[i].end(s, ctx); err != nil {
			return fmt.Errorf("ending %s: %w", r.steps[i].name, err)
		}
	}
	s.graphite.Answer(front.Answer{})
	return s.settle(ctx)
}

// settle gives the servers the loads of the beginning and waits for their
// weights, and for a whole pass: they may have been right all the time.
func (s *scene) settle(ctx context.Context) error {
	s.graphite.Set(firstLoads)
	over := time.Now()
	if err := s.await(ctx, firstWeights, "the weights after the faults"); err != nil {
		return err
	}
	return s.until(ctx, func() (bool, string) { return s.judged(over), "no pass after the faults" })
}

func walkCommand(ctx context.Context, p *programs, o *options) error {
	binaries, err := haproxyproc.Binaries()
	if err != nil {
		return err
	}
	seed := o.seed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	b := binaries[seed%uint64(len(binaries))]
	fmt.Printf("a walk of %s on HAProxy %s; seed %d\n", o.walk, b.Version, seed)
	begin := time.Now()
	w, err := walk(ctx, b, p, full(), o.walk, seed, func(text string) { fmt.Println(text) })
	w.took, w.version = time.Since(begin), b.Version
	fmt.Print(&w)
	if err != nil {
		return err
	}
	fmt.Println("no promise was broken")
	if o.write != "" && o.walk >= walkOfRecord {
		return replace(o.write, "walk", w.String())
	}
	return nil
}
