package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/faults/trace"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
)

// A soak is what a busy site is, for hours: thousands of servers, a pass a
// second, thousands of SPOE messages a second, and HAProxy reloaded every
// minute. What grows with time shows in a slope.
const (
	reloadEvery  = time.Minute
	sampleEvery  = 5 * time.Second
	judgeEvery   = 20 * time.Second
	spoeConns    = 8
	spoeTick     = 10 * time.Millisecond
	warmUp       = 30 * time.Minute // at most: the history in memory fills up; a quarter of a shorter soak
	mostGrowth   = 0.25             // of the mean resident memory, over the whole soak
	growthFloor  = 16 << 20         // bytes of growth that are never too much
	mostMoreDone = 10               // goroutines and descriptors more than at the beginning, by their slope
	soakOfRecord = 2 * time.Hour    // how long one has to last at least to be put into the document
)

// soaked is what a soak came to.
type soaked struct {
	took                         time.Duration
	messages                     int64
	worst, p99                   time.Duration
	reloads                      int
	size                         trace.Size
	samples                      []trace.Usage // after the warm-up
	resident, goroutines, opened trend
	breaches                     []trace.Breach
}

// trend is a straight line through samples.
type trend struct{ mean, perHour float64 }

// slope fits one by least squares.
func slope(samples []trace.Usage, value func(trace.Usage) float64) trend {
	if len(samples) == 0 {
		return trend{}
	}
	var meanX, meanY, xy, xx float64
	x := func(u trace.Usage) float64 { return u.At.Sub(samples[0].At).Hours() }
	for _, u := range samples {
		meanX += x(u) / float64(len(samples))
		meanY += value(u) / float64(len(samples))
	}
	for _, u := range samples {
		xy += (x(u) - meanX) * (value(u) - meanY)
		xx += (x(u) - meanX) * (x(u) - meanX)
	}
	if xx == 0 {
		return trend{mean: meanY}
	}
	return trend{mean: meanY, perHour: xy / xx}
}

// growth says what grows and should not; nil when nothing does.
func (s *soaked) growth() error {
	hours := s.took.Hours()
	var errs []error
	if grown := s.resident.perHour * hours; grown > growthFloor && grown > mostGrowth*s.resident.mean {
		errs = append(errs, fmt.Errorf("memory grows by %.1f MiB an hour", s.resident.perHour/(1<<20)))
	}
	for _, l := range []struct {
		what string
		line trend
	}{{"goroutines", s.goroutines}, {"file descriptors", s.opened}} {
		if l.line.perHour*hours > mostMoreDone {
			errs = append(errs, fmt.Errorf("%s grow by %.1f an hour", l.what, l.line.perHour))
		}
	}
	return errors.Join(errs...)
}

func (s *soaked) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; HAProxy reloaded %d times and looked at %d times; %d SPOE messages, %.0f a second; answers: 99 %% within %s, slowest %s.\n\n",
		s.took.Round(time.Second), s.reloads, s.size.Polls, s.messages, float64(s.messages)/s.took.Seconds(), s.p99, s.worst.Round(time.Microsecond))
	fmt.Fprintf(&b, "| | mean | slope an hour |\n|---|---|---|\n")
	fmt.Fprintf(&b, "| resident memory | %.1f MiB | %+.2f MiB |\n", s.resident.mean/(1<<20), s.resident.perHour/(1<<20))
	fmt.Fprintf(&b, "| goroutines | %.1f | %+.2f |\n", s.goroutines.mean, s.goroutines.perHour)
	fmt.Fprintf(&b, "| file descriptors | %.1f | %+.2f |\n", s.opened.mean, s.opened.perHour)
	return b.String()
}

func soakCommand(ctx context.Context, p *programs, o *options) error {
	path, err := haproxyproc.FindBinary("")
	if err != nil {
		return err
	}
	result, err := soak(ctx, haproxyproc.Binary{Path: path}, p, o)
	if result != nil && len(result.samples) > 0 {
		fmt.Print(result)
	}
	if err != nil {
		return err
	}
	fmt.Println("no promise was broken")
	if o.write != "" && o.soak >= soakOfRecord {
		return replace(o.write, "soak", result.String())
	}
	return nil
}

