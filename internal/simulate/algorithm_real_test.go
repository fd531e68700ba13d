package simulate

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
)

// realSpread is a real HAProxy in front of listeners that say who they are.
type realSpread struct {
	t       *testing.T
	process *haproxyproc.Process
	front   string
	open    []net.Conn
	servers []int // of open
}

// newRealSpread starts HAProxy with one thread: each thread has own state
// for some algorithms, the model has one.
func newRealSpread(t *testing.T, b haproxyproc.Binary, balance string, weights []int) *realSpread {
	t.Helper()
	ports, err := haproxyproc.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for i, w := range weights {
		port := sayWho(t, byte(i))
		fmt.Fprintf(&lines, "  server s%d 127.0.0.1:%d weight %d\n", i, port, w)
	}
	front := "127.0.0.1:" + strconv.Itoa(ports[0])
	config := fmt.Sprintf(`global
  nbthread 1
defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend in
  bind %s
  default_backend b
backend b
  balance %s
%s`, front, balance, lines.String())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	process, err := haproxyproc.Start(ctx, haproxyproc.Options{Binary: b.Path, Config: config})
	if err != nil {
		t.Fatalf("%v (HAProxy comes with: apt-get install haproxy)", err)
	}
	t.Cleanup(process.Stop)
	r := &realSpread{t: t, process: process, front: front}
	t.Cleanup(func() {
		for _, c := range r.open {
			c.Close()
		}
	})
	return r
}

// sayWho listens, writes its name to every connection and holds it until the
// other side closes.
func sayWho(t *testing.T, name byte) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				stop := context.AfterFunc(t.Context(), func() { c.Close() })
				defer stop()
				if _, err := c.Write([]byte{name}); err == nil {
					io.Copy(io.Discard, c)
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return l.Addr().(*net.TCPAddr).Port
}

// dial opens a connection that stays and says which server it went to.
func (r *realSpread) dial() int {
	r.t.Helper()
	c, err := net.DialTimeout("tcp", r.front, 5*time.Second)
	if err != nil {
		r.t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(5 * time.Second))
	var name [1]byte
	if _, err := io.ReadFull(c, name[:]); err != nil {
		r.t.Fatalf("no server answered through HAProxy: %v", err)
	}
	r.open = append(r.open, c)
	r.servers = append(r.servers, int(name[0]))
	return int(name[0])
}

// drop closes one connection, and returns its server when HAProxy has seen it.
func (r *realSpread) drop(i int) int {
	r.t.Helper()
	server := r.servers[i]
	r.open[i].Close()
	r.open = append(r.open[:i], r.open[i+1:]...)
	r.servers = append(r.servers[:i], r.servers[i+1:]...)
	want := 0
	for _, s := range r.servers {
		if s == server {
			want++
		}
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		if got := r.sessions(server); got == want {
			return server
		} else if time.Now().After(deadline) {
			r.t.Fatalf("server s%d has %d sessions, want %d", server, got, want)
		}
	}
}

func (r *realSpread) sessions(server int) int {
	r.t.Helper()
	for line := range strings.Lines(r.command("show stat")) {
		fields := strings.Split(line, ",")
		if len(fields) > 4 && fields[0] == "b" && fields[1] == fmt.Sprintf("s%d", server) {
			n, err := strconv.Atoi(fields[4])
			if err != nil {
				r.t.Fatal(err)
			}
			return n
		}
	}
	r.t.Fatalf("show stat has no b/s%d", server)
	return 0
}

func (r *realSpread) command(line string) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
	defer cancel()
	answer, err := r.process.Command(ctx, line)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer
}

// setWeights sets a batch on one line, as the daemon does.
func (r *realSpread) setWeights(order []int, weights []int) {
	var parts []string
	for _, i := range order {
		parts = append(parts, fmt.Sprintf("set server b/s%d weight %d", i, weights[i]))
	}
	if answer := strings.TrimSpace(r.command(strings.Join(parts, ";"))); answer != "" {
		r.t.Fatalf("set server: %q", answer)
	}
}

func (r *realSpread) setUp(server int, up bool) {
	state := "maint"
	if up {
		state = "ready"
	}
	r.command(fmt.Sprintf("set server b/s%d state %s", server, state))
}