// soakConfig is HAProxy's configuration with n servers.
func soakConfig(n int) string {
	var b strings.Builder
	b.WriteString(haproxyConfig[:strings.Index(haproxyConfig, "\tserver s1")])
	for i := range n {
		fmt.Fprintf(&b, "\tserver s%d 127.0.0.1:1 weight 100\n", i+1)
	}
	return b.String()
}

// soak runs one. The result has what was measured before an error.
func soak(ctx context.Context, b haproxyproc.Binary, p *programs, o *options) (*soaked, error) {
	config, random := soakConfig(o.servers), rand.New(rand.NewPCG(1, 2))
	now := loads{}
	for i := range o.servers {
		now[fmt.Sprintf("s%d", i+1)] = 1000
	}
	s, err := newScene(ctx, plan{
		haproxy: config, direct: true, plain: true, loads: now, noSPOE: true, poll: 500 * time.Millisecond, settled: weights{"s1": 100}, quiet: true,
		rules: func(r *trace.Rules) { r.Resident, r.Descriptors, r.Grace = 512<<20, 200, 2*time.Second },
	}, b, p, full())
	defer s.close()
	if err != nil {
		return nil, err
	}
	if err := s.untilLog(ctx, 1, "SPOE agent listens"); err != nil {
		return nil, err
	}
	result := &soaked{}
	asker := newAsker(s.spoa, o.messages)
	stopAsking := run(asker.run)
	defer stopAsking()
	begin := time.Now()
	err = s.soaking(ctx, o.soak, result, func() error { return s.haproxy.Reload(config) }, func() { now = drift(random, now); s.graphite.Set(now) })
	stopAsking()
	result.took = time.Since(begin)
	result.messages, result.worst, result.p99 = asker.result()
	result.size = s.trace.Size()
	result.fit(begin.Add(min(warmUp, o.soak/4)), s.trace.Usages())
	for _, breach := range result.breaches {
		err = errors.Join(err, errors.New(breach.String()))
	}
	err = errors.Join(err, asker.failure(), result.growth())
	// A busy machine lets timeouts expire; each must be told with its end.
	allowed := []told{maybe(upTo(math.MaxInt, noLoads)), maybe(upTo(math.MaxInt, noHAProxy)), maybe(upTo(math.MaxInt, noSocket)), maybe(upTo(math.MaxInt, badWrite))}
	if err == nil {
		err = s.finish(allowed, 0)
	}
	if err != nil {
		err = fmt.Errorf("%w\nend of the daemon's log:\n%s", err, s.daemon.tail())
	}
	return result, err
}

// fit draws the lines through what was sampled after the warm-up.
func (s *soaked) fit(from time.Time, all []trace.Usage) {
	for _, u := range all {
		if u.Goroutines > 0 && u.At.After(from) {
			s.samples = append(s.samples, u)
		}
	}
	s.resident = slope(s.samples, func(u trace.Usage) float64 { return float64(u.Resident) })
	s.goroutines = slope(s.samples, func(u trace.Usage) float64 { return float64(u.Goroutines) })
	s.opened = slope(s.samples, func(u trace.Usage) float64 { return float64(u.Descriptors) })
}

// soaking lets time go by.
func (s *scene) soaking(ctx context.Context, d time.Duration, result *soaked, reload func() error, drift func()) error {
	end := time.NewTimer(d)
	defer end.Stop()
	var ticks [4]<-chan time.Time
	for i, every := range []time.Duration{min(reloadEvery, d/3), sampleEvery, judgeEvery, time.Second} {
		tick := time.NewTicker(every)
		defer tick.Stop()
		ticks[i] = tick.C
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return nil
		case <-s.daemon.process.Done():
			return fmt.Errorf("the daemon has ended: %w", s.daemon.process.Err())
		case <-ticks[0]:
			if err := reload(); err != nil {
				return err
			}
			result.reloads++
		case <-ticks[1]:
			if err := s.sample(ctx); err != nil {
				return err
			}
		case <-ticks[2]:
			result.breaches = append(result.breaches, s.trace.Judge(s.rules)...)
			if len(result.breaches) > 0 {
				return errors.New("a promise was broken")
			}
			s.trace.Forget(time.Now(), judgeEvery)
		case <-ticks[3]:
			drift()
		}
	}
}

// drift moves every load a little, and none far away.
func drift(random *rand.Rand, from loads) loads {
	to := make(loads, len(from))
	for i := range len(from) {
		name := fmt.Sprintf("s%d", i+1)
		to[name] = math.Round(min(4000, max(250, from[name]*(0.8+0.4*random.Float64()))))
	}
	return to
}

// sample notes what the process takes, with its goroutines.
func (s *scene) sample(ctx context.Context) error {
	u, err := usageOf(s.daemon.process.PID)
	if err != nil {
		return err
	}
	if u.Goroutines, err = s.goroutines(ctx); err == nil {
		s.trace.Used(u)
	}
	return err
}

// goroutines asks the daemon's metrics.
func (s *scene) goroutines(ctx context.Context) (int, error) {
	text, err := s.get(ctx, "admin.sock", "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if n, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			return strconv.Atoi(strings.TrimSpace(n))
		}
	}
	return 0, errors.New("the daemon's metrics have no go_goroutines")
}

// unixClient speaks HTTP to one of the daemon's sockets.
func (s *scene) unixClient(socket string) *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", s.file(socket))
		},
	}}
}

func (s *scene) get(ctx context.Context, socket, path string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return "", err
	}
	answer, err := s.unixClient(socket).Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return string(body), err
}

// asker asks SPOE messages at a rate.
type asker struct {
	address string
	rate    float64 // messages a second on each connection

	mu       sync.Mutex
	messages int64
	times    []time.Duration // a sample of them
	worst    time.Duration
	err      error
}

func newAsker(address string, perSecond int) *asker {
	return &asker{address: address, rate: float64(perSecond) / spoeConns}
}

func (a *asker) run(ctx context.Context) {
	var asking sync.WaitGroup
	for range spoeConns {
		asking.Go(func() {
			if err := a.connection(ctx); err != nil && ctx.Err() == nil {
				a.mu.Lock()
				a.err = errors.Join(a.err, fmt.Errorf("SPOE: %w", err))
				a.mu.Unlock()
			}
		})
	}
	asking.Wait()
}

// mostAtOnce bounds what is made up for after a pause.
const mostAtOnce = 100

// connection asks on one connection what is due at each tick.
func (a *asker) connection(ctx context.Context) error {
	conn, err := dialAgent(ctx, a.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	tick := time.NewTicker(spoeTick)
	defer tick.Stop()
	start := time.Now()
	for sent := uint64(0); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		begin := time.Now()
		due := uint64(a.rate * begin.Sub(start).Seconds())
		if due > sent+mostAtOnce {
			due = sent + mostAtOnce
			start = begin.Add(-time.Duration(float64(due) / a.rate * float64(time.Second)))
		}
		if err := a.batch(conn, sent+1, due); err != nil {
			return err
		}
		a.note(int64(due-sent), time.Since(begin))
		sent = due
	}
}

// batch asks the messages from first to last in one write.
func (a *asker) batch(conn net.Conn, first, last uint64) error {
	var out []byte
	for n := first; n <= last; n++ {
		out = append(out, question(n, "weighter-server", "backend", backend, "server", "s1")...)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := conn.Write(out); err != nil {
		return err
	}
	for n := first; n <= last; n++ {
		if _, err := readAck(conn, n); err != nil {
			return err
		}
	}
	return nil
}

func (a *asker) note(messages int64, took time.Duration) {
	const most = 100_000
	a.mu.Lock()
	defer a.mu.Unlock()
	a.messages += messages
	a.worst = max(a.worst, took)
	if len(a.times) < most {
		a.times = append(a.times, took)
	} else {
		a.times[rand.IntN(most)] = took
	}
}

func (a *asker) result() (messages int64, worst, p99 time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.times) == 0 {
		return 0, 0, 0
	}
	slices.Sort(a.times)
	return a.messages, a.worst, a.times[len(a.times)*99/100].Round(time.Microsecond)
}

func (a *asker) failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}