// TestSpreadAsRealHAProxy drives the model's algorithms and a real HAProxy
// through the same connections, closes, weight changes and outages.
//
// Before 3.2 the same server is wanted every time. Since then HAProxy keeps its
// turns for each group of threads and begins at another server, so there
// leastconn must take a server of the least key, and roundrobin must spread as
// exactly and as late after changes of weights as the model does.
func TestSpreadAsRealHAProxy(t *testing.T) {
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		even, small, mixed := []int{100, 100, 100, 100, 100, 100, 100}, []int{1, 2, 1, 3, 1}, []int{100, 100, 50, 200, 100}
		for seed := range uint64(2) {
			name := func(s string) string { return fmt.Sprintf("%s/seed %d", s, seed) }
			t.Run(name("leastconn"), func(t *testing.T) {
				l := newLeastConn(mixed)
				drive(t, newRealSpread(t, b, "leastconn", mixed), l, mixed, seed, func(want int) bool {
					got := l.pick()
					return got == want || b.AtLeast(3, 2) && l.servers[got].key == l.servers[want].key
				})
			})
			for kind, weights := range map[string][]int{"roundrobin": even, "roundrobin of small weights": small} {
				t.Run(name(kind), func(t *testing.T) {
					r := newRoundRobin(weights, b.AtLeast(3, 2))
					drive(t, newRealSpread(t, b, "roundrobin", weights), r, weights, seed, func(want int) bool { return r.pick() == want })
				})
			}
		}
		t.Run("lateness", func(t *testing.T) { lateness(t, b) })
	})
}

// drive makes up a history. right is asked, of each server that HAProxy takes,
// whether the model takes it too.
func drive(t *testing.T, real *realSpread, model algorithm, weights []int, seed uint64, right func(int) bool) {
	luck := rand.New(rand.NewPCG(seed, 7))
	now := append([]int(nil), weights...)
	largest := 256
	if weights[0] < 10 {
		largest = 5 // small totals end HAProxy's line of turns often
	}
	down := -1
	var history strings.Builder
	for step := range 300 {
		switch x := luck.Float64(); {
		case x < 0.06: // a pass
			order := luck.Perm(len(now))[:1+luck.IntN(len(now))]
			for _, i := range order {
				now[i] = 1 + luck.IntN(largest)
			}
			real.setWeights(order, now)
			for _, i := range order {
				model.setWeight(i, now[i])
			}
			fmt.Fprintf(&history, " weights%v", now)
		case x < 0.08 && down < 0:
			down = luck.IntN(len(now))
			real.setUp(down, false)
			model.setUp(down, false)
			fmt.Fprintf(&history, " down%d", down)
		case x < 0.12 && down >= 0:
			real.setUp(down, true)
			model.setUp(down, true)
			fmt.Fprintf(&history, " up%d", down)
			down = -1
		case x < 0.35 && len(real.open) > 0:
			s := real.drop(luck.IntN(len(real.open)))
			model.left(s)
			fmt.Fprintf(&history, " -%d", s)
		default:
			want := real.dial()
			if !right(want) {
				t.Fatalf("step %d: HAProxy took server %d, the model another one; before: %s", step, want, history.String())
			}
			model.took(want)
			fmt.Fprintf(&history, " %d", want)
		}
	}
}

// lateness compares how far roundrobin's spread is from the weights when they
// change before every server has had a turn: the sum of the differences from
// each pass's shares, over all connections.
func lateness(t *testing.T, b haproxyproc.Binary) {
	const servers, passes, arrivals = 12, 60, 8
	even := make([]int, servers)
	for i := range even {
		even[i] = 128
	}
	real, model := newRealSpread(t, b, "roundrobin", even), newRoundRobin(even, b.AtLeast(3, 2))
	luck := rand.New(rand.NewPCG(1, 8))
	order, now := luck.Perm(servers), even
	wanted, got, modelled := make([]float64, servers), make([]float64, servers), make([]float64, servers)
	var off, offModel float64
	for range passes {
		next := make([]int, servers)
		sum := 0
		for i := range next {
			next[i] = max(4, luck.IntN(512)-256)
			sum += next[i]
		}
		now = next
		real.setWeights(order, now)
		for _, i := range order {
			model.setWeight(i, now[i])
		}
		for i := range wanted {
			wanted[i] = arrivals * float64(now[i]) / float64(sum)
			got[i], modelled[i] = 0, 0
		}
		for range arrivals {
			got[real.dial()]++
			modelled[model.pick()]++
		}
		for i := range wanted {
			off += math.Abs(got[i]-wanted[i]) / (passes * arrivals)
			offModel += math.Abs(modelled[i]-wanted[i]) / (passes * arrivals)
		}
	}
	t.Logf("off by %.3f of the connections, the model by %.3f", off, offModel)
	if ratio := off / offModel; ratio < 0.9 || ratio > 1.1 {
		t.Errorf("HAProxy's spread is off by %.3f of the connections, the model's by %.3f", off, offModel)
	}
}
